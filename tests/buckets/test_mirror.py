"""A folder that is written and its image in a bucket, killed between any two uploads."""

import json
import shutil
import threading

import fsspec
import pytest

from hardem_jax.buckets import mirror as claims
from hardem_jax.buckets import names, store
from hardem_jax.buckets.copies import copy, run_to_read
from hardem_jax.buckets.mirror import mirror
from hardem_jax.buckets.names import VARIABLE, publish
from hardem_jax.buckets.store import Folder
from hardem_jax.checksums import MANIFEST, verify_checksums, write_checksums
from hardem_jax.errors import InputError


def write(folder, **contents):
    for name, content in contents.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def checkpoint(run, name, content):
    """A complete checkpoint such as "last/5", in place of the one of that name."""
    shutil.rmtree(run / name, ignore_errors=True)
    write(run / name, a=content, b=content, state__c=content)
    write_checksums(run / name)


def contents(folder):
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_text() for file in files}


def test_what_was_written_is_there_on_another_machine(bucket, elsewhere):
    with mirror(bucket) as run:
        assert not run.exists()
        write(run, config="c", deep__er="d", empty="", lock="l")
        (run / "lock.json").write_text("of this disk")
        checkpoint(run, "last/5", "five")
        write(run / "last", **{"6.tmp__a": "being written", "7__a": "no checksums yet"})
        before = contents(run)
    elsewhere()
    with mirror(bucket) as run:
        left_out = {"lock.json", "last/6.tmp/a", "last/7/a"}
        assert contents(run) == {n: c for n, c in before.items() if n not in left_out}
        verify_checksums(run / "last/5")
        (run / "deep/er").unlink()
        write(run, config="changed")
        shutil.rmtree(run / "last/5")
        publish(run / "last")  # any folder in it
        assert set(Folder(bucket).listing()) == {"config", "empty", "lock"}
    assert set(Folder(bucket).listing()) == {"config", "empty", "lock"}
    assert Folder(bucket).read("config") == b"changed"


class Killed(BaseException):
    pass


@pytest.fixture
def killed_at(monkeypatch):
    """Call it with n: the nth object that is written or deleted from then on never is."""

    def kill(n):
        left = iter(range(n))

        def one_at_a_time(original):
            def act(self, things):
                for name in list(things):
                    if next(left, None) is None:
                        raise Killed
                    original(self, {name: things[name]} if isinstance(things, dict) else [name])

            return act

        for name in ("upload", "delete"):
            monkeypatch.setattr(Folder, name, one_at_a_time(originals[name]))

    originals = {name: getattr(Folder, name) for name in ("upload", "delete")}
    yield kill
    for name, original in originals.items():
        monkeypatch.setattr(Folder, name, original)


@pytest.fixture
def in_memory(monkeypatch, tmp_path):
    """A bucket that answers at once, for many mirrors."""
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    monkeypatch.setattr(store, "_file_system", lambda scheme: files)
    monkeypatch.setattr(claims, "BEAT", 0.02)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "here"))
    return f"s3://memory/{tmp_path.name}"


def killed_while_publishing(where, n, killed_at):
    """Whether a run is killed before it has written or deleted n objects of a checkpoint.

    From last/5 and 10, best/5 and metrics of 10 to last/10 and 15, best/15 and metrics of 15.
    """
    with mirror(where) as run:
        write(run, metrics="10")
        for name in ("last/5", "last/10", "best/5"):
            checkpoint(run, name, name)
        publish(run)
        shutil.rmtree(run / "last/5")
        shutil.rmtree(run / "best/5")
        write(run, metrics="15")
        for name in ("last/15", "best/15"):
            checkpoint(run, name, name)
        killed_at(n)
        try:
            publish(run)
        except Killed:
            names.mirrors[run].publish = lambda: None  # a killed process cleans nothing up
            return True
        finally:
            killed_at(10**9)
    return False


def test_a_kill_between_any_two_objects_leaves_a_whole_checkpoint(in_memory, elsewhere, killed_at):
    seen, n, killed = set(), 0, True
    while killed:
        where = f"{in_memory}/{n}"
        killed = killed_while_publishing(where, n, killed_at)
        elsewhere(f"machine {n}")
        with mirror(where) as run:
            found = contents(run)
            for folder in (*run.glob("last/*"), *run.glob("best/*")):
                verify_checksums(folder)
                assert (folder / "state/c").read_text() == f"{folder.parent.name}/{folder.name}"
        last = {int(name.split("/")[1]) for name in found if name.startswith("last/")}
        best = {int(name.split("/")[1]) for name in found if name.startswith("best/")}
        # `last` never refers to what `best` or the metrics do not hold yet.
        assert 10 in last and best and found["metrics"] in ("10", "15")
        assert 15 not in last or 15 in best and found["metrics"] == "15"
        seen.add((*sorted(last), "best", *sorted(best)))
        n += 1
    assert {(5, 10, "best", 5), (5, 10, "best", 5, 15), (10, 15, "best", 15)} <= seen
    assert n > 15 and not killed


