"""What comes back from disk, and what a wrong checkpoint says."""

import dataclasses
import errno
import json
import logging
import os
import re
import shutil
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint
import pytest
from orbax.checkpoint import v1 as ocp

from hardem_jax.checksums import MANIFEST, write_checksums
from hardem_jax.errors import InputError
from hardem_jax.training import checkpoint_series as series
from hardem_jax.training.checkpoints import RunCheckpoints, load_params, newest_step
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.optimizer import OptimizerConfig, make_optimizer
from hardem_jax.training.state import init_state
from tests.damages import DAMAGES
from tests.marks import slow
from tests.training import toy_problem as toy

SETTINGS = {"learning_rate": "5e-05", "data": "train.json"}
PROGRESS = {"best_metric": 1 / 3, "history": [{"step": 1, "EM": float("nan")}], "none": None}


def make_state(params=None, seed=0, num_devices=8):
    params = toy.init_params() if params is None else params
    optimizer = make_optimizer(OptimizerConfig(), params, 10)
    return init_state(params, optimizer, seed, data_mesh(num_devices))


def at_step(step):
    return dataclasses.replace(make_state(), step=jnp.int32(step))


def words(tree):
    """Leaves as numpy, typed keys as their words."""
    is_key = lambda x: jnp.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in jax.tree.leaves(tree)]


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(words(a), words(b), strict=True):
        np.testing.assert_array_equal(x, y)


def saved(folder, state, data=None, progress=PROGRESS, settings=SETTINGS):
    with RunCheckpoints(folder, settings) as checkpoints:
        checkpoints.save_last(state, toy.batches() if data is None else data, progress)
        checkpoints.save_best(state.params, int(state.step), progress)


def test_the_average_is_loaded_where_a_state_holds_one(tmp_path):
    params = toy.init_params()
    optimizer = make_optimizer(OptimizerConfig(ema_decay=0.9), params, 10)
    state = init_state(params, optimizer, 0, data_mesh(1))
    average = jax.tree.map(lambda x: x + 1, state.params)
    *others, last = state.opt_state
    state = dataclasses.replace(state, opt_state=(*others, last._replace(average=average)))
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        checkpoints.save_last(state, toy.batches(), PROGRESS)
    assert_same(load_params(tmp_path / "last", toy.init_params()), average)


@pytest.mark.parametrize("num_devices", [8, *slow(1)])
def test_state_position_and_progress_come_back(tmp_path, num_devices):
    # A state with no zeros left in it, so that a missed array would show.
    state = make_state(seed=7)
    state = jax.tree.map(
        lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x + jnp.ones_like(x), state
    )
    data = toy.batches()
    next(data)
    saved(tmp_path, state, data)
    expected = next(data)

    like, fresh = make_state(num_devices=num_devices), toy.batches()
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        restored = checkpoints.restore(like, fresh)
    assert restored is not None
    assert_same(restored[0], state)
    np.testing.assert_equal(restored[1], PROGRESS)
    assert next(fresh).ids == expected.ids
    for leaf, wanted in zip(jax.tree.leaves(restored[0]), jax.tree.leaves(like), strict=True):
        assert leaf.sharding == wanted.sharding and leaf.aval == wanted.aval
    assert jax.random.uniform(restored[0].key) == jax.random.uniform(jax.random.key(7))


def test_a_step_that_is_saved_again_is_saved_beside_the_first(tmp_path):
    """Replacing the only checkpoint would leave none for a moment."""
    for attempt in range(2):
        with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
            checkpoints.save_last(at_step(5), toy.batches(), {"attempt": attempt})
            checkpoints.save_best(toy.init_params(), 5, {"attempt": attempt})
    assert sorted(os.listdir(tmp_path / "last")) == ["5", "6"]
    assert os.listdir(tmp_path / "best") == ["6"]
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        state, progress = checkpoints.restore(make_state(), toy.batches()) or (None, {})
        assert state is not None and int(state.step) == 5 and progress == {"attempt": 1}
        checkpoints.save_last(at_step(6), toy.batches(), {})
    assert sorted(os.listdir(tmp_path / "last")) == ["6", "7"]
    assert newest_step(tmp_path / "last") == 6 and newest_step(tmp_path / "best") == 5


def test_a_save_that_fails_leaves_the_one_of_the_same_step(tmp_path, monkeypatch, reports):
    del reports  # restores the logger, which a full disk makes silent
    saved(tmp_path, at_step(5))

    def fails(*arguments, **options):
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError), RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        monkeypatch.setattr(orbax.checkpoint.CheckpointManager, "save", fails)
        checkpoints.save_last(at_step(5), toy.batches(), {})
    monkeypatch.undo()
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        found = checkpoints.restore(make_state(), toy.batches())
    assert found is not None and int(found[0].step) == 5


