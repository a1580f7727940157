"""What can happen to a file on a disk."""

from collections.abc import Callable
from pathlib import Path


def _rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda file: (file.write_bytes(change(file.read_bytes())), None)[1]


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


#: Kind -> a function that damages a file that is not empty.
DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped bit": _rewrite(_flip),
    "empty": _rewrite(lambda data: b""),
    "half": _rewrite(lambda data: data[: len(data) // 2]),
    "one byte short": _rewrite(lambda data: data[:-1]),
    "zeroed": _rewrite(lambda data: bytes(len(data))),
    "longer": _rewrite(lambda data: data + b"x"),
    "deleted": Path.unlink,
}
