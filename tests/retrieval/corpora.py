"""Small passage files and the stores made of them."""

import gzip
from pathlib import Path

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.retrieval.store import PassageStore, build_store

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
    text = "\n".join([header, *("\t".join(row) for row in rows)]) + "\n"
    data = text.encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    return file


def store_of(folder: Path, rows) -> PassageStore:
    return build_store(save(folder / "a.tsv", rows), folder / "store", skips=ExclusionCounts())


def same_files(expected: Path, found: Path) -> None:
    """Asserts that two folders hold the same files, byte for byte."""
    names = [
        sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
        for folder in (expected, found)
    ]
    assert names[0] == names[1]
    for name in names[0]:
        assert (expected / name).read_bytes() == (found / name).read_bytes(), name
