"""The loop in one process: bookkeeping, stopping, resuming, errors."""

import dataclasses
import os
import shutil
import signal
import sys

import grain
import jax
import numpy as np
import pytest

from hardem_jax.errors import InputError, Stopped
from hardem_jax.training import loop
from hardem_jax.training.checkpoints import load_params
from hardem_jax.training.loop import NonFiniteLossError
from hardem_jax.training.optimizer import OptimizerConfig, averaged_params
from tests.marks import needs_hangup, slow
from tests.training import toy_problem as toy
from tests.training.toy_problem import CONFIG, OPTIMIZER, run


def assert_same_run(a, b):
    for name in ("best_metric", "best_step", "stopped_early", "history"):
        assert getattr(a, name) == getattr(b, name), name
    states = ((run.state.step, run.state.params, run.state.opt_state) for run in (a, b))
    jax.tree.map(np.testing.assert_array_equal, *states)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, run(folder)


def test_a_run_learns_and_keeps_its_best(undisturbed):
    folder, result = undisturbed
    assert int(result.state.step) == CONFIG.num_steps and not result.stopped_early
    assert [entry["step"] for entry in result.history] == [12, 24, 30]
    scores = [entry["score"] for entry in result.history]
    assert result.best_metric == max(scores) > toy.evaluate(toy.init_params())["score"]
    assert result.best_step == [12, 24, 30][int(np.argmax(scores))]
    best = load_params(folder / "best", toy.init_params())
    assert toy.evaluate(best)["score"] == result.best_metric
    last = load_params(folder / "last", toy.init_params())
    jax.tree.map(np.testing.assert_array_equal, last, result.state.params)


def test_log_lines_are_averages_over_their_steps(undisturbed):
    folder, result = undisturbed
    assert [line["step"] for line in toy.logged(folder, "train")] == [7, 14, 21, 28, 30]
    assert [line["step"] for line in toy.logged(folder, "eval")] == [12, 24, 30]
    assert toy.logged(folder, "eval")[-1] == {"kind": "eval", **result.history[-1]}
    every_step = folder.parent / "every-step"
    run(every_step, dataclasses.replace(CONFIG, log_every=1))
    single = {line["step"]: line["loss"] for line in toy.logged(every_step, "train")}
    for line, since in zip(toy.logged(folder, "train"), (0, 7, 14, 21, 28), strict=True):
        expected = np.mean([single[step] for step in range(since + 1, line["step"] + 1)])
        np.testing.assert_allclose(line["loss"], expected, rtol=1e-12)
    assert set(line) == {
        "step", "kind", "loss", "grad_norm", "learning_rate", "hard", "z_size",
    }  # fmt: skip


# Between two checkpoints and two log lines, and before the first checkpoint.
@pytest.mark.parametrize("steps", [13, *slow(2)])
def test_a_resumed_run_is_the_undisturbed_one(tmp_path, undisturbed, steps):
    folder, expected = undisturbed
    with pytest.raises(toy.Killed):
        run(tmp_path, batches=toy.killed_after(steps))
    assert_same_run(run(tmp_path), expected)
    assert toy.logged(tmp_path) == toy.logged(folder)
    # Ended: a further call returns the result and trains no step.
    assert_same_run(run(tmp_path, batches=toy.killed_after(0), evaluate=falling([])), expected)
    assert toy.logged(tmp_path) == toy.logged(folder)


AVERAGED = dataclasses.replace(OPTIMIZER, ema_decay=0.9, schedule="constant")


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("averaged")
    return folder, run(folder, optimizer=AVERAGED)


def test_the_average_is_evaluated_and_loaded(averaged):
    folder, result = averaged
    average = averaged_params(result.state.params, result.state.opt_state)
    raw, mean = toy.evaluate(result.state.params), toy.evaluate(average)
    assert result.history[-1] == {"step": 30, **mean} != {"step": 30, **raw}
    last = load_params(folder / "last", toy.init_params())
    jax.tree.map(np.testing.assert_array_equal, last, average)
    best = load_params(folder / "best", toy.init_params())
    assert toy.evaluate(best)["score"] == result.best_metric
    assert toy.logged(folder, "train")[-1]["learning_rate"] == np.float32(AVERAGED.learning_rate)


def falling(values):
    """An evaluation that returns these scores one after the other."""
    scores = iter(values)
    return lambda params: {"score": next(scores)}


def test_patience_stops_at_once_and_for_good(tmp_path):
    config = dataclasses.replace(CONFIG, num_steps=100, eval_every=10, patience=2)
    result = run(tmp_path, config, evaluate=falling([1.0, 2.0, 1.5, 2.0]))
    assert result.stopped_early and int(result.state.step) == 40
    assert (result.best_metric, result.best_step) == (2.0, 20)
    again = run(tmp_path, config, batches=toy.killed_after(0), evaluate=falling([]))
    assert_same_run(again, result)


