"""``python -m experiments.retrieve``: from a passage file to contexts."""

import json

import numpy as np
import pytest

from experiments import nq_open, retrieve
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.mentions import AliasMatcher, enumerate_spans
from hardem_jax.documents.prepared import PreparedSplit
from hardem_jax.spans.readers.dpr import read_contexts
from hardem_jax.words import split_words
from tests.commands import call, fails
from tests.retrieval.corpora import rows_of, save
from tests.tiny import write_checkpoint

QUESTIONS = [
    {"question": "old bridge over the river", "answer": ["rome"]},
    {"question": "song of a queen", "answer": ["nowhere at all"]},
    {"question": "?", "answer": ["rome"]},
    {"question": "zzz", "answer": ["war", "peace"]},
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("retrieve")
    rows = [*rows_of(np.random.default_rng(0), 80), ("p0", "again", "x")]
    passages = save(folder / "psgs.tsv.gz", rows)
    (folder / "NQ-open.dev.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
    call(retrieve, "index", "--passages", passages, "--out", folder / "index",
         "--articles.buckets", 2**16)  # fmt: skip
    return folder


def run(files, out, *options):
    call(retrieve, "retrieve", "--index", files / "index", "--out", out, *options)


@pytest.mark.parametrize("method", ["combined", "articles", "bm25"])
def test_contexts_and_recall(files, tmp_path, capsys, method):
    out, report = tmp_path / "dev.jsonl", tmp_path / "report.json"
    run(files, out, "--questions", files / "NQ-open.dev.jsonl", "--retriever.passages", 20,
        "--retriever.method", method, "--report", report)  # fmt: skip
    said = capsys.readouterr().out
    assert "1 example left out" in said and "1 questions share no term with any passage" in said
    examples = list(read_contexts(out, skips=ExclusionCounts()))
    assert [example.id for example in examples] == [f"NQ-open.dev#{n}" for n in (1, 2, 4)]
    hits = [
        [
            len(enumerate_spans(split_words(d.text), AliasMatcher(e.aliases))) > 0
            for d in e.documents
        ]
        for e in examples
    ]
    *records, unused = [json.loads(line) for line in out.read_text().splitlines()]
    assert unused["id"] == "NQ-open.dev#3" and unused["left_out"] in said
    assert [[p["has_answer"] for p in record["ctxs"]] for record in records] == hits
    content = json.loads(report.read_text())
    assert set(content["recall"]) == {"1", "5", "10", "20"}
    for n, share in content["recall"].items():
        assert share == sum(any(row[: int(n)]) for row in hits) / 3
    assert content["left_out"] == {"no word left in the question after normalisation": 1}


def test_other_layouts_of_questions(files, tmp_path):
    answer = {"NormalizedAliases": ["rome"]}
    data = [{"QuestionId": "tq", "Question": "Which old city?", "Answer": answer}]
    (tmp_path / "qa.json").write_text(json.dumps({"Data": data}))
    run(files, tmp_path / "a.json", "--questions", tmp_path / "qa.json", "--layout", "triviaqa")
    [example] = read_contexts(tmp_path / "a.json", skips=ExclusionCounts())
    assert (example.id, example.golds) == ("tq", ("rome",))


def test_recall_is_over_the_questions_whose_answers_are_known(files, tmp_path, capsys):
    asked = [{"question": "old bridge", "answer": answer} for answer in (["rome"], [], [])]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, asked)))
    run(files, tmp_path / "a.jsonl", "--questions", tmp_path / "some.jsonl", "--no-answers",
        "--report", tmp_path / "report.json")  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert "1 questions with known answers: share with one in the top n passages" in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["questions"], report["answered"]) == (3, 1)
    *_, record = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert record["answers"] == [] and "has_answer" not in record["ctxs"][0]


def test_mistakes_are_told(files, tmp_path, capsys):
    asked = ("--questions", files / "NQ-open.dev.jsonl", "--out", tmp_path / "a.jsonl")
    line = fails(retrieve, capsys, "retrieve", "--index", tmp_path, *asked)
    assert "expected an index (run `index` first), found none or an incomplete one" in line
    line = fails(retrieve, capsys, "retrieve", "--index", files / "index", *asked,
                 "--retriever.articles", 0)  # fmt: skip
    assert "--retriever.articles: expected at least 1, found 0" in line
    (tmp_path / "none.jsonl").write_text('{"question": "?", "answer": ["a"]}')
    line = fails(retrieve, capsys, "retrieve", "--index", files / "index", "--questions",
                 tmp_path / "none.jsonl", "--out", tmp_path / "a.jsonl")  # fmt: skip
    assert "none.jsonl: expected questions, found none that can be used" in line
    assert not (tmp_path / "a.jsonl").exists()


def test_what_cannot_be_written_is_found_before_the_work(files, tmp_path, capsys):
    questions = ("--questions", files / "NQ-open.dev.jsonl", "--out", tmp_path / "dev.jsonl")
    report = tmp_path / "none" / "report.json"
    line = fails(retrieve, capsys, "retrieve", "--index", files / "index", *questions,
                 "--report", report)  # fmt: skip
    assert f"{report}: cannot be written, its folder does not exist" in line
    assert not list(tmp_path.iterdir())


