"""The one exception for what a person typed or supplied."""


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
