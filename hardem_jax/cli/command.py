"""Command lines from dataclasses, paths in buckets; errors of users end with exit code 2."""

import contextlib
import copy
import dataclasses
import errno
import inspect
import io
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast, get_type_hints

import tyro

from hardem_jax.buckets.names import address, shown
from hardem_jax.data.files import CANNOT_WRITE, read_json
from hardem_jax.errors import TERMINATION, InputError, MissingPackageError, Stopped, one_line
from hardem_jax.settings import from_json

#: Takes a file with flags, ``config.json`` of a run or ``comparison.json``; others override them.
CONFIG = "--config"
_ABOUT_CONFIG = (
    f"{CONFIG} FILE takes the flags that are not given from the config.json of a run (train) or "
    "from a comparison.json (compare)."
)
# Flags of an outer command may follow those of its objective.
_TYRO_OPTIONS = (tyro.conf.CascadeSubcommandArgs,)

#: Flags that may name a bucket: what is read, the run that is read (and gets files, such as
#: scores), the run that another one starts from, what is written.
READ, RUN, STARTED_FROM, WRITTEN = ("data", "dev"), "run_dir", "init_from", "out"


def run_command(
    commands: Mapping[str, type] | type, *, prog: str, argv: Sequence[str] | None = None
) -> None:
    """Parses a command line such as ``train --data DIR`` and runs it.

    ``commands`` maps a name to a frozen dataclass whose fields are the flags and whose method
    ``run`` does the work; or it is the dataclass of a program with one command. ``train --config
    runs/mml/config.json --out runs/again`` takes all other flags from a file.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Answers and tables hold whatever the data hold; not every terminal can show it.
        sys.stdout.reconfigure(errors="backslashreplace")
    with exit_with_one_line():
        with on_this_disk(parse(commands, prog=prog, argv=argv)) as local:
            local.run()
        sys.stdout.flush()  # here, where a closed pipe ends the program quietly


def parse(commands: Any, *, prog: str, argv: Sequence[str] | None = None) -> Any:
    """The dataclass that a command line describes; ``commands`` may be a union of them, too.

    Raises:
        InputError: the file of ``--config`` holds no flags of this command, or a value is refused.
        SystemExit: code 2, after tyro has told what is wrong; code 0, for ``--help``.
    """
    file, argv = _without(CONFIG, sys.argv[1:] if argv is None else argv)
    if isinstance(commands, Mapping):
        if argv and argv[0] in commands:
            # That command alone: its help and suggestions name no flag of another.
            commands, prog, argv = commands[argv[0]], f"{prog} {argv[0]}", argv[1:]
        elif argv[:1] in (["-h"], ["--help"]):
            print(listing(f"{prog} COMMAND", {name: x.__doc__ for name, x in commands.items()}))
            raise SystemExit(0)
        elif file is not None:
            found = repr(argv[0]) if argv else "none"
            raise InputError(f"{CONFIG}: expected one of {', '.join(commands)}, found {found}")
        else:
            return tyro.extras.subcommand_cli_from_dict(dict(commands), prog=prog, args=argv)
    options: dict[str, Any] = {"prog": prog, "args": argv, "config": _TYRO_OPTIONS}
    if file is not None:
        options["default"] = _of_file(commands, _on_this_disk(file))
    if getattr(commands, "SAVES_FLAGS", False):
        options["description"] = f"{_about(commands)}\n\n{_ABOUT_CONFIG}"
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            return tyro.cli(commands, **options)
    except SystemExit as stop:
        if (refused := _refused(stop)) is not None:
            told = io.StringIO()
            raise InputError(refused) from None
        raise
    finally:
        sys.stderr.write(told.getvalue())


def unframed(box: str) -> str:
    """What tyro says in a frame, on one line and without its advice to see the help."""
    _, _, lines = box.partition("\n")  # the first has the title
    return " ".join(re.sub("[╰╯│─]|-{3,}", " ", lines).split()).partition(" For full helptext")[0]


def _refused(stop: SystemExit) -> str | None:
    """What a dataclass says of its values, with the flag as one types it; None if tyro refused.
    tyro ends the program while it handles the dataclass's error, beside the name of its field."""
    error, prefix = stop.__context__, ""
    while error is not None and not isinstance(error, ValueError):
        prefix, error = getattr(error, "arg", ""), error.__context__
    if error is None or not isinstance(prefix, str):  # of one flag, which tyro names
        return None
    prefix = prefix if prefix.islower() else ""  # a class, of the command itself
    name, colon, rest = str(error).partition(": ")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9_.]*", name):
        return f"--{prefix.replace('_', '-')}: {error}" if prefix else str(error)
    flag = ".".join(filter(None, (prefix, name))).replace("_", "-")
    return f"--{flag}: {rest}"


