"""Fuzzing of all readers and command lines: ``python -m tests.robustness.fuzz``.

Small files in every official layout are generated and randomly damaged: bytes, lines, JSON values,
columns. A reader may read what is left or raise `InputError` with a one-line printable message;
anything else is a finding, printed with the name and the number that reproduce the input::

    python -m tests.robustness.fuzz --count 100000 --seed 0
    python -m tests.robustness.fuzz --targets drop --first 4711 --count 1
"""

import collections
import dataclasses
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardem_jax.cli.command import parse, peak_mib, run_command
from hardem_jax.errors import MAX_MESSAGE, InputError, printable, require
from tests.robustness.flags import MODULES, numbers
from tests.robustness.targets import targets, write_files

COMMAND_LINES = "command lines"


@dataclasses.dataclass(frozen=True)
class Finding:
    """An input that caused something other than a result or a one-line error."""

    target: str
    number: int
    error: str


# --- mutations -----------------------------------------------------------------------------------

_TEXTS = ("", " ", "\x00", "\x1b[2J\u202e\u200b", "\ud800", "x" * 3000, "../../x", "e\u0301", "nan")
_VALUES = (None, True, -1, 0, 10**30, 2**63, 1.5, -0.0, float("nan"), float("inf"), [], {}, [[]])
_INSERTS = (b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b'"', b"\\", b"\x1b[31m",
            "\u202e\u2028".encode(), b"NaN", b"1e999", b"-Infinity", b"9" * 400,
            b"\\udc00", b"[" * 50, b",", b"\t", b";", b"{}", b"x" * 300)  # fmt: skip
_LONG = (b"y" * 200_000, b"[" * 100_000, b'{"a":' * 20_000, b"9" * 6_000, b"\n" * 5_000)


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Returns the content with random damage."""
    if draw.random() < 0.5 and (damaged := _with_other_value(content, draw)) is not None:
        content = damaged
        if draw.random() < 0.7:
            return content
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        content = _with_other_bytes(content, draw)
    return content


def _with_other_bytes(content: bytes, draw: random.Random) -> bytes:
    at, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    match draw.randrange(9):
        case 0 if content:
            at = draw.randrange(len(content))
            return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
        case 1:
            return content[:at]
        case 2:
            return content[:at] + content[end:]
        case 3:
            return content[:end] + content[at:end] + content[end:]
        case 4:
            return content.replace(b"\n", b"\r\n")
        case 5:
            return b"\xef\xbb\xbf" + content
        case 6 if draw.random() < 0.03:
            return content[:at] + draw.choice(_LONG) + content[at:]
        case 7:
            # Replaces a number, a delimiter or a line break.
            pattern = draw.choice((rb"\d+", rb"[\t,;]", rb"\n"))
            matches = [*re.finditer(pattern, content)]
            if matches:
                match = draw.choice(matches)
                return content[: match.start()] + draw.choice(_INSERTS) + content[match.end() :]
    return content[:at] + draw.choice(_INSERTS) + content[at:]


def _with_other_value(content: bytes, draw: random.Random) -> bytes | None:
    """Changes a value, key or length in JSON or a line of JSON lines; None if it is not JSON."""
    lines = content.split(b"\n")
    line = draw.randrange(len(lines))
    try:
        value = json.loads(lines[line])
    except (ValueError, RecursionError):
        return None
    locations = list(_locations(value))
    if not locations:
        return None
    parent, key = draw.choice(locations)
    duplicate = None
    match draw.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.extend(parent[:] * 3)
        case 2 if isinstance(parent, dict):
            parent[draw.choice(_TEXTS)] = parent.pop(key)
        case 3 if isinstance(parent, dict):
            duplicate = json.dumps(key), json.dumps(draw.choice(_VALUES))
        case _:
            parent[key] = draw.choice((*_TEXTS, *_VALUES))
    text = json.dumps(value)
    if duplicate is not None:
        name, other = duplicate
        text = text.replace(f"{name}: ", f"{name}: {other}, {name}: ", 1)
    lines[line] = text.encode()
    return b"\n".join(lines)


def _locations(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields (container, key or index) of every nested value."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _locations(value[key])


# --- command lines -------------------------------------------------------------------------------


def command_line(draw: random.Random) -> tuple[Mapping[str, type], list[str]]:
    """Returns the commands of a module and mostly invalid arguments for one of them."""
    commands = draw.choice(MODULES).COMMANDS
    name = draw.choice([*commands])
    arguments = [name]
    for flag in draw.sample(_FLAGS, draw.randrange(1, 6)):
        value = draw.choice(
            (*_TEXTS[:-3], "-1", "0", "nan", "inf", "1e30", "x", "64 8", str(10**30))
        )
        arguments += [flag, *value.split(" ")][: draw.randrange(1, 4)]
    return commands, [argument.replace("\x00", "") for argument in arguments]


_FLAGS = (
    *("--data", "--dev", "--out", "--file", "--split", "--loop.seed", "--batches.buckets", "--top"),
    *("--batches.batch-size", "--optimizer.learning-rate", "--model.num-layers", "--model.dtype"),
    *("--windows.stride", "--rules.digits", "--retriever.passages", "--objective.tau", "--help-me"),
    *("--dev-questions", "objective:mml", "--model.dropout", "--seeds", "--fsdp", "--run-dir"),
)


# --- command -------------------------------------------------------------------------------------


class Fuzzer:
    """Generates inputs by number and reads them.

    Args:
        seed: seed of all inputs.
    """

    def __init__(self, seed: int):
        self.seed = seed
        self._targets = targets()
        self._numbers = list(numbers().values())
        self.names = (*self._targets, COMMAND_LINES)
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        for name, target in self._targets.items():
            write_files(Path(self._folder.name, name), target.files)

    def __enter__(self) -> "Fuzzer":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def read_whole(self, name: str) -> None:
        """Reads a target's undamaged files."""
        self._targets[name].read(Path(self._folder.name, name))

    def try_input(self, name: str, number: int) -> tuple[bool, Finding | None]:
        """Returns whether input ``number`` of a target was read, and a finding if there is one."""
        draw = random.Random(f"{self.seed} {name} {number}")
        attempt = self._flags if name == COMMAND_LINES else self._file
        try:
            attempt(name, draw)
        except InputError as error:
            message = str(error)
            if not message or len(message) > MAX_MESSAGE or printable(message) != message:
                return False, Finding(name, number, f"malformed message: {message!r}")
            return False, None
        except Exception:  # anything else is a defect of the reader
            return False, Finding(name, number, traceback.format_exc(limit=-3))
        return True, None

    def _file(self, name: str, draw: random.Random) -> None:
        folder, target = Path(self._folder.name, name), self._targets[name]
        damaged = draw.choice([*target.files])
        try:
            (folder / damaged).write_bytes(mutated(target.files[damaged], draw))
            target.read(folder)
        finally:
            (folder / damaged).write_bytes(target.files[damaged])

    def _flags(self, name: str, draw: random.Random) -> None:
        if draw.random() < 0.9:
            number = draw.choice(self._numbers)
            value = draw.choice((-1, 0, 1, 2, 7, 10**9, 10**30, 0.5, -0.5, 1e308, *_VALUES[8:10]))
            try:
                number.set(value if number.kind is float or isinstance(value, int) else 3)
            except ValueError as error:  # raised by objectives; tyro prints both alike
                raise InputError(str(error)) from error
            return
        commands, arguments = command_line(draw)
        try:
            parse(commands, prog="fuzz", argv=arguments)
        except SystemExit as stop:
            if stop.code:
                raise


