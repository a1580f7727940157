"""What devices send each other, read off the text of a compiled program."""

import re

COLLECTIVE = re.compile(r"= (\(?\w+\[.*?) (all-\w+|reduce-scatter|collective-\w+)(?:-start)?\(")


def collectives(hlo: str) -> list[tuple[str, list[tuple[str, tuple[int, ...]]]]]:
    """Kind, and dtype and shape of every array, of each collective.

    Example:
        >>> collectives("%r = (f32[4,2]{1,0}, s32[]) all-reduce(%a, %b), to_apply=%add")
        [('all-reduce', [('f32', (4, 2)), ('s32', ())])]
    """
    return [
        (
            kind,
            [
                (dtype, tuple(int(length) for length in dims.split(",") if length))
                for dtype, dims in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shapes)
            ],
        )
        for shapes, kind in COLLECTIVE.findall(hlo)
    ]