def test_one_save_is_complete_before_the_next_begins(tmp_path, monkeypatch):
    # Saves that overlap hang a run of several processes, one time in twenty.
    pending = []

    def slowly(folder):
        time.sleep(0.3)
        write_checksums(folder)
        pending.remove(folder)

    def begin(checkpointer, number, *arguments, **options):
        assert not pending
        pending.append(Path(checkpointer.directory) / str(number))
        return save(checkpointer, number, *arguments, **options)

    save = ocp.training.Checkpointer.save_checkpointables_async
    monkeypatch.setattr(series, "write_checksums", slowly)
    monkeypatch.setattr(ocp.training.Checkpointer, "save_checkpointables_async", begin)
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        for step in range(2):
            checkpoints.save_last(at_step(step), toy.batches(), {})
            checkpoints.save_best(toy.init_params(), step, {})
    assert not pending


@pytest.mark.parametrize("folder", ["last", "best"])
def test_params_load_alone(tmp_path, folder):
    saved(tmp_path, make_state())
    zeros = jax.tree.map(jnp.zeros_like, toy.init_params())
    assert_same(load_params(tmp_path / folder, zeros), toy.init_params())
    assert_same(load_params(tmp_path / folder, jax.eval_shape(toy.init_params)), toy.init_params())


def other_params():
    params = toy.init_params()
    params["head"] = {"kernel": jnp.zeros((toy.WIDTH, 3)), "scale": jnp.zeros(1)}
    params["body"]["bias"] = params["body"]["bias"].astype(jnp.bfloat16)
    return params


MISMATCHES = [
    rf"head.kernel \(stored: float32\[{toy.WIDTH}, 1\], expected: float32\[{toy.WIDTH}, 3\]\)",
    r"params.head.scale \(stored: absent, expected: float32\[1\]\)",
    r"params.head.bias \(stored: float32\[1\], expected: absent\)",
    rf"params.body.bias \(stored: float32\[{toy.WIDTH}\], expected: bfloat16\[{toy.WIDTH}\]\)",
]


def test_another_model_is_one_line_with_the_names(tmp_path):
    saved(tmp_path, make_state())
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        with pytest.raises(InputError) as of_state:
            checkpoints.restore(make_state(other_params()), toy.batches())
    with pytest.raises(InputError) as of_params:
        load_params(tmp_path / "best", other_params())
    for message in (str(of_state.value), str(of_params.value)):
        assert all(re.search(pattern, message) for pattern in MISMATCHES)
    assert "body.kernel" not in message  # that one fits


@pytest.mark.parametrize("made", [True, False])
def test_no_checkpoint_is_said_plainly(tmp_path, made):
    folder = tmp_path / "best"
    if made:
        folder.mkdir()
    with pytest.raises(InputError, match=f"{folder}: expected a folder with a checkpoint"):
        load_params(folder, toy.init_params())
    assert folder.exists() is made


def test_leftovers_of_a_killed_process_do_no_harm(tmp_path, caplog):
    saved(tmp_path, at_step(5))
    # Killed while it deleted step 3 (half of it is gone) and while it wrote step 7.
    (tmp_path / "last" / "3" / "state").mkdir(parents=True)
    (tmp_path / "last" / "7.orbax-checkpoint-tmp" / "state").mkdir(parents=True)
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        restored = checkpoints.restore(make_state(), toy.batches())
        assert restored is not None and int(restored[0].step) == 5
        checkpoints.save_last(at_step(6), toy.batches(), {})
    assert sorted(os.listdir(tmp_path / "last")) == ["5", "6"]


def as_if_saved_by_two(folder):
    """The file of one process, as two would have written it."""
    [own] = folder.glob("last/*/data/process_0-of-1.json")
    first = own.rename(own.with_name("process_0-of-2.json"))
    second = own.with_name("process_1-of-2.json")
    second.write_text(first.read_text())
    [saved] = folder.glob("last/*")
    write_checksums(saved)
    return second


@pytest.mark.slow
def test_the_position_of_other_processes_is_taken_up_where_they_agree(tmp_path):
    data = toy.batches()
    next(data)
    saved(tmp_path, make_state(), data)
    second = as_if_saved_by_two(tmp_path)
    fresh = toy.batches()
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        assert checkpoints.restore(make_state(), fresh) is not None
    assert next(fresh).ids == next(data).ids
    second.write_text(second.read_text().replace("1", "2"))
    write_checksums(second.parents[1])
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        with pytest.raises(InputError, match="can resume, found different positions for 2"):
            checkpoints.restore(make_state(), toy.batches())


def two_checkpoints(folder):
    """Steps 1 and 2, the batches read as far, and each with its own parameters."""
    data = toy.batches()
    with RunCheckpoints(folder, SETTINGS) as checkpoints:
        for step in (1, 2):
            next(data)
            params = jax.tree.map(lambda x, step=step: x + step, toy.init_params())
            state = dataclasses.replace(make_state(params), step=jnp.int32(step))
            checkpoints.save_last(state, data, {"at": step})
            checkpoints.save_best(params, step, {})


FILES = [
    *("_CHECKPOINT_METADATA", "state/_METADATA", "state/manifest.ocdbt", "state/d/*"),
    *("state/array_metadatas/process_0", "data/process_0-of-1.json"),
    "state/ocdbt.process_0/manifest.ocdbt",
]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    two_checkpoints(folder)
    return folder


