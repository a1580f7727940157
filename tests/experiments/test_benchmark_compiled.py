"""What the step of a chip does, read off its compiled program; no TPU and no GPU is needed."""

import importlib.util
import json
from collections import Counter

import pytest

from experiments.benchmark import compiled
from experiments.benchmark.compiled import Chip, collectives, kernels_by_kind
from tests.commands import fails
from tests.processes import python

HLO = """
%all-reduce-scatter.1 (a: f32[8,4], b: f32[8]) -> (f32[4,4], f32[4]) {
  %all-reduce.5 = (f32[8,4]{1,0}, f32[8]{0}) all-reduce(%a, %b), channel_id=9
}

%begun (p: bf16[8,4]) -> bf16[8,4] {
  %all-gather.1 = bf16[8,4]{1,0} all-gather(%p), channel_id=7, frontend_attributes={chain_id="0"}
}

%async_collective_fusion.1 (p: bf16[8,4], q: f32[4]) -> (f32[4], bf16[8,4]) {
  %all-gather.2 = bf16[8,4]{1,0} all-gather(%p), channel_id=7, frontend_attributes={chain_id="0"}
}

%step.2 (state: (s32[], f32[6])) -> (s32[], f32[6]) {
  %all-reduce.7 = f32[6]{0} all-reduce(%x), channel_id=5
}

ENTRY %main (a: f32[4]) -> f32[4] {
  %while.1 = (s32[], f32[6]{0}) while(%tuple.3), condition=%until, body=%step.2
  %all-reduce.1 = f32[30522,768]{1,0:T(8,128)} all-reduce(%fusion.1), channel_id=1
  %start = (bf16[4,2]{1,0}, bf16[4,2]{1,0}) all-reduce-start(%a, %b), channel_id=2
  %done = (bf16[4,2]{1,0}, bf16[4,2]{1,0}) all-reduce-done(%start)
  %sent = (f32[3]{0}, f32[3]{0}, u32[]{:S(2)}, u32[]{:S(2)}) collective-permute-start(%x)
  %gathered = s32[16]{0} all-gather(%ids), dimensions={0}
  %flag = pred[] all-reduce(%finite)
  ROOT %fusion = f32[4]{0} fusion(%all-reduce.1), kind=kLoop
"""


def test_collectives_are_counted_once_with_their_bytes():
    assert collectives(HLO) == {
        "all-reduce f32": {"arrays": 1, "mib": 30522 * 768 * 4 / 2**20},
        "all-reduce bf16": {"arrays": 2, "mib": 2 * 8 * 2 / 2**20},
        "all-gather s32": {"arrays": 1, "mib": 16 * 4 / 2**20},
        "collective-permute f32": {"arrays": 1, "mib": 3 * 4 / 2**20},
        "all-reduce f32 in a loop": {"arrays": 1, "mib": 6 * 4 / 2**20},
        "all-gather bf16": {"arrays": 1, "mib": 32 * 2 / 2**20},
        "reduce-scatter f32": {"arrays": 2, "mib": 40 * 4 / 2**20},
        "all-reduce pred": {"arrays": 1, "mib": 1 / 2**20},
    }


def compiled_in_a_process(out, *flags, task="spans"):
    """What the command says of a step, in a process without the tests' devices."""
    command = ("-m", "experiments.benchmark.compiled", "--tasks", task, "--out", out)
    python(*command, "--attention-dropout", 0, *flags, JAX_PLATFORMS="cpu")
    [result] = json.loads(out.read_text())["results"]
    return result


@pytest.mark.slow
def test_data_parallelism_reduces_gradients_in_float32_and_nothing_else(tmp_path):
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("compiling for TPUs needs libtpu (pip install 'jax[tpu]')")
    flags = ("--preset", "tiny", "--tokens", "64", "--rows", "4", "--topologies", "v5e:2x2")
    result = compiled_in_a_process(tmp_path / "tpu.json", *flags)
    # In each of two layers the kernel of TPUs, forwards and backwards, divided between the chips.
    assert result["kernels"] == {"tpu_custom_call": 4}
    found = result["collectives"]
    # Every gradient once; of the position table only the 64 rows that are looked at.
    gradients = (result["parameters"] - (512 - 64) * 32) * 4 / 2**20
    assert found.pop("all-reduce f32")["mib"] == pytest.approx(gradients, rel=0.01)
    # Beside them the numbers of items and questions that means are taken over.
    assert set(found) <= {"all-reduce s32", "all-reduce u32"}
    assert all(entry["mib"] < 1e-4 for entry in found.values())
    assert 0 < result["memory_gib"] < 0.1 and result["flops"] > 1e7


