"""Small passage files and the indices made of them."""

import gzip
from pathlib import Path

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.retrieval.config import ArticleConfig
from hardem_jax.retrieval.index import PassageIndex, build_index

HEADER = "id\ttext\ttitle"
WORDS = "rome bonn city river bridge old new king queen war peace song film north south".split()


def rows_of(rng, number: int) -> list[tuple[str, str, str]]:
    """Random passages; about three to an article, one of them without a title."""
    rows = []
    for index in range(number):
        words = rng.choice(WORDS, size=rng.integers(1, 12))
        title = f"{rng.choice(WORDS)} {rng.integers(max(1, number // 3))}"
        rows.append((f"p{index}", " ".join(words), title if index else ""))
    return rows


def save(file: Path, rows, header: str = HEADER) -> Path:
    data = ("\n".join([header, *("\t".join(row) for row in rows)]) + "\n").encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    return file


def index_of(folder: Path, rows, **options) -> PassageIndex:
    """An index of some passages; few buckets, unless asked for, for they take time."""
    options = {"articles": ArticleConfig(buckets=2**16), "skips": ExclusionCounts()} | options
    return build_index(save(folder / "a.tsv", rows), folder / "index", **options)
