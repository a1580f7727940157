"""Windows to try readers on, and their batches."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.windows import Window


def window(example_id, context, solutions=(), true=-1, document=0):
    """[CLS] 5 [SEP] context [SEP]; every context token is one letter of the text."""
    text = "".join(chr(ord("a") + token - 4) for token in context)
    places = np.arange(len(context))
    return Window(
        example_id=example_id,
        document=document,
        text=text,
        text_start=10,
        token_ids=np.array([2, 5, 3, *context, 3]),
        context_start=3,
        offsets=np.stack([places, places + 1], axis=1),
        solutions=np.array(solutions, int).reshape(-1, 2),
        true_solution=true,
    )


WINDOWS = [
    window("q1", [6, 7, 8, 6], [(3, 3), (6, 6)], true=1),
    window("q2", [9, 10, 11], [(4, 5)], true=0),
    window("q1", [12, 13], document=1),
    window("q2", [14, 15, 16, 17, 18, 19]),
]


CHOICES = "yes no unknown "


def choice_window(context, solutions=()):
    """Like `window`, of one document, with three choices of a token each in front."""
    plain = window("q1", context, solutions)
    starts = np.array([[0, 3], [4, 6], [7, 14]])
    return dataclasses.replace(
        plain,
        text=CHOICES + plain.text,
        token_ids=np.array([2, 5, 3, 20, 21, 22, *context, 3]),
        offsets=np.concatenate([starts, plain.offsets + len(CHOICES)]),
        lead=len(CHOICES),
    )


def arrays(windows, num_tokens=10, num_solutions=4):
    batch = pad_windows(windows, num_tokens, num_solutions=num_solutions, pad_id=0)
    return {name: jnp.asarray(value) for name, value in batch.items()}
