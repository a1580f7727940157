"""The command ``compare`` of every task: all objectives on the same data, several seeds each.

Every run is a ``train`` in a folder of its own below ``out``. A run that has ended is not repeated,
one that was stopped continues, and one with other settings is refused. The same command may run
several times at once, on machines that share a disk: each takes runs that no other has taken, and
the last to end writes the tables.

Reported are the scores after the last step, or after the evaluation at which ``--loop.patience``
ran out: choosing the best evaluation would favour the objective that varies most.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from rich.console import Console

from hardem_jax.analysis.comparison import (
    differences,
    intervals,
    intervals_by_size,
    sentences,
    set_sizes,
    summarize,
    table,
)
from hardem_jax.cli.command import parse, unframed, with_flags_of
from hardem_jax.cli.train import Setting, TrainCommand, say
from hardem_jax.data.files import make_out, markdown_rows, write_json, write_text
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.errors import InputError, require, require_different
from hardem_jax.locks import InUse, locked
from hardem_jax.objectives import AnyObjective, Objective, label
from hardem_jax.registry import task_type
from hardem_jax.search.protocol import SearchObjective
from hardem_jax.settings import to_json
from hardem_jax.training.fingerprint import check_same, flatten, may_change, named_settings
from hardem_jax.training.run_progress import RunProgress, read_metrics

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from hardem_jax.task.trained import Trained


@dataclasses.dataclass(frozen=True)
class _Run:
    """One run of the grid, with the label of its objective and all that its scores depend on."""

    name: str
    train: TrainCommand
    settings: Mapping[str, str]

    @property
    def final(self) -> Path:
        return self.train.out / "final.json"

    @property
    def questions(self) -> Path:
        return self.train.out / "by_question.json"

    def scores(self) -> dict[str, float] | None:
        """The scores after the last step, or where patience ran out; None before. A run that
        stopped under less patience than now has not ended. One trained under more has, and its
        later steps count."""
        scores, loop = _recorded(self.final, self.settings), self.train.loop
        if scores is None or scores["step"] == loop.num_steps:
            return scores
        progress = RunProgress()
        for line in read_metrics(self.train.out):
            if line["kind"] == "eval":
                progress.record(line["step"], line, loop.monitor, loop.mode, loop.patience)
        return scores if progress.stopped_early else None

    def by_question(self) -> dict[str, list[float]] | None:
        """The official scores of every question; None before they are written."""
        return _recorded(self.questions, self.settings)

    def ended(self) -> bool:
        return self.scores() is not None and self.by_question() is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareCommand(Setting):
    """Train with every objective, and tabulate.

    Attributes:
        seeds: train every objective once per seed. Overrides ``loop.seed``.
        objectives: one row of the table for each, written as after ``objective:`` in ``train``,
            in quotes if it has flags, which lose their ``objective.``: "hard-em --tau 4000",
            "em posterior:top-k --posterior.k 5".
        init_from: start from the best parameters of an earlier run with the same model: all seeds
            from the run in this folder or, given one folder per seed, each from its own. Without,
            runs start from the pretrained encoder, or from scratch.
        shown: questions in ``predictions.md``, with the first seed's answers; 0 skips the file.
    """

    #: What makes one run.
    TRAIN: ClassVar[type[TrainCommand]]
    #: Metric -> label of its axis in the learning curves.
    CURVES: ClassVar[Mapping[str, str]]

    seeds: tuple[int, ...] = may_change("each run has one", default=(0, 1, 2))
    objectives: tuple[str, ...] = may_change(
        "each run has one", default=("first-only", "mml", "hard-em")
    )
    init_from: tuple[Path, ...] = may_change("identified by contents", default=())
    shown: int = may_change("scores do not depend on it", default=20)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("seeds", "objectives"):
            if not getattr(self, name):
                raise InputError(f"{name}: expected at least one value, found none")
        require(self, "seeds", at_least=0, below=2**32)
        require_different(self, "seeds")
        if len(self.init_from) not in (0, 1, len(self.seeds)):
            expected = f"one run, or one for each of {len(self.seeds)} seeds"
            raise InputError(f"--init-from: expected {expected}, found {len(self.init_from)}")
        require_different(self, "init_from")
        require(self, "shown", at_least=0)
        # Refuses what no objective takes.
        folders = [command.out for command in self.commands(self.seeds[0]).values()]
        if len(set(folders)) < len(folders):
            found = ", ".join(folder.name for folder in folders)
            raise InputError(f"objectives: expected a folder of its own for each, found {found}")

    def commands(self, seed: int) -> dict[str, TrainCommand]:
        """The ``train`` of each row of the table, in its order."""
        return {name: self._train(name, one, seed) for name, one in self.rows().items()}

    @property
    def any_run(self) -> TrainCommand:
        """One of them: the data of all are the same."""
        return next(iter(self.commands(self.seeds[0]).values()))

    def trained(self, run_dir: Path) -> Trained:
        """The last parameters of a run."""
        from hardem_jax.task.trained import Trained

        kind, batch_size = task_type(self.TRAIN.TASK), self.inference.batch_size
        return Trained(kind, run_dir, "last", mesh=self.mesh(), batch_size=batch_size)

    def more_scores(self, run_dir: Path) -> Mapping[str, float]:
        """What a task measures on a finished run in addition to its last evaluation."""
        del run_dir
        return {}

    def rows(self) -> dict[str, Objective]:
        """Label -> objective, in the order of the table."""
        return labelled(self.objectives, get_type_hints(self.TRAIN)["objective"])

    def run(self) -> None:
        import jax  # not needed to parse the flags

        mesh = self.mesh()
        if jax.process_count() > 1:
            raise InputError(
                f"compare: expected one process, found {jax.process_count()}; train and evaluate "
                "take several"
            )
        make_out(self.out)
        grid = self._grid(mesh)
        # Again, until all have ended, diverged or are in use: another worker may have been killed.
        diverged: dict[str, str] = {}
        while any([self._take(run, grid, diverged) for run in _left(grid, diverged)]):
            pass
        if diverged:
            told = "; ".join(f"{name}: {why}" for name, why in diverged.items())
            raise FloatingPointError(f"{told}; experiments.tabulate reads all other runs")
        if left := [run.train.out.name for run in _left(grid, diverged)]:
            say(f"left to others: {', '.join(left)}; who ends last writes the tables")
            return
        with locked(self.out, wait=True):
            self._write_tables(grid)

    def _take(self, run: _Run, grid: Sequence[_Run], diverged: dict[str, str]) -> bool:
        """Trains and scores a run; returns False if another process does, or if it diverged."""
        try:
            with locked(self.out, f"{run.train.out.name}.lock.json"):
                self._score(run)
        except InUse:
            return False
        except FloatingPointError as error:
            diverged[run.train.out.name] = str(error)
            return False
        with locked(self.out, wait=True):
            self._write_scores(grid)
        return True

    def _grid(self, mesh: Mesh) -> list[_Run]:
        """All runs, those of the first seed first, in the order of the table."""
        if self.watched:  # checked even if every run has ended
            from hardem_jax.cli.watching import watched

            watched(self.any_run.open_dev(self.dev_questions), self.watched)
        runs, contents = [], {}
        for seed in self.seeds:
            for name, train in self.commands(seed).items():
                # Objectives share their data, and seeds as well. What does not fit is refused now,
                # also a search whose needs other objectives do not have.
                searched = name if isinstance(train.objective, SearchObjective) else ""
                begun = train.init_from, searched
                if begun not in contents:
                    contents[begun] = train.start(mesh).data
                # Scores depend on more than the run, such as the number of training questions.
                own = train.settings(contents[begun])
                file = train.out / "config.json"
                if os.path.isdir(train.out / "last") and os.path.isfile(file):
                    check_same(read_json_object(file).get("settings", own), own, train.out)
                runs.append(_Run(name, train, named_settings(self) | own))
        return runs

    def _write_scores(self, grid: Sequence[_Run]) -> dict[str, Any]:
        """Writes ``comparison.json`` with the runs that have ended, and returns its content."""
        import jax

        runs: dict[str, list[dict[str, float]]] = {}
        for run in grid:
            if (scores := run.scores()) is not None:
                runs.setdefault(run.name, []).append(scores)
        devices = f"{jax.device_count()} x {jax.devices()[0].device_kind}"
        content = {"flags": to_json(self), "devices": devices, "runs": runs}
        content["summary"] = summarize(runs)
        write_json(self.out / "comparison.json", content)
        return content

    def _write_tables(self, grid: Sequence[_Run]) -> None:
        from hardem_jax.task.base import places_by_size  # imports jax

        content = self._write_scores(grid)
        runs, summary = content["runs"], content["summary"]
        by_question: dict[str, list[dict[str, list[float]]]] = {}
        for run in grid:
            if (of_run := run.by_question()) is not None:
                by_question.setdefault(run.name, []).append(of_run)
        content["intervals"] = bounds = intervals(by_question)
        pairs = differences(by_question)
        found = {
            metric: [{"objectives": list(names)} | one._asdict() for names, one in own.items()]
            for metric, own in pairs.items()
        }
        write_json(self.out / "comparison.json", content | {"differences": found})
        by_size, num_seeds = set_sizes(summary), len(self.seeds)
        # Scores of training questions by |Z| have no scores of single questions.
        names = [name for metric, own in by_size.items() if metric in pairs for name in own]
        sizes = self.any_run.open_dev(self.dev_questions).scored_sizes()
        places = {name: own for name, own in places_by_size(names, sizes).items() if own}
        of = {score: f"{len(own)} questions" for score, own in places.items()}
        of |= task_type(self.TRAIN.TASK).SHARES
        split = getattr(self, "dev_split", self.dev.absolute().name)
        count = len(next(iter(by_question.values()))[0][next(iter(pairs))])
        title = f"{split}, after the last step: % of {count} questions, or of the last column"
        width = None if Console().is_terminal else 84 + 24 * len(runs)
        Console(width=width).print(table(summary, bounds, num_seeds, title=title, of=of))
        metric = self.loop.monitor if self.loop.monitor in pairs else next(iter(pairs))
        for line in sentences(metric, pairs[metric], num_seeds):
            print(line)
        from hardem_jax.analysis.plots import learning_curves, scores_by_group  # slow to import

        learning_curves(
            {name: [read_metrics(self._folder(name, s)) for s in self.seeds] for name in runs},
            metrics=self.CURVES,
            file=self.out / "learning_curves.png",
        )
        known = intervals_by_size(by_question, places)
        for metric, groups in by_size.items():
            split, _, measure = metric.rpartition(": ")
            counts = {name: f"\nn = {len(places[name])}" for name in groups if name in places}
            scores_by_group(
                runs,
                groups={name: f"{group}{counts.get(name, '')}" for name, group in groups.items()},
                bounds=known,
                labels=("|Z|", self.CURVES.get(measure, f"{measure} (%)")),
                file=self.out / f"by_set_size{'-' if split else ''}{split.replace('/', '-')}.png",
            )
        first = {name: self._folder(name, self.seeds[0]) for name in runs}
        if self.watched:
            from hardem_jax.cli.watching import draw_watched

            draw_watched(first, self.watched, self.out)
        if self.shown:
            write_text(self.out / "predictions.md", self._predictions(list(runs)))

    def _folder(self, name: str, seed: int) -> Path:
        words = name.lower().replace(" -", " minus ")  # of a negative number
        return self.out / f"{re.sub(r'[^a-z0-9.]+', '-', words)}-{seed}"

    def _predictions(self, names: Sequence[str]) -> str:
        """A Markdown table: questions, golds and the answers of each objective, correct in bold."""
        data = self.any_run.open_dev(self.shown)
        columns = []
        for name in names:
            trained = self.trained(self._folder(name, self.seeds[0]))
            columns.append(trained.task.shown(data, trained.evaluate(data)[1]))
        rows = [["question", "gold", *names]]
        for answers in zip(*columns, strict=True):
            texts = [f"**{a.answer}**" if a.correct else a.answer for a in answers]
            rows.append([answers[0].question, answers[0].gold, *texts])
        return markdown_rows(rows)

    def _train(self, name: str, objective: Objective, seed: int) -> TrainCommand:
        of_train = {field.name for field in dataclasses.fields(self.TRAIN)}
        own = {field.name for field in dataclasses.fields(self)}
        shared: dict[str, Any] = {field: getattr(self, field) for field in own & of_train}
        starts = self.init_from or (None,)
        shared |= {
            "out": self._folder(name, seed),
            "loop": dataclasses.replace(self.loop, seed=seed),
            "init_from": starts[self.seeds.index(seed) if len(starts) > 1 else 0],
            "objective": objective,
        }
        return self.TRAIN(**shared)

    def _score(self, run: _Run) -> None:
        """Writes the scores of one run, trained unless it has ended with the same settings, and of
        every question, answered once more if the run did not do so now."""
        folder, by_question = run.train.out, None
        if run.scores() is None:
            by_question = run.train.run()  # refuses a folder with other settings
            run.questions.unlink(missing_ok=True)  # from when the run had stopped early
            *_, last = (line for line in read_metrics(folder) if line["kind"] == "eval")
            scores = {name: value for name, value in last.items() if name != "kind"}
            scores |= self.more_scores(folder)
            # A list keeps the order of the scores.
            content = {"objective": label(run.train.objective), "settings": run.settings}
            write_json(run.final, content | {"scores": list(scores.items())})
        if run.by_question() is None:
            if by_question is None:
                say(f"{folder.name}: scoring every question")
                trained, dev = self.trained(folder), run.train.open_dev(self.dev_questions)
                by_question = partial(trained.task.by_question, dev, trained.evaluate(dev)[1])
            found = {metric: values.tolist() for metric, values in by_question().items()}
            # On one line: there may be 100,000 questions.
            write_text(run.questions, json.dumps({"settings": run.settings, "scores": found}))


def _left(grid: Sequence[_Run], diverged: Mapping[str, str]) -> list[_Run]:
    return [run for run in grid if not run.ended() and run.train.out.name not in diverged]


def comparison(
    train: type[TrainCommand],
    *,
    curves: Mapping[str, str],
    base: type[CompareCommand] = CompareCommand,
    **defaults: Any,
) -> Any:
    """The command ``compare`` of a task: flags and defaults of its ``train``, but no patience.
    ``base`` has flags and scores that only the comparison has; ``defaults`` are of its flags."""
    loop: Any = next(f.default for f in dataclasses.fields(train) if f.name == "loop")
    return with_flags_of(
        train,
        name="Compare",
        base=base,
        without=("objective", "init_from"),
        defaults={"loop": dataclasses.replace(loop, patience=None)} | defaults,
        TRAIN=train,
        CURVES=curves,
    )


def labelled(objectives: Sequence[str], kinds: Any = AnyObjective) -> dict[str, Objective]:
    """Label -> objective, of objectives written as for ``--objectives``.

    Example:
        >>> labelled(["mml", "hard-em --tau 4000"])
        {'MML': MML(), 'Hard EM, tau 4000': HardEM(tau=4000.0, cap=1.0, schedule='linear')}
    """
    rows = {}
    for text in objectives:
        expected = f"objectives: expected what train takes after objective:, found {text!r}"
        try:
            with contextlib.redirect_stderr(told := io.StringIO()):
                objective = parse(kinds, prog="objectives", argv=shlex.split(text))
        except ValueError as error:  # also of shlex, such as a quote that is not closed
            raise InputError(f"{expected} ({error})") from None
        except SystemExit as stop:
            if stop.code:
                raise InputError(f"{expected} ({unframed(told.getvalue())})") from None
            raise
        if (name := label(objective)) in rows:
            raise InputError(f"objectives: expected different values, found {name!r} twice")
        rows[name] = objective
    return rows


def _recorded(file: Path, settings: Mapping[str, str]) -> dict[str, Any] | None:
    """The scores in a file of a run; None if they are of other settings or cannot be read."""
    try:
        content = json.loads(file.read_text("utf-8"))
        same = flatten(content["settings"]) == flatten(settings)
        return dict(content["scores"]) if same else None
    except (OSError, ValueError, KeyError):  # killed while it was written
        return None
