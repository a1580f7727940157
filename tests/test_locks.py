"""One process at a time in a folder, and the next one when it ends, however it ends."""

import errno
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import threading

import pytest

from hardem_jax.data.files import new_file, new_folder
from hardem_jax.errors import InputError
from hardem_jax.locks import LOCK_FILE, InUse, locked

HOLD = """
import sys, time
from pathlib import Path
from hardem_jax.locks import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process, which holds the folder."""
    command = [sys.executable, "-c", HOLD, tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def owner(pid):
    return rf"{pid} on {socket.gethostname()}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00$"


def test_another_process_is_named_and_a_killed_one_holds_nothing(tmp_path, holder):
    error = f"^{tmp_path}: in use by process {owner(holder.pid)}"
    with pytest.raises(InputError, match=error), locked(tmp_path):
        raise AssertionError("held twice")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK_FILE).exists()
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_locks_of_other_names_are_independent_and_can_be_waited_for(tmp_path, holder):
    with locked(tmp_path, "mml-0.json"):
        assert {file.name for file in tmp_path.iterdir()} == {LOCK_FILE, "mml-0.json"}
        error = f"^{tmp_path}/mml-0.json: in use by process {os.getpid()}"
        with pytest.raises(InUse, match=error), locked(tmp_path, "mml-0.json"):
            raise AssertionError("held twice")
    threading.Timer(0.3, holder.kill).start()
    with locked(tmp_path, wait=True):
        assert holder.wait() == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [lambda out: new_folder(out, format="things 1"), new_file])
def test_what_is_being_written_names_its_owner(tmp_path, write):
    out = tmp_path / "out"
    error = f"^{out}.partial: in use by process {owner(os.getpid())}"
    with pytest.raises(KeyboardInterrupt), write(out):
        with pytest.raises(InputError, match=error):
            write(out).__enter__()
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, capsys):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with locked(tmp_path):
        assert (tmp_path / LOCK_FILE).exists()
    expected = f"warning: {tmp_path}: cannot be locked (No locks available)\n"
    assert capsys.readouterr().err == expected
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone_and_made_again_belongs_to_whoever_made_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with locked(folder):
        (folder / LOCK_FILE).unlink()
        with locked(folder):
            first = locked(folder)
            with pytest.raises(InputError, match="in use by"):
                first.__enter__()
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_one_line(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="cannot be written .Permission denied"), locked(tmp_path):
        pass


@pytest.mark.parametrize("write", [lambda out: new_folder(out, format="things 1"), new_file])
def test_a_disk_without_room_for_the_lock_is_one_line_and_leaves_nothing(tmp_path, write):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(InputError, match="cannot be written .File too large"):
            write(tmp_path / "out").__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_of_a_file_is_replaced(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "new").write_text("half")
    (tmp_path / "out.partial" / LOCK_FILE).write_text("{}")
    with new_file(tmp_path / "out") as file:
        assert not file.exists()
        file.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "whole"


def test_a_file_behind_a_link_is_written_and_the_link_stays(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "a")
    with new_file(tmp_path / "link") as file:
        file.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "link").read_text() == "new"
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["a"]


def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: expected the name of a file, found a pipe"):
        new_file(tmp_path / "pipe").__enter__()
    assert (tmp_path / "pipe").is_fifo()


def test_a_name_that_is_not_utf8_shows_before_anything_is_written(tmp_path):
    """Checkpoints and records could not be written there, after all the work."""
    folder = tmp_path / "caf\udce9"
    with pytest.raises(InputError, match="folder: expected UTF-8 text"):
        with new_folder(folder, format="kind 1"):
            raise AssertionError("began to work")
    assert list(tmp_path.iterdir()) == []
    folder.mkdir()
    with pytest.raises(InputError, match="folder: expected UTF-8 text"), locked(folder):
        raise AssertionError("began to work")
