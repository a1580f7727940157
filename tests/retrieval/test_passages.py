"""BM25 against the formula and against the library's own scores."""

import math
from collections import Counter

import bm25s
import numpy as np
import pytest
from bm25s.tokenization import Tokenized

from hardem_jax.errors import InputError
from hardem_jax.retrieval import passages as passages_module
from hardem_jax.retrieval.passages import PassageConfig, PassageIndex, build_passage_index
from hardem_jax.retrieval.strings import StringTable
from hardem_jax.retrieval.text import TermConfig
from tests.retrieval.corpora import rows_of, store_of

QUESTIONS = ["old bridge over the river", "war and peace peace", "the Queen of Rome?", "who", "xyz"]


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path, rows_of(np.random.default_rng(0), 60))


def dense_scores(store, question, config):
    documents = [config.words(passage.title, passage.text) for passage in store]
    total, mean = len(documents), np.mean([len(words) for words in documents])
    scores = []
    for words in documents:
        counts, score = Counter(words), 0.0
        for term in config.terms.words(question):
            df = sum(term in other for other in documents)
            tf = counts[term]
            saturation = tf + config.k1 * (1 - config.b + config.b * len(words) / mean)
            score += math.log(1 + (total - df + 0.5) / (df + 0.5)) * tf / saturation
        scores.append(score)
    return scores


@pytest.mark.parametrize(
    "config",
    [
        PassageConfig(),
        PassageConfig(k1=0.9, b=0.4, title_weight=0, terms=TermConfig(stem=False)),
        PassageConfig(title_weight=1, terms=TermConfig(stop_words=False)),
    ],
)
def test_scores_are_the_formula(tmp_path, store, config):
    index = build_passage_index(store, tmp_path / "bm25", config)
    for question in QUESTIONS:
        every = index.score_all(question)
        np.testing.assert_allclose(every, dense_scores(store, question, config), rtol=1e-5)
        chosen = np.array([3, 59, 17, 0])
        np.testing.assert_array_equal(index.score(question, chosen), every[chosen])


@pytest.mark.parametrize("shard_passages", [1, 7, 60])
def test_the_index_is_that_of_the_library(tmp_path, store, shard_passages):
    config = PassageConfig(k1=1.2, b=0.7)
    index = build_passage_index(store, tmp_path / "bm25", config, shard_passages=shard_passages)
    library = bm25s.BM25(k1=config.k1, b=config.b)
    terms = list(StringTable(tmp_path / "bm25" / "terms"))
    numbers = {term: number for number, term in enumerate(terms)}
    passages = [[numbers[word] for word in config.words(p.title, p.text)] for p in store]
    library.index(Tokenized(passages, numbers), create_empty_token=False, show_progress=False)
    for name in ("data", "indices", "indptr"):
        found = np.load(tmp_path / "bm25" / f"{name}.npy")
        np.testing.assert_array_equal(found, library.scores[name], strict=True)
    for question in QUESTIONS[:3]:
        words = [w for w in config.terms.words(question) if w in numbers]
        np.testing.assert_array_equal(index.score_all(question), library.get_scores(words))


def test_ranks_are_a_stable_sort_of_the_scores(tmp_path, store):
    index = build_passage_index(store, tmp_path / "bm25")
    for question, (best, scores) in zip(QUESTIONS, index.rank(QUESTIONS, k=9), strict=True):
        every = index.score_all(question)
        np.testing.assert_array_equal(best, np.argsort(-every, kind="stable")[:9])
        np.testing.assert_array_equal(scores, every[best])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_small_collection_never_gives_an_empty_result(tmp_path, number):
    store = store_of(tmp_path, [(str(i), f"city {i}", "city") for i in range(number)])
    index = build_passage_index(store, tmp_path / "bm25")
    for question in ("which city", "unheard of"):
        [(best, scores)] = index.rank([question], k=80)
        assert best.tolist() == list(range(number))
        assert (scores > 0).all() == (question == "which city")


def test_passages_without_a_term_stay(tmp_path):
    store = store_of(tmp_path, [("1", "the of", ""), ("2", "rome", ""), ("3", "!!", "")])
    index = build_passage_index(store, tmp_path / "bm25")
    assert [best.tolist() for best, _ in index.rank(["rome"], k=5)] == [[1, 0, 2]]


def test_a_collection_without_terms_is_an_error(tmp_path):
    store = store_of(tmp_path, [("1", "the of", "")])
    with pytest.raises(InputError, match="^a.tsv: expected passages with words, found none"):
        build_passage_index(store, tmp_path / "bm25")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k1": -1}, "k1: expected at least 0, found -1"),
        ({"k1": float("nan")}, "k1: expected at least 0, found nan"),
        ({"b": 1.5}, "b: expected at least 0 and at most 1, found 1.5"),
        ({"title_weight": -1}, "title_weight: expected at least 0 and at most 1000, found -1"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(InputError, match=message):
        PassageConfig(**parameters)


def test_a_build_that_fails_leaves_nothing_that_looks_finished(tmp_path, store, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(passages_module, "write_json", fail)
    with pytest.raises(KeyboardInterrupt):
        build_passage_index(store, tmp_path / "bm25")
    with pytest.raises(
        InputError, match="bm25: expected an index, found none or an incomplete one"
    ):
        PassageIndex(tmp_path / "bm25", store)


def test_a_title_counts_as_often_as_said():
    words = [PassageConfig(title_weight=n).words("Old Rome", "A city") for n in (0, 1, 2)]
    assert words == [["citi"], ["old", "rome", "citi"], ["old", "rome", "old", "rome", "citi"]]
