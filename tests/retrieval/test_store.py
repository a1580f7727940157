"""The passage store, its strings, and what a killed build leaves."""

import shutil

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.retrieval import store as store_module
from hardem_jax.retrieval.store import PassageStore, build_store
from hardem_jax.retrieval.strings import StringTable, StringWriter
from tests.damages import DAMAGES
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
    assert [store.article_passages(article).tolist() for article in range(4)] == [
        [0, 2],
        [1],
        [3],
        [4],
    ]
    assert list(store.articles())[:2] == [
        "Rome\nRome is old.\nIt has hills.",
        "Bonn\nBonn ist schön.",
    ]
    assert list(store.titled_texts())[2] == "Rome\nIt has hills."
    assert store.text(1) == "Bonn ist schön." and store.title(1) == "Bonn"


def test_every_passage_is_in_its_article(tmp_path):
    store = store_of(tmp_path, rows_of(np.random.default_rng(0), 50))
    articles = [store.article_passages(article) for article in range(store.num_articles)]
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
        store = build_store(source, tmp_path / "store", skips=ExclusionCounts(), replace=True)
        return store.content

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
    with pytest.raises(
        InputError, match="store: expected a folder of passages, found none or an incomplete one"
    ):
        PassageStore(tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def test_a_store_of_another_format_is_refused(tmp_path):
    (tmp_path / "meta.json").write_text('{"format": "passages 1"}')
    with pytest.raises(InputError, match="expected format passages 2, found passages 1; prepare"):
        PassageStore(tmp_path)


def test_every_damaged_file_is_named(tmp_path):
    store_of(tmp_path, ROWS)
    for name in sorted(file.name for file in (tmp_path / "store").iterdir()):
        for kind, damage in DAMAGES.items():
            folder = tmp_path / f"{name}-{kind}"
            shutil.copytree(tmp_path / "store", folder)
            damage(folder / name)
            with pytest.raises(InputError) as refused:
                PassageStore(folder)
            assert str(refused.value).startswith(str(folder / name)), (name, kind)


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
