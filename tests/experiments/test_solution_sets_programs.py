"""SQUALL's annotations: parsed, translated, looked for in Z; and the command on a few questions."""

import gzip
import json

import pytest

from experiments.solution_sets.programs import check_solutions, main
from experiments.solution_sets.squall.forms import Condition, NotExpressible, forms_of
from experiments.solution_sets.squall.search import (
    LEFT_OUT,
    NO_PROGRAM,
    NO_READING,
    NOT_LINKED,
    OTHER_RESULT,
    Annotation,
    judge,
)
from experiments.solution_sets.squall.sql import (
    Apply,
    Column,
    Select,
    SqlError,
    parse_squall,
    read_squall,
)
from hardem_jax.data.examples import TableQuestion
from hardem_jax.errors import InputError
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.solutions.programs.enumeration import enumerate_programs
from hardem_jax.solutions.programs.rules import ProgramRules
from hardem_jax.solutions.programs.types import PARTS
from hardem_jax.solutions.sql.types import Table

ROW = Column(-1)


def test_sql_is_parsed():
    assert parse_squall(
        "select count ( * ) from w where c2_first = 'it\\'s' and id <= 3"
    ) == Select(
        (Apply("count", ("*",)),),
        Apply("and", (Apply("=", (Column(1, "first"), "it's")), Apply("<=", (ROW, 3)))),
    )
    found = parse_squall(
        "select c1 from w where c2 in ( 1 , 2.5 ) group by c1 having count(c1) > 2"
    )
    assert found == Select(
        (Column(0),),
        Apply("in", (Column(1), 1, 2.5)),
        group=Column(0),
        having=Apply(">", (Apply("count", (Column(0),)), 2)),
    )
    one, two = Select((Column(0),)), Select((Column(1),), order=ROW, descending=True, limit=1)
    sql = "select abs ( ( select c1 from w ) - ( select c2 from w order by id desc limit 1 ) ) * 2"
    assert parse_squall(sql) == Apply("*", (Apply("abs", (Apply("-", (one, two)),)), 2))
    nulls = parse_squall("select c1 from w where c2 not null or c3 is null")
    assert nulls.where == Apply(
        "or", (Apply("not null", (Column(1),)), Apply("is null", (Column(2),)))
    )
    assert parse_squall('select c1 from w where c1 != "o\'neil" and 1 < 2 and c2 = 1').where.name


@pytest.mark.parametrize(
    "sql",
    ["select c1 from w where", "select c1 from w limit 'a'", "select c1 from w ;",
     "select ( c1 from w", "select c1 from w w w", "", "c1 between 1"],
)  # fmt: skip
def test_what_is_not_sql_is_refused(sql):
    with pytest.raises(SqlError):
        parse_squall(sql)


def test_every_annotation_is_parsed_and_most_have_a_form(shared_dir):
    annotations = dict(read_squall(shared_dir / "data/squall/annotations.jsonl.gz"))
    assert len(annotations) == 11_276
    missing = 0
    for sql in annotations.values():
        query = parse_squall(sql)
        try:
            assert forms_of(query)
        except NotExpressible:
            missing += 1
    print(missing)
    assert missing < 0.08 * len(annotations)


@pytest.mark.parametrize("content", [b"{}", b"[1]", b'{"id": 1}', b"no"])
def test_damaged_annotations_are_refused(tmp_path, content):
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"id": "nt-0", "sql": "select"}\n' + content))
    with pytest.raises(InputError, match="line 2: expected a JSON object with id and sql"):
        list(read_squall(file))
    file.write_bytes(content)
    with pytest.raises(InputError, match="a.jsonl.gz"):
        list(read_squall(file))


