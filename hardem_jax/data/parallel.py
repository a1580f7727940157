"""Applies a function to many items in several processes, with results in their order."""

from __future__ import annotations

import collections
import concurrent.futures
import concurrent.futures.process
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from hardem_jax.errors import InputError

T = TypeVar("T")
R = TypeVar("R")

_function: Callable[[Any], Any] | None = None  # of a worker


def map_in_order(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    processes: int | None = None,
    chunk_size: int = 16,
) -> Iterator[R]:
    """Yields ``function(item)`` in order, computed by ``processes`` that are spawned (None or 1:
    this one), each of which gets ``function`` once, and ``chunk_size`` items at a time."""
    if processes is not None and processes < 1:
        raise InputError(f"--processes: expected at least 1, found {processes}")
    if processes in (None, 1):
        yield from map(function, items)
        return
    iterator = iter(items)
    chunks = iter(lambda: list(itertools.islice(iterator, chunk_size)), [])
    # Forking would copy locks that threads of this process may hold.
    spawn = multiprocessing.get_context("spawn")
    waiting: collections.deque[concurrent.futures.Future[list[R]]] = collections.deque()
    with concurrent.futures.ProcessPoolExecutor(
        processes, mp_context=spawn, initializer=_start_worker, initargs=(function,)
    ) as pool:
        try:
            for chunk in chunks:
                waiting.append(pool.submit(_results, chunk))
                if len(waiting) > 2 * processes:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise InputError(
                f"--processes {processes}: one of them was killed, for want of memory perhaps; "
                "try fewer"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    # Ctrl-C reaches every process of the terminal; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Tokenizers would start as many threads as there are cores in each process.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A killed parent cannot tell its workers, which would wait for items forever.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _results(chunk: list[Any]) -> list[Any]:
    assert _function is not None
    return [_function(item) for item in chunk]
