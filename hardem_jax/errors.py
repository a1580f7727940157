"""Errors that a command prints as one line: bad input, and a signal that ended it."""


class InputError(ValueError):
    """Bad input, in one line: the culprit, what was expected, what was found.

    The culprit is a file, a line, an example id or a flag.

    Experiment modules print the message and exit with code 2; everything else
    that goes wrong is a defect and keeps its stack trace.

    Example:
        >>> raise InputError("train.json: expected a list under 'Data', found a string")
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: train.json: expected a list under 'Data', found a string
    """


class Stopped(KeyboardInterrupt):
    """A signal ended the program in an orderly way.

    Attributes:
        signum: the signal; a command exits with 128 plus its number.
    """

    def __init__(self, signum: int, message: str) -> None:
        self.signum = signum
        super().__init__(message)
