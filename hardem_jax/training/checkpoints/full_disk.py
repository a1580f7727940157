"""A full disk: found before a checkpoint is written, or told in one line afterwards."""

import contextlib
import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax

#: Error numbers that `out_of_space` recognises.
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def one_error(folder: Path) -> Iterator[None]:
    """Turns the per-array errors that Orbax and TensorStore raise on a full disk into one."""
    try:
        yield
    except Exception as error:
        reason = out_of_space(error)
        if reason is None:
            raise
        raise OSError(reason, f"{os.strerror(reason)}; checkpoint not saved", str(folder)) from None


def check_space(folder: Path, arrays: Iterable[jax.Array]) -> None:
    """Raises ENOSPC before writing if the disk does not have enough free space."""
    needed = sum(array.nbytes for array in arrays)
    if jax.process_count() == 1 and shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def quiet_failures() -> Iterator[None]:
    """Suppresses reports of a full disk from background threads; the error itself is raised.

    Orbax logs a stack trace per thread, and TensorStore reports to an event loop that the first
    failure has closed. Such reports may arrive late, so filters stay in place after a failure.
    """

    def is_other_error(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return out_of_space(error) is None and out_of_space(OSError(record.getMessage())) is None

    before = sys.unraisablehook

    def report(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            before(unraisable)

    logger = logging.getLogger("absl")
    logger.addFilter(is_other_error)
    sys.unraisablehook = report
    try:
        yield
    except OSError:
        raise
    except BaseException:
        logger.removeFilter(is_other_error)
        sys.unraisablehook = before
        raise
    else:
        logger.removeFilter(is_other_error)
        sys.unraisablehook = before


def out_of_space(error: BaseException | None) -> int | None:
    """Returns the `errno` if a full disk, quota or file-size limit caused the error, else None.

    Example:
        >>> out_of_space(ValueError("write failed [OS error 28: ENOSPC No space left on device]"))
        28
        >>> out_of_space(KeyError("x"))
    """
    seen: set[int] = set()
    pending = [error]
    while pending:
        error = pending.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
            return error.errno
        for number in OUT_OF_SPACE:
            if errno.errorcode[number] in str(error) or os.strerror(number) in str(error):
                return number
        pending += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    return None