def test_a_checkpoint_that_is_replaced_has_no_checksums_meanwhile(bucket, killed_at, elsewhere):
    with mirror(bucket) as run:
        checkpoint(run, "last/5", "old")
        publish(run)
        checkpoint(run, "last/5", "new one")
        (run / "last/5/b").rename(run / "last/5/d")
        write_checksums(run / "last/5")
        killed_at(2)  # after the old checksums and one new file
        with pytest.raises(Killed):
            publish(run)
        assert f"last/5/{MANIFEST}" not in Folder(bucket).listing()
        killed_at(10**9)
        publish(run)
        (run / "last/5" / "a").unlink()  # deleting it has begun
    assert Folder(bucket).listing() == {}


@pytest.fixture
def fetched(monkeypatch):
    """The names of all objects that are downloaded."""
    names, download = [], Folder.download
    monkeypatch.setattr(
        Folder, "download", lambda self, files: (names.extend(files), download(self, files))
    )
    return names


def test_what_is_the_same_is_not_downloaded_again(bucket, fetched):
    with mirror(bucket) as run:
        checkpoint(run, "last/5", "five")
        write(run, metrics="m")
    with mirror(bucket) as run:
        assert fetched == ["metrics"]
        (run / "last/5/a").write_text("fivE")  # the disk damages it
    fetched.clear()
    with mirror(bucket):
        assert "last/5/a" in fetched


def test_only_one_process_writes(bucket, elsewhere, capsys):
    with mirror(bucket):
        with pytest.raises(InputError, match=r"in use by process \d+ on .*, since"):
            with mirror(bucket):
                pass
        elsewhere()
        with pytest.raises(InputError, match=rf"^{bucket}: in use by process \d+ on"):
            with mirror(bucket):
                pass
        assert "waiting for a sign of life of process" in capsys.readouterr().err
    with mirror(bucket):  # the claim has gone with its owner
        pass


def test_a_folder_in_one_that_is_written_is_left_alone(bucket):
    with mirror(f"{bucket}/runs/a") as run:
        write(run, config="c")
        with mirror(f"{bucket}/runs"):
            pass
        assert contents(run) == {"config": "c"}
    assert set(Folder(bucket).listing()) == {"runs/a/config"}


def test_a_dead_claim_is_taken_over_and_its_owner_may_write_no_more(bucket, elsewhere):
    with pytest.raises(InputError, match="was taken over by process"):
        with mirror(bucket) as run:
            claim = json.loads(Folder(bucket).beside(".lock.json").read())
            for image in names.mirrors.values():
                image._claim._ended.set()  # the machine hangs: no more beats
            for beating in (x for x in threading.enumerate() if x.name == "claim"):
                beating.join()  # one may be on its way
            elsewhere()
            with mirror(bucket) as other:
                write(other, mine="m")
                publish(other)
                now = json.loads(Folder(bucket).beside(".lock.json").read())
                assert now["claim"] != claim["claim"] and now["disk"] != claim["disk"]
                write(run, late="l")
                publish(run)
    assert set(Folder(bucket).listing()) == {"mine"}


def test_a_copy_is_downloaded_once_and_what_changes_is_another(bucket, fetched):
    with mirror(f"{bucket}/run") as run:
        write(run, config="c", best__5__d="five", best__5__checksums="no record")
        write(run, **{"scores-1": "s"})
    first = copy(f"{bucket}/run")
    assert copy(f"{bucket}/run") == first and sorted(fetched) == ["config", "scores-1"]
    with run_to_read(f"{bucket}/run") as local:
        assert first != local and first.name == local.name == "run"
        write(local, **{"scores-1": "changed", "scores-2": "new"})
    assert contents(first) == {"config": "c", "scores-1": "s"}  # it is shared with others
    second = copy(f"{bucket}/run")
    assert contents(second) == {"config": "c", "scores-1": "changed", "scores-2": "new"}


def test_an_upload_that_fails_ends_the_command_in_one_line(in_memory, monkeypatch):
    def broken(self, files):
        with self.one_line():
            raise ConnectionResetError("the request, with what it holds")

    with monkeypatch.context() as patch:
        with pytest.raises(InputError) as refused:
            with mirror(in_memory) as run:
                write(run, config="c")
                patch.setattr(Folder, "upload", broken)
                publish(run)
        assert str(refused.value) == f"{in_memory}: cannot be reached"
    with mirror(in_memory) as run:  # the claim has gone, and what was not uploaded
        assert not run.exists()


@pytest.mark.parametrize("name", ["../../out", "a/../../out", "a//b", "./a"])
def test_no_object_is_written_outside_of_the_copy(in_memory, monkeypatch, name):
    folder = Folder(in_memory)
    found = {f"{in_memory.removeprefix('s3://')}/{name}": {"size": 1, "ETag": "e"}}
    monkeypatch.setattr(folder._files, "find", lambda root, detail: found)
    with pytest.raises(InputError, match="expected names of files, found the object"):
        copy(in_memory)
