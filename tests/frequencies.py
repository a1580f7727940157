"""Whether samples have the frequencies of a distribution."""

import numpy as np
import scipy.stats


def p_value(drawn, log_probs):
    """Of a chi-square test of these indices, in the cells of these log-probabilities.

    Cells are joined, rarest first, until each expects enough.
    """
    observed = np.bincount(drawn, minlength=len(log_probs))
    expected = len(drawn) * np.exp(log_probs)
    observed, expected = pooled(observed, expected)
    assert len(observed) > 1
    return scipy.stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(observed) - 1)


def pooled(observed, expected, least=10):
    cells = [(0.0, 0.0)]
    for index in np.argsort(expected):
        if cells[-1][1] >= least:
            cells.append((0.0, 0.0))
        cells[-1] = cells[-1][0] + observed[index], cells[-1][1] + expected[index]
    return np.array(cells).T