def listing(usage: str, about: Mapping[str, str | None]) -> str:
    """What may stand in the place of the last word of ``usage``, with the first line about each."""
    width = max(map(len, about))
    first = {name: (text or "").strip().partition("\n")[0] for name, text in about.items()}
    lines = [f"  {name:<{width}}  {text.replace('``', '')}" for name, text in first.items()]
    return "\n".join([f"usage: {usage} ...", "", *lines, "", f"More about one: {usage} --help"])


def _without(flag: str, argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of a flag that tyro does not know, and all other words."""
    for n, word in enumerate(argv):
        if word == flag:
            if not argv[n + 1 :] or argv[n + 1].startswith("-"):
                raise InputError(f"{flag}: expected a file, found none")
            return argv[n + 1], [*argv[:n], *argv[n + 2 :]]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2], [*argv[:n], *argv[n + 1 :]]
    return None, list(argv)


def _on_this_disk(file: str) -> Path:
    if (where := address(file)) is None:
        return Path(file)
    from hardem_jax.buckets.copies import copy

    return copy(where)


def _of_file(kind: type, file: Path) -> Any:
    """The command whose flags a run or a comparison has saved."""
    content = read_json(file)
    content = content.get("flags") if isinstance(content, dict) else None
    if not isinstance(content, dict) or content.get("type") != kind.__name__:
        found = f"those of {content.get('type')!r}" if isinstance(content, dict) else "none"
        raise InputError(f"{file}: expected flags of {kind.__name__!r}, found {found}")
    return from_json(kind, content, f"{shown(file)}: flags")


@contextlib.contextmanager
def on_this_disk(command: Any) -> Iterator[Any]:
    """The command with local folders for those in buckets; uploads what it has written."""
    values = vars(command) if dataclasses.is_dataclass(command) else {}
    # The flags that name a bucket, each with its path or paths.
    named = {
        name: value if isinstance(value, tuple) else (value,) for name, value in values.items()
    }
    named = {name: paths for name, paths in named.items() if any(map(_in_bucket, paths))}
    if not named:
        yield command
        return
    from hardem_jax.buckets.copies import CHECKPOINTS, copy, run_to_read  # they need fsspec
    from hardem_jax.buckets.mirror import mirror

    for name, paths in named.items():
        if name not in (*READ, RUN, STARTED_FROM, WRITTEN):
            found, flag = next(filter(None, map(address, paths))), name.replace("_", "-")
            raise InputError(f"--{flag}: expected a path on this disk, found {found}")
    with contextlib.ExitStack() as open:

        def local(name: str, path: Any) -> Any:
            if (where := address(path)) is None:
                return path
            if name == WRITTEN:
                return open.enter_context(mirror(where))
            if name == RUN:
                used = getattr(command, "checkpoint", None)
                unused = [each for each in CHECKPOINTS if used in CHECKPOINTS and each != used]
                return open.enter_context(run_to_read(where, without=unused))
            return copy(where, without=["last"] if name == STARTED_FROM else [])

        changes: dict[str, Any] = {}
        for name, paths in named.items():
            found = tuple(local(name, path) for path in paths)
            changes[name] = found if isinstance(values[name], tuple) else found[0]
        yield dataclasses.replace(cast(Any, command), **changes)


def _in_bucket(value: Any) -> bool:
    return isinstance(value, Path) and address(value) is not None


@contextlib.contextmanager
def exit_with_one_line():
    """Turns an error that a person can act on into one line on stderr.

    The exit code is 2 for an `InputError`; 1 for a loss that is not finite, a missing package and
    what the machine refuses, such as a full disk; 128 and its number after a signal, without a line
    for SIGPIPE, once the reader of the output has gone.
    """
    with _raising_signals(), _quiet_loops():
        try:
            yield
        except (InputError, FloatingPointError, MissingPackageError) as error:
            _exit(str(error), 2 if isinstance(error, InputError) else 1)
        except BrokenPipeError:
            # `head` has enough. What is still in the buffer must not be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(128 + signal.SIGPIPE) from None
        except OSError as error:
            if error.errno not in CANNOT_WRITE:  # a defect
                raise
            named = "" if error.filename is None else f"{error.filename}: "
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            advice = "; make room and repeat the command" if full else ""
            _exit(f"{named}{error.strerror}{advice}", 1)
        except KeyboardInterrupt as error:
            signum = getattr(error, "signum", signal.SIGINT)
            line = str(error) or f"stopped by {signal.Signals(signum).name}"
            _exit(line, 128 + signum, kind="")  # as somebody has wished


def _exit(line: str, code: int, *, kind: str = "error: ") -> NoReturn:
    print(f"{kind}{one_line(shown(line))}", file=sys.stderr)
    raise SystemExit(code) from None


@contextlib.contextmanager
def _raising_signals():
    """Termination unwinds the stack as Ctrl-C does, so that half-written files are removed."""

    def handle(signum: int, frame: Any) -> None:
        raise Stopped(signum, f"stopped by {signal.Signals(signum).name}")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, handle) for signum in TERMINATION}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextlib.contextmanager
def _quiet_loops():
    """Prints no late reports of an event loop that is closed, and loses no signal. TensorStore
    reports to the loop that an error or a signal has closed. A signal may come while Python
    finalizes an object, where exceptions are ignored; it is then sent again."""
    before = sys.unraisablehook

    def report(unraisable: Any) -> None:
        lost = unraisable.exc_value
        if isinstance(lost, KeyboardInterrupt):
            if not getattr(lost, "recorded", False):
                signum = getattr(lost, "signum", signal.SIGINT)
                # Later and from elsewhere: if the handler raised here, it would be ignored again.
                threading.Timer(0.05, os.kill, (os.getpid(), signum)).start()
        elif str(lost) != "Event loop is closed":
            before(unraisable)

    sys.unraisablehook = report
    ending = False
    try:
        yield
    except SystemExit:
        ending = True  # the hook stays, for reports may come until the process ends
        raise
    finally:
        if not ending:
            sys.unraisablehook = before


def peak_mib() -> float:
    """The most memory this process has had so far, in MiB, mapped files included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


_ATTRIBUTES = "Attributes:\n"


def with_flags_of(
    *kinds: type,
    name: str,
    base: type,
    without: Collection[str] = (),
    defaults: Mapping[str, Any],
    **attributes: Any,
) -> Any:
    """A subclass of ``base`` that has the fields of other dataclasses, too, and their docstrings.
    Of fields with one name, those of the first of ``kinds`` count, and then ``base``'s.
    ``defaults`` replace theirs; ``attributes`` are those of the class."""
    fields: dict[str, tuple[str, Any, dataclasses.Field]] = {}
    docs: dict[str, str] = {}
    for kind in (base, *reversed(kinds)):
        hints = get_type_hints(kind, include_extras=True)
        skipped = () if kind is base else without
        for field in dataclasses.fields(kind):
            if field.name not in skipped:
                fields[field.name] = (field.name, hints[field.name], copy.copy(field))
        docs |= {name: text for name, text in _docs(kind).items() if name not in skipped}
    for field, default in defaults.items():
        fields[field][2].default = default
    attributes["__doc__"] = f"{_about(base)}\n\n{_ATTRIBUTES}{''.join(docs.values())}"
    attributes["__module__"] = kinds[0].__module__
    return dataclasses.make_dataclass(
        name, fields.values(), bases=(base,), namespace=attributes, frozen=True, kw_only=True
    )


def _about(kind: Any) -> str:
    """The docstring of a dataclass before its fields."""
    return inspect.cleandoc(kind.__doc__ or "").partition(_ATTRIBUTES)[0].strip()


def _docs(kind: type) -> dict[str, str]:
    """Field -> its lines in the docstrings of a dataclass and its bases."""
    docs = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(vars(base).get("__doc__") or "").partition(_ATTRIBUTES)[2]
        for lines in re.split(r"^(?=    \w+: )", text, flags=re.MULTILINE)[1:]:
            docs[lines.partition(":")[0].strip()] = f"{lines.rstrip()}\n"
    return docs