PASSAGES = [
    ("p0", "The iliad is by Homer.", "Iliad"),
    ("p1", "Virgil wrote the Aeneid.", "Aeneid"),
    ("p2", "Dante met Virgil.", "Dante"),
    ("p3", "Nobody named me.", ""),
]
ASKED = [
    {"question": "who wrote the iliad", "answer": ["Homer"]},
    {"question": "?", "answer": ["nobody"]},
    {"question": "who wrote the aeneid", "answer": ["Virgil"]},
    {"question": "who wrote faust", "answer": ["Goethe"]},
    {"question": "who wrote hamlet", "answer": ["Shakespeare"]},
]
#: As Pyserini numbers questions. The fourth has no passage that is there, the fifth none at all.
RUN = """
0 Q0 p1 1 2.5 x
0 Q0 p0 2 1.5 x
2 Q0 p2 2 7.0 x
2 Q0 gone 3 6.5 x
2 Q0 p1 1 8.0 x
3 Q0 lost 1 1.0 x
9 Q0 p1 1 1.0 x
"""


@pytest.fixture
def joined(tmp_path):
    """Passages, questions and a run of them, as flags of `join`."""
    passages = save(tmp_path / "psgs.tsv.gz", PASSAGES)
    questions = tmp_path / "NQ-open.dev.jsonl"
    questions.write_text("\n".join(map(json.dumps, ASKED)))
    (tmp_path / "run.trec").write_text(RUN)
    return ("join", "--passages", passages, "--questions", questions, "--ranking",
            tmp_path / "run.trec")  # fmt: skip


def test_a_run_of_others_is_joined_and_prepared(joined, tmp_path, capsys):
    out = tmp_path / "dev.jsonl"
    call(retrieve, *joined, "--out", out, "--lines-from", 0)
    said = capsys.readouterr().out
    assert "1 of 4 questions of run.trec are not in NQ-open.dev.jsonl: 9\n" in said
    assert "2 of 5 passages that run.trec names are not in psgs.tsv.gz: gone, lost\n" in said
    assert "50.0 %" in said and "100.0 %" in said  # recall of the two questions at 1 and 100
    records = {}
    for line in out.read_text().splitlines():
        record = json.loads(line)
        records[record["id"].removeprefix("NQ-open.dev#")] = record
    best = [(p["id"], p["score"], p["has_answer"]) for p in records["1"]["ctxs"]]
    assert best == [("p1", 2.5, False), ("p0", 1.5, True)]
    best = [(p["id"], p["title"], p["text"]) for p in records["3"]["ctxs"]]
    assert best == [("p1", "Aeneid", PASSAGES[1][1]), ("p2", "Dante", PASSAGES[2][1])]
    reasons = {id: record.get("left_out") for id, record in records.items()}
    assert [reasons[id] for id in "13"] == [None, None]
    assert reasons["4"] == "no document left" and reasons["5"] == "question not in the run"
    assert reasons["2"] == "no word left in the question after normalisation"
    bert = write_checkpoint(tmp_path / "bert")
    call(nq_open, "prepare", "--contexts", out, "--out", tmp_path / "split", "--split", "dev",
         "--tokenizer", bert, "--windows.max-tokens", 24, "--windows.stride", 4,
         "--windows.max-question-tokens", 8)  # fmt: skip
    split = PreparedSplit(tmp_path / "split")
    assert {id: q.num_solutions for id, q in split.questions.items()} == {
        "NQ-open.dev#1": 1,
        "NQ-open.dev#3": 2,
    }
    assert len(split.left_out) == 3


def test_runs_of_other_files_are_refused(joined, tmp_path, capsys):
    out = ("--out", tmp_path / "a.jsonl")
    line = fails(retrieve, capsys, *joined, *out)
    assert "found '0' and others (--lines-from 0 or 1 if they count its questions)" in line
    save(tmp_path / "psgs.tsv.gz", [("lost", "A poem.", "x"), ("lost", "", "x")])
    call(retrieve, *joined, "--out", tmp_path / "b.jsonl", "--lines-from", 1)
    said = capsys.readouterr().out
    assert "2 of 4 questions of run.trec are not in NQ-open.dev.jsonl: 0, 9\n" in said
    assert "psgs.tsv.gz: 1 example left out; empty document: 1 (lost)\n" in said
    save(tmp_path / "psgs.tsv.gz", [("7", "another", "x")])
    line = fails(retrieve, capsys, *joined, *out, "--lines-from", 0)
    assert "expected passages that run.trec names, such as p1, p0, p2, ..., found none of 5" in line
    assert not (tmp_path / "a.jsonl").exists()
    # Before the passages are read, of which there is no file.
    line = fails(retrieve, capsys, *joined, "--passages", "none", "--out", tmp_path)
    assert f"{tmp_path}: expected the name of a file, found a folder" in line
