"""A record as text: a line a solution, the most likely first, and nothing that moves a cursor."""

from hardem_jax.show.record import Entry, Moment, Record, as_text


def test_lines_are_aligned_and_the_most_likely_come_first():
    entries = [Entry(4, "Ann", "0-3", "...[Ann] saw..."), Entry(7, "Lee", "8-11")]
    moments = [Moment([0.25, 0.5]), Moment([None, 0.125])]
    record = Record(title="Who?", answer="Ann", notes=["A note."], solutions=entries, size=9)
    assert as_text(record).splitlines() == [
        "Who?",
        "  answer: Ann",
        "  A note.",
        "  [4]  ...[Ann] saw...  0-3",
        "  [7]  Lee              8-11",
        "  ... and 7 more",
    ]
    record = Record(title="Who?", solutions=entries, size=2, moments=moments)
    assert as_text(record).splitlines() == [
        "Who?",
        "  [7]  Lee              0.500  0.125  8-11",
        "  [4]  ...[Ann] saw...  0.250         0-3",
    ]


def test_few_short_lines_without_control_characters():
    entries = [Entry(z, f"{z}\x1b[2J" + "x" * 99) for z in range(3)]
    record = Record(title="a\x1bb", answer="\x07", notes=["\r"], solutions=entries, size=3)
    title, answer, note, *lines, more = as_text(record, most=2, width=20).splitlines()
    assert (title, answer, note) == ("a\\x1bb", "  answer: \\x07", "  \\r")
    assert lines == [f"  [{z}]  {z}\\x1b[2Jxxxxxxxxx..." for z in range(2)]
    assert more == "  ... and 1 more"
    assert as_text(Record(title="t", solutions=[], size=0)) == "t"
