"""A collection of passages on disk, built once from a file and memory-mapped.

    meta.json           format, sizes, checksums of source and content, rows left out
    ids.*, texts.*      strings of every passage
    titles.*            strings of every article
    article_of.npy      [N] int32, the article of every passage
    by_article.npy      [N] int32, passages grouped by article, in file order within each
    article_ends.npy    [A] int64, where the passages of an article end in by_article
    checksums.json      size and SHA-256 of the other files

Passages with the same title form an article (Min et al., 2019, section 4.1: articles are
retrieved, and their paragraphs ranked); a passage without a title is an article of its own.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.data.examples import Passage
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import file_digest, load_array, new_folder, read_meta, write_json
from hardem_jax.errors import InputError
from hardem_jax.progress import counted
from hardem_jax.retrieval.passage_files import read_passages
from hardem_jax.retrieval.strings import StringNumbers, StringTable, StringWriter

FORMAT = "passages 2"

# Texts read one after another before their pages are unmapped.
_RELEASED = 4096


def build_store(
    source: Path,
    folder: Path,
    *,
    skips: ExclusionCounts,
    max_characters: int = 1_000_000,
    limit: int | None = None,
    replace: bool = False,
) -> PassageStore:
    """Builds a store from a passage file; the folder appears only once it is complete.

    Everything is written as it is read. Ids and titles are kept in temporary files, to detect
    repetitions. Memory grows to 24 bytes per passage: its article number and the arrays that sort
    passages by article.

    Args:
        source: see `hardem_jax.retrieval.passage_files`.
        folder: output folder; must be new or empty.
        skips: counts passages left out, as `read_passages` does.
        max_characters: limit on a passage's text.
        limit: use only the first `limit` passages; None for all.
        replace: whether to replace a complete store.

    Raises:
        InputError: as `read_passages`; or no passage is left, or the folder is not a store.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = ["id_text_title", "7_Rome is old._Rome", "9_It has hills._Rome"]
        ...     _ = Path(folder, "a.tsv").write_text("\\n".join(rows).replace("_", "\\t"))
        ...     skips = ExclusionCounts()
        ...     store = build_store(Path(folder, "a.tsv"), Path(folder, "store"), skips=skips)
        ...     store[1], store.article_passages(0).tolist()
        (Passage(id='9', title='Rome', text='It has hills.', score=None, has_answer=None), [0, 1])
    """
    digest = file_digest(source)
    with new_folder(folder, format=FORMAT, replace=replace) as partial:
        content, articles = _write_strings(source, partial, skips, max_characters, limit)
        if not articles:
            raise InputError(f"{source}: expected passages, found none that can be used ({skips})")
        article_of = np.frombuffer(articles, np.int32)
        np.save(partial / "article_of.npy", article_of)
        np.save(partial / "by_article.npy", np.argsort(article_of, kind="stable").astype(np.int32))
        np.save(partial / "article_ends.npy", np.cumsum(np.bincount(article_of), dtype=np.int64))
        meta = {
            "format": FORMAT,
            "source": {"name": source.name, "sha256": digest, "limit": limit},
            "content": content,
            "passages": len(article_of),
            "articles": int(article_of.max()) + 1,
            "left_out": skips.as_dict(),
        }
        write_json(partial / "meta.json", meta)
    return PassageStore(folder, verify=False)


def _write_strings(
    source: Path, folder: Path, skips: ExclusionCounts, max_characters: int, limit: int | None
) -> tuple[str, array[int]]:
    """Returns a digest of the content, and the article of every passage."""
    articles = array("i")
    content = hashlib.sha256()
    with (
        StringNumbers(folder / "seen.tmp") as seen,
        StringNumbers(folder / "numbers.tmp") as numbers,
        StringWriter(folder / "ids") as ids,
        StringWriter(folder / "texts") as texts,
        StringWriter(folder / "titles") as titles,
    ):
        rows = read_passages(source, skips=skips, max_characters=max_characters, seen=seen)
        for row in counted(rows, "passages", total=limit):
            article = len(titles)
            if row.title.strip():
                article = numbers.setdefault(row.title, article)
            if article == len(titles):
                titles.write(row.title)
            articles.append(article)
            ids.write(row.id)
            texts.write(row.text)
            content.update("\0".join((row.id, row.title, row.text, "")).encode("utf-8"))
            if len(ids) == limit:
                break
    return content.hexdigest()[:16], articles


class PassageStore(Sequence[Passage]):
    """The passages of a collection, by index.

    Args:
        folder: written by `build_store`.
        verify: whether to verify all checksums, on all cores.

    Attributes:
        folder: the store's folder.
        meta: content of ``meta.json``.
        content: digest of all ids, titles and texts, by which indices identify their store.
        num_articles: number of articles.
        article_of: ``[N]`` int32, the article of every passage.

    Raises:
        InputError: the folder is missing or has another format, or a file of it is damaged.
    """

    def __init__(self, folder: Path, *, verify: bool = True):
        self.folder = folder
        self.meta: dict[str, Any] = read_meta(
            folder, format=FORMAT, what="a folder of passages", verify=verify
        )
        self.content: str = self.meta["content"]
        self.num_articles: int = self.meta["articles"]
        self._ids = StringTable(folder / "ids")
        self._texts = StringTable(folder / "texts")
        self._titles = StringTable(folder / "titles")
        self.article_of = load_array(folder / "article_of.npy")
        self._by_article = load_array(folder / "by_article.npy")
        self._article_ends = load_array(folder / "article_ends.npy")
        passages = (self._ids, self._texts, self.article_of, self._by_article)
        lengths = {len(part) for part in passages}
        articles = {len(self._titles), len(self._article_ends)}
        if lengths != {self.meta["passages"]} or articles != {self.num_articles}:
            raise InputError(
                f"{folder}: expected files of one store, found different numbers of passages or "
                "articles; rebuild it"
            )

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index):
        index = int(index)
        title = self._titles[int(self.article_of[index])]
        return Passage(self._ids[index], title, self._texts[index])

    def text(self, index: int) -> str:
        """Returns the text of a passage."""
        return self._texts[index]

    def title(self, article: int) -> str:
        """Returns the title of an article."""
        return self._titles[article]

    def article_passages(self, article: int) -> np.ndarray:
        """Returns the passages of an article in file order, ``[P]`` int32."""
        start = int(self._article_ends[article - 1]) if article else 0
        return self._by_article[start : int(self._article_ends[article])]

    def titles_and_texts(self) -> Iterator[tuple[str, str]]:
        """Yields the title and the text of every passage; what was read does not stay mapped."""
        for index, article in enumerate(self.article_of):
            self._release(index)
            yield self._titles[int(article)], self._texts[index]

    def articles(self) -> Iterator[str]:
        """Yields the title and all texts of every article; what was read does not stay mapped."""
        for article in range(self.num_articles):
            self._release(article)
            texts = (self._texts[int(index)] for index in self.article_passages(article))
            yield "\n".join((self._titles[article], *texts))

    def article_shards(self, passages: int) -> Iterator[range]:
        """Yields ranges of articles, each as short as it can be with `passages` passages."""
        first = 0
        while first < self.num_articles:
            enough = passages + (int(self._article_ends[first - 1]) if first else 0)
            last = int(np.searchsorted(self._article_ends, enough)) + 1
            yield range(first, min(last, self.num_articles))
            first = last

    def _release(self, count: int) -> None:
        if count % _RELEASED == 0:
            self._titles.release()
            self._texts.release()


def index_meta(
    folder: Path, store: PassageStore, *, format: str, verify: bool = True
) -> dict[str, Any]:
    """Reads ``meta.json`` of an index and checks that it was built from `store`.

    Args:
        folder: the index.
        store: the passages.
        format: expected format of the index.
        verify: see `hardem_jax.data.files.read_meta`.

    Raises:
        InputError: there is no complete index, it has another format, a file of it is
            damaged, or it was built from other passages.
    """
    meta = read_meta(folder, format=format, what="an index", verify=verify)
    if meta["content"] != store.content:
        expected = f"expected an index of the passages in {store.folder} ({store.content})"
        raise InputError(f"{folder}: {expected}, found one of other passages ({meta['content']})")
    return meta
