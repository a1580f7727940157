"""One table of finished runs, whenever and wherever they were made.

``python -m experiments.tabulate --help``. ``compare`` makes runs in one folder; here runs of many
folders, and files of runs, become one Markdown table with intervals and paired tests::

    python -m experiments.tabulate --runs runs/monday runs/tuesday --against MML
    python -m experiments.tabulate --runs runs/monday --save monday.jsonl
    python -m experiments.tabulate --runs monday.jsonl tuesday.jsonl --metrics accuracy "hit@1"
    python -m experiments.tabulate --runs wikisql.jsonl drop.jsonl --metrics accuracy em --wide

With ``--wide`` each source, such as the runs on a data set, is a row and each objective a column.
A file that ``--save`` writes has a line for each run with its settings and the scores of every
question. Which settings differ between runs becomes part of their names: nothing is averaged that
was not trained alike.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.analysis.comparison import score_text
from hardem_jax.analysis.statistics import difference, interval
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import markdown_rows, write_text
from hardem_jax.data.json_stream import iter_lines
from hardem_jax.errors import InputError, found_by
from hardem_jax.training.fingerprint import Meaning, flatten, meaning, portable, without_seed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tabulate:
    """Tabulate finished runs.

    Attributes:
        runs: folders of runs, folders that ``compare`` wrote, or files from ``--save``. Encoders in
            folders of one name count as the same.
        metrics: columns of the table; by default, every metric recorded per question.
        against: the row from which differences are taken.
        save: write the runs to this file, one per line.
        wide: a row for each source, with the first of the metrics that it has, and a column for
            each objective, whatever its tau.
    """

    runs: tuple[Path, ...]
    metrics: tuple[str, ...] = ()
    against: str | None = None
    save: Path | None = None
    wide: bool = False

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError("runs: expected at least one folder or file, found none")
        if self.wide and self.save is not None:
            raise InputError("save: expected it without wide, found both")

    def run(self) -> None:
        sources = [(x.absolute().name if x.is_dir() else x.stem, read_runs(x)) for x in self.runs]
        if self.wide:
            print(wide_table(sources, self.metrics, self.against), end="")
            return
        found = rows(run for _, runs in sources for run in runs)
        if self.save is not None:
            lines = (run.line() for seeds in found.values() for run in seeds.values())
            write_text(self.save, "".join(f"{line}\n" for line in lines))
        print(table(found, self.metrics, self.against), end="")


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """What a run that has ended leaves for tables: the label of its objective, its seed, all that
    decides on its scores, those after the last step, and those of each question."""

    objective: str
    seed: int
    settings: Mapping[str, str]
    scores: Mapping[str, float]
    by_question: Mapping[str, Sequence[float]]

    def line(self) -> str:
        """The run as a line of JSON, without folders of the machine it was made on."""
        content = dataclasses.asdict(self) | {"settings": portable(self.settings)}
        content["by_question"] = {name: _packed(x) for name, x in self.by_question.items()}
        return json.dumps(content)


def read_runs(source: Path) -> list[FinishedRun]:
    """Runs that have ended, of a run's folder, a folder of such folders, or a file of lines."""
    if source.is_dir():
        folders = [source, *sorted(folder for folder in source.iterdir() if folder.is_dir())]
        runs = [_of_folder(x) for x in folders if (x / "by_question.json").is_file()]
        if not runs and (begun := [x.name for x in folders if (x / "config.json").is_file()]):
            raise InputError(
                f"{source}: expected runs of compare that have ended, found {', '.join(begun[:3])} "
                "without scores of single questions: compare with the same flags ends what it "
                "began; for runs of train alone, evaluate prints the scores of each"
            )
    else:
        runs = [_of_line(line, f"{source}:{number}") for number, line in iter_lines(source)]
    if not runs:
        expected = "a folder that compare wrote, or a file from --save"
        raise InputError(f"{source}: expected runs that have ended ({expected}), found none")
    return runs


def rows(runs: Iterable[FinishedRun]) -> dict[str, dict[int, FinishedRun]]:
    """Name -> seed -> run, of runs that differ in nothing but their seed; each once, and others,
    such as those on other data, are refused. The name has the objective and the settings in which
    runs differ, but those of most runs."""
    runs = list(runs)
    settings = [without_seed(run.settings) for run in runs]
    for own in settings:  # scores are those after the last step, whatever was evaluated before
        own.pop("loop.eval_every", None)
    usual = _usual(settings)
    found: dict[str, dict[int, FinishedRun]] = {}
    first: dict[str, dict[str, str]] = {}
    for run, own in zip(runs, settings, strict=True):
        texts = {name: own.get(name, "not set") for name in usual}
        unusual = [f"{name} {text}" for name, text in texts.items() if text != usual[name]]
        row = ", ".join([run.objective, *unusual])
        if found.setdefault(row, {}).setdefault(run.seed, run).by_question != run.by_question:
            raise InputError(
                f"runs: {row}: expected one run with seed {run.seed}, found two with other scores"
            )
        of_first = first.setdefault(row, own)
        for name in sorted(own.keys() | of_first.keys()):
            if own.get(name) != of_first.get(name):
                values = f"{of_first.get(name)} and {own.get(name)}"
                raise InputError(f"runs: {row}: expected one value of {name}, found {values}")
    return found