IS = "select {} from w where c2 = 'a'"
SIZE_OF = "( select c3 from w where c1 = '{}' )"
FORMS = [
    ("select c1 from w where c2 = 'a'", "values none one"),
    ("select count ( * ) from w where c2 = 'a' and c3 = 5", "count none and"),
    ("select c1 from w where 5 < c3", "values none one"),
    ("select c1 from w where c3 between 1 and 5", "values none and"),
    ("select c1 from w where c2 in ( 'a' , 'b' ) order by c3 desc limit 1", "values highest or"),
    ("select c1 from w where c2 = 'a' or c2 = 'b'", "values none or"),
    ("select max ( c3 ) from w", "values highest all"),
    ("select max ( c3 ) - min ( c3 ) from w", "range none all"),
    ("select ( select max ( c3 ) from w ) - ( select min ( c3 ) from w )", "range none all"),
    ("select c1 from w where c3 = ( select min ( c3 ) from w )", "values lowest all"),
    ("select c1 from w order by id desc limit 1", "values last all"),
    ("select c1 from w where c2 = 'a' limit 1", "values first one"),
    ("select c1 from w where id = 1", "values none one, values first all"),
    ("select c1 from w where id = ( select id from w where c2 = 'a' ) - 1", "values previous one"),
    ("select c1 from w where c3 = ( select c3 from w where c2 = 'a' ) + 1",
     "values next higher one"),
    ("select c1 from w where c3 = 4 - 1", "values next lower one"),
    ("select c1 from w where c2 != 'a' and c3 = ( select c3 from w where c2 = 'a' )",
     "values same one"),
    ("select c1 from w where c3 < ( select c3 from w where c2 = 'a' ) order by c3 desc limit 1",
     "values next lower one"),
    ("select count ( c1 ) from w where c3 > ( select c3 from w where c2 = 'a' ) and c4 = 1",
     "count higher to"),
    ("select c1 from w group by c1 order by count ( * ) limit 1", "least common none all"),
    ("select c1 from w group by c1 having count ( c1 ) > 1", "repeated none all"),
    ("select count ( distinct c1 ) from w where c2 is null", "count distinct none one"),
    ("select abs ( c3 - c4 ) from w where c2 = 'a'", "gap none one"),
    ("select c3 + c4 from w where c2 = 'a'", "total none one"),
    (f"select ( {IS.format('c3')} ) - ( {IS.format('c3')} )", "difference none versus"),
    (f"select ( {IS.format('count ( * )')} ) - ( {IS.format('count ( * )')} )",
     "count difference none versus"),
    (f"select ( {IS.format('c3')} ) + ( {IS.format('c3')} )", "sum none or"),
    (f"select ( {IS.format('c3')} ) < ( {IS.format('c3')} )", "is higher none versus"),
    (f"select ( {IS.format('count ( c3 )')} ) > ( {IS.format('count ( c3 )')} )",
     "is more none versus"),
    (f"select ( {IS.format('c3')} ) = ( {IS.format('c3')} )", "is same none versus"),
    (f"select ( {IS.format('c3')} ) > 5", "is within none versus"),
    ("select c1 from w where c2_year = 2010 and c2_month = 5", "values none and, values none one"),
    ("select c1 from w where c2_year = 2010 and c2_month = 5 and c3 = 1", "values none and"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "shapes"), FORMS)
def test_sql_has_the_shape_that_means_it(sql, shapes):
    assert ", ".join(" ".join(form.shape) for form in forms_of(parse_squall(sql))) == shapes


def test_forms_keep_columns_and_values():
    sql = "select c1 from w where c4 = 2 and c3_year < ( select c3_year from w where c2 = 'a' )"
    (form,) = forms_of(parse_squall(sql))
    assert (form.select, form.modify) == (Column(0), Column(2, "year"))
    assert form.conditions == (Condition(Column(1), "=", "a"), Condition(Column(3), "=", 2))
    turned = f"select ( {IS.format('c3')} ) < ( select c3 from w where c4 > 1 )"
    (form,) = forms_of(parse_squall(turned))  # a < b is b > a
    assert form.conditions == (Condition(Column(3), ">", 1), Condition(Column(1), "=", "a"))
    (form,) = forms_of(parse_squall("select c1 from w where c2_month = 5 and c2_day = 3"))[1:]
    assert form.conditions == (Condition(Column(1, "date"), "=", (None, 5, 3)),)
    (form,) = forms_of(parse_squall(f"select 5 > ( {IS.format('c3_number')} )"))
    assert form.conditions[1] == Condition(Column(2, "number"), "<", 5)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select c1 from w where c2 in ( 'a' , 'b' , 'c' )", "three or more values"),
        ("select c1 from w where c2 = 1 and c3 = 2 and c4 = 3", "three conditions"),
        ("select c1 , c2 from w", "two selected columns"),
        ("select c1 from w where c2 = c3", "comparison of two columns"),
        ("select c1 from w order by c2 - c3 limit 1", "ordered by arithmetic"),
        ("select c1 from w order by c2 limit 3", "first n rows"),
        ("select c1 from w where c2 = 1 or c3 = 2", "not of two values of one column"),
        ("select c1 from w group by c1 having count ( * ) >= 3", "n not 2"),
        ("select c1 from w where c3 < present_ref", "present_ref"),
        ("select max ( c1 ) from w where c2 > ( select c2 from w where c1 = 'a' )", "no shape max"),
        ("select c1 from w where c2 = 1 intersect select c1 from w where c2 = 2", "intersect"),
    ],
)
def test_what_has_no_shape_says_why(sql, why):
    with pytest.raises(NotExpressible, match=why):
        forms_of(parse_squall(sql))


