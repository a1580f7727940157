"""The line from questions to passages, and what is counted of them."""

import itertools
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from hardem_jax.data.examples import OpenQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.retrieval.articles import ArticleConfig, ArticleIndex
from hardem_jax.retrieval.passages import PassageIndex
from hardem_jax.retrieval.postings import PostingsWriter
from hardem_jax.retrieval.recall import AnswerFinder, RecallCounts
from hardem_jax.retrieval.retrieve import Retriever, RetrieverConfig, build_indices
from hardem_jax.retrieval.store import PassageStore
from hardem_jax.solutions.spans import AliasMatcher, enumerate_spans
from hardem_jax.words import split_words
from tests.damages import DAMAGES
from tests.languages import facts
from tests.retrieval.corpora import WORDS, rows_of, same_files, save

METHODS = ("combined", "articles", "bm25")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("retrieve") / "index"
    source = save(folder.parent / "a.tsv", rows_of(np.random.default_rng(0), 90))
    build_indices(source, folder, skips=ExclusionCounts(), articles=ArticleConfig(buckets=2**16))
    return folder


@pytest.fixture(scope="module")
def questions():
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(30)]
    return [OpenQuestion(f"q{i}", text, ()) for i, text in enumerate([*texts, "xyz", "who is it"])]


def parts(folder):
    store = PassageStore(folder / "store")
    return store, ArticleIndex(folder / "articles", store), PassageIndex(folder / "bm25", store)


def build(source, folder, shard_passages, **options):
    skips = ExclusionCounts()
    config = ArticleConfig(buckets=2**12)
    options |= {"articles": config, "shard_passages": shard_passages}
    build_indices(source, folder, skips=skips, **options)
    return skips.as_dict()


def test_recall_is_alike_in_every_language(tmp_path):
    recall = {}
    for language, known in facts(400, seed=0).items():
        rows = [(str(i), text.strip(), f"{i // 20}") for i, (text, *_) in enumerate(known, 1)]
        source = save(tmp_path / f"{language}.tsv", rows)
        build_indices(source, tmp_path / language, skips=ExclusionCounts())
        asked = [OpenQuestion(str(i), *known[i][1:2], known[i][2:]) for i in range(0, 400, 4)]
        for method in METHODS:
            counts = RecallCounts(5)
            retrieve = Retriever(tmp_path / language, RetrieverConfig(method=method, passages=5))
            for question, retrieved in zip(asked, retrieve(asked), strict=True):
                texts = [passage.text for passage in retrieve.passages(retrieved)]
                counts.add(question.answers, texts)
            recall[language, method] = counts.at(5)
    assert min(recall.values()) > 0.97, recall


@pytest.mark.parametrize("shard_passages", [1, 3, 89])
def test_an_index_built_in_shards_is_the_same(folder, tmp_path, shard_passages):
    build(folder.parent / "a.tsv", tmp_path / "whole", 10**9)
    build(folder.parent / "a.tsv", tmp_path / "index", shard_passages)
    same_files(tmp_path / "whole", tmp_path / "index")


def test_ids_titles_and_terms_that_shards_share(tmp_path):
    # The second shard repeats ids of the first, the third has no terms.
    rows = [("1", "old rome", "Rome"), ("2", "old bonn", "Bonn"), ("1", "new", "Rome")]
    rows += [("3", "new rome", "Rome"), ("4", "the", ""), ("5", "of", ""), ("6", "old", "Bonn")]
    source = save(tmp_path / "a.tsv", rows)
    for size in (1, 2, 3, 100):
        left_out = build(source, tmp_path / str(size), size)
        assert left_out == {"passage id occurs again": 1}
    for size in (2, 3, 100):
        same_files(tmp_path / "1", tmp_path / str(size))
    store = PassageStore(tmp_path / "1" / "store")
    assert [passage.id for passage in store] == ["1", "2", "3", "4", "5", "6"]
    assert store.article_passages(0).tolist() == [0, 2]


@pytest.mark.slow
def test_real_passages_in_shards(shared_dir, tmp_path):
    source = shared_dir / "data/nq_open/psgs_w100.tsv.gz"
    if not source.exists():
        pytest.skip(f"{source} is not here")
    build(source, tmp_path / "whole", 4000, limit=4000)
    for size in (2000, 1000):
        build(source, tmp_path / str(size), size, limit=4000)
        same_files(tmp_path / "whole", tmp_path / str(size))


