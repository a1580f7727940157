"""What searching costs: ``python -m experiments.benchmark.costs.search --help``.

Steps of SQLova, or of a parser of programs, on questions of a build, under hard EM over the given Z
and under objectives that search, in turns. Beside a whole step, the time that the host spends in it
on rewards and, for queries, on what each question allows is measured with a clock around these
calls. And the beam by itself: the ten best solutions for 64 questions, in one compiled call.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from experiments.benchmark.measure import by_measure, interleave, median_ratio, quartiles, timed
from experiments.report import Report, table
from hardem_jax.cli import programs as program_cli
from hardem_jax.cli import queries as query_cli
from hardem_jax.cli.command import run_command
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.errors import require
from hardem_jax.objectives import HardEM
from hardem_jax.search.objectives import MAPO, MAPOX, MERL, BeamHardEM, IterativeML
from hardem_jax.tasks.config import (
    ProgramInference,
    ProgramParserConfig,
    QueryInference,
    SQLovaConfig,
)

GIVEN = "hard EM over Z"
OBJECTIVES = {
    GIVEN: HardEM(),
    "hard EM, beam 10 and 16 samples": BeamHardEM(beam=10, samples=16, memory=10),
    "iterative ML, beam of 10": IterativeML(),
    "MeRL, beam of 10": MERL(),
    "MAPO, 16 samples and 10 explored": MAPO(samples=16, explore=10),
    "MAPOX, the same": MAPOX(samples=16, explore=10),
}


@dataclasses.dataclass(frozen=True)
class SearchCost:
    """Measure steps that search, the host's part in them, and the beam by itself.

    Attributes:
        data: folder of a build of ``prepare``, of ``experiments.wikisql`` for queries and of
            ``experiments.wikitablequestions`` for programs.
        task: which of both.
        encoder: Hugging Face name or folder.
        rows: questions in a step, one or several sizes.
        tokens: to which inputs are padded; longer ones are cut.
        rounds: turns of every step.
        steps: training steps in a turn, each on other questions.
        out: write the results here as JSON.
    """

    data: Path
    task: Literal["queries", "programs"] = "queries"
    encoder: str = "bert-base-uncased"
    rows: tuple[int, ...] = (10, 64)
    tokens: int = 96
    rounds: int = 6
    steps: int = 3
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "rows", "tokens", "rounds", "steps", at_least=1)

    def run(self) -> None:
        from hardem_jax.tasks.tables import programs, queries

        report = Report(self, self.out)
        kind = queries.TableQuestions if self.task == "queries" else programs.ProgramQuestions
        data = kind.open(self.data, "train")
        with _Clocks(self.task) as clocks:
            measured = [self._measure(data, rows, clocks) for rows in self.rows]
        rows = [row for part in measured for row in part]
        columns: dict[str, Any] = {
            "questions": "rows",
            "step": "step",
            "ms": ("wall_s", 1e3, 0),
            "times hard EM over Z": ("ratio", 1, 2),
            "host: rewards, ms": ("reward_s", 1e3, 1),
            "host: conditions, ms": ("support_s", 1e3, 1),
            "host's share of the step, %": ("share", 100, 1),
        }
        beams = {"queries": _query_beam, "programs": _program_beam}
        beam = timed(_repeated(beams[self.task]()), 20)["wall_s"] * 1e3
        line = f"ten best {self.task} of 64 questions, 16 columns, 40 words: {beam:.1f} ms"
        content = {"steps": rows, "beam_ms": beam}
        report.write(content, table("a training step", rows, columns, left=2), line)

    def _measure(self, data: Any, rows: int, clocks: "_Clocks") -> list[dict[str, Any]]:
        turns = {name: self._turn(data, rows, name, clocks) for name in OBJECTIVES}
        found = {
            name: by_measure(x)
            for name, x in interleave(turns, self.rounds, f"{rows} rows").items()
        }
        return [
            {
                "rows": rows,
                "step": name,
                **{measure: quartiles(values) for measure, values in measured.items()},
                "ratio": median_ratio(measured["wall_s"], found[GIVEN]["wall_s"]),
            }
            for name, measured in found.items()
        ]

    def _task(self, rules: Any) -> tuple[Any, Any]:
        """The task and the configuration of its model."""
        from hardem_jax.tasks.tables import programs, queries

        model = {"encoder": self.encoder, "max_tokens": self.tokens}
        if self.task == "queries":
            return queries.QueryTask(QueryInference(), rules), SQLovaConfig(**model)
        return programs.ProgramTask(ProgramInference(), rules), ProgramParserConfig(**model)

    def _turn(
        self, data: Any, rows: int, name: str, clocks: "_Clocks"
    ) -> Callable[[int], Mapping[str, float]]:
        """Compiles the step of an objective; each turn then takes ``steps`` further ones."""
        import jax

        from hardem_jax.tasks import start as starting
        from hardem_jax.training.devices.mesh import data_mesh, place_batch
        from hardem_jax.training.optimizer import make_optimizer
        from hardem_jax.training.state import current_shardings, init_state
        from hardem_jax.training.step import compile_train_step, make_train_step

        mesh = data_mesh(1)
        start = starting.start(
            *self._task(data.rules),
            data,
            data.first(rows),
            objective=OBJECTIVES[name],
            batches=BatchConfig(rows, (self.tokens,), max_solutions=256, negatives=0),
            num_steps=(self.rounds + 1) * self.steps + 1,
            seed=0,
            mesh=mesh,
        )
        config = {"queries": query_cli, "programs": program_cli}[self.task].OPTIMIZER
        optimizer = make_optimizer(config, start.params, 1000)
        state = init_state(start.params, optimizer, 0, mesh, start.memory)
        step = make_train_step(start.loss_fn, optimizer)
        train_step = compile_train_step(step, mesh, current_shardings(state))
        placed = [
            place_batch(batch.arrays, mesh)
            for batch in itertools.islice(iter(start.batches), (self.rounds + 1) * self.steps)
        ]
        remaining = iter(placed)

        def take(count: int) -> None:
            nonlocal state
            for batch in itertools.islice(remaining, count):
                state, _ = train_step(state, batch)
            jax.block_until_ready(state)

        take(self.steps)

        def turn(index: int) -> dict[str, float]:
            del index
            clocks.reset()
            began = time.perf_counter()
            take(self.steps)
            spent = time.perf_counter() - began
            host = {f"{name}_s": seconds / self.steps for name, seconds in clocks.seconds.items()}
            share = sum(clocks.seconds.values()) / spent
            return {"wall_s": spent / self.steps, **host, "share": share}

        return turn


class _Clocks:
    """Measures the calls of a task's executor, in steps that are compiled while it is entered."""

    METHODS = {"reward": "rewards", "support": "support"}

    def __init__(self, task: str):
        from hardem_jax.tasks.tables import program_search, query_search

        self._executor: Any = (
            query_search.QueryExecutor if task == "queries" else program_search.ProgramExecutor
        )

    def reset(self) -> None:
        self.seconds = dict.fromkeys(self.METHODS, 0.0)

    def __enter__(self) -> "_Clocks":
        self.reset()
        self._originals = {
            name: getattr(self._executor, method)
            for name, method in self.METHODS.items()
            if hasattr(self._executor, method)
        }
        for name, original in self._originals.items():
            setattr(self._executor, self.METHODS[name], self._clocked(name, original))
        return self

    def __exit__(self, *_: Any) -> None:
        for name, original in self._originals.items():
            setattr(self._executor, self.METHODS[name], original)

    def _clocked(self, name: str, original: Any) -> Any:
        def clocked(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            result = original(*args, **kwargs)
            self.seconds[name] += time.perf_counter() - began
            return result

        return clocked


def _query_beam() -> Callable[[Any], Any]:
    """The ten best queries of 64 questions, of random logits."""
    import jax

    from hardem_jax.distributions.sql import QueryDistribution

    shapes = {
        **{"select": (64, 16), "aggregator": (64, 16, 6), "number": (64, 4), "column": (64, 16)},
        **{"operator": (64, 16, 3), "first": (64, 16, 3, 40), "last": (64, 16, 3, 40)},
    }

    def beam(key: Any) -> Any:
        columns, words = (jax.numpy.ones(shape, bool) for shape in ((64, 16), (64, 40)))
        logits = _random(key, shapes)
        return QueryDistribution.from_logits(**logits, columns=columns, words=words).top(10)

    return beam


def _program_beam() -> Callable[[Any], Any]:
    """The ten best programs of 64 questions with 64 links, of random logits."""
    import jax

    from hardem_jax.distributions.program import ProgramDistribution
    from hardem_jax.models.program_parser import KINDS, NUM_KINDS
    from hardem_jax.solutions.programs.rules import ProgramRules
    from hardem_jax.solutions.programs.types import PARTS, SHAPES
    from hardem_jax.tasks.tables import program_search

    num_fields = 16 * len(PARTS)
    shapes: dict[str, tuple[int, ...]] = {"shape": (64, len(SHAPES))}
    for name, kinds in zip(("select", "modify", "link1", "link2"), NUM_KINDS, strict=True):
        shapes[name] = (64, kinds, 64 if "link" in name else num_fields)

    def beam(key: Any) -> Any:
        jnp = jax.numpy
        field, first = jax.random.randint(key, (2, 64, 64), 0, 40)
        links = jnp.stack([field, 0 * field, first, first + 1], axis=-1)
        batch = {"links": links, "links_where": jnp.ones((64, 64), bool)}
        within = program_search.support(batch, num_fields, ProgramRules())
        logits = _random(key, shapes)
        return ProgramDistribution.from_logits(**logits, kinds=KINDS).top(10, within=within)

    return beam


def _random(key: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    import jax

    keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
    return {name: jax.random.normal(keys[name], shape) for name, shape in shapes.items()}


def _repeated(function: Callable[[Any], Any]) -> Callable[[int], None]:
    """A compiled call, to be repeated."""
    import jax

    compiled = jax.jit(function)

    def repeat(count: int) -> None:
        for index in range(count):
            jax.block_until_ready(compiled(jax.random.key(index)))

    repeat(1)
    return repeat


def main(argv: Sequence[str] | None = None) -> None:
    run_command(SearchCost, prog="python -m experiments.benchmark.costs.search", argv=argv)


if __name__ == "__main__":
    main()
