"""The passage store, its strings, and what a killed build leaves."""

import shutil

import numpy as np
import pytest

from hardem_jax.data.examples import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.retrieval import store as store_module
from hardem_jax.retrieval.store import PassageStore, build_store
from hardem_jax.retrieval.strings import StringTable, StringWriter
from tests.retrieval.corpora import rows_of, save, store_of

ROWS = [
    ("7", "Rome is old.", "Rome"),
    ("9", "Bonn ist schön.", "Bonn"),
    ("x", "It has hills.", "Rome"),
    ("y", "Nobody's.", ""),
    ("z", "Nobody's either.", ""),
]


def test_a_store_holds_its_file(tmp_path):
    store = store_of(tmp_path, ROWS)
    assert len(store) == 5 and store.num_articles == 4
    assert [(p.id, p.text, p.title) for p in store] == ROWS
    assert [store.passages_of(article).tolist() for article in range(4)] == [[0, 2], [1], [3], [4]]
    assert list(store.articles())[:2] == [
        "Rome\nRome is old.\nIt has hills.",
        "Bonn\nBonn ist schön.",
    ]
    assert list(store.titled_texts())[2] == "Rome\nIt has hills."
    assert store.text(1) == "Bonn ist schön." and store.title(1) == "Bonn"


def test_every_passage_is_in_its_article(tmp_path):
    store = store_of(tmp_path, rows_of(np.random.default_rng(0), 50))
    articles = [store.passages_of(article) for article in range(store.num_articles)]
    np.testing.assert_array_equal(np.sort(np.concatenate(articles)), np.arange(50))
    for article, passages in enumerate(articles):
        assert {store[index].title for index in passages} == {store.title(article)}
        assert (np.diff(passages) > 0).all()
        np.testing.assert_array_equal(store.article_of[passages], article)


def test_what_was_left_out_is_recorded(tmp_path):
    store = store_of(tmp_path, [*ROWS, ("7", "again", "Rome"), ("8", "", "Rome")])
    left_out = {"passage id occurs again": 1, "empty document": 1}
    assert store.meta["left_out"] == left_out
    assert store.meta["source"]["name"] == "a.tsv" and len(store) == 5


def test_the_checksum_is_that_of_the_content(tmp_path):
    def content(rows, name="a.tsv"):
        source = save(tmp_path / name, rows)
        return build_store(source, tmp_path / "store", skips=ExclusionCounts()).content

    first = content(ROWS)
    assert content(ROWS, "b.tsv.gz") == first
    assert content(ROWS[:4]) != first
    assert content([(id, text, title + "!") for id, text, title in ROWS]) != first


def test_only_the_first_passages(tmp_path):
    source = save(tmp_path / "a.tsv", ROWS)
    store = build_store(source, tmp_path / "s", skips=ExclusionCounts(), limit=2)
    assert [passage.id for passage in store] == ["7", "9"]


def test_a_file_without_passages_is_an_error(tmp_path):
    source = save(tmp_path / "a.tsv", [("1", "", "Rome")])
    with pytest.raises(InputError, match="a.tsv: expected passages, found none that can be used"):
        build_store(source, tmp_path / "store", skips=ExclusionCounts())
    assert not (tmp_path / "store").exists()


def test_a_killed_build_leaves_nothing_that_looks_finished(tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store_module, "write_json", killed)
    source = save(tmp_path / "a.tsv", ROWS)
    with pytest.raises(KeyboardInterrupt):
        build_store(source, tmp_path / "store", skips=ExclusionCounts())
    with pytest.raises(InputError, match="store: expected a folder of passages, found no complete"):
        PassageStore(tmp_path / "store")
    # Even under its final name.
    (tmp_path / "store.partial").rename(tmp_path / "store")
    with pytest.raises(InputError, match="store: expected a folder of passages, found no complete"):
        PassageStore(tmp_path / "store")


def test_a_damaged_or_foreign_store_is_refused(tmp_path):
    store_of(tmp_path, ROWS)

    def damaged(change, message):
        folder = tmp_path / "damaged"
        shutil.copytree(tmp_path / "store", folder)
        change(folder)
        with pytest.raises(InputError, match=message):
            PassageStore(folder)
        shutil.rmtree(folder)

    size = sum(len(text.encode()) for _, text, _ in ROWS)
    damaged(
        lambda f: (f / "texts.txt").write_bytes(b"x"), f"texts.txt: expected {size} bytes, found 1"
    )
    damaged(lambda f: (f / "titles.ends.npy").unlink(), "titles.ends.npy: expected an array")
    damaged(lambda f: (f / "article_of.npy").write_bytes(b"x"), "article_of.npy: expected an array")
    damaged(
        lambda f: np.save(f / "article_of.npy", np.zeros(3, np.int32)), "do not belong together"
    )
    damaged(
        lambda f: (f / "meta.json").write_text('{"format": "passages 0"}'), "expected format passag"
    )


def test_strings_of_all_kinds(tmp_path):
    texts = ["", "a", "Zoë\0\n", "𝔘", ""]
    with StringWriter(tmp_path / "s") as writer:
        for text in texts:
            writer.write(text)
    table = StringTable(tmp_path / "s")
    assert list(table) == texts and len(table) == 5
    for outside in (-1, 5):
        with pytest.raises(IndexError):
            table[outside]


def test_no_strings(tmp_path):
    with StringWriter(tmp_path / "s"):
        pass
    assert list(StringTable(tmp_path / "s")) == []
