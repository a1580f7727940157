"""What a compiled program does, read off its text and XLA's own accounts."""

import math
import re
from typing import Any

from hardem_jax.models.ops.attention import kernels

_COLLECTIVES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
# `%x = SHAPE all-reduce(...)`; of an asynchronous pair only the start is counted.
_COLLECTIVE = re.compile(rf"= (\(.*?\)|\S+) ({_COLLECTIVES})(-start)?\(")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
# TPUs write one asynchronous collective into up to three fusions: begun, waited for, and beside
# what is computed meanwhile.
_ASYNCHRONOUS = re.compile(r"channel_id=(\d+).*chain_id=\"(\d+)\"")
_LOOP_BODY = re.compile(r"\bbody=%?([\w.-]+)")
_SHAPE = re.compile(r"\b(pred|[a-z]+\d+)\[([\d,]*)\]")
_BITS = re.compile(r"\d+")


def describe(compiled: Any) -> dict[str, Any]:
    """Memory, operations and collectives of one chip's program.

    Returns:
        ``memory_gib`` (the most at a time), ``flops`` as XLA counts them (the body of a loop once,
        which leaves out most of an LSTM, and nothing of a kernel), ``collectives`` and ``kernels``,
        see the functions of these names.
    """
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes
    held += memory.temp_size_in_bytes - memory.alias_size_in_bytes
    held += memory.generated_code_size_in_bytes
    return {
        "memory_gib": held / 2**30,
        "flops": cost["flops"],
        "collectives": collectives(compiled.as_text()),
        "kernels": kernels(compiled.as_text()),
    }


def collectives(hlo: str) -> dict[str, dict[str, float]]:
    """Kind of collective and dtype -> how many arrays there are in a program, and their MiB.

    Those in the body of a loop are counted once, under a name of their own.

    Example:
        >>> collectives("%r = (f32[256,1024]{1,0}, f32[4]{0}) all-reduce(%a, %b), to_apply=%add")
        {'all-reduce f32': {'arrays': 2, 'mib': 1.0000152587890625}}
    """
    found: dict[str, dict[str, float]] = {}
    seen, computation, bodies = set(), "", set(_LOOP_BODY.findall(hlo))
    for line in hlo.splitlines():
        if header := _COMPUTATION.match(line):
            computation = header[1]
        if not (collective := _COLLECTIVE.search(line)):
            continue
        shapes, kind, begun = collective.groups()
        if pair := _ASYNCHRONOUS.search(line):
            if (kind, *pair.groups()) in seen:
                continue
            seen.add((kind, *pair.groups()))
        if computation.startswith("all-reduce-scatter"):  # how TPUs write it: a sum, then a slice
            kind = "reduce-scatter"
        arrays = _SHAPE.findall(shapes)
        if begun and kind != "all-reduce":  # a tuple of operands, results and scalars of the device
            arrays = [(dtype, dims) for dtype, dims in arrays if dims]
            arrays = arrays[len(arrays) // 2 :]
        for dtype, dims in arrays:
            name = f"{kind} {dtype}" + (" in a loop" if computation in bodies else "")
            entry = found.setdefault(name, {"arrays": 0, "mib": 0.0})
            entry["arrays"] += 1
            entry["mib"] += _num_bytes(dtype, dims) / 2**20
    return found


def _num_bytes(dtype: str, dims: str) -> float:
    bits = _BITS.search(dtype)
    return math.prod(int(d) for d in dims.split(",") if d) * (int(bits[0]) / 8 if bits else 1)
