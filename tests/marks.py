"""Marks for some of the arguments of a test."""

import signal

import pytest


def slow(*arguments):
    """Each of them as a slow test; a tuple is one case of several arguments.

    Example:
        >>> [case.marks[0].name for case in slow(1, (2, "x"))]
        ['slow', 'slow']
    """
    return [
        pytest.param(*(x if isinstance(x, tuple) else (x,)), marks=pytest.mark.slow)
        for x in arguments
    ]


#: For a case that sends SIGHUP, which a process under `nohup` inherits as ignored.
needs_hangup = pytest.mark.skipif(
    signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, reason="SIGHUP is ignored here"
)
