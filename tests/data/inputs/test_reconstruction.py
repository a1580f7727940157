"""Queries and questions as texts: what is copied, what counts, and that nothing else differs."""

import numpy as np
import pytest

from hardem_jax.data.examples import TableQuestion
from hardem_jax.data.inputs.reconstruction import MAX_TOKENS, Explain, Vocabulary, texts
from hardem_jax.data.solve import query_question
from hardem_jax.errors import InputError
from hardem_jax.solutions.sql.enumeration import Condition, Query, SqlRules, Table

TABLE = Table(
    "1-1",
    ("player", "shirt no.", "the club"),
    ("text", "real", "text"),
    (("ann", 7.0, "the blues"), ("bo", 9.0, "reds"), ("cy", 9.0, "the blues")),
)
WORDS = ("the", "who", "of", "?", "has", "shirt", "is", ".", "no")


def asked(text="Who of the Blues has shirt 7?", answer=("ann",), table=TABLE):
    return query_question(TableQuestion("q", text, table, answer), SqlRules())


def row_of(question, query):
    words = question.words
    for row in question.queries:
        if Query.from_row(row, question.question, words) == query:
            return row[None]
    raise AssertionError(f"{query} is not in Z")


def made(query, question=None, explain: Explain = "context", common=1, seed=0, slots=8):
    question = question or asked()
    vocabulary = Vocabulary(WORDS, slots=slots, common=common)
    found = texts(
        question,
        row_of(question, query),
        TABLE,
        vocabulary,
        np.random.default_rng(seed),
        explain=explain,
    )
    counted = found.tokens[0][found.explained[0]]
    return vocabulary.tokens(found.tokens[0]), vocabulary.tokens(counted)


BLUES = Condition(2, 0, "the Blues")
SEVEN = Condition(1, 0, "7")


def test_shared_words_are_the_same_slot_on_both_sides():
    text, _ = made(Query(0, 0, (SEVEN, BLUES)))
    prompt, question = text[: text.index("[question]")], text[text.index("[question]") + 1 :]
    # "the" is common, but in a value here; "club" and "blues" are in no vocabulary.
    assert (
        question[:2] == ["who", "of"] and question[4] == "has" and question[-2:] == ["?", "[end]"]
    )
    the, blues, shirt, seven = question[2], question[3], question[5], question[6]
    slots = {f"<{n}>" for n in range(8)}
    assert len({the, blues, shirt, seven}) == 4 and {the, blues, shirt, seven} <= slots
    shirt_no, club = ["[real]", shirt, "no", "."], ["[text]", the, "[unknown]"]
    assert prompt == [
        *("[select]", "[cell]", "[text]", "[unknown]"),
        *("[where]", *shirt_no, "[=]", seven),
        *("[and]", *club, "[=]", the, blues),
    ]
    # The next draw has others, on both sides.
    again, _ = made(Query(0, 0, (SEVEN, BLUES)), seed=1)
    assert [a != b for a, b in zip(text, again, strict=True)] == [t in slots for t in text]


def test_words_of_values_count_only_where_the_whole_question_is_explained():
    for query in (Query(0, 0, (SEVEN,)), Query(0, 0, (SEVEN, BLUES))):
        _, counted = made(query)
        # All of Z explain the same words: "the Blues" is a value of some query, if not of this one.
        assert len(counted) == 6 and counted[:3] == ["who", "of", "has"]
        text, counted = made(query, explain="question")
        assert counted == text[text.index("[question]") + 1 :] and len(counted) == 9


def test_common_words_stay_words_unless_they_are_values():
    question = asked("Who has the no. 7?")
    text, _ = made(Query(0, 0, (SEVEN,)), question, common=len(WORDS))
    assert text[text.index("[question]") + 1 :][:5] == ["who", "has", "the", "no", "."]
    text, _ = made(Query(0, 0, (SEVEN,)), question, common=0)
    assert text[text.index("[question]") + 1 :][:2] == ["who", "has"]
    assert all(token[0] == "<" for token in text[text.index("[question]") + 3 :][:3])


def test_words_beyond_the_slots_stay_words():
    text, _ = made(Query(0, 0, (SEVEN, BLUES)), slots=1)
    words = text[text.index("[question]") + 1 :]
    assert words == ["who", "of", "<0>", "[unknown]", "has", "shirt", "[unknown]", "?", "[end]"]


def test_the_same_text_stands_alone_and_among_others():
    question = asked()
    vocabulary = Vocabulary(WORDS)
    assert len(question.queries) > 1
    every = texts(question, question.queries, TABLE, vocabulary, np.random.default_rng(0))
    lengths = set()
    for place in range(len(question.queries)):
        row = question.queries[place : place + 1]
        one = texts(question, row, TABLE, vocabulary, np.random.default_rng(0))
        length = one.tokens.shape[1]
        assert one.where.all() and every.where[place].sum() == length
        np.testing.assert_array_equal(every.tokens[place, :length], one.tokens[0])
        np.testing.assert_array_equal(every.explained[place, :length], one.explained[0])
        lengths.add(length)
    assert len(lengths) > 1 and max(lengths) == every.tokens.shape[1]


def test_the_longest_text_fits():
    name = " ".join(map(str, range(20)))
    value = " ".join(f"w{n}" for n in range(20))
    table = Table("1-1", (name,) * 4, ("text",) * 4, ((value, value, value, "yes"),) * 2)
    question = query_question(
        TableQuestion("q", f"{value} {name} {name}", table, ("yes",) * 2), SqlRules()
    )
    found = texts(question, question.queries, table, Vocabulary(()), np.random.default_rng(0))
    assert found.tokens.shape[1] == MAX_TOKENS


def test_a_vocabulary_has_what_occurs_often_enough():
    questions = [asked(), asked("Who is in the reds?", ("bo",))]
    vocabulary = Vocabulary.of(questions, {"1-1": TABLE}, min_count=4, slots=3)
    # "the" in two questions and twice in the names of columns; "?" and "who" in two questions.
    assert vocabulary.words == ("the",) and vocabulary.id("who") == vocabulary.id("[unknown]")
    assert Vocabulary.of(questions, {"1-1": TABLE}, min_count=2).words[0] == "the"
    ids = [vocabulary.slot(n) for n in range(3)]
    assert vocabulary.tokens(ids) == ["<0>", "<1>", "<2>"]
    assert vocabulary.id("the") == len(vocabulary) - 1


def test_no_queries_are_refused():
    question = asked()
    with pytest.raises(InputError, match="question q: expected queries"):
        texts(question, question.queries[:0], TABLE, Vocabulary(()), np.random.default_rng(0))