TABLE = Table(
    "1",
    ("city", "country", "size", "founded", "rank"),
    ("text", "text", "real", "text", "real"),
    (
        ("Oslo (capital)", "Norway", 7.0, "may 3, 1048", 1.0),
        ("Bergen", "Norway", 3.0, "1070", 2.0),
        ("Bonn", "Germany", 3.0, "june 5, 1990", 3.0),
        ("Rome", "Italy", 9.0, "1871", 3.0),
        ("Total", "", 22.0, "", None),
    ),
)


def verdict(sql, question, answer, **rules):
    target = Denotation((answer,))
    found = enumerate_programs(TABLE, question, target, ProgramRules(**rules))
    verdict = judge(sql, question, TABLE, target, found.programs, found.links)
    # Z holds the annotated program if one of its programs is the annotated one.
    annotation = Annotation(sql, TABLE, found.links)
    alone = [annotation.is_in(found.programs[[z]]) for z in range(len(found.programs))]
    assert annotation.is_in(found.programs) == any(alone) == verdict.found
    assert not any(alone) or not all(alone) or len(alone) == 1
    assert not annotation.is_in(found.programs[:0])
    return verdict


@pytest.mark.parametrize(
    ("sql", "question", "answer"),
    [
        # Another part than SQUALL's, text within a cell, and a condition on words.
        ("select c3_number from w where c1 = 'oslo'", "size of oslo?", "7"),
        ("select c1 from w where c4_year = 1871", "which was founded in 1871?", "Rome"),
        ("select c1 from w where c4_year = 1990 and c4_month = 6", "which in june 1990?", "Bonn"),
        ("select c1 from w where c3 = '9 km'", "which has 9 km?", "Rome"),
        # Total rows are no rows.
        ("select c1 from w order by c3_number desc limit 1", "the largest?", "Rome"),
        ("select count ( c1 ) from w", "how many?", "4"),
        # What changes nothing is not in Z.
        ("select c3 from w where c1 = 'rome' order by c3 desc limit 1", "most in rome?", "9"),
        ("select sum ( c3 ) from w where c2 = 'italy'", "how much in italy?", "9"),
        ("select c1 from w where c2 = 'norway' and c3_number = 3", "in norway with 3?", "Bergen"),
        ("select c1 from w where c2 = 'italy' and c3 > 1", "in italy, more than 1?", "Rome"),
        ("select count ( distinct c1 ) from w where c2 = 'norway'", "how many in norway?", "2"),
        # Links in either order, and words of the question as answer.
        (f"select abs ( {SIZE_OF.format('rome')} - {SIZE_OF.format('bonn')} )",
         "between bonn and rome", "6"),
        (f"select {SIZE_OF.format('rome')} > 5", "is rome more or less than 5?", "more"),
        ("select c1 from w where id = ( select id from w where c1 = 'bonn' ) + 1",
         "after bonn?", "Rome"),
    ],
)  # fmt: skip
def test_annotations_in_z(sql, question, answer):
    found = verdict(sql, question, answer)
    assert found.found, found


@pytest.mark.parametrize(
    ("sql", "question", "answer", "reason", "detail"),
    [
        ("select c1 , c2 from w", "all?", "1", NO_PROGRAM, "two selected columns"),
        ("select c1 from", "all?", "1", NO_PROGRAM, "expected an expression, found ''"),
        ("select c9 from w", "all?", "1", NO_PROGRAM, "a column that the table does not have"),
        ("select c2 from w where c1 = 'paris'", "country of paris?", "x", NO_READING, "a text"),
        ("select c1 from w where c5 = 1", "the top city?", "Oslo (capital)",
         NOT_LINKED, "a number, which is not said"),
        ("select c1 from w where c2 = 'italy'", "a city in i.?", "Rome",
         NOT_LINKED, "a text, which is not said"),
        ("select c1 from w where id <= 1", "the top?", "Oslo (capital)",
         NOT_LINKED, "a row number, which is not said"),
        ("select c3 from w where c1 = 'rome'", "size of rome?", "5",
         OTHER_RESULT, "values, none, one"),
        # Another link to the same column has the answer.
        ("select count ( * ) from w where c2 = 'germany'", "norway or germany?", "2",
         OTHER_RESULT, "count, none, one"),
    ],
)  # fmt: skip
def test_why_annotations_are_not_in_z(sql, question, answer, reason, detail):
    found = verdict(sql, question, answer)
    assert (found.reason, found.detail) == (reason, detail)


