"""The passage store, its strings, and what a killed build leaves."""

import shutil
import tracemalloc

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.retrieval import store as store_module
from hardem_jax.retrieval import strings as strings_module
from hardem_jax.retrieval.store import PassageStore, build_store
from hardem_jax.retrieval.strings import ArrayWriter, StringNumbers, StringTable, StringWriter
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
    assert list(store.titles_and_texts())[2] == ("Rome", "It has hills.")
    assert store.text(1) == "Bonn ist schön." and store.title(1) == "Bonn"


def test_every_passage_is_in_its_article(tmp_path):
    store = store_of(tmp_path, rows_of(np.random.default_rng(0), 50))
    articles = [store.article_passages(article) for article in range(store.num_articles)]
    np.testing.assert_array_equal(np.sort(np.concatenate(articles)), np.arange(50))
    for article, passages in enumerate(articles):
        assert {store[index].title for index in passages} == {store.title(article)}
        assert (np.diff(passages) > 0).all()
        np.testing.assert_array_equal(store.article_of[passages], article)


def test_shards_of_articles_hold_enough_passages(tmp_path):
    store = store_of(tmp_path, rows_of(np.random.default_rng(0), 50))
    for size in (1, 4, 49, 50, 1000):
        shards = list(store.article_shards(size))
        assert [article for shard in shards for article in shard] == list(range(store.num_articles))
        for shard in shards:
            counts = [len(store.article_passages(article)) for article in shard]
            assert sum(counts) >= size or shard is shards[-1]
            assert sum(counts[:-1]) < size


def test_reading_on_after_pages_were_released(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_RELEASED", 2)
    store = store_of(tmp_path, ROWS)
    assert list(store.titles_and_texts()) == [(title, text) for _, text, title in ROWS]
    assert len(list(store.articles())) == 4


def test_a_store_keeps_few_bytes_of_a_passage_in_memory(tmp_path):
    def peak(number):
        rows = [(f"passage {i}", "It is old.", f"title {i // 2}") for i in range(number)]
        source = save(tmp_path / f"{number}.tsv", rows)
        rows.clear()
        tracemalloc.start()
        build_store(source, tmp_path / str(number), skips=ExclusionCounts())
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(100)  # what is imported and cached counts once
    # An id alone takes 100 bytes in a set. With few passages, buffers count too.
    assert (peak(13_000) - peak(5_000)) / 8_000 < 40


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


def test_arrays_in_pieces_are_files_of_numpy(tmp_path):
    pieces = [np.arange(3), np.array([], int), np.arange(100_000)]
    with ArrayWriter(tmp_path / "a.npy", np.int32) as writer:
        for piece in pieces:
            writer.write(piece)
    np.save(tmp_path / "b.npy", np.concatenate(pieces).astype(np.int32))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_an_array_that_is_not_finished_is_damaged(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        StringWriter(tmp_path / "s") as writer,
    ):
        writer.write("Rome")
        raise KeyboardInterrupt
    with pytest.raises(InputError, match="s.txt: expected 0 bytes, found 4"):
        StringTable(tmp_path / "s")


def test_more_strings_than_are_collected(tmp_path, monkeypatch):
    monkeypatch.setattr(strings_module, "_BUFFERED", 2)
    texts = ["a", "Zoë", "", "b", "c"]
    with StringWriter(tmp_path / "s") as writer:
        for text in texts:
            writer.write(text)
        assert len(writer) == 5
    assert list(StringTable(tmp_path / "s")) == texts


def test_numbers_of_strings_are_those_of_a_dictionary(tmp_path):
    rng = np.random.default_rng(0)
    texts = ["", "\0", "a\0b", "A", "a", "ａ", " a", "1", "01", "Zoë", "Zoe\u0308", "x" * 9000]
    expected: dict[str, int] = {}
    with StringNumbers(tmp_path / "numbers.tmp") as numbers:
        for number in range(200):
            text = texts[rng.integers(len(texts))]
            assert numbers.setdefault(text, number) == expected.setdefault(text, number)
    assert len(expected) == len(texts)
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_cannot_be_written_are_an_error(tmp_path):
    with pytest.raises(InputError, match="none/numbers.tmp: cannot be written"):
        StringNumbers(tmp_path / "none" / "numbers.tmp")
    with (
        pytest.raises(InputError, match="numbers.tmp: cannot be written .*disk is full"),
        StringNumbers(tmp_path / "numbers.tmp") as numbers,
    ):
        numbers._database.execute("PRAGMA max_page_count = 4")
        for number in range(10_000):
            numbers.setdefault(f"string {number}", number)
    assert list(tmp_path.iterdir()) == []


def test_no_strings(tmp_path):
    with StringWriter(tmp_path / "s"):
        pass
    assert list(StringTable(tmp_path / "s")) == []
