"""The inspector's file: what is in it, that data stay data, and what a browser makes of it."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path

import pytest

from experiments import drop, squad_layout, wikisql, wikitablequestions
from experiments.inspect.page import page, record
from experiments.inspect.sources import RunViews, Said
from hardem_jax.show.record import View
from tests.commands import call
from tests.data.builders.inputs import write_wikitablequestions
from tests.inspector import block, inspect, opened, refused, written
from tests.tiny import drop_answer, write_checkpoint, write_drop

HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>&amp;'\""
HOSTILE += "\u202egnol\u202c \x00\x07"  # turned around, and control characters


@pytest.fixture(scope="module")
def spans(tmp_path_factory):
    """A prepared split: a hostile document, one of astral characters, one of two windows."""
    root = tmp_path_factory.mktemp("spans")
    bert = write_checkpoint(root / "bert")
    texts = [
        ("q0", f"Who lives in Rome? {HOSTILE}", f"Ada met Bo. {HOSTILE} Ada lives in Rome."),
        (
            "q1",
            "Who lives in Lima?",
            "\U0001d504\U0001f600 saw Ada, and \U0001f600 Ada lives in Lima.",
        ),
        ("q2", "Who lives in Oslo?", "Ada lives in Oslo. " + "Bo met Cyd . " * 12 + "Ada saw Bo."),
    ]
    paragraphs = []
    for id, question, text in texts:
        answer = {"text": "Ada", "answer_start": text.index("Ada")}
        asked = {"id": id, "question": question, "answers": [answer]}
        paragraphs.append({"context": text, "qas": [asked]})
    file = root / "squad.json"
    file.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    call(
        *(squad_layout, "prepare", "--file", file, "--out", root / "dev", "--split", "dev"),
        *("--tokenizer", bert, "--windows.max-tokens", 40, "--windows.stride", 10),
        *("--windows.max-question-tokens", 12),
    )
    return root / "dev"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A build of questions on a table with a hostile header and a hostile cell."""
    root = tmp_path_factory.mktemp("tables")
    (root / "raw").mkdir()
    table = {
        "id": "t",
        "header": ["Player", f"No. {HOSTILE}", "Goals"],
        "types": ["text", "real", "real"],
        "rows": [["ann", 7, 3], ["bo", 8, 1], [f"cy {HOSTILE}", 9, 4]],
    }
    asked = {"t0": (f"Who wears 8 {HOSTILE}?", ["bo"]), "t1": ("How many goals has ann?", [3])}
    asked |= {"t2": ("Who wears 8?", ["bo"])}
    lines = [{"table": table}]
    lines += [
        {"id": id, "question": question, "table_id": "t", "answer": answer, "match": "execution"}
        for id, (question, answer) in asked.items()
    ]
    (root / "raw" / "dev.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    call(wikisql, "prepare", "--layout", "jsonl", "--folder", root / "raw", "--out", root / "built")
    return root / "built"


@pytest.fixture(scope="module")
def passages(tmp_path_factory):
    """A build of questions on numbers, the first passage a hostile one."""
    root = tmp_path_factory.mktemp("passages")
    write_drop(root / "drop_dataset_dev.json")
    file = root / "drop_dataset_dev.json"
    content = json.loads(file.read_text())
    asked = {"query_id": "h", "question": f"How many more? {HOSTILE}", "answer": drop_answer("3")}
    passage = f"Ada ran 41 yards. {HOSTILE} Bo ran 38 yards."
    file.write_text(json.dumps({"g": {"passage": passage, "qa_pairs": [asked]}, **content}))
    call(drop, "prepare", "--folder", root, "--out", root / "built", "--splits", "dev")
    return root / "built"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A build for programs, of a training split that leaves out four questions."""
    root = tmp_path_factory.mktemp("programs")
    write_wikitablequestions(root)
    with open(root / "csv" / "sizes.csv", "w", encoding="utf-8", newline="") as file:
        rows = [["Who", f"Size {HOSTILE}"], ["Ann", "3"], ["Bo", "7"], [f"Cy {HOSTILE}", "9"]]
        csv.writer(file).writerows(rows)
    asked = {
        "h0": (f"How large is Cy {HOSTILE}?", "9"),
        "h1": ("Who comes after Ann?", "Bo"),
        "h2": (f"Who is blue {HOSTILE}?", "zebra"),
        "h3": ("Who is green?", "zebra"),
        "h4": (" ", "Ann"),
        "h5": ("Who is there?", ""),
    }
    lines = [f"{id}\t{question}\tcsv/sizes.csv\t{y}\n" for id, (question, y) in asked.items()]
    with open(root / "data" / "random-split-1-train.tsv", "a", encoding="utf-8") as file:
        file.writelines(lines)
    call(wikitablequestions, "prepare", "--folder", root, "--out", root / "built")
    return root / "built"


def lines(source, index):
    """Z as a view has it."""
    return [entry.line for entry in source.record(index).solutions]


def views(source, steps, *, correct=None):
    """What a run might say: the first solution gains, step by step."""
    said = {}
    for place, step in enumerate(steps):
        said[step] = {}
        for index, question in enumerate(source.questions):
            texts = lines(source, index)
            chances = [0.1 + 0.2 * place, *[0.05] * (len(texts) - 1)][: len(texts)]
            view = View(question.id, question.question, "a", texts, chances, -1, "p", 0.5, 0)
            said[step][index] = Said(view)
            if step == steps[-1] and correct is not None:
                said[step][index] = Said(view, "answer", correct[index])
    return RunViews("MML", Path("runs/mml-0"), dict.fromkeys(steps, "") | {steps[-1]: "last"}, said)


def written_views(spans, correct=(True, True, False), steps=(30,)):
    """A page of two runs, the second of which answers these questions correctly."""
    source = opened(spans)
    one = views(source, steps, correct=[True, False, True])
    two = dataclasses.replace(views(source, [30], correct=correct), name="Hard EM")
    return page(record(source, [one, two], most=100))


@pytest.mark.parametrize("kind", ["spans", "tables", "passages", "programs"])
def test_data_stay_data(kind, request, tmp_path, show):
    split = ("--split", "train") if kind == "programs" else ()
    html = written(request.getfixturevalue(kind), tmp_path, *split)
    assert "<img" not in html and "hacked=1<" not in html and "</script><script>hacked" not in html
    data = re.findall(r'<script type="(?:application/json|text/html)"[^>]*>(.*?)</script>', html)
    assert len(data) > 5 and all(one.isascii() and one.isprintable() for one in data)
    tab = show(html)
    assert tab.evaluate("typeof hacked") == "undefined"
    assert tab.locator("img, #question script").count() == 0
    shown = tab.locator("body").inner_text()
    assert "onerror=hacked=1>&amp;'\"" in shown and "\u2400\u2407" in shown  # pictures of controls
    # What turns the direction of letters ends with the text that holds it.
    assert tab.evaluate("getComputedStyle(document.querySelector('h2')).unicodeBidi") == "isolate"


def test_marks_are_where_the_solutions_are(spans, passages, tables, tmp_path, show):
    tab = show(written(spans, tmp_path), "#q=1")
    assert tab.locator("#question mark").all_inner_texts() == ["Ada", "Ada"]  # astral ones count 1
    text = "\U0001d504\U0001f600 saw Ada, and \U0001f600 Ada lives in Lima."
    assert tab.locator(".text").inner_text() == text
    tab = show(written(passages, tmp_path, "--force"), "#q=1")
    assert tab.locator("#question mark").all_inner_texts() == ["40", "31"]
    assert "40 - 31" in tab.locator(".list code").all_inner_texts()
    tab = show(written(tables, tmp_path, "--force"), "#q=2")
    assert tab.locator("td.used").all_inner_texts() == ["bo"]
    assert tab.locator("#question mark").all_inner_texts() == ["8"]
    tab.locator(".list tbody tr").first.click()
    assert tab.locator("td.used.hot").count() == 1


def test_questions_left_out_are_listed(programs, tmp_path, show):
    html = written(programs, tmp_path, "--split", "train")
    about = block(html, "about")
    reasons = {"empty question": 1, "no answer given": 1, "no program gives the answer": 2}
    assert about["leftOut"] == [[reason, count, True] for reason, count in reasons.items()]
    tab = show(html)
    count, counted = tab.locator("#rows .row").count, tab.locator("#counted").inner_text
    assert counted() == f"{len(block(html, 'all'))} questions, 4 left out of the split"
    tab.select_option("#which", label="left out")
    assert count() == 4 and counted() == "4 questions left out of the split"
    tab.select_option("#which", label="left out: no program gives the answer (2)")
    assert counted() == "2 of 4 questions left out of the split"
    assert HOSTILE[:9] in tab.locator("h2").inner_text()  # the first of them is open
    assert "no program gives the answer" in tab.locator(".facts").inner_text()
    tab.keyboard.press("j")
    assert tab.locator("h2").inner_text() == "Who is green?"
    where = tab.url[tab.url.index("#") :]
    assert show(html, where).locator("h2").inner_text() == "Who is green?"  # found again
    tab.fill("#search", "blue")
    assert count() == 1
    tab.fill("#search", "")
    tab.select_option("#which", "")
    assert count() == len(block(html, "all")) and tab.locator(".list").count() == 1
    few = written(programs, tmp_path, "--split", "train", "--force", "--count", 1)
    assert len(block(few, "left")) == 1
    tab = show(few)
    tab.select_option("#which", "*")
    said = "1 of 4 questions left out of the split; the first 1 are in this file (--count)"
    assert tab.locator("#counted").inner_text() == said


def test_steps_keys_filters_and_comparison(spans, show):
    tab = show(written_views(spans, [False, False, True], steps=(10, 20, 30)))
    source, count = opened(spans), tab.locator("#rows .row").count
    assert count() == 3 and tab.locator(".runs section").count() == 2
    assert "step 30" in tab.locator("output").inner_text()
    shade = "Number(document.querySelector('#question mark').style.getPropertyValue('--p'))"
    assert tab.evaluate(shade) == pytest.approx(0.5)
    tab.keyboard.press("ArrowLeft")
    assert "step 20, 2 of 3" in tab.locator("output").inner_text()
    assert tab.evaluate(shade) == pytest.approx(0.3)
    tab.keyboard.press("s")  # of 0.3 + 0.05
    assert tab.evaluate(shade) == pytest.approx(0.3 / 0.35, abs=1e-3)
    tab.keyboard.press("j")
    assert "Lima" in tab.locator("h2").inner_text()
    assert "step=20" in tab.url and "q=1" in tab.url
    for choice, expected in {"right": 2, "wrong": 1, "one": 1, "first": 1, "second": 0}.items():
        tab.select_option("#outcome", choice)
        assert count() == expected, choice
    tab.select_option("#outcome", "")
    tab.select_option("#run", "1")
    tab.select_option("#outcome", "right")
    assert count() == 1  # of the other objective
    tab.select_option("#outcome", "")
    tab.keyboard.press("Escape")
    tab.keyboard.press("/")
    tab.keyboard.type("oslo")
    assert count() == 1
    tab.fill("#search", "")
    tab.fill("#most", "1")
    sizes = [len(lines(source, i)) for i in range(3)]
    assert count() == sum(size <= 1 for size in sizes)


def test_two_runs_change_places(spans, show):
    html = written_views(spans, [False, False, True])
    tab = show(html)
    heads = tab.locator(".runs section b").all_inner_texts
    assert heads() == ["MML", "Hard EM"]
    tab.select_option("#outcome", "first")
    assert tab.locator("#rows .row").count() == 1
    tab.keyboard.press("Escape")
    tab.keyboard.press("o")
    assert tab.locator("#rows .row").count() == 0  # no answer of hard EM alone is right
    tab.select_option("#outcome", "")
    assert heads() == ["Hard EM", "MML"]
    tab.select_option("#other", "")
    assert heads() == ["Hard EM"] and tab.locator("#outcome").input_value() == ""
    assert tab.locator("#outcome option[disabled]").count() == 3
    tab.select_option("#other", "1")  # itself
    assert tab.locator("#other").input_value() == ""
    assert show(html, "#run=1&other=1").locator("#other").input_value() == ""


def test_the_keyboard_keeps_its_place(spans, show):
    run = views(source := opened(spans), [10, 20, 30], correct=[True, False, True])
    tab = show(page(record(source, [run], most=100)))
    focus = "document.activeElement.dataset.focus"
    assert tab.locator("[data-focus=after]").is_disabled()
    tab.locator("[data-focus=before]").focus()
    tab.keyboard.press("Enter")
    assert "step 20" in tab.locator("output").inner_text() and tab.evaluate(focus) == "before"
    tab.keyboard.press("Enter")
    assert "step 10" in tab.locator("output").inner_text() and tab.evaluate(focus) == "step"
    tab.locator(".list tbody tr").first.focus()
    tab.keyboard.press("Enter")
    tab.evaluate("document.querySelector('#question').style.height = '60px'")
    scroll = "document.querySelector('#question').scrollTop"
    tab.evaluate(f"{scroll} = 40")
    tab.keyboard.press("s")
    assert tab.locator(".list tr.hot").count() == 1 and tab.evaluate(scroll) == 40
    assert tab.evaluate(focus).startswith("z ")


def test_back_stays_on_the_page(spans, show):
    run = views(source := opened(spans), [10, 20], correct=[True, False, True])
    tab = show(page(record(source, [run], most=100)))
    tab.keyboard.press("j")
    tab.keyboard.press("ArrowLeft")  # no place of its own
    tab.keyboard.press("j")
    assert "Oslo" in tab.locator("h2").inner_text()
    tab.go_back()
    assert "Lima" in tab.locator("#question h2").inner_text() and "step=10" in tab.url
    tab.go_back()
    assert "Rome" in tab.locator("#question h2").inner_text()
    tab.go_forward()
    assert "Lima" in tab.locator("#question h2").inner_text()


def test_filters_without_a_hit_are_offered_to_be_cleared(spans, show):
    tab = show(written_views(spans))
    tab.fill("#search", "nowhere")
    assert tab.locator("#rows .row").count() == 0 and tab.locator("#question h2").count() == 0
    tab.locator("#question button", has_text="Clear the filters").click()
    assert tab.locator("#rows .row").count() == 3 and tab.locator("#search").input_value() == ""
    assert "Rome" in tab.locator("#question h2").inner_text()
    tab.fill("#search", "nowhere")
    tab.fill("#search", "")  # by hand
    assert "Rome" in tab.locator("#question h2").inner_text()


def test_marks_name_their_objectives_and_a_key_the_keys(spans, show):
    tab = show(written_views(spans))
    said = tab.locator("#rows .row").nth(1).locator(".outcome").all_inner_texts()
    assert said == ["✗ MML", "✓ Hard EM"]
    help = tab.locator("#help")
    assert not help.is_visible()
    tab.keyboard.press("?")
    assert help.is_visible() and "training step" in help.inner_text()
    tab.keyboard.press("j")  # belongs to the dialog
    tab.keyboard.press("Escape")
    assert not help.is_visible() and "Rome" in tab.locator("#question h2").inner_text()


def test_a_prediction_is_framed_where_it_is_read(spans, show):
    source = opened(spans)
    texts, text = lines(source, 1), source.record(1).texts[0].text
    view = View("q1", "?", "Ada", texts, [0.2] * len(texts), -1, "lives", 0.5, -1)
    start = text.rindex("Ada")
    outside = dataclasses.replace(view, spans=[(0, start, start + 9), (1, 0, 3)])
    inside = dataclasses.replace(view, predicted=0, spans=[(0, start, start + 9)])
    said = {5: {1: Said(outside)}, 6: {1: Said(inside)}, 7: {1: Said(view)}}
    run = RunViews("MML", Path("r"), dict.fromkeys(said, ""), said)
    tab = show(page(record(source, [run], most=100)), "#q=1&step=5")
    framed = tab.locator(".text .said").all_inner_texts
    assert framed() == ["Ada", " lives"]  # partly a mention
    assert "Dashed: where it is read" in tab.locator("#question > .note").inner_text()
    tab.keyboard.press("ArrowRight")
    assert framed() == ["Ada"]
    tab.keyboard.press("ArrowRight")  # of a watched question the place is not recorded
    assert framed() == [] and "Dashed" not in tab.locator("#question").inner_text()


def test_an_answer_that_there_is_none_is_a_prediction(spans, show):
    source = opened(spans, 1)
    texts = lines(source, 0)
    view = View("q0", "?", "Ada", texts, [0.2] * len(texts), -1, "", 0.1, -1)
    run = RunViews("MML", Path("r"), {5: "best"}, {5: {0: Said(view, "", correct=False)}})
    said = show(page(record(source, [run], most=100))).locator(".runs section").inner_text()
    assert "wrong: no answer" in said and "most likely, 10 %, not in Z" in said
    assert "no prediction" not in said


def test_runs_of_one_name_are_told_apart(spans):
    source = opened(spans)
    run = views(source, [30], correct=[True, False, True])
    names = [Path("/runs") / place for place in ("a/mml-0", "b/mml-0", "b/mml-1")]
    runs = [dataclasses.replace(run, folder=name) for name in names]
    found = record(source, [*runs, dataclasses.replace(run, name="Hard EM")], most=100)["about"]
    shown = [one["name"] for one in found["runs"]]
    assert shown == ["MML (a/mml-0)", "MML (b/mml-0)", "MML (mml-1)", "Hard EM"]


def test_phone_and_themes(spans, tmp_path, show):
    html = written(spans, tmp_path)
    phone = show(html, width=390)
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    assert not phone.locator("#question").is_visible()
    phone.locator("#rows .row").nth(1).click()
    assert phone.locator("#question").is_visible() and not phone.locator("#list").is_visible()
    phone.locator(".next").click()
    assert "Oslo" in phone.locator("#question h2").inner_text()
    phone.go_back()
    assert "Lima" in phone.locator("#question h2").inner_text()
    phone.locator(".back").click()
    assert phone.locator("#list").is_visible() and not phone.locator("#search").is_visible()
    phone.locator("#fold").click()
    assert phone.locator("#search").is_visible()
    colour = "getComputedStyle(document.body).backgroundColor"
    dark, light = show(html, color_scheme="dark"), show(html, color_scheme="light")
    colours = dark.evaluate(colour), light.evaluate(colour)
    assert colours == ("rgb(23, 25, 29)", "rgb(255, 255, 255)")
    light.keyboard.press("t")
    assert light.evaluate(colour) == colours[0]


def test_of_2000_questions_those_in_sight_are_drawn(spans, show):
    source = opened(spans)
    run = views(source, list(range(8)), correct=[True, False, True])
    content = record(source, [run, dataclasses.replace(run, name="Hard EM")], most=100)
    times = 2000 // 3 + 1
    for name in ("list", "questions", "drawings"):
        content[name] *= times
    tab = show(page(content))
    assert tab.evaluate("performance.getEntriesByType('mark').length") == 2
    assert tab.locator("#counted").inner_text().startswith("2,001")
    assert tab.locator("#rows .row").count() < 50  # of those in sight
    tab.evaluate("document.getElementById('list').scrollTop = 62 * 1500")
    tab.wait_for_selector('#rows a[href="#q=1500"]')


def test_few_solutions_of_many_are_the_likely_ones(tables):
    source = opened(tables, 2)
    index = 1
    texts = lines(source, index)
    assert len(texts) >= 3
    view = View("t1", "?", "3", texts, [0.0, 0.1, *[0.2] * (len(texts) - 2)], 0, texts[1], 0.1, 1)
    run = RunViews("MML", Path("r"), {5: "best"}, {5: {index: Said(view)}})
    content = record(source, [run], most=2)
    question = content["questions"][index]
    # The true one and the prediction stay.
    assert question["z"] == [0, 1]
    [true] = re.findall("<tr class='true' data-of='(.*?)'", content["drawings"][index])
    assert true == "0"
    assert question["all"] == len(texts) and question["runs"][0]["5"]["z"] == 1
    for prediction, place in (texts[-1], -2), ("none of Z", -1):  # of Z, though not listed
        said = Said(dataclasses.replace(view, prediction=prediction, predicted=-1))
        run = RunViews("MML", Path("r"), {5: "best"}, {5: {index: said}})
        [found] = record(source, [run], most=2)["questions"][index]["runs"]
        assert found["5"]["z"] == place


def test_solutions_with_the_same_text_are_told_apart(tables):
    source = opened(tables, 2)
    view = View("t1", "?", "3", ["one"] * 2, [0.3, 0.2], -1, "", 0.1, -1, places=[2, 0])
    run = RunViews("MML", Path("r"), {5: "best"}, {5: {1: Said(view)}})
    [found] = record(source, [run], most=3)["questions"][1]["runs"]
    assert found["5"]["p"] == [0.2, None, 0.3]


def test_refusals(spans, tmp_path, capsys):
    out = tmp_path / "z.html"
    inspect(spans, "--out", out)
    assert "(--force replaces it)" in refused(capsys, spans, "--out", out)
    inspect(spans, "--out", out, "--force", "--count", 1)
    assert len(block(out.read_text(), "all")) == 1
    new = tmp_path / "new.html"
    assert "Missing from test: SOURCE" in refused(capsys, "--out", new)
    assert "found nothing" in refused(capsys, tmp_path / "none", "--out", new)
    assert "expected a build" in refused(capsys, spans, "--split", "dev", "--out", new)
    line = refused(capsys, spans, "--out", new, "--against", tmp_path)
    assert "expected a run to compare" in line
    (tmp_path / "runs" / "mml-0").mkdir(parents=True)
    config = {"task": "poems", "flags": {"type": "Train"}}
    (tmp_path / "runs" / "mml-0" / "config.json").write_text(json.dumps(config))
    line = refused(capsys, tmp_path / "runs" / "mml-0", "--out", new)
    assert "(spans, taggings, equations, " in line and "found 'poems'; install" in line
    (tmp_path / "runs" / "comparison.json").write_text("{}")
    assert f"such as {tmp_path / 'runs'}" in refused(capsys, tmp_path, "--out", new)
    assert "folder does not exist" in refused(capsys, spans, "--out", tmp_path / "no" / "z.html")
    assert not new.exists()