def table(
    found: Mapping[str, Mapping[int, FinishedRun]],
    metrics: Sequence[str] = (),
    against: str | None = None,
) -> str:
    """A Markdown table: `rows`, and of each metric the mean with its interval of 95 %, or without
    scores of questions the deviation over seeds; differences from ``against`` over common seeds.
    Its first head says how many questions all were scored on."""
    if against is not None and against not in found:
        raise InputError(f"against: expected one of {', '.join(found)}, found {against!r}")
    every = [run for runs in found.values() for run in runs.values()]
    of_questions = list(dict.fromkeys(metric for run in every for metric in run.by_question))
    metrics = metrics or of_questions
    known = list(dict.fromkeys(name for run in every for name in (*run.by_question, *run.scores)))
    if unknown := next((metric for metric in metrics if metric not in known), None):
        raise InputError(f"metrics: expected one of {', '.join(known)}, found {unknown!r}")
    counts = {len(scores) for run in every for scores in run.by_question.values()}
    header = [f"{counts.pop()} questions" if len(counts) == 1 else "", "seeds"]
    for metric in metrics:
        header.append(metric)
        if against is not None and metric in of_questions:
            header += [f"{metric} - {against}", "p"]
    lines = [header]
    for name, runs in found.items():
        cells = [name, _listed(runs)]
        for metric in metrics:
            cells.append(_cell(runs, metric))
            if against is not None and metric in of_questions:
                cells += _compared(found, name, against, metric) if name != against else ["", ""]
        lines.append(cells)
    return markdown_rows(lines)


def wide_table(
    sources: Sequence[tuple[str, Iterable[FinishedRun]]],
    metrics: Sequence[str] = (),
    against: str | None = None,
) -> str:
    """A Markdown table with a row for each named source and each setting in which its runs differ,
    and a column for each objective; below each, its differences from ``against``. What would share
    a column, such as two taus, has one each."""
    found: dict[str, dict[str, dict[int, FinishedRun]]] = {}
    for source, runs in sources:
        own = rows(runs)
        objectives = [next(iter(seeds.values())).objective for seeds in own.values()]
        places = list(map(_place, objectives, own))
        usual = [place[:2] for place in places]
        for (others, column, exact), seeds in zip(places, own.values(), strict=True):
            column = column if usual.count((others, column)) == 1 else exact
            if found.setdefault(source + others, {}).setdefault(column, seeds) is not seeds:
                why = "found two (sources of one name share a row)"
                raise InputError(f"{source + others}: expected one row of {column}, {why}")
    columns = sorted({x for row in found.values() for x in row}, key=lambda x: (x != against, x))
    if against is not None and columns[0] != against:
        raise InputError(f"against: expected one of {', '.join(columns)}, found {against!r}")
    lines = [["runs", "steps", "metric", "questions", "seeds", *columns]]
    for name, row in found.items():
        run = next(iter(next(iter(row.values())).values()))
        for seeds in row.values():
            _check_questions(name, run, next(iter(seeds.values())))
        if not (having := [x for x in metrics or run.by_question if x in run.by_question]):
            known = ", ".join(run.by_question) or "the scores of single questions"
            raise InputError(f"{name}: metrics: expected one of {known}, found none of them")
        metric, seeds = having[0], max(map(sorted, row.values()), key=len)
        facts = [run.settings.get("loop.num_steps", ""), metric, str(len(run.by_question[metric]))]
        lines.append([name, *facts, _listed(seeds)])
        below = [f"... - {against}", "", "", "", ""]
        for column in columns:
            these = sorted(row.get(column, ()))
            note = f" (seeds {_listed(these)})" if these != seeds else ""
            lines[-1].append(_cell(row[column], metric) + note if these else "")
            compared = these and against in row and column != against
            ahead = _compared(row, column, str(against), metric) if compared else []
            below.append("-" if "-" in ahead else ", p = ".join(ahead))
        lines += [below] if any(below[5:]) else []
    return markdown_rows(lines)


def _place(objective: str, name: str) -> tuple[str, str, str]:
    """What a name of `rows` says beyond its column; the column, and one that nothing shares."""
    others = name[len(objective) :].split(", ")
    gold = [x for x in others if x.endswith("supervised true")]
    annealed = re.sub(r", tau \d[^\s,]*", ", annealed", objective)
    rest = ", ".join(x for x in others if x not in gold)
    return rest, "supervised" if gold else annealed, ", ".join([objective, *gold])


def _listed(seeds: Iterable[int]) -> str:
    return " ".join(map(str, sorted(seeds)))