def test_a_run_goes_on_with_more_patience(tmp_path):
    config = dataclasses.replace(CONFIG, num_steps=60, eval_every=10, patience=1)
    assert int(run(tmp_path, config, evaluate=falling([1.0, 1.0])).state.step) == 20
    result = run(tmp_path, dataclasses.replace(config, patience=3), evaluate=falling([1.0, 1.0]))
    assert result.stopped_early and int(result.state.step) == 40
    result = run(tmp_path, dataclasses.replace(config, patience=None), evaluate=falling([1.0, 1.0]))
    assert not result.stopped_early and int(result.state.step) == 60


def with_bad_row(index=5):
    rows = toy.examples()
    rows[index]["y"] = np.float32(np.nan)
    return rows


def test_a_loss_that_is_not_finite_names_step_and_examples(tmp_path):
    ids = next(i for i in range(1, 30) if "example-5" in _ids_of(i))
    with pytest.raises(NonFiniteLossError, match=f"step {ids}: loss nan.*example-") as error:
        run(tmp_path, batches=toy.batches(with_bad_row()))
    assert error.value.step == ids and error.value.ids == _ids_of(ids)
    # Nothing of the bad step, or after it, is on disk.
    assert all(step < ids for step in [int(path.name) for path in (tmp_path / "last").glob("*")])
    for folder in ("last", "best"):
        if list((tmp_path / folder).glob("*")):
            params = load_params(tmp_path / folder, toy.init_params())
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


def _ids_of(step):
    iterator = toy.batches()
    return [next(iterator).ids for _ in range(step)][-1]


def test_data_that_ends_is_an_input_error(tmp_path):
    batch = next(toy.batches())
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    batches = iter(grain.MapDataset.range(3).map(lambda _: batch).to_iter_dataset(options))
    config = dataclasses.replace(CONFIG, checkpoint_every=100)
    with pytest.raises(InputError, match="ended after 3 of 30 steps"):
        run(tmp_path, config, batches=batches)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"optimizer": OptimizerConfig(learning_rate=2e-2)}, "optimizer.learning-rate"),
        ({"optimizer": dataclasses.replace(OPTIMIZER, ema_decay=0.5)}, "optimizer.ema-decay"),
        ({"config": dataclasses.replace(CONFIG, seed=1)}, "loop.seed"),
        ({"fingerprint": {"batch_size": "8"}}, "batch-size"),
    ],
)
def test_a_folder_of_another_run_is_refused(undisturbed, changes, named):
    folder, _ = undisturbed
    with pytest.raises(InputError, match=rf"different settings \(--{named}: [^;]* now\)"):
        run(folder, **changes)


def test_what_changes_no_number_may_change_on_resumption(undisturbed):
    folder, expected = undisturbed
    changed = dataclasses.replace(CONFIG, patience=5, log_every=2, checkpoint_every=9, shown=())
    assert_same_run(run(folder, changed), expected)


def test_an_unknown_monitor_is_refused_before_the_first_step(tmp_path):
    config = dataclasses.replace(CONFIG, monitor="Score")
    with pytest.raises(InputError, match="loop.monitor: expected one of largest, score, found 'Sc"):
        run(tmp_path, config, batches=toy.killed_after(0), metric_names={"score", "largest"})


@pytest.mark.parametrize("step", [30, *slow(24)])
def test_a_damaged_checkpoint_costs_steps_and_nothing_else(tmp_path, capsys, undisturbed, step):
    """The run that had ended, and one that was killed: made again from the checkpoint before."""
    folder, expected = undisturbed
    if step < CONFIG.num_steps:
        with pytest.raises(toy.Killed):
            run(tmp_path, batches=toy.killed_after(step + 1))
    else:
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    [array] = tmp_path.glob(f"last/{step}/state/d/*")
    array.write_bytes(array.read_bytes()[::-1])
    assert_same_run(run(tmp_path), expected)
    assert f"{array}: damaged" in capsys.readouterr().err
    assert toy.logged(tmp_path) == toy.logged(folder)
    best = [load_params(path / "best", toy.init_params()) for path in (tmp_path, folder)]
    jax.tree.map(np.testing.assert_array_equal, *best)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: expected a folder to write .*, found a file$"):
        run(tmp_path / "file")
    with pytest.raises(InputError, match="to write the run to, found a file in its path$"):
        run(tmp_path / "file" / "run")


def test_a_folder_in_use_is_refused(tmp_path):
    def second(drawn):
        if drawn == 3:
            run(tmp_path)

    with pytest.raises(InputError, match=f"{tmp_path}: in use by process {os.getpid()} on .*since"):
        run(tmp_path, batches=toy.observed(toy.batches(), second))


def test_a_signal_that_comes_in_a_finalizer_stops_the_start(monkeypatch):
    """Python ignores what is raised there; the run must not begin to train."""

    class Last:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)
            len("")  # the handler runs before this

    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: lost.append(raised.exc_value))
    with loop._stop_signals() as stop, pytest.raises(Stopped, match="^stopped by SIGTERM$"):
        with stop.immediately():
            Last()
    assert [type(error) for error in lost] == [Stopped] and lost[0].recorded


