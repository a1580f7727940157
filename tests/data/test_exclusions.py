"""Counts of what readers leave out."""

from hardem_jax.data.exclusions import NO_ANSWER, ExclusionCounts


def test_ids_are_shown_harmlessly_and_kept_as_they_are():
    skips = ExclusionCounts()
    skips.add(NO_ANSWER, "q\x1b[2J\n9")
    skips.warn(NO_ANSWER, "q\u202e7")
    for i in range(5):
        skips.add("empty question", str(i))
    assert str(skips).splitlines() == [
        "6 examples left out",
        "  empty question: 5 (0, 1, 2, ...)",
        r"  no answer given: 1 (q\x1b[2J\n9)",
        "1 warning on examples kept",
        r"  no answer given: 1 (q\u202e7)",
    ]
    assert skips.left_out[0] == ("q\x1b[2J\n9", NO_ANSWER)