def interrupt(monkeypatch, call):
    """Lets the n-th end of a shard be interrupted."""
    calls = itertools.count(1)
    end_shard = PostingsWriter.end_shard

    def interrupted(writer):
        end_shard(writer)
        if next(calls) == call:
            raise KeyboardInterrupt

    monkeypatch.setattr(PostingsWriter, "end_shard", interrupted)


@pytest.mark.parametrize("call", [2, 30, 130])  # among articles, and among passages
def test_a_build_that_is_interrupted_between_shards(folder, tmp_path, monkeypatch, call):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt(patch, call)
        build(folder.parent / "a.tsv", tmp_path / "index", 1)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.retrieval.config import ArticleConfig
from hardem_jax.retrieval.postings import PostingsWriter
from hardem_jax.retrieval.retrieve import build_indices

end_shard = PostingsWriter.end_shard
def killed(writer):
    end_shard(writer)
    if len(writer._shards) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
PostingsWriter.end_shard = killed
build_indices(Path(sys.argv[1]), Path(sys.argv[2]), skips=ExclusionCounts(),
              articles=ArticleConfig(buckets=2**12), shard_passages=20)
"""


@pytest.mark.slow
def test_a_build_that_is_killed_between_shards(folder, tmp_path):
    source = folder.parent / "a.tsv"
    command = [sys.executable, "-c", KILLED, str(source), str(tmp_path / "index")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["index.partial"]
    assert list(tmp_path.rglob("shard-*.tmp"))
    with pytest.raises(InputError, match="index: expected an index .* found none"):
        Retriever(tmp_path / "index")
    build(source, tmp_path / "index", 20)
    build(source, tmp_path / "whole", 1000)
    same_files(tmp_path / "whole", tmp_path / "index")


def test_articles_then_their_passages(folder, questions):
    store, articles, passages = parts(folder)
    config = RetrieverConfig(method="articles", articles=4, passages=5)
    for question, found in zip(questions, Retriever(folder, config)(questions), strict=True):
        best = np.argsort(-articles.score_all(question.question), kind="stable")[:4]
        inside = np.flatnonzero(np.isin(store.article_of, best))
        scores = passages.score_all(question.question)[inside]
        order = np.argsort(-scores, kind="stable")[:5]
        np.testing.assert_array_equal(found.passages, inside[order])
        np.testing.assert_array_equal(found.scores, scores[order])
        assert found.id == question.id


def test_bm25_over_all_passages(folder, questions):
    _, _, passages = parts(folder)
    for question, found in zip(
        questions, Retriever(folder, RetrieverConfig(method="bm25"))(questions), strict=True
    ):
        scores = passages.score_all(question.question)
        np.testing.assert_array_equal(found.passages, np.argsort(-scores, kind="stable")[:80])


def test_combined_is_bm25_plus_the_share_of_the_article(folder, questions):
    store, articles, passages = parts(folder)
    # So many that all passages are candidates.
    config = RetrieverConfig(articles=store.num_articles, passages=30, article_weight=0.5)
    for question, found in zip(questions, Retriever(folder, config)(questions), strict=True):
        of_article = articles.score_all(question.question)
        scores = passages.score_all(question.question)
        scores = scores / max(scores.max(), 1e-9)
        scores = scores + 0.5 * (of_article / max(of_article.max(), 1e-9))[store.article_of]
        np.testing.assert_allclose(found.scores, np.sort(scores)[::-1][:30], rtol=1e-6)
        np.testing.assert_allclose(scores[found.passages], found.scores, rtol=1e-6)


def test_combined_without_weight_is_bm25(folder, questions):
    ranked = [
        [found.passages.tolist() for found in Retriever(folder, config)(questions)]
        for config in (RetrieverConfig(article_weight=0.0), RetrieverConfig(method="bm25"))
    ]
    assert ranked[0] == ranked[1]


@pytest.mark.parametrize("method", METHODS)
def test_results_do_not_depend_on_what_else_is_asked(folder, questions, method):
    config = RetrieverConfig(method=method, articles=5, passages=10)
    together = list(Retriever(folder, config)(questions))
    for question, found in zip(questions[::-1], together[::-1], strict=True):
        (single,) = Retriever(folder, config)([question])
        np.testing.assert_array_equal(single.passages, found.passages)
        np.testing.assert_array_equal(single.scores, found.scores)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("idf", ["smooth", "drqa"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_small_collection_never_gives_an_empty_result(tmp_path, method, idf, number):
    source = save(tmp_path / "a.tsv", [(str(i), f"{WORDS[i]} city", "") for i in range(number)])
    build_indices(
        source, tmp_path / "index", skips=ExclusionCounts(), articles=ArticleConfig(buckets=64)
    )
    retriever = Retriever(tmp_path / "index", RetrieverConfig(method=method, idf=idf))
    asked = [OpenQuestion("a", f"{WORDS[0]} city", ()), OpenQuestion("b", "xyz", ())]
    for found in retriever(asked):
        assert len(found.passages) == number and found.passages[0] == 0
        assert (found.scores[0] > 0) == (found.id == "a")


def test_passages_carry_their_scores(folder, questions):
    retriever = Retriever(folder, RetrieverConfig(passages=2))
    (found,) = retriever(questions[:1])
    first, second = retriever.passages(found)
    assert first.id == retriever.store[found.passages[0]].id
    assert [first.score, second.score] == found.scores.tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("articles", 0),
        ("passages", 0),
        ("article_weight", -1.0),
        ("article_weight", float("nan")),
    ],
)
def test_values_are_checked(name, value):
    with pytest.raises(InputError, match=f"{name}: expected at least"):
        RetrieverConfig(**{name: value})


@pytest.mark.parametrize("option", [{"method": "BM25"}, {"idf": "smoth"}])
def test_methods_that_there_are_not(option):
    [(name, value)] = option.items()
    with pytest.raises(InputError, match=f"{name}: expected one of .*, found '{value}'"):
        RetrieverConfig(**option)


def test_a_missing_index_is_an_error(tmp_path, folder):
    with pytest.raises(InputError, match="expected an index .*, found none or an incomplete one"):
        Retriever(tmp_path)


def test_an_answer_is_found_where_z_has_a_mention():
    texts = [
        "Party at 1,000 m",
        "the ＲＯＭＥ",
        "ΟΔΟΣ",
        "ΟΔΟΣ'Α",
        "İzmir",
        "ﬁne art.",
        "cafe\u0301 Rome",
        "He sang Ca n't Stop .",
        "CA N’T STOP",
        "I ca n'thing",
        "J\u030can",
    ]
    answers = ["art", "1", "rome", "οδος", "οδοσ", "izmir", "i̇zmir", "fine Art", "!!", "café"]
    answers += ["Can't Stop", "can’t", "ca n't stop", "thing", "\u01f0an"]
    for answer in answers:
        for text in texts:
            expected = len(enumerate_spans(split_words(text), AliasMatcher([answer]))) > 0
            assert AnswerFinder([answer])(text) == expected, (answer, text)


def test_recall_counts_the_first_mention():
    recall = RecallCounts(3)
    assert recall.at(3) == 0
    recall.add(["rome"], ["no", "Rome", "Rome"])
    recall.add(["rome"], ["Rome"])
    recall.add(["rome"], ["no", "no", "no"])
    recall.add(["rome"], [])
    assert [recall.at(n) for n in (1, 2, 3, 80)] == [1 / 4, 2 / 4, 2 / 4, 2 / 4]


@pytest.mark.slow
def test_every_damaged_file_of_an_index_is_named(folder, tmp_path):
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    assert {"meta.json", "store", "articles", "bm25"} <= {file.parts[0] for file in files}
    for index, file in enumerate(sorted(files)):
        copy = tmp_path / str(index)
        shutil.copytree(folder, copy)
        for kind, damage in DAMAGES.items():
            content = (copy / file).read_bytes()
            damage(copy / file)
            with pytest.raises(InputError) as refused:
                Retriever(copy)
            assert str(refused.value).startswith(str(copy / file)), (file, kind)
            (copy / file).write_bytes(content)


def test_an_index_does_not_mix_with_other_files(tmp_path):
    source = save(tmp_path / "a.tsv", rows_of(np.random.default_rng(0), 9))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")

    def build(name, **options):
        config = ArticleConfig(buckets=64)
        build_indices(source, tmp_path / name, skips=ExclusionCounts(), articles=config, **options)

    with pytest.raises(InputError, match="mine: exists and was not written by this command"):
        build("mine", replace=True)
    build("index")
    with pytest.raises(InputError, match="index: exists; choose another folder, or add --force"):
        build("index")
    build("index", replace=True)
    (tmp_path / "index" / "store" / "notes.txt").write_text("precious")
    with pytest.raises(InputError, match="index: exists and holds store/notes.txt"):
        build("index", replace=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tsv", "index", "mine"]