@pytest.mark.parametrize(
    ("file", "damage"),
    [*((file, "flipped bit") for file in FILES), *((FILES[3], damage) for damage in DAMAGES)],
)
def test_a_damaged_file_is_named(tmp_path, two, file, damage):
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    [found] = tmp_path.glob(f"last/2/{file}")
    DAMAGES[damage](found)
    with pytest.raises(InputError, match=f"^{found}: [^\n]*$"):
        load_params(tmp_path / "last", {})


@pytest.mark.parametrize(("file", "damage"), [(FILES[0], "deleted"), (FILES[3], "flipped bit")])
def test_a_run_resumes_from_before_a_damaged_checkpoint(tmp_path, capsys, two, file, damage):
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    [found] = tmp_path.glob(f"last/2/{file}")
    DAMAGES[damage](found)
    data = toy.batches()
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        restored = checkpoints.restore(make_state(), data)
    assert restored is not None and restored[1] == {"at": 1} and int(restored[0].step) == 1
    expected = toy.batches()
    next(expected)
    assert next(data).ids == next(expected).ids
    [warning] = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"warning: {found}: ") and warning.endswith("resuming from step 1")
    assert os.listdir(tmp_path / "last") == ["1"]  # step 2 can be written again


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(tmp_path, two):
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    for step in (1, 2):
        DAMAGES["flipped bit"](tmp_path / f"last/{step}/state/_METADATA")
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        with pytest.raises(InputError, match="2/state/_METADATA: damaged.*no other checkpoint"):
            checkpoints.restore(make_state(), toy.batches())
    assert sorted(os.listdir(tmp_path / "last")) == ["1", "2"]


@pytest.mark.parametrize("left", [None, f"{MANIFEST}.partial"])
def test_killed_before_the_checksums_were_written_it_still_loads(tmp_path, capsys, two, left):
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    for folder in ("last/2", "best/2"):
        (tmp_path / folder / MANIFEST).unlink()
        if left is not None:
            (tmp_path / folder / left).write_text("{")
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        restored = checkpoints.restore(make_state(), toy.batches())
    assert restored is not None and restored[1] == {"at": 2}
    assert "2: has no checksums, not verified" in capsys.readouterr().err
    params = load_params(tmp_path / "best", toy.init_params())
    assert_same(params, jax.tree.map(lambda x: x + 2, toy.init_params()))


@pytest.mark.parametrize("name", ["last", "best"])
def test_what_a_killed_deletion_left_is_removed_silently(tmp_path, reports, two, name):
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    shutil.copytree(two / "last" / "1", tmp_path / name / "1", dirs_exist_ok=True)
    (tmp_path / name / "1" / "_CHECKPOINT_METADATA").unlink()
    data = toy.batches()
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        assert checkpoints.restore(make_state(), data) is not None
        if name == "last":
            checkpoints.save_last(at_step(3), data, PROGRESS)
        else:
            checkpoints.save_best(toy.init_params(), 3, PROGRESS)
    assert reports == []
    assert sorted(os.listdir(tmp_path / name)) == (["2", "3"] if name == "last" else ["3"])


def test_the_only_checkpoint_is_kept_though_incomplete(tmp_path, two):
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    (tmp_path / "best" / "2" / "_CHECKPOINT_METADATA").unlink()
    series.Series(tmp_path / "best", keep=1).close()
    assert os.listdir(tmp_path / "best") == ["2"]


def test_a_run_of_an_older_format_evaluates_but_does_not_resume(tmp_path, two):
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "last" / "1")
    file = tmp_path / "last" / "2" / "_CHECKPOINT_METADATA"
    content = json.loads(file.read_text())
    del content["custom_metadata"]["format"]
    file.write_text(json.dumps(content))
    for manifest in tmp_path.glob(f"*/*/{MANIFEST}"):
        manifest.unlink()
    assert load_params(tmp_path / "last", toy.init_params()) is not None
    with RunCheckpoints(tmp_path, SETTINGS) as checkpoints:
        with pytest.raises(InputError, match="cannot resume a run of format 1"):
            checkpoints.restore(make_state(), toy.batches())


@pytest.fixture
def reports(monkeypatch):
    """What Orbax's logger prints; filters and hook are restored afterwards."""
    logger, printed = logging.getLogger("absl"), []
    handler = logging.Handler()
    handler.emit = lambda record: printed.append(record.getMessage())
    monkeypatch.setattr(logger, "filters", [*logger.filters])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    logger.addHandler(handler)
    yield printed
    logger.removeHandler(handler)


@pytest.mark.parametrize(
    ("error", "said"), [(OSError(errno.EFBIG, "File too large"), []), (KeyError(), ["late"])]
)
def test_late_reports_of_a_full_disk_are_silent_if_it_ended_the_run(tmp_path, reports, error, said):
    with pytest.raises(type(error)), RunCheckpoints(tmp_path, SETTINGS):
        raise error
    logging.getLogger("absl").error("late: Failed to write 18561 bytes to file 7: File too large")
    assert [line.partition(":")[0] for line in reports] == said
