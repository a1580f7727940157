"""Denotation match: literal tables of normalisation, values and sets, and the real answers."""

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.tables import metrics as wikitablequestions
from hardem_jax.tables.metrics import Denotation, answer_value, normalize, result_texts
from hardem_jax.tables.wikitablequestions import read_wikitablequestions

NORMALISED = {"Beyoncé": "beyonce", "‘a’ ´b` “c”": "'a' b' \"c\"", "1–2—3−4": "1-2-3-4"}
NORMALISED |= {"Rome[1][note 2]": "rome", "Rome*†‡#+♦•": "rome", "Rome [1] †": "rome", "[4]": ""}
NORMALISED |= {"[note]": "[note]", "[note][4]": "[note]", "a [b] c": "a [b] c"}
NORMALISED |= {"Rome (Italy)": "rome", "Rome (Italy) (2004)": "rome", "Rome(Italy)": "rome(italy)"}
NORMALISED |= {"(Italy)": "(italy)", '"Hello"': "hello", '"Hello" (live)[3]': "hello"}
NORMALISED |= {'""Hello""': '""hello""', '"a" b "c"': '"a" b "c"', "U.S.": "u.s", "etc..": "etc."}
NORMALISED |= {"+5+": "+5", "  New\n York \t": "new york", "½": "1⁄2", ".": "", "": ""}


def test_normalize():
    """´ decomposes into a blank and an accent; brackets alone are content, unless a number."""
    assert {text: normalize(text) for text in NORMALISED} == NORMALISED


def test_values_of_answers():
    values = {"2004": "2004.0", "1,514,069": "1514069.0", ".15": "0.15", "10 years": "10.0"}
    values |= {"29 August 1992": "1992-08-29", "July 9": "xxxx-07-09", "March 1983": "1983-03-xx"}
    values |= {"2004-xx-05": "2004-xx-05", "12 Monkeys": "12.0"}
    values |= {"7 November": "xxxx-11-07"}  # a date before it is a quantity
    texts = ("2007/08", "2:47", "£4.00", "5%", "1st", "U+003C (60)", "Che Fu", "")
    for answer, value in (values | {text: text for text in texts}).items():
        assert answer_value(answer) == value


# Sets, in which equal numbers and equal dates are one item; a prediction is a number only if it is
# nothing else, and a date only if it is in the calendar.
RIGHT = [(["wolfe tones"], ["Wolfe Tones"]), ([2004.0], ["2004"]), (["2004"], ["2004"])]
RIGHT += [([12467.0], ["12,467"]), ([10], ["10 years"]), (["10 years"], ["10 years"])]
RIGHT += [(["july 6, 2010"], ["July 6, 2010"]), (["2010-07-06"], ["July 6, 2010"])]
RIGHT += [(["xx-07-09"], ["July 9"]), (["2010-07-06", "2010-7-6"], ["July 6, 2010"])]
RIGHT += [(["2010-01-01"], ["2010-1-1"]), (["2010-12-31"], ["2010-12-031"]), (["5th"], ["5th"])]
RIGHT += [(["b", "a"], ["a", "b"]), (["a", "a", "b"], ["a", "b"]), ([3.0, "3"], ["3"])]
RIGHT += [(["a", "A."], ["a"]), (["1990-xx-xx"], ["1990"]), ([0.1 + 0.2], ["0.3"])]
RIGHT += [([2.0000005], ["2"]), ([0.3000005], ["0.3"]), ([3.0], ["3", "3.0"]), ([None, "a"], ["a"])]
RIGHT += [([], []), (["nan"], ["nan"])]
WRONG = [(["10 years"], ["10"]), (["6 july 2010"], ["July 6, 2010"]), (["2010-07-09"], ["July 9"])]
WRONG += [(["1-07-09"], ["July 9"]), (["2010-07-07"], ["July 6, 2010"])]
WRONG += [(["2010-00-06"], ["2010-0-6"]), (["2010-13-06"], ["2010-13-6"])]
WRONG += [(["2010-01-00"], ["2010-1-0"]), (["2010-01-32"], ["2010-1-032"])]
WRONG += [(["xx-xx-xx"], ["xxxx-xx-xx"]), (["2_010-07-06"], ["July 6, 2010"]), ([5.0], ["5th"])]
WRONG += [(["a"], ["a", "b"]), (["a", "b"], ["a"]), ([1 / 3], ["0.33"]), ([2.00001], ["2"])]
WRONG += [([0.30001], ["0.3"]), (["0.000001"], ["0"]), ([5.0], ["5", "5 (or so)"]), ([None], ["0"])]
WRONG += [([], ["a"]), ([float("inf")], ["5"]), ([10**400], ["5"]), (["1_000"], ["1000"])]