PROGRAM = """
%fused_add.2 (p: bf16[8], q: bf16[8]) -> bf16[8] {
  ROOT %add.1 = bf16[8]{0} add(%p, %q)
}

%fused_multiply (p: f32[6], q: f32[5]) -> f32[6] {
  %p = f32[6]{0} parameter(0)
  %q = f32[5]{0} parameter(1)
  %rows = f32[3,2]{1,0} bitcast(%p)
  %row = f32[1,2]{1,0} dynamic-slice(%rows, %zero, %zero), dynamic_slice_sizes={1,2}
  %part = f32[2]{0} slice(%q), slice={[0:2]}
  %all = f32[5]{0} multiply(%q, %q)
  ROOT %written = f32[6]{0} dynamic-update-slice(%p, %part, %zero)
}

%step (state: (s32[], f32[6])) -> (s32[], f32[6]) {
  %state = (s32[], f32[6]{0}, f32[5]{0}) parameter(0)
  %x = f32[6]{0} get-tuple-element(%state), index=1
  %c = f32[5]{0} get-tuple-element(%state), index=2
  %y = f32[6]{0} fusion(%x, %c), kind=kLoop, calls=%fused_multiply
}

%until (state: (s32[], f32[6])) -> pred[] {
  %less = pred[] compare(%state, %limit), direction=LT
}

ENTRY %main (a: bf16[8], b: bf16[8,8]) -> bf16[8] {
  %a = bf16[8]{0} parameter(0)
  %b = bf16[8,8]{1,0} parameter(1), sharding={replicated}
  %product = (bf16[8]{0}, s8[64]{0}) custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", \
backend_config={"gemm_backend_config":{"lhs_contracting_dimensions":["0"],"epilogue":"BIAS"}}
  %c = bf16[8]{0} get-tuple-element(%product), index=0
  %sum = bf16[8]{0} fusion(%a, %c), kind=kLoop, calls=%fused_add.2
  %other = bf16[8]{0} fusion(%sum, %c), kind=kLoop, calls=%fused_add.7
  %begun = ((f32[3,6]{1,0}), f32[6]{0}, u32[]) fusion-start(%t), kind=kLoop, calls=%fused_slice
  %ended = f32[6]{0} fusion-done(%begun)
  %while = (s32[], f32[6]{0}) while(%tuple), condition=%until, body=%step, \
backend_config={"known_trip_count":{"n":"5"}}
}
"""


ATTENTION = """
ENTRY %main (q: bf16[4,50,6,10]) -> bf16[4,6,50,10] {
  %q = bf16[4,50,6,10]{3,2,1,0} parameter(0)
  ROOT %out = (bf16[4,6,50,10]{3,1,2,0}, f32[4,6,50]{2,1,0}) custom-call(%q, %q, %q), \
custom_call_target="__cudnn$fmhaSoftmaxBackward"
}
"""


def test_kernels_are_counted_by_kind_with_their_bytes_and_modelled_time():
    found = kernels_by_kind(
        PROGRAM, Chip(1, bf16_tflops=1e-6 / 0.63, hbm_gbytes=1e6, link_gbytes=1)
    )
    assert {kind: kernels[:2] for kind, kernels in found.items()} == {
        "__cublas$lt$matmul BIAS": (1, 16 + 16 + 128),  # without the room that cuBLAS works in
        "fused_add": (2, 2 * 3 * 16),
        "fused_slice": (1, 24 + 4),
        # Two numbers of p, all of q, which is not only sliced; and two are written.
        "fused_multiply": (5, 5 * (8 + 20 + 8)),
        "compare": (5, 5),
    }
    # 2 x 8 x 8 operations at a million a second; bytes take no time here.
    assert found["__cublas$lt$matmul BIAS"].seconds == pytest.approx(128e-6 + 2e-6)
    assert found["fused_multiply"].seconds == pytest.approx(5 * 2e-6)
    [found] = kernels_by_kind(ATTENTION, Chip(1, 1e-6 / 0.35, 1e6, 1)).values()
    # Five products of 50 x 50 scores from vectors of 10, for 6 heads of 4 rows.
    assert found.seconds == pytest.approx(5 * 2 * 4 * 6 * 50 * 50 * 10 / 1e6, rel=1e-3)
    [slow] = kernels_by_kind(ATTENTION, Chip(1, 1e9, 1e-9 / 0.83, 1)).values()
    assert slow.seconds == pytest.approx(slow.num_bytes)  # at one byte a second