def signalled_at(step, signum):
    """Batches in whose reading, for this step, a signal arrives."""

    def before_next(drawn):
        if drawn == step - 1:
            signal.raise_signal(signum)

    return toy.observed(toy.batches(), before_next)


@pytest.mark.parametrize(
    ("signum", "step"),
    [
        (signal.SIGTERM, 12),
        *slow((signal.SIGINT, 13)),
        pytest.param(signal.SIGHUP, 12, marks=[pytest.mark.slow, needs_hangup]),
    ],
)
def test_a_signal_saves_the_step_in_flight(tmp_path, undisturbed, signum, step):
    before = signal.getsignal(signum)
    said = f"{signum.name} after step {step}; a checkpoint was saved"
    with pytest.raises(Stopped, match=said) as stop:
        run(tmp_path, batches=signalled_at(step, signum))
    assert stop.value.signum == signum and signal.getsignal(signum) is before
    assert max(int(path.name) for path in (tmp_path / "last").iterdir()) == step
    folder, expected = undisturbed
    assert_same_run(run(tmp_path), expected)
    assert toy.logged(tmp_path) == toy.logged(folder)


@pytest.mark.slow
def test_a_signal_ends_an_evaluation_which_is_made_on_resumption(tmp_path, undisturbed):
    def interrupted(params):
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("the signal should have ended the evaluation")

    with pytest.raises(Stopped, match="after step 12; a checkpoint was saved"):
        run(tmp_path, evaluate=interrupted)
    folder, expected = undisturbed
    assert_same_run(run(tmp_path), expected)
    assert toy.logged(tmp_path) == toy.logged(folder)


@pytest.mark.parametrize(
    ("seconds", "message", "last"), [(0.0, "SIGTERM at once", 4), (60.0, "SIGINT after step 6", 6)]
)
def test_a_second_signal_ends_the_run_at_once_unless_it_is_the_same_request(
    tmp_path, monkeypatch, seconds, message, last
):
    monkeypatch.setattr(loop, "_SAME_REQUEST", seconds)

    def before_next(drawn):
        if drawn == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped, match=message):
        run(tmp_path, batches=toy.observed(toy.batches(), before_next))
    assert max(int(path.name) for path in (tmp_path / "last").iterdir()) == last


def test_a_signal_during_the_last_checkpoint_ends_the_run_as_any_other(tmp_path, monkeypatch):
    save = loop.RunCheckpoints.save_last

    def signalled(self, state, *more):
        save(self, state, *more)
        if int(state.step) == CONFIG.num_steps:
            signal.raise_signal(signal.SIGINT)

    with (
        monkeypatch.context() as patch,
        pytest.raises(Stopped, match="SIGINT after step 30; a che"),
    ):
        patch.setattr(loop.RunCheckpoints, "save_last", signalled)
        run(tmp_path)
    assert int(run(tmp_path).state.step) == CONFIG.num_steps


def test_what_a_checkpoint_cannot_hold_is_refused_at_once(tmp_path):
    params = toy.init_params() | {"none": {"w": np.zeros((0, 3), np.float32)}}
    with pytest.raises(InputError, match=r"expected elements in 'none.w', found shape \(0, 3\)"):
        run(tmp_path, params=params)


def test_an_evaluation_that_fails_loses_no_steps(tmp_path):
    config = dataclasses.replace(CONFIG, checkpoint_every=100)
    with pytest.raises(InputError, match="monitor: expected a metric of the evaluation"):
        run(tmp_path / "run", config, evaluate=lambda params: {"other": 1.0})
    drawn = []
    repaired = run(tmp_path / "run", config, batches=toy.observed(toy.batches(), drawn.append))
    assert len(drawn) == CONFIG.num_steps - CONFIG.eval_every
    assert_same_run(repaired, run(tmp_path / "undisturbed", config))


@pytest.mark.parametrize("error", [OSError("disk full"), Stopped(signal.SIGINT, "at once")])
def test_a_best_that_was_not_saved_is_saved_on_resumption(tmp_path, monkeypatch, error):
    """Else a run that is never better again reports a best step without its parameters."""
    config = dataclasses.replace(CONFIG, num_steps=CONFIG.eval_every)

    def fail(*args):
        raise error

    with monkeypatch.context() as broken, pytest.raises(type(error)):
        broken.setattr(loop.RunCheckpoints, "save_best", fail)
        run(tmp_path, config)
    result = run(tmp_path, config)
    assert result.best_step == config.num_steps
    best = load_params(tmp_path / "best", toy.init_params())
    jax.tree.map(np.testing.assert_array_equal, best, result.state.params)
    assert [line["step"] for line in toy.logged(tmp_path) if line["kind"] == "eval"] == [12]
