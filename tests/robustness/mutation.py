"""Mutation testing: ``python -m tests.robustness.mutation``.

Makes small changes to modules, one at a time (`tests.robustness.mutants`), and runs the tests that
call the changed function until one fails. A change that no test notices survives: either a test is
missing or the code has no effect::

    pip install -e '.[mutation]'
    python -m tests.robustness.mutation --modules hardem_jax/losses.py \\
        --tests tests/test_losses.py tests/test_pitfalls.py --sample 100 --out losses.jsonl

A second call with the same ``--out`` continues where the first one stopped. ``--again`` runs the
surviving mutants in the file again, after tests were added.

One pytest session collects the tests. Each mutant runs in a forked child that replaces one
function's ``__code__``, so that nothing is imported twice. JAX does not survive a fork once it has
computed something, so test files must not create arrays at import time.
"""

import contextlib
import cProfile
import dataclasses
import functools
import gc
import json
import multiprocessing
import os
import random
import signal
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Column, Table

from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError, require
from tests.robustness.mutants import Mutant, mutants

#: As in pyproject.toml, but without pytest-xdist; children have no terminal.
PYTEST = (
    "-qq -s --tb=no --no-summary -p no:cacheprovider --disable-plugin-autoload"
    " -o addopts= --import-mode=importlib"
)
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


class Bench:
    """A pytest plugin that runs mutants instead of the tests.

    Args:
        mutants: mutants to run, in order.
        report: called with each mutant, its result and the test that failed.
        minutes: stop after this time.
        seconds: time budget for the tests of one mutant; a mutant that passes them survives.
        more: seconds that a mutant may take in addition to five times its tests' normal time.
    """

    def __init__(
        self,
        mutants: Sequence[Mutant],
        report: Callable[[Mutant, str, str], None],
        *,
        minutes: float = 60.0,
        seconds: float = 60.0,
        more: float = 30.0,
    ) -> None:
        self._mutants, self._report = mutants, report
        self._minutes, self._seconds, self._more = minutes, seconds, more
        self._files = {str(Path(m.path).resolve()) for m in mutants}
        self._failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise InputError("--tests: expected files that pytest can collect, found errors")
        begin = time.perf_counter()
        functions = self._functions()
        gc.freeze()  # so that children copy fewer pages
        rows = _in_child(lambda: self._traced(session.items), 1800)
        if not isinstance(rows, list):
            found = rows or "a timeout after 30 minutes"
            raise InputError(f"--tests: expected files that run in a fork, found {found}")
        traces = {session.items[number]: (seconds, called) for number, seconds, called in rows}
        for one in self._mutants:
            if time.perf_counter() - begin > 60 * self._minutes:
                break
            place = str(Path(one.path).resolve()), one.function
            if target := functions.get(place):
                chosen, seconds = self._choose(traces, place)
                test = functools.partial(self._test, target, _code(one.source, *place), chosen)
                failed = _in_child(test, 5 * seconds + self._more)
                result = TIMEOUT if failed is None else KILLED if failed else SURVIVED
                self._report(one, result, failed or f"{len(chosen)} tests")
        return True

    def _choose(
        self, traces: Mapping[pytest.Item, tuple[float, set]], function: tuple[str, str]
    ) -> tuple[list[pytest.Item], float]:
        """Returns tests for a function and their total seconds: its callers first, by duration.

        The other tests of the same files follow, because a fixture, a cache or a compiled
        function may call the function only in the first test.
        """
        calling = {item for item, (_, called) in traces.items() if function in called}
        files = {item.path for item in calling}
        ranked = sorted(
            (item not in calling, traces[item][0], item.nodeid, item)
            for item in traces
            if item.path in files
        )
        chosen, total = [], 0.0
        for *_, seconds, _, item in ranked:
            if chosen and total + seconds > self._seconds:
                break
            total += seconds
            chosen.append(item)
        return chosen, total

    def _functions(self) -> dict[tuple[str, str], types.FunctionType]:
        """Returns the functions of the modules, by file and qualified name."""
        return {
            (f.__code__.co_filename, f.__code__.co_qualname): f
            for f in gc.get_objects()
            if isinstance(f, types.FunctionType) and f.__code__.co_filename in self._files
        }

    def _test(
        self, target: types.FunctionType, code: types.CodeType, items: Sequence[pytest.Item]
    ) -> str:
        """Returns the first test that fails with other code in a function, or ''."""
        target.__code__ = code
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return self._failed[0]
        return ""

    def _traced(self, items: Sequence[pytest.Item]) -> list[tuple[int, float, set]]:
        """Returns number, seconds and called functions of every passing test."""
        rows = []
        for number, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
            begin = time.perf_counter()
            with cProfile.Profile(subcalls=False, builtins=False) as profile:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            codes = [entry.code for entry in profile.getstats()]
            called = {
                (code.co_filename, code.co_qualname.split(".<locals>")[0])
                for code in codes
                if isinstance(code, types.CodeType) and code.co_filename in self._files
            }
            rows.append((number, time.perf_counter() - begin, called))
        return [row for row in rows if items[row[0]].nodeid not in self._failed]