def _cell(runs: Mapping[int, FinishedRun], metric: str) -> str:
    if all(metric in run.by_question for run in runs.values()):
        return str(interval(_by_question(runs, sorted(runs), metric)))
    if not all(metric in run.scores for run in runs.values()):
        return "-"
    scores = [run.scores[metric] for run in runs.values()]
    spread = f" ± {score_text(metric, float(np.std(scores, ddof=1)))}" if scores[1:] else ""
    return score_text(metric, float(np.mean(scores))) + spread


def _compared(
    found: Mapping[str, Mapping[int, FinishedRun]], name: str, against: str, metric: str
) -> list[str]:
    """The cells of a difference and of its p; a dash without a common seed, or without scores."""
    runs, others = found[name], found[against]
    common = sorted(runs.keys() & others.keys())
    both = [run for seed in common for run in (runs[seed], others[seed])]
    if not both or not all(metric in run.by_question for run in both):
        return ["-", "-"]
    for run, other in zip(both[::2], both[1::2], strict=True):
        _check_questions(f"{name} and {against}", run, other)
    ours, theirs = (_by_question(x, common, metric) for x in (runs, others))
    if ours.shape != theirs.shape:
        raise InputError(
            f"{metric}: expected scores of the same questions, "
            f"found {ours.shape[1]} and {theirs.shape[1]}"
        )
    ahead = difference(ours, theirs)
    return [str(ahead), f"{ahead.p:.2g}"]


def _check_questions(names: str, run: FinishedRun, other: FinishedRun) -> None:
    """Raises InputError if the settings say that other questions were scored or trained on."""
    ours, theirs = _with_counts(flatten(run.settings)), _with_counts(flatten(other.settings))
    differing = {n: meaning(n) for n in sorted(ours | theirs) if ours.get(n) != theirs.get(n)}
    refused = Meaning.QUESTIONS
    if not any(Meaning.RULES in means for means in differing.values()):
        refused |= Meaning.CONTENT
    if not any(Meaning.TRAINED_RULES in means for means in differing.values()):
        refused |= Meaning.TRAINED
    for name, means in differing.items():
        # A setting of one run alone, such as "supervised", explains another content, and is none.
        if means & refused and name in ours and name in theirs:
            raise InputError(
                f"{names}: expected the same {name}, found {ours[name]} and {theirs[name]}"
            )


def _with_counts(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings, with the counts of a build, which are pairs, under names of their own."""
    counts = {
        f"{name}.{key}": str(count)
        for name, text in settings.items()
        if name.endswith(".counts")
        for key, count in json.loads(text)
    }
    return dict(settings) | counts


def _by_question(runs: Mapping[int, FinishedRun], seeds: Sequence[int], metric: str) -> np.ndarray:
    """``[S, N]`` float."""
    scores = [runs[seed].by_question[metric] for seed in seeds]
    if len(sizes := sorted({len(x) for x in scores})) > 1:
        found = " and ".join(map(str, sizes))
        raise InputError(f"{metric}: expected scores of the same questions, found {found}")
    return np.asarray(scores, float)


def _usual(settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The most frequent text of each setting that names rows, of those in which runs differ."""
    usual = {}
    for name in dict.fromkeys(name for own in settings for name in own):
        texts = [own.get(name, "not set") for own in settings]
        if len(set(texts)) > 1 and Meaning.ROW in meaning(name):
            usual[name] = max(dict.fromkeys(texts), key=texts.count)
    return usual


def _of_folder(folder: Path) -> FinishedRun:
    try:
        final = json.loads((folder / "final.json").read_text("utf-8"))
        by_question = json.loads((folder / "by_question.json").read_text("utf-8"))
        settings = final["settings"]
        return FinishedRun(
            objective=final["objective"],
            seed=int(settings["loop.seed"]),
            # As in a file of runs, so that a run is the same wherever it is read from.
            settings=portable(settings),
            scores=dict(final["scores"]),
            by_question=by_question["scores"],
        )
    except OSError as error:
        raise InputError(f"{folder}: expected a run of compare, found {found_by(error)}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder}: expected a run of compare, found {error!r}") from error


def _of_line(line: str, where: str) -> FinishedRun:
    try:
        content: dict[str, Any] = json.loads(line)
        by_question = {name: _unpacked(x) for name, x in content.pop("by_question").items()}
        run = FinishedRun(**content, by_question=by_question)
        if (type(run.seed), type(run.scores), type(run.settings)) != (int, dict, dict):
            raise TypeError("a seed that is no integer, or scores or settings that are no object")
        if not all(len(x) and np.isfinite(x).all() for x in by_question.values()):
            raise ValueError("scores of questions that are missing or not finite")
        return run
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{where}: expected a run, found {error!r}") from error


def _packed(scores: Sequence[float]) -> str | list[float]:
    """A digit for each question if all scores are 0 or 100."""
    if not set(scores) <= {0.0, 100.0}:
        return list(scores)
    return "".join("1" if score else "0" for score in scores)


def _unpacked(scores: str | list[float]) -> list[float]:
    return [100.0 * "01".index(x) for x in scores] if isinstance(scores, str) else scores


if __name__ == "__main__":
    run_command(Tabulate, prog="python -m experiments.tabulate")
