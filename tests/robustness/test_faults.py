"""Commands that are killed, starved of disk or given damaged files, and then run again.

Each is run on a tiny corpus in a process of its own. A signal or a second process comes at a random
moment of its work; the same command must then end as one that nobody disturbed, byte for byte.
"""

import contextlib
import random
import shutil
import signal
import time

import pytest

from tests.robustness.processes import TIMEOUT, Runner
from tests.robustness.subjects import RETRIEVE, SHOW, SUBJECTS, file_contents, write_corpus

pytestmark = pytest.mark.slow
#: Signals may come too late.
ATTEMPTS = 20


def flipped(content, rng):
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


DAMAGES = {
    "flipped bit": flipped,
    "truncated": lambda content, rng: content[: rng.randrange(len(content))],
    "emptied": lambda content, rng: b"",
    "deleted": None,
    "lengthened": lambda content, rng: content + rng.randbytes(rng.randint(1, 64)),
}


class Bench:
    """A corpus, what commands make of it undisturbed, and the seconds that they work."""

    def __init__(self, root):
        self.root, self.clean = root, root / "clean"
        self.runner = Runner(root / "compiled")
        write_corpus(root / "corpus")
        self.seconds, self.printed = {}, {}
        for name in ("prepare", "train", "evaluate", "index", "build"):
            for folder in (root / "first", self.clean):  # the second finds its programs compiled
                process = self.start(name, folder, keep=True)
                began = time.monotonic()
                ended = process.end()
                self.seconds[name] = time.monotonic() - began
                assert ended.code == 0, ended
        for command in (RETRIEVE, SHOW):
            ended = self.runner.run(command.argv(self.clean), keep=True)
            self.printed[command] = ended.printed

    def copied(self, *names):
        """A folder with some of the undisturbed results."""
        work = self.root / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        for name in names:
            shutil.copytree(self.clean / name, work / name)
        return work

    def start(self, name, folder, **options):
        """A command that has taken its lock, if it has one."""
        lock = SUBJECTS[name].lock
        process = self.runner.start(SUBJECTS[name].make.argv(folder), **options)
        deadline = time.monotonic() + TIMEOUT
        while lock and process.alive and not self.locked(name, folder):
            assert time.monotonic() < deadline
            time.sleep(0.002)
        return process

    def locked(self, name, folder):
        with contextlib.suppress(FileNotFoundError):  # the owner is written once it has the lock
            return any(file.stat().st_size for file in folder.glob(SUBJECTS[name].lock))

    def check(self, command, folder, printed=b""):
        expected = command.results(self.clean, self.printed.get(command, b""))
        assert command.results(folder, printed) == expected

    def check_again(self, name, folder):
        """Nothing half-written is left, and the same command ends as if nothing had happened."""
        command = SUBJECTS[name].make
        again = self.runner.run(command.argv(folder))
        assert again.code == 0 and not again.traceback, again
        self.check(command, folder)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    # As a shell starts a job in the background, which still has to meet SIGINT.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return Bench(tmp_path_factory.mktemp("faults"))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("name", "kill"),
    [("train", "SIGKILL"), ("prepare", "SIGINT"), ("index", "SIGKILL"), ("build", "SIGTERM")],
)
def test_a_command_that_is_killed_runs_again(bench, name, kill):
    signum, rng = signal.Signals[kill], random.Random(0)
    silent = kill == "SIGKILL"
    for attempt in range(ATTEMPTS):
        folder = bench.copied(*SUBJECTS[name].needs)
        process = bench.start(name, folder)
        process.wait(rng.uniform(0, bench.seconds[name] * 0.8**attempt))
        process.send(signum)
        ended = process.end()
        if ended.code == (-signum if silent else 128 + signum):
            break
    else:
        pytest.fail("every signal came too late")
    assert len(ended.lines) == (0 if silent else 1) and not ended.traceback, ended
    assert silent or not [*folder.rglob("*.partial")]
    bench.check_again(name, folder)


def test_a_full_disk_is_one_line(bench):
    folder = bench.copied("prepared")
    command = SUBJECTS["train"].make
    sizes = map(len, file_contents(bench.clean / command.result).values())
    ended = bench.runner.run(command.argv(folder), limit=random.Random(0).randrange(max(sizes)))
    # 2 where ArrayRecord says what it could not write.
    assert ended.code in (1, 2) and len(ended.lines) == 1 and not ended.traceback, ended
    bench.check_again("train", folder)


def test_a_second_process_is_refused(bench):
    command = SUBJECTS["train"].make
    for _ in range(ATTEMPTS):
        folder = bench.copied("prepared")
        first = bench.start("train", folder)
        first.send(signal.SIGSTOP)
        if first.alive and bench.locked("train", folder):
            second = bench.runner.run(command.argv(folder))
            first.send(signal.SIGCONT)
            break
        first.send(signal.SIGCONT)
        first.end()
    else:
        pytest.fail("it ended before it could be paused")
    assert second.code == 2 and len(second.lines) == 1 and "in use" in second.lines[0], second
    assert first.end().code == 0
    bench.check(command, folder)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("train", "flipped bit"), ("evaluate", "truncated"), ("prepare", "lengthened"),
        ("index", "emptied"), ("build", "deleted"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_or_not_used(bench, name, damage):
    subject, rng = SUBJECTS[name], random.Random(0)
    folder = bench.copied("prepared", "run", "index", "built")
    files = {f for pattern in subject.damaged for f in folder.glob(pattern) if f.is_file()}
    file = rng.choice(sorted(f for f in files if f.stat().st_size))
    if DAMAGES[damage] is None:
        file.unlink()
    else:
        file.write_bytes(DAMAGES[damage](file.read_bytes(), rng))
    ended = bench.runner.run(subject.use.argv(folder))
    assert len(ended.lines) <= 1 and not ended.traceback, ended
    if ended.code:
        assert ended.code == 2 and file.name in ended.lines[0], ended
    else:
        bench.check(subject.use, folder, ended.printed)
