"""Which settings have to be the same when a run resumes."""

import dataclasses
from pathlib import Path

import pytest

from experiments import drop, triviaqa, wikisql
from hardem_jax.errors import InputError
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import Meaning, check_same, may_change, meaning, named_settings
from hardem_jax.training.optimizer import OptimizerConfig


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    names: tuple[tuple[str, float], ...] = (("encoder", 0.5),)


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner | None = Inner()
    path: Path = Path("a")
    shown: bool = may_change("only shown", default=True)


def test_every_field_counts_unless_it_is_declared():
    assert named_settings(Outer()) == {
        "inner": "Inner",
        "inner.rate": "0.1",
        "inner.names": '[["encoder", 0.5]]',
        "path": "a",
    }
    assert named_settings(Outer(inner=None))["inner"] == "null"
    assert named_settings(Outer(shown=False)) == named_settings(Outer())


def test_of_the_loop_and_the_optimiser_these_may_change():
    fields = {field.name for field in dataclasses.fields(LoopConfig)}
    left_out = fields - set(named_settings(LoopConfig(1, monitor="em")))
    assert left_out == {
        *("patience", "checkpoint_every", "log_every", "progress", "tensorboard"),
        "shown",
    }
    names = {field.name for field in dataclasses.fields(OptimizerConfig)}
    assert set(named_settings(OptimizerConfig())) == names


@pytest.mark.parametrize("module", [triviaqa, drop, wikisql])
def test_of_a_training_command_these_may_change(module):
    fields = dataclasses.fields(module.COMMANDS["train"])
    left_out = {field.name for field in fields if field.metadata}
    # Splits, scores and runs are identified by their contents, as folders are.
    assert left_out - {"data_split", "dev_split", "z_scores"} == {
        *("out", "data", "dev", "init_from", "num_devices", "fsdp", "distributed", "watched"),
        "heartbeat_seconds",
    }


def test_only_what_differs_is_told():
    stored = {"seed": "1", "contents of data": '[{"windows": {"stride": 8}, "metric": "squad"}]'}
    ours = {"seed": "1", "contents of data": '[{"windows": {"stride": 9}, "metric": "squad"}]'}
    for own, parts in ((stored, "1"), (ours, "2")):  # the loop says it again
        own |= {"accumulate": parts, "batches.accumulate": parts}
    with pytest.raises(InputError) as error:
        check_same(stored, ours, Path("run"))
    assert str(error.value) == (
        "run: cannot resume with different settings (--data: windows.stride 8 originally, 9 now; "
        "--batches.accumulate: 1 originally, 2 now); repeat the original ones, name another "
        "--out, or delete this run"
    )


def test_a_longer_run_starts_from_the_first():
    stored, ours = ({"loop.num_steps": steps, "loop.seed": "1"} for steps in "23")
    with pytest.raises(InputError, match=r"\(--loop.num-steps: 2 originally, .*--init-from, an"):
        check_same(stored, ours, Path("run"))


@pytest.mark.parametrize(("stored", "ours"), [("300", "300.0"), ("-2.0", "-2"), ("0", "0.0")])
def test_a_whole_number_is_the_same_as_an_integer_and_as_a_float(stored, ours):
    check_same({"objective.tau": stored}, {"objective.tau": ours}, Path("run"))
    check_same({"rules": f'{{"cap": {stored}}}'}, {"rules": f'{{"cap": {ours}}}'}, Path("run"))


def test_a_path_that_an_earlier_version_wrote_in_quotes_is_the_same():
    check_same({"gold": '"data/wikisql"'}, {"gold": "data/wikisql"}, Path("run"))


@pytest.mark.parametrize("module", [triviaqa, drop, wikisql])
def test_settings_with_a_meaning_of_their_own_are_flags(module):
    """One that is renamed without its meaning would part the seeds of a row."""
    names = {field.name for field in dataclasses.fields(module.COMMANDS["train"])}
    assert {"objective", "dev_questions", "loop"} <= names
    loop = named_settings(LoopConfig(1, monitor="em"), "loop")
    meanings = {name: meaning(name) for name in (*names, *loop)}
    assert {name for name, means in meanings.items() if means != Meaning.ROW} == {
        *("objective", "dev_questions", "loop.seed")
    }


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("data.rules.cap", Meaning.ROW | Meaning.TRAINED_RULES),
        ("data.content", Meaning.TRAINED),
        ("data.1.format", Meaning.SEED),
        ("dev.content", Meaning.CONTENT),
        ("dev.0.sources.file.dev.json", Meaning.QUESTIONS),
        ("dev.sources.windows.stride", Meaning.FOLLOWS),
        ("dev.sources.rules.keep", Meaning.ROW | Meaning.RULES),
        ("init_from.content", Meaning.SEED),
    ],
)
def test_what_identifies_data_follows_from_other_settings_but_for_a_few(name, means):
    assert meaning(f"contents of {name}") == means