def matches(result, answers, values=None):
    return Denotation(answers, values).matches(result)


@pytest.mark.parametrize(("pairs", "right"), [(RIGHT, True), (WRONG, False)])
def test_denotations(pairs, right):
    for result, answers in pairs:
        assert matches(result, answers) is right, (result, answers)


def test_given_values_replace_those_of_the_answers():
    assert matches([7.0], ["seven"], ["7.0"])
    assert not matches([7.0], ["seven"])
    assert not matches([10.0], ["10 years"], ["10 years"])
    assert matches(["10 YEARS"], ["10 years"], ["3.0"])  # texts still match
    assert matches([10.0], ["10.0"], [""])  # no value: the answer is read as it is
    assert not matches(["9007199254740992"], ["x"], ["9007199254740993"])
    with pytest.raises(ValueError, match="shorter"):
        Denotation(["a", "b"], ["a"])
    with pytest.raises(TypeError, match="answers must be a sequence of strings"):
        Denotation("a")


def test_decimals_close_to_a_whole_number_are_cut_as_in_the_evaluator():
    assert matches(["2.9999999"], ["2"])
    assert not matches(["2.9999999"], ["3"])
    # Sums of floating-point numbers, which are closer still, are not.
    assert matches([3 - 4e-16], ["3"])


def test_results_as_texts():
    texts = {
        **{2004.0: "2004", -0.5: "-0.5", 7: "7", "x": "x", -0.0: "0"},
        **{1e15: "1000000000000000", 2.0**53: "9007199254740992", -1e15: "-1000000000000000"},
        **{1e16: "1e+16", 1e300: "1e+300", 2**70: "1180591620717411303424"},
        **{123456789.123456: "123456789.123456", 123456789.0001: "123456789.0001"},
        **{6.626e-34: "6.626e-34", 1e-7: "1e-07", float("inf"): "inf"},
    }
    assert result_texts([*texts, None]) == tuple(texts.values())


def test_sums_that_rounding_moved_off_a_whole_number_are_written_whole():
    numbers = [3 - 4e-16, 1000.1 - 997.1, 100.7 - 97.7, 0.1 + 0.2 + 0.7, 30.3 - 0.3, 1e9 + 3e-7]
    assert any(not number.is_integer() for number in numbers)
    assert result_texts(numbers) == ("3", "3", "3", "1", "30", "1000000000")
    # What a table itself may hold stays as it is.
    assert result_texts([2.9999999, 2.9999999995]) == ("2.9999999", "2.9999999995")


@pytest.mark.parametrize(
    "cell",
    ["1234567890123456", "-9007199254740991", "1234567.123456", "123456789.0001", "0.000015"]
    + ["2.9999999", "1e-06", "987654321.25", "1e+300"],
)
def test_a_cell_becomes_the_answer_that_was_read_from_it(cell):
    assert matches([float(cell)], [cell])
    assert float(result_texts([float(cell)])[0]) == float(cell)


def test_score_divides_by_all_questions():
    target = Denotation(("a",))
    results = {"hit": ["A"], "two": ["a"], "wrong": ["b"], "failed": None, "elsewhere": ["a"]}
    targets = {id: target for id in ("hit", "two", "wrong", "failed", "missing")}
    assert wikitablequestions.score(results, targets) == {
        "accuracy": pytest.approx(100 * 2 / 5),
        "questions": 5,
        "missing": 2,
        "unknown": 1,
    }
    with pytest.raises(InputError, match="no questions to score.*found 0"):
        wikitablequestions.score(results, {})


def test_every_real_answer_matches_itself(shared_dir):
    folder, skips = shared_dir / "data/wikitablequestions", ExclusionCounts()
    questions = list(read_wikitablequestions(folder, "random-split-1-dev", skips=skips))
    assert len(questions) == 2831
    for question in questions:
        target = Denotation(question.answer_texts)
        assert target.matches(question.answer), question.id
        assert not target.matches([*question.answer, "no item of this"]), question.id
        assert not target.matches([]), question.id


def test_items_and_numbers_of_an_answer():
    target = Denotation(("5 (tied)", "12,467", "Bonn", "bonn", "July 6, 2010"))
    assert target.numbers == (5.0, 12467.0)
    cells = (["5"], [12467.0], ["bonn"], ["2010-07-06"])
    assert [[item.matches(cell) for cell in cells] for item in target.items] == [
        [i == j for j in range(4)] for i in range(4)
    ]


def test_many_marks_in_a_row_take_no_longer_than_few():
    """Two ways to read each would double the time with every one."""
    assert normalize("x" + "[1]" * 5_000 + " y") == "x" + "[1]" * 5_000 + " y"
    assert normalize("x" + "[1]" * 50 + "*#") == "x"
