"""The line from questions to passages, and what is counted of them."""

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.mentions import AliasMatcher, mentions_any
from hardem_jax.retrieval.config import ArticleConfig, RetrieverConfig
from hardem_jax.retrieval.index import PassageIndex, build_index, top_k
from hardem_jax.words import split_words
from tests.languages import facts
from tests.retrieval.corpora import WORDS, index_of, rows_of, save

METHODS = ("combined", "articles", "bm25")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("retrieve")
    index_of(folder, rows_of(np.random.default_rng(0), 90))
    return folder / "index"


@pytest.fixture(scope="module")
def index(folder):
    return PassageIndex(folder)


@pytest.fixture(scope="module")
def questions():
    rng = np.random.default_rng(1)
    return [*(" ".join(rng.choice(WORDS, 3)) for _ in range(30)), "xyz", "who is it"]


def test_recall_is_alike_in_every_language(tmp_path):
    recall = {}
    for language, known in facts(200, seed=0).items():
        rows = [(str(i), text.strip(), f"{i // 20}") for i, (text, *_) in enumerate(known, 1)]
        source = save(tmp_path / f"{language}.tsv", rows)
        build_index(source, tmp_path / language, skips=ExclusionCounts())
        for method in METHODS:
            index = PassageIndex(tmp_path / language)
            config = RetrieverConfig(method=method, passages=5)
            recall[language, method] = np.mean(
                [
                    any(
                        mentions_any(split_words(passage.text), AliasMatcher(answers))
                        for passage in index.retrieve(question, config)
                    )
                    for _, question, *answers in known[::4]
                ]
            )
    assert min(recall.values()) > 0.97, recall


@pytest.mark.parametrize("k", [1, 3, 7, 20, 50])
def test_top_k_is_a_stable_sort(k):
    rng = np.random.default_rng(k)
    for scores in (rng.integers(0, 4, 20).astype(np.float32), np.zeros(20), rng.normal(size=20)):
        np.testing.assert_array_equal(top_k(scores, k), np.argsort(-scores, kind="stable")[:k])


def test_articles_then_their_passages(folder, index, questions):
    config = RetrieverConfig(method="articles", articles=4, passages=5)
    for question in questions:
        best = np.argsort(-index.article_scores(question), kind="stable")[:4]
        inside = np.flatnonzero(np.isin(index.article_of, best))
        scores = index.passage_scores(question)[inside]
        order = np.argsort(-scores, kind="stable")[:5]
        found, found_scores = index.rank(question, config)
        np.testing.assert_array_equal(found, inside[order])
        np.testing.assert_array_equal(found_scores, scores[order])


def test_bm25_over_all_passages(folder, index, questions):
    config = RetrieverConfig(method="bm25")
    for question in questions:
        scores = index.passage_scores(question)
        found, found_scores = index.rank(question, config)
        np.testing.assert_array_equal(found, np.argsort(-scores, kind="stable")[:80])
        np.testing.assert_array_equal(found_scores, scores[found])


def test_combined_is_bm25_plus_the_share_of_the_article(folder, index, questions):
    # So many that all passages are candidates.
    config = RetrieverConfig(articles=index.num_articles, passages=30, article_weight=0.5)
    for question in questions:
        of_article, scores = index.article_scores(question), index.passage_scores(question)
        scores = scores / max(scores.max(), 1e-9)
        scores = scores + 0.5 * (of_article / max(of_article.max(), 1e-9))[index.article_of]
        found, found_scores = index.rank(question, config)
        np.testing.assert_allclose(found_scores, np.sort(scores)[::-1][:30], rtol=1e-6)
        np.testing.assert_allclose(scores[found], found_scores, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [1, 3])
def test_a_small_collection_never_gives_an_empty_result(tmp_path, method, number):
    config = ArticleConfig(buckets=64)
    index_of(tmp_path, [(str(i), f"{WORDS[i]} city", "") for i in range(number)], articles=config)
    index, config = PassageIndex(tmp_path / "index"), RetrieverConfig(method=method)
    for question, is_known in ((f"{WORDS[0]} city", True), ("xyz", False)):
        found, scores = index.rank(question, config)
        assert len(found) == number and found[0] == 0
        assert (scores[0] > 0) == is_known