def test_another_column_is_another_program():
    sql, question, target = (
        "select c5 from w where c1 = 'bonn'",
        "what of bonn?",
        Denotation(("3",)),
    )
    found = enumerate_programs(TABLE, question, target)
    of_column = found.programs[:, 1] // len(PARTS)
    for column, reason in ((4, LEFT_OUT), (2, "in Z")):
        kept = found.programs[of_column != column]
        assert len(kept) < len(found.programs)
        assert judge(sql, question, TABLE, target, kept, found.links).reason == reason


def test_rules_leave_annotations_out():
    sql, question = "select c1 from w order by c3_number desc limit 1", "the largest?"
    assert verdict(sql, question, "Rome").found
    assert verdict(sql, question, "Rome", superlatives=False).reason == LEFT_OUT


def test_the_command_on_a_few_questions(shared_dir, tmp_path, capsys):
    folder, squall = shared_dir / "data/wikitablequestions", shared_dir / "data/squall"
    out = tmp_path / "out.json"
    flags = f"--folder {folder} --squall {squall / 'annotations.jsonl.gz'} --limit 12 --variants"
    main([*flags.split(), "--random", "400", "--check", "50", "--out", str(out)])
    printed = capsys.readouterr().out
    assert printed.count("200 random programs on ") == 2 and "Why annotated programs" in printed
    content = json.loads(out.read_text(encoding="utf-8"))
    base, *variants = content["rows"]
    assert base["questions"] == 12 and 0.7 < base["covered"] <= 1
    assert base["annotated"] > 5 and base["annotated_in_z"] > 0.6 * base["annotated"]
    assert sum(entry["number"] for entry in base["reasons"]) == (
        base["annotated"] - base["annotated_in_z"]
    )
    assert len(variants) == 17 and {row["covered"] for row in variants} != {base["covered"]}
    assert content["checked"]["wrong"] == 0 and content["checked"]["solutions"] >= 50
    for found in content["executors"].values():
        assert found["programs"] == 200
        assert found["different"] == found["sqlite"] == found["rows"] == 0, found["examples"]


@pytest.mark.parametrize(
    "left, right",
    [
        ("select c2_number from w where c1 = 'y' order by id desc limit 1", "where c1 = 'x'"),
        ("select c2_number from w order by id limit 1", "where c1 = 'x'"),
        ("select c2_number from w where c1 = 'x'", "where c1 = 'y' and c3 = 'z'"),
    ],
)
def test_a_sum_keeps_no_condition_back(left, right):
    sql = f"select ( {left} ) + ( select c2_number from w {right} )"
    with pytest.raises(NotExpressible, match="sum of rows that are not given by one"):
        forms_of(parse_squall(sql))


def test_no_split_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--folder", str(tmp_path), "--splits"])
    assert stopped.value.code == 2
    assert "splits: expected at least one, found none" in capsys.readouterr().err


def test_checking_ends_without_a_solution():
    table = Table("t", ("a",), ("text",), (("x",),))
    question = TableQuestion("q", "what is it?", table, ("nothing",), "denotation")
    found = check_solutions([question], ProgramRules(), 10, 0)
    assert found == {"solutions": 0, "wrong": 0}


def test_bytes_that_are_damaged_are_one_line(tmp_path):
    whole = gzip.compress(json.dumps({"id": "nt-0", "sql": "select c1 from w"}).encode())
    for place in range(10, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        (tmp_path / "a.gz").write_bytes(damaged)
        with pytest.raises(InputError):
            list(read_squall(tmp_path / "a.gz"))
    for record in ({"id": "nt-2", "sql": 5}, {"id": None, "sql": "select"}):
        (tmp_path / "a.gz").write_bytes(gzip.compress(json.dumps(record).encode()))
        with pytest.raises(InputError, match="id and sql"):
            list(read_squall(tmp_path / "a.gz"))
