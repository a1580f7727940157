"""Kernels of a compiled GPU program by kind: how many run, and the bytes that they read and write.

Operands are counted whole: a fusion that reads a slice of an array is charged for all of it. The
body of a loop counts as often as it runs, so that bytes of a loop over slices are far too many.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$")
SHAPE = re.compile(r"\b(pred|[a-z]+\d+)\[([\d,]*)\]")
_BITS = re.compile(r"\d+")
_OPERAND = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|condition)=%?([\w.-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_EPILOGUE = re.compile(r'"epilogue":"(\w+)"')  # what a product of cuBLAS computes at its end
#: They move nothing: views of other arrays, and the second half of what runs beside other kernels.
_FREE = {"parameter", "get-tuple-element", "tuple", "bitcast", "constant", "after-all"}
_FREE |= {"fusion-done", "copy-done", "async-done", "partition-id"}
_CALLS = {"while", "call", "conditional"}


class Kernels(NamedTuple):
    """How many kernels, and the bytes that they read and write together."""

    count: float = 0
    num_bytes: float = 0

    def __add__(self, other: Kernels) -> Kernels:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Kernels(self.count + other.count, self.num_bytes + other.num_bytes)


def array_bytes(shapes: str) -> int:
    """Bytes of all arrays of an HLO shape, such as ``(f32[4,2]{1,0}, bf16[8], pred[])``."""
    found = 0
    for dtype, dims in SHAPE.findall(shapes):
        bits = _BITS.search(dtype)
        width = int(bits[0]) / 8 if bits else 1
        found += math.ceil(width * math.prod(int(d) for d in dims.split(",") if d))
    return found


def kernels_by_kind(hlo: str) -> dict[str, Kernels]:
    """Kind of kernel -> how many run in the program, and their bytes.

    Kinds are opcodes; of a fusion the name of what it computes, without numbers; of a call of a
    library, or of a kernel of one's own, the call's target.
    """
    computations: dict[str, list[str]] = {}
    entry, lines = "", []
    for line in hlo.splitlines():
        if header := COMPUTATION.match(line):
            lines = computations[header[1]] = []
            entry = header[1] if line.startswith("ENTRY") else entry
        else:
            lines.append(line)
    found: dict[str, Kernels] = {}
    _count(entry, 1, computations, found)
    return found


def _count(
    name: str, times: int, computations: Mapping[str, list[str]], found: dict[str, Kernels]
) -> None:
    shapes: dict[str, str] = {}
    for line in computations[name]:
        if not (match := _INSTRUCTION.match(line)):
            continue
        result, shape, opcode, rest = match.groups()
        shapes[result] = shape
        called = _CALLED.findall(line)
        if opcode in _CALLS:
            trips = _TRIPS.search(line) if opcode == "while" else None
            for inner in called:
                _count(inner, times * (int(trips[1]) if trips else 1), computations, found)
        elif opcode not in _FREE:
            target = _TARGET.search(line)
            kind = called[0] if opcode.startswith("fusion") else target[1] if target else opcode
            kind = "product (Triton)" if "gemm_fusion" in kind else re.sub(r"[\d._]+$", "", kind)
            if epilogue := _EPILOGUE.search(line):
                kind += f" {epilogue[1]}"
            operands = _OPERAND.findall(rest.split("), ")[0])
            if opcode.endswith("-start"):  # a tuple of operands, result and scalars of the device
                shape = shape.removeprefix("((").partition("), ")[2] or shape
            moved = array_bytes(shape) + sum(array_bytes(shapes.get(x, "")) for x in operands)
            found[kind] = found.get(kind, Kernels()) + Kernels(times, times * moved)


def total(kinds: Mapping[str, Kernels]) -> Kernels:
    """All kinds together."""
    return sum(kinds.values(), start=Kernels())


def of_one_layer(
    fewer: Mapping[str, Kernels], more: Mapping[str, Kernels], layers: int
) -> dict[str, Kernels]:
    """What each layer adds, from two programs of which one has this many more layers.

    Example:
        >>> of_one_layer({"copy": Kernels(2, 8)}, {"copy": Kernels(6, 16)}, layers=2)
        {'copy': Kernels(count=2.0, num_bytes=4.0)}
    """
    found = {}
    for kind in {**fewer, **more}:
        (a, x), (b, y) = fewer.get(kind, Kernels()), more.get(kind, Kernels())
        if (a, x) != (b, y):
            found[kind] = Kernels((b - a) / layers, (y - x) / layers)
    return found
