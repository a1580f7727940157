"""Peaks of devices, by the names that they give themselves."""

from types import SimpleNamespace

import pytest

from hardem_jax.training.metrics_log import peak_flops


@pytest.mark.parametrize(
    ("kind", "tflops"),
    [
        ("TPU v5 lite", 197),
        ("TPU v5p", 459),
        ("TPU v5", 459),
        ("TPU v6 lite", 918),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA T4", None),
        ("cpu", None),
    ],
)
def test_kinds(kind, tflops):
    devices = [SimpleNamespace(device_kind=kind)] * 8
    assert peak_flops(devices) == (None if tflops is None else pytest.approx(8e12 * tflops))


def test_a_device_of_unknown_peak_makes_the_sum_unknown():
    assert peak_flops([SimpleNamespace(device_kind=kind) for kind in ("TPU v4", "cpu")]) is None
