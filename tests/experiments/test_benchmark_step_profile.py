"""What a profile is made of, and one of a tiny step."""

import json

import pytest

from experiments.benchmark import step_profile
from experiments.benchmark.step_profile import event_times, grouped, instructions

HLO = """
ENTRY %main.9 (p: f32[4,4]) -> f32[4,4] {
  %dot.3 = f32[4,4]{1,0} dot(%p, %p), metadata={op_name="jit(train_step)/jvp()/dot_general"}
  %fusion.1 = (f32[4]{0}, f32[]) fusion(%a), metadata={op_name="jit/transpose(jvp())/mul;jit/x"}
  %fusion.2 = f32[4]{0} fusion(%a), calls=%c, metadata={op_name="jit(f)/transpose(jvp())/mul"}
  %while.4 = (s32[], f32[4]{0}) while(%tuple), metadata={op_name="jit(train_step)/jvp()/while"}
  ROOT %copy.7 = f32[4,4]{1,0} copy(%dot.3)
}
"""


def event(name, ms, pid=1):
    return {"ph": "X", "pid": pid, "dur": 1000 * ms, "args": {"hlo_op": name}}


def test_instructions_are_grouped_by_where_they_come_from():
    origins = instructions(HLO)
    assert "while.4" not in origins  # what it does is counted instruction by instruction
    times = event_times([event("dot.3", 2.0), event("dot.3", 3.0), {"ph": "M", "name": "x"}])
    assert times == {"dot.3": 5.0}
    times |= {"fusion.1": 1.5, "fusion.2": 0.25, "copy.7": 4.0}
    assert list(grouped(times, origins).items()) == [
        (("forward", "matrix products"), (5.0, 1)),
        (("update", "copy"), (4.0, 1)),
        (("backward", "mul"), (1.75, 2)),
    ]


def test_times_of_devices_are_not_mixed_with_those_of_the_host():
    named = {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "/device:GPU:0"}}
    assert event_times([named, event("dot.3", 2.0), event("dot.3", 1.0, pid=7)]) == {"dot.3": 1.0}


@pytest.mark.slow
def test_profile_of_a_step(tmp_path, capsys):
    out = tmp_path / "profile.json"
    sizes = ["--preset", "tiny", "--layers", "1", "--rows", "4", "--tokens", "24"]
    step_profile.main([*sizes, "--solutions", "3", "--steps", "2", "--out", str(out)])
    results = json.loads(out.read_text())["results"]
    groups = {(group["pass"], group["operation"]): group["ms"] for group in results["groups"]}
    for where in ("forward", "backward"):
        assert 0 < groups[where, "matrix products"] < results["step_ms"]
    assert any(where == "update" for where, _ in groups)
    assert sum(groups.values()) == pytest.approx(sum(results["instructions_ms"].values()))
    assert "matrix products" in capsys.readouterr().out
