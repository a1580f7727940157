"""Inputs of a model that are already there."""

import numpy as np


class Listed(list):
    """A list with the sizes that `hardem_jax.data.batching.padding.Inputs` have."""

    def __init__(self, items, sizes):
        super().__init__(items)
        self.sizes = np.array(sizes)
