"""TF-IDF over articles against a dense computation."""

import math
from collections import Counter

import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.retrieval import articles as articles_module
from hardem_jax.retrieval.articles import ArticleConfig, ArticleIndex, build_article_index
from hardem_jax.retrieval.text import TermConfig
from tests.retrieval.corpora import WORDS, rows_of, store_of

ENOUGH = 2**20  # buckets, enough that no two terms of these tests collide


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path, rows_of(np.random.default_rng(0), 60))


QUESTIONS = [
    "old bridge over the river",
    "war and peace peace",
    "who was the Queen of Rome?",
    "xyz",
]


def dense_scores(store, question, config, idf):
    """Every score by the formula in the module's docstring, term by term."""
    terms_of = config.terms.words_and_bigrams if config.bigrams else config.terms.words
    documents = [Counter(terms_of(text)) for text in store.articles()]
    total, scores = len(documents), []
    for document in documents:
        score = 0.0
        for term, count in Counter(terms_of(question)).items():
            df = sum(term in other for other in documents)
            odds = (total - df + 0.5) / (df + 0.5)
            weight = max(0.0, math.log(odds)) if idf == "drqa" else math.log(1 + odds)
            score += math.log(1 + count) * weight * math.log(1 + document[term]) * weight
        scores.append(score)
    return scores


@pytest.mark.parametrize("idf", ["smooth", "drqa"])
@pytest.mark.parametrize(
    "config",
    [
        ArticleConfig(buckets=ENOUGH),
        ArticleConfig(buckets=ENOUGH, bigrams=False, terms=TermConfig(stem=False)),
    ],
)
def test_scores_are_the_formula(tmp_path, store, config, idf):
    build_article_index(store, tmp_path / "articles", config)
    index = ArticleIndex(tmp_path / "articles", store, idf=idf)
    for question in QUESTIONS:
        expected = dense_scores(store, question, config, idf)
        np.testing.assert_allclose(index.score_all(question), expected, rtol=1e-5, atol=1e-6)


def test_terms_of_one_bucket_are_one_term(tmp_path, store):
    index = build_article_index(store, tmp_path / "articles", ArticleConfig(buckets=1))
    total = store.num_articles
    lengths = np.array([len(TermConfig().words_and_bigrams(text)) for text in store.articles()])
    idf = math.log(1 + 0.5 / (total + 0.5))
    expected = math.log(1 + 1) * np.log1p(lengths) * idf**2
    np.testing.assert_allclose(index.score_all("rome"), expected, rtol=1e-5)


def test_ranks_are_a_stable_sort_of_the_scores(tmp_path, store):
    index = build_article_index(store, tmp_path / "articles", ArticleConfig(buckets=ENOUGH))
    for question, (best, scores) in zip(QUESTIONS, index.rank(QUESTIONS, k=7), strict=True):
        every = index.score_all(question)
        np.testing.assert_array_equal(best, np.argsort(-every, kind="stable")[:7])
        np.testing.assert_array_equal(scores, every[best])


def test_the_index_does_not_depend_on_the_block_size(tmp_path, store):
    config = ArticleConfig(buckets=ENOUGH)
    found = []
    for size in (1, 7, 1000):
        index = build_article_index(
            store, tmp_path / "articles", config, block_size=size, replace=True
        )
        found.append(np.stack([index.score_all(question) for question in QUESTIONS]))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_small_collection_never_gives_an_empty_result(tmp_path, number):
    rows = [(str(i), f"{word} is a city", word) for i, word in enumerate(WORDS[:number])]
    store = store_of(tmp_path, rows)
    build_article_index(store, tmp_path / "articles", ArticleConfig(buckets=ENOUGH))
    smooth = ArticleIndex(tmp_path / "articles", store)
    drqa = ArticleIndex(tmp_path / "articles", store, idf="drqa")
    question = f"{WORDS[number - 1]} city"
    [(best, scores)] = smooth.rank([question], k=50)
    assert best[0] == number - 1 and (scores > 0).all()
    for index in (smooth, drqa):
        [(best, scores)] = index.rank([question], k=50)
        assert sorted(best) == list(range(number))
    if number <= 2:  # what DrQA's idf makes of it
        assert not scores.any()


def test_a_build_that_fails_leaves_nothing_that_looks_finished(tmp_path, store, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(articles_module, "write_json", fail)
    with pytest.raises(KeyboardInterrupt):
        build_article_index(store, tmp_path / "articles", ArticleConfig(buckets=ENOUGH))
    with pytest.raises(
        InputError, match="articles: expected an index, found none or an incomplete one"
    ):
        ArticleIndex(tmp_path / "articles", store)
    assert not list(tmp_path.glob("articles*"))


def test_an_index_of_other_passages_is_refused(tmp_path, store):
    build_article_index(store, tmp_path / "articles", ArticleConfig(buckets=64))
    (tmp_path / "other").mkdir()
    other = store_of(tmp_path / "other", rows_of(np.random.default_rng(1), 60))
    with pytest.raises(InputError, match="expected an index of the passages in .*other/store"):
        ArticleIndex(tmp_path / "articles", other)


def test_buckets_are_checked():
    with pytest.raises(InputError, match="buckets: expected at least 1, found 0"):
        ArticleConfig(buckets=0)
