"""The index on disk, and its scores against the formulas and the library's own."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.retrieval import index as index_module
from hardem_jax.retrieval.config import ArticleConfig, PassageConfig, words, words_and_bigrams
from hardem_jax.retrieval.index import build_index
from tests.retrieval.corpora import index_of, rows_of, save

QUESTIONS = ["old bridge over the river", "war and peace peace", "the Queen of Rome?", "who", "xyz"]
ROWS = [
    ("7", "Rome is old.", "Rome"),
    ("9", "Bonn ist schön.\u2028Nicht?", "Bonn"),
    ("x", 'It has "hills".', "Rome"),
    ("y", "Nobody's 𝔘.", " "),
    ("z", "Nobody's either.", " "),
]
ENOUGH = ArticleConfig(buckets=2**20)  # so many buckets that no two terms of these tests share one


def test_an_index_holds_its_passages(tmp_path):
    index = index_of(tmp_path, ROWS)
    assert len(index) == 5 and index.num_articles == 4
    passages = [index.passage(number) for number in range(5)]
    assert [(p.id, p.text, p.title) for p in passages] == ROWS
    assert index.article_of.tolist() == [0, 1, 0, 2, 3]
    assert index.passage(np.int64(2), 1.5).score == 1.5


def test_what_was_left_out_is_recorded(tmp_path):
    skips = ExclusionCounts()
    index = index_of(tmp_path, [*ROWS, ("7", "again", "Rome"), ("8", "", "Rome")], skips=skips)
    assert index.meta["left_out"] == skips.as_dict()
    assert skips.as_dict() == {"passage id occurs again": 1, "empty document": 1}
    assert index.meta["source"]["name"] == "a.tsv" and len(index) == 5


def test_the_same_passages_give_the_same_files(tmp_path):
    """The library itself numbers words in the order of a set, which varies."""
    contents = []
    for name, rows in (("a.tsv", ROWS), ("a.tsv.gz", ROWS), ("b.tsv", ROWS[:4])):
        source = save(tmp_path / name, rows)
        build_index(source, tmp_path / "index", skips=ExclusionCounts(), replace=True)
        files = sorted((tmp_path / "index").iterdir())
        contents.append({f.name: f.read_bytes() for f in files if "index" in f.name})
        contents[-1]["content"] = json.loads((tmp_path / "index/meta.json").read_text())["content"]
    assert len(contents[0]) == 7 and contents[0] == contents[1]
    assert all(contents[0][name] != contents[2][name] for name in contents[0])
    vocabulary = json.loads(contents[0]["vocab.index.json"])
    assert list(vocabulary.items())[:4] == [("rome", 0), ("old", 1), ("bonn", 2), ("ist", 3)]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("1", "", "Rome")], "expected passages, found none that can be used"),
        ([("1", "the of", "")], "expected passages with words, found none"),
    ],
)
def test_a_file_without_passages_is_an_error(tmp_path, rows, found):
    with pytest.raises(InputError, match=f"a.tsv: {found}"):
        index_of(tmp_path, rows)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def dense_passage_scores(rows, question, config):
    documents = [config.words(title, text) for _, text, title in rows]
    total, mean = len(documents), np.mean([len(terms) for terms in documents])
    scores = []
    for terms in documents:
        counts, score = Counter(terms), 0.0
        for term in words(question):
            df = sum(term in other for other in documents)
            tf = counts[term]
            saturation = tf + config.k1 * (1 - config.b + config.b * len(terms) / mean)
            score += math.log(1 + (total - df + 0.5) / (df + 0.5)) * tf / saturation
        scores.append(score)
    return scores


@pytest.mark.parametrize("config", [PassageConfig(), PassageConfig(k1=0.9, b=0.4, title_weight=0)])
def test_passage_scores_are_the_formula(tmp_path, config):
    rows = rows_of(np.random.default_rng(0), 60)
    index = index_of(tmp_path, rows, passages=config)
    for question in QUESTIONS:
        expected = dense_passage_scores(rows, question, config)
        np.testing.assert_allclose(index.passage_scores(question), expected, rtol=1e-5)


def dense_article_scores(rows, question):
    articles: dict[str, list[str]] = {}
    for id, text, title in rows:
        articles.setdefault(title or id, [title]).append(text)
    documents = [Counter(words_and_bigrams("\n".join(texts))) for texts in articles.values()]
    total, scores = len(documents), []
    for document in documents:
        score = 0.0
        for term, count in Counter(words_and_bigrams(question)).items():
            df = sum(term in other for other in documents)
            weight = math.log(1 + (total - df + 0.5) / (df + 0.5))
            score += math.log(1 + count) * weight * math.log(1 + document[term]) * weight
        scores.append(score)
    return scores


def test_article_scores_are_the_formula(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "_BLOCK", 7)
    rows = rows_of(np.random.default_rng(0), 60)
    index = index_of(tmp_path, rows, articles=ENOUGH)
    for question in QUESTIONS:
        expected = dense_article_scores(rows, question)
        np.testing.assert_allclose(index.article_scores(question), expected, rtol=1e-5, atol=1e-6)


def test_articles_and_passages_without_a_term_stay(tmp_path):
    index = index_of(tmp_path, [("1", "the rome", ""), ("2", "of", "")])
    assert index.article_scores("bonn").tolist() == [0, 0]
    first, second = index.passage_scores("rome")
    assert first > second == 0


def test_a_title_counts_as_often_as_said():
    found = [PassageConfig(title_weight=n).words("Old Rome", "A city") for n in (0, 1, 2)]
    assert found == [["citi"], ["old", "rome", "citi"], ["old", "rome", "old", "rome", "citi"]]
