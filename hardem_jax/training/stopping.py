"""Signal handling: on `TERMINATION` or Ctrl-C, finish the step, save a checkpoint and stop."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import jax
from jax.experimental import multihost_utils

from hardem_jax.errors import TERMINATION, Stopped

#: A scheduler may signal a whole group of processes, and the one that started a training, it again.
#: Signals so close to the first, in seconds, are the same request.
_SAME_REQUEST = 1.0


class StopSignals:
    """Records stop requests; created by `stop_signals`."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._since = 0.0
        self._immediately = False

    def requested(self, step: int) -> bool:
        """Returns whether to stop after this step; all processes get the same answer.

        With several processes, JAX's preemption service picks a step that all of them reach.
        """
        if jax.process_count() == 1:
            return self.signum is not None
        if not getattr(jax.config, "jax_enable_preemption_service", False):
            return False
        reached = multihost_utils.reached_preemption_sync_point(step)
        if reached and self.signum is None:
            self.signum = signal.SIGTERM
        return reached

    @contextlib.contextmanager
    def immediately(self) -> Iterator[None]:
        """Makes a signal raise `Stopped` within the body, which has no progress to lose.

        With several processes it has no effect, because they could not agree on where to stop.
        """
        if jax.process_count() > 1:
            yield
            return
        if self.signum is not None:
            raise self.stopped("")
        self._immediately = True
        try:
            yield
        finally:
            self._immediately = False
        if self.signum is not None:  # raised in a finalizer, where exceptions are lost
            raise self.stopped("")

    def stopped(self, message: str) -> Stopped:
        """Returns the exception that ends the run."""
        signum = signal.SIGTERM if self.signum is None else self.signum
        text = f"stopped by {signal.Signals(signum).name}{message}"
        return Stopped(signum, text, recorded=True)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:  # a second request stops the run immediately
            if time.monotonic() - self._since < _SAME_REQUEST:
                return
            raise Stopped(signum, f"stopped by {signal.Signals(signum).name} at once")
        self.signum, self._since = signum, time.monotonic()
        if jax.process_count() > 1:
            # JAX's own SIGTERM handler notifies the other processes.
            signal.raise_signal(signal.SIGTERM)
        elif self._immediately:
            raise self.stopped("")


@contextlib.contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Handles `TERMINATION` and SIGINT while the body runs; a second request ends it at once.

    Outside the main thread, where Python allows no signal handlers, it changes nothing.
    """
    stop = StopSignals()
    # With several processes SIGTERM belongs to JAX's preemption service.
    owned = {signal.SIGTERM} if jax.process_count() > 1 else set()
    handled = [signum for signum in (signal.SIGINT, *TERMINATION) if signum not in owned]
    if threading.current_thread() is not threading.main_thread():
        handled = []
    before = {signum: signal.signal(signum, stop._handle) for signum in handled}
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
