"""Runs of other retrievers: their layouts, order and mistakes."""

import gzip
import json

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.retrieval.files import read_passages, read_run
from tests.retrieval.corpora import save


def test_the_best_of_a_trec_run_by_score(tmp_path):
    rng, file = np.random.default_rng(0), tmp_path / "run.gz"
    # Few different scores, so that equal ones are ordered by their place.
    rows = [(q, f"p{p}", float(rng.integers(5))) for p in range(60) for q in "ab"]
    lines = [f"{q}\tQ0 {p}  {rng.integers(99)} {score} tag\n" for q, p, score in rows]
    file.write_bytes(gzip.compress(("\ufeff" + "".join(lines) + "\n").encode()))
    for top in (3, 7, 100):
        found = read_run(file, top=top)
        for question in "ab":
            own = [(p, score) for q, p, score in rows if q == question]
            assert found.pop(question) == sorted(own, key=lambda one: -one[1])[:top]
        assert not found


def test_a_passage_that_is_listed_twice_counts_once(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 1 t\nq Q0 b 2 3 t\nq Q0 a 3 2 t\n")
    assert read_run(tmp_path / "run", top=9) == {"q": [("b", 3.0), ("a", 2.0)]}


def pyserini(*contexts, answers=("Ada",)):
    return json.dumps({"7": {"question": "who", "answers": answers, "contexts": contexts}})


@pytest.mark.parametrize("indent", [None, 4])  # it writes 4
def test_a_json_run_of_pyserini_keeps_its_order(tmp_path, indent):
    found = json.loads(pyserini({"docid": "b", "score": "3.5"}, {"docid": 12, "text": "x"}))
    (tmp_path / "run.json").write_text(json.dumps(found, indent=indent))
    assert read_run(tmp_path / "run.json", top=5) == {"7": [("b", 3.5), ("12", None)]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected passages of questions, found none"),
        ("q Q0 p 1 2.0\n", "line 1: expected question, Q0, passage, rank, score and tag, found 5"),
        ("q Q0 p 1 nan t", "line 1: expected a number as score, found 'nan'"),
        ("\nq Q0 p 1 best t", "line 2: expected a number as score, found 'best'"),
        (pyserini({"score": 1}), "'7': expected a passage's id under 'docid', found none"),
        (pyserini({"docid": "p", "score": "x"}), "expected a number as score, found 'x'"),
    ],
)
def test_what_is_no_run_is_said_in_a_line(tmp_path, text, said):
    (tmp_path / "run").write_text(text)
    with pytest.raises(InputError, match="run: ") as error:
        read_run(tmp_path / "run", top=5)
    assert said in str(error.value)


def test_only_the_passages_that_are_named_are_read(tmp_path):
    rows = [("a", "text", "t"), ("b", " ", "t"), ("c", " ", "t"), ("a", "again", "t")]
    file, skips = save(tmp_path / "p.tsv", rows), ExclusionCounts()
    found = [passage.text for passage in read_passages(file, skips=skips, only={"a", "c"})]
    assert found == ["text"]
    assert skips.left_out == [("c", "empty document"), ("a", "passage id occurs again")]
