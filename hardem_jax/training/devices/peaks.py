"""Peak rates of devices: dense bf16 operations per second, from the makers' data sheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: What a `device_kind` begins with -> 10^12 bf16 operations per second of one device, without
#: sparsity. A TPU v3 has two devices per chip, the others one. TPUs: cloud.google.com/tpu/docs,
#: pages of system architecture; GPUs: data sheets of the SXM boards, the largest where there are
#: several.
PEAK_TFLOPS = {
    "TPU v3": 61.5,
    "TPU v4": 275.0,
    "TPU v5 lite": 197.0,
    "TPU v5e": 197.0,
    "TPU v5": 459.0,  # so v5p calls itself
    "TPU v6 lite": 918.0,
    "TPU v6e": 918.0,
    "NVIDIA A100": 312.0,
    "NVIDIA H100": 989.0,
    "NVIDIA H200": 989.0,
    "NVIDIA B200": 2250.0,
}


def peak_flops(devices: Sequence[Any]) -> float | None:
    """Dense bf16 operations per second of all devices; None if the peak of one is unknown.

    Example:
        >>> import jax
        >>> print(peak_flops(jax.devices("cpu")))
        None
    """
    peaks = [_peak_tflops(device.device_kind) for device in devices]
    known = [peak for peak in peaks if peak is not None]
    return 1e12 * sum(known) if len(known) == len(peaks) else None


def _peak_tflops(kind: str) -> float | None:
    # The longest name: "TPU v5 lite" also begins with "TPU v5".
    names = [name for name in PEAK_TFLOPS if kind.startswith(name)]
    return PEAK_TFLOPS[max(names, key=len)] if names else None
