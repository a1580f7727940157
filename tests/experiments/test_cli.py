"""How a command ends when something is wrong."""

import dataclasses

import pytest

from experiments.cli import run_command
from hardem_jax.errors import InputError
from hardem_jax.training.loop import NonFiniteLossError

NAN = NonFiniteLossError(7, ["q1", "q2"], {"loss": float("nan"), "grad_norm": float("inf")})


@dataclasses.dataclass(frozen=True)
class Failing:
    """Raises.

    Attributes:
        how: which error.
    """

    how: str

    def run(self) -> None:
        raise {"input": InputError("a.json:\n  line 3"), "nan": NAN, "bug": KeyError("x")}[self.how]


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("input", 2, "error: a.json: line 3"),
        ("nan", 1, "error: step 7: loss nan, gradient norm inf; examples in the batch: q1, q2"),
    ],
)
def test_what_a_person_can_act_on_is_one_line(how, code, line, capsys):
    with pytest.raises(SystemExit) as stop:
        run_command(Failing, prog="test", argv=["--how", how])
    assert stop.value.code == code and capsys.readouterr().err == line + "\n"


def test_a_bug_of_ours_keeps_its_traceback():
    with pytest.raises(KeyError):
        run_command(Failing, prog="test", argv=["--how", "bug"])