def _code(source: str, path: str, function: str) -> types.CodeType:
    """Compiles a module and returns the code of one function."""
    queue = [compile(source, path, "exec")]
    for code in queue:
        if code.co_qualname == function:
            return code
        queue += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    raise AssertionError(function)


def _in_child(action: Callable[[], Any], seconds: float) -> Any:
    """Runs an action in a forked process and returns its result.

    Returns None after `seconds`, and "a process that died" if the process dies.
    """
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(action, send))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax warns about forks, but has computed nothing yet
        process.start()
    send.close()
    try:
        return receive.recv() if receive.poll(seconds) else None
    except EOFError:
        return "a process that died"
    finally:
        receive.close()
        with contextlib.suppress(ProcessLookupError):
            # Includes processes that tests started.
            os.killpg(int(process.pid or 0), signal.SIGKILL)
        process.join()


def _child(action: Callable[[], Any], send: Connection) -> None:
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(silence, stream)
    send.send(action())


def run(
    mutants: Sequence[Mutant],
    tests: Sequence[str],
    report: Callable[[Mutant, str, str], None],
    **limits: float,
) -> None:
    """Runs mutants with tests and with the doctests of their modules.

    Args:
        mutants: mutants to run, in order.
        tests: test files or folders.
        report: called with each mutant, its result (killed, survived or timeout) and a remark.
        limits: `minutes`, `seconds` and `more` of `Bench`.

    Raises:
        InputError: the tests cannot be collected.
    """
    modules = sorted({m.path for m in mutants})
    bench = Bench(mutants, report, **limits)
    arguments = [*PYTEST.split(), "--doctest-modules", *tests, *modules]
    code = pytest.main(arguments, plugins=[bench])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code != pytest.ExitCode.OK:
        raise InputError(f"--tests: expected files that pytest can collect, found {code!r}")


@dataclasses.dataclass(frozen=True)
class Mutation:
    """Make small changes to modules, one at a time, and check whether tests notice.

    Attributes:
        modules: files, relative to the working directory.
        tests: files or folders of their tests.
        out: JSON lines file with one line per mutant that ran.
        sample: number of randomly sampled mutants.
        seed: seed of the sample.
        minutes: stop after this time.
        seconds: time budget for the tests of one mutant, quickest first.
        again: run the surviving mutants in the file again.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    out: Path
    sample: int = 10**9
    seed: int = 0
    minutes: float = 60.0
    seconds: float = 60.0
    again: bool = False

    def __post_init__(self) -> None:
        require(self, "sample", at_least=1)
        require(self, "seed", at_least=0)
        require(self, "minutes", "seconds", above=0)

    def run(self) -> None:
        made = [mutants(path) for path in self.modules]
        drawn = [one for batch, _ in made for one in batch]
        total = len(drawn)
        random.Random(self.seed).shuffle(drawn)
        drawn = drawn[: self.sample]
        rows = self._rows()
        wanted = {key for key, row in rows.items() if row["now"] == SURVIVED}
        chosen = [m for m in drawn if (m.key in wanted if self.again else m.key not in rows)]
        with self.out.open("a", encoding="utf-8") as file:

            def report(one: Mutant, result: str, remark: str) -> None:
                row = {"path": one.path, "function": one.function, "diff": one.diff}
                row |= {"line": one.line, "result": result, "remark": remark}
                print(json.dumps(row), file=file, flush=True)

            if chosen:
                run(chosen, self.tests, report, minutes=self.minutes, seconds=self.seconds)
        rows = self._rows()
        ran = [(m, rows[m.key]) for m in drawn if m.key in rows]
        for one, row in ran:
            if row["now"] == SURVIVED:
                print(f"{one.path}:{one.line}: {one.function}, {row['remark']}\n{one.diff}\n")
        outside = sum(count for _, count in made)
        Console().print(table(total, [row for _, row in ran]))
        print(f"{outside} changes outside functions were skipped")

    def _rows(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Returns the last row of every mutant by key, with its first result."""
        rows: dict[tuple[str, str, str], dict[str, Any]] = {}
        if self.out.exists():
            for line in self.out.read_text("utf-8").splitlines():
                row = json.loads(line)
                key = row["path"], row["function"], row["diff"]
                first = rows[key]["first"] if key in rows else row["result"]
                rows[key] = row | {"now": row["result"], "first": first}
        return rows


def table(total: int, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Tabulates how many mutants exist, ran, and were killed in the first and the last run."""
    names = ("mutants", "run", "killed at first", "killed now", "of which timeouts", "survived")
    result = Table(*(Column(name, justify="right") for name in names), box=None)
    first, now = ([row[name] for row in rows] for name in ("first", "now"))
    killed = len(rows) - now.count(SURVIVED)
    share = f" ({killed / len(rows):.0%})" if rows else ""
    counts = [total, len(rows), len(rows) - first.count(SURVIVED), f"{killed}{share}"]
    result.add_row(*map(str, [*counts, now.count(TIMEOUT), now.count(SURVIVED)]))
    return result


if __name__ == "__main__":
    run_command(Mutation, prog="python -m tests.robustness.mutation")
