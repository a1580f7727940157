"""Questions of one's own, a row each."""

import json

import pytest

from hardem_jax.data.rows import Columns, read_rows
from hardem_jax.errors import InputError

ROW = {"question": "Who?", "answer": "Ann", "text": "Ann and Bo."}


def rows(tmp_path, content, columns=None, *roles, **options):
    file = tmp_path / "my questions.txt"
    file.write_text(content, encoding="utf-8")
    return [row for _, row in read_rows(file, columns or Columns(), *roles or ("text",), **options)]


@pytest.mark.parametrize(
    "content",
    [
        "question,answer,text\nWho?,Ann,Ann and Bo.\n",
        "Question;Answer;Context\nWho?;Ann;Ann and Bo.\n",
        json.dumps(ROW) + "\n",
        json.dumps([ROW]),
        json.dumps({"data": [ROW], "version": 1}),
        json.dumps({"question": "Who?", "answers": {"text": ["Ann"]}, "passage": "Ann and Bo."}),
    ],
)
def test_one_question_in_every_layout(tmp_path, content):
    [row] = rows(tmp_path, content)
    assert row["question"] == "Who?" and row["answers"] == ["Ann"] and row["text"] == "Ann and Bo."
    assert row["id"] == "my questions-0"


def test_columns_of_any_name_numbers_and_several_answers(tmp_path):
    columns = Columns(id="nr", question="q", answer="a", text="p")
    found = rows(tmp_path, "nr,q,a,p\n7,Who?,Ann| |Bo,x\n,How many?,3,\n", columns)
    assert [row["id"] for row in found] == ["7", "my questions-1"]
    assert [row["answers"] for row in found] == [["Ann", "Bo"], ["3"]] and found[1]["text"] == ""
    lines = [{**ROW, "answer": answer} for answer in (3, 2.5, ["Ann|Bo", 4], None)]
    found = rows(tmp_path, "\n".join(map(json.dumps, lines)))
    assert [row["answers"] for row in found] == [["3"], ["2.5"], ["Ann|Bo", "4"], []]
    numbers = "3.0, -0.0, 1234567890123456.0, 1234567890123457.0, 1e300, 0.30000000000000004"
    [row] = rows(tmp_path, json.dumps(ROW).replace('"Ann"', f"[{numbers}]"))
    assert row["answers"] == ["3", "0", "1234567890123456", "1234567890123457", "1e+300", "0.3"]
    [row] = rows(tmp_path, "question,text\nWho?,Ann.\n", with_answers=False)
    assert row["answers"] == []
    [row] = rows(tmp_path, json.dumps({**ROW, "answer": {"start": 3}}), with_answers=False)
    assert row["answers"] == []  # whatever is there


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ("question,text\nWho?,Ann.\n", Columns(), "line 2: expected a column 'answer' or 'answ"),
        ("q,answer,text\nWho?,Ann,x\n", Columns(), "(--columns.question names another), found 'q'"),
        ("question,answer,text\nW,A,x\n", Columns(id="nr"), "expected a column 'nr'"),
        ("question,question\n1,2\n", Columns(), "found 'question' twice"),
        (json.dumps({**ROW, "text": ["x"]}), Columns(), "to be a text, found a list"),
        (json.dumps({**ROW, "answer": True}), Columns(), "to be a text, found true or false"),
        (json.dumps({"mine": [ROW]}, indent=1), Columns(), "'data', found a list under 'mine'"),
        (json.dumps(ROW, indent=1), Columns(), "object on each line, a list, or a list under 'da"),
        (f'[{{"id": {2**64}}}]', Columns(), "; write integers beyond 64 bits as texts"),
        ('[{"id": NaN}]', Columns(), "; write null for NaN"),
        ("[1]", Columns(), "item 1: expected an object, found an integer"),
        ("", Columns(), "found an empty file"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path, content, columns, said):
    with pytest.raises(InputError) as error:
        rows(tmp_path, content, columns)
    assert said in str(error.value) and "my questions.txt" in str(error.value)
