"""What a training step has to compute, and what the device could: model FLOPs utilisation.

Counted are the multiplications and additions of matrix products in the encoder (Chowdhery et al.,
2022, appendix B): the dense layers of every token, and scores and weighted sums of attention over
each row. The backward pass is twice the forward pass. Not counted are embeddings, heads, loss,
softmax, LayerNorm and the optimiser, nor what is computed twice to save memory: a utilisation is
of useful work alone.
"""

from experiments.benchmark.setting import Sizes

FORWARD_AND_BACKWARD = 3


def step_flops(sizes: Sizes, rows: int, tokens: int) -> float:
    """Floating-point operations of a training step on ``rows`` rows of ``tokens`` tokens.

    Example:
        >>> from experiments.benchmark.setting import PRESETS
        >>> f"{step_flops(PRESETS['bert-base'], 32, 300) / 1e12:.2f} TFLOP"
        '5.21 TFLOP'
    """
    hidden = sizes.hidden
    dense = 2 * (4 * hidden**2 + 2 * hidden * sizes.intermediate)
    attention = 2 * 2 * tokens * hidden
    return float(FORWARD_AND_BACKWARD * sizes.layers * rows * tokens * (dense + attention))