@dataclasses.dataclass(frozen=True)
class Fuzz:
    """Feed damaged input to readers and command lines.

    Attributes:
        count: number of inputs over all targets.
        seed: seed of the inputs.
        minutes: stop after this time.
        first: number of the first input of each target.
        targets: targets to fuzz; all by default.
        shown: number of findings to print in full.
    """

    count: int = 100_000
    seed: int = 0
    minutes: float = 60
    first: int = 0
    targets: tuple[str, ...] = ()
    shown: int = 10

    def __post_init__(self) -> None:
        require(self, "count", at_least=1)
        require(self, "seed", "first", "shown", at_least=0)
        require(self, "minutes", above=0)

    def run(self) -> None:
        with Fuzzer(self.seed) as fuzzer:
            if unknown := set(self.targets) - set(fuzzer.names):
                known = ", ".join(fuzzer.names)
                raise InputError(f"--targets: expected some of {known}, found {min(unknown)}")
            self._run(fuzzer, self.targets or fuzzer.names)

    def _run(self, fuzzer: Fuzzer, names: Sequence[str]) -> None:
        begin = time.perf_counter()
        counts: collections.Counter[str] = collections.Counter()
        read = 0
        findings: list[Finding] = []
        for index in range(self.count):
            if time.perf_counter() - begin > 60 * self.minutes:
                break
            name = names[index % len(names)]
            was_read, finding = fuzzer.try_input(name, self.first + counts[name])
            counts[name] += 1
            read += was_read
            if finding is not None:
                findings.append(finding)
        seconds = time.perf_counter() - begin
        for finding in findings[: self.shown]:
            print(
                f"--seed {self.seed} --targets '{finding.target}' --first {finding.number} "
                f"--count 1:\n{finding.error}",
                file=sys.stderr,
            )
        total = counts.total()
        print(f"{total} inputs of {len(counts)} targets: {read} read, {total - read} refused")
        print(f"{len(findings)} ended in something other than a one-line error")
        print(f"{total / seconds:.0f} inputs/s; peak memory {peak_mib():.0f} MiB")
        if findings:
            raise SystemExit(1)


if __name__ == "__main__":
    run_command(Fuzz, prog="python -m tests.robustness.fuzz")
