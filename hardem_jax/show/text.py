"""A record as text for a terminal."""

from __future__ import annotations

from hardem_jax.errors import printable
from hardem_jax.show.record import Record

_WIDTH = 60


def as_text(record: Record, *, most: int = 12, width: int = _WIDTH) -> str:
    """Title, notes, and a line for each of the ``most`` likely solutions."""
    notes = [f"answer: {record.answer}"] if record.answer else []
    lines = [record.title, *(f"  {note}" for note in (*notes, *record.notes))]
    lines = list(map(printable, lines))
    rows = []
    shown = record.order()[:most]
    for place in shown:
        entry = record.solutions[place]
        chances = [moment.probabilities[place] for moment in record.moments]
        texts = ["" if p is None else f"{p:.3f}" for p in chances]
        line = printable(entry.line)
        line = line if len(line) <= width else f"{line[: width - 3]}..."
        rows.append((f"[{entry.number}]", line, *texts, printable(entry.place)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=True) if size]
        lines.append("  " + "  ".join(cells).rstrip())
    if len(shown) < record.size:
        lines.append(f"  ... and {record.size - len(shown):,} more")
    return "\n".join(lines)