@pytest.fixture
def cuda():
    if not any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13)):
        pytest.skip("compiling for GPUs needs JAX's plugin for CUDA (pip install 'jax[cuda13]')")


@pytest.mark.slow
@pytest.mark.usefixtures("cuda")
def test_lstms_on_a_gpu_are_a_kernel_each_way_and_not_one_a_step(tmp_path):
    flags = ("--topologies", "h200", "--rows", "4", "--layers", "2")
    found = compiled_in_a_process(tmp_path / "out.json", *flags, task="queries")["by_kind"]
    assert 0 < sum(count for count, *_ in found.values()) <= 600  # 3,841 if every step has its own


@pytest.mark.slow
@pytest.mark.usefixtures("cuda")
def test_a_layer_on_a_gpu_is_few_kernels_that_read_and_write_little(tmp_path):
    """By kind, from the steps of two and of four layers."""
    flags = ("--topologies", "h200", "--rows", "64", "--layers")
    two, four = (compiled_in_a_process(tmp_path / "out.json", *flags, n) for n in ("2", "4"))
    rows = "--packed-tokens", "512", "--shortest", "0.5"
    packed = compiled_in_a_process(tmp_path / "out.json", *flags, "2", *rows)
    # Forwards and backwards; kernels that take a mask have other names.
    for steps in two, packed:
        assert steps["kernels"] == {"__cudnn$fmhaSoftmax": 2, "__cudnn$fmhaSoftmaxBackward": 2}
    num_bytes = (four["num_bytes"] - two["num_bytes"]) / 2
    assert 0 < num_bytes <= 3.7e9
    layer = Counter({kind: count / 2 for kind, (count, *_) in four["by_kind"].items()})
    layer.subtract({kind: count / 2 for kind, (count, *_) in two["by_kind"].items()})
    assert layer.total() <= 60
    # Products are not merged: only squares of small gradients are put together, for the norm, and
    # once for all layers.
    assert sum(count for kind, count in layer.items() if "concatenate" in kind) == 0
    # cuBLAS adds the biases of Q, K and V; those of other products are in our own kernels.
    assert layer["__cublas$lt$matmul BIAS"] == 3
    added = [
        moved - two["by_kind"].get(kind, (0, 0))[1]
        for kind, (_, moved, _) in four["by_kind"].items()
        if "add" in kind
    ]
    assert sum(added) / 2 < 1e-3 * num_bytes


@pytest.mark.slow
@pytest.mark.usefixtures("cuda")
def test_naqanet_on_a_gpu_has_no_loop_over_its_blocks(tmp_path):
    flags = ("--topologies", "h200", "--rows", "64")
    found = compiled_in_a_process(tmp_path / "out.json", *flags, task="naqanet")
    # Four passes of six blocks, and a block each for passage and question.
    assert found["kernels"] == {"__cudnn$fmhaSoftmax": 26, "__cudnn$fmhaSoftmaxBackward": 26}
    assert sum(count for count, *_ in found["by_kind"].values()) <= 3400
    assert found["num_bytes"] <= 24e9 and found["memory_gib"] < 3
    assert not any("update_slice" in kind for kind in found["by_kind"])


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (
            ["--topologies", "v9:2x2"],
            "--topologies: expected one of v5e:AxB, v5p:AxB, v6e:AxB, h100, h200, found 'v9:2x2'",
        ),
        (["--topologies", "h200:2x2"], "found 'h200:2x2'"),
        (["--topologies", "v5e"], "found 'v5e'"),
        (["--rows", "1"], "rows: expected at least 2, found 1"),
        (["--tasks", "poems"], "poems"),
        (["--attention", "all"], "attention"),
    ],
)
def test_wrong_flags_are_refused(capsys, flags, culprit):
    assert culprit in fails(compiled.Compiled, capsys, *flags)
