"""The share of the annotated query in what scores, or simple rules, take of Z."""

from collections.abc import Mapping

import numpy as np

from experiments.solution_sets.agreement import shares_of
from experiments.solution_sets.signals import fewest_conditions

#: What `rule_shares` takes, in its order.
RULES = (
    "drawn",
    "first of Z",
    "fewest conditions",
    "by weight",
    "largest score",
    "largest score of the fewest conditions",
)


def rule_shares(
    is_annotated: np.ndarray, scores: np.ndarray, queries: np.ndarray
) -> tuple[float, ...]:
    """The share of the annotated query in what each of `RULES` takes of Z.

    Args:
        is_annotated: ``[Z]`` bool.
        scores: ``[Z]`` float, log-scores; equal ones share.
        queries: ``[Z, 15]`` int.

    Example:
        >>> queries = np.zeros((3, 15), int)
        >>> queries[:, 2] = 1, 1, 2
        >>> shares = rule_shares(np.array([0, 1, 0]), np.log([0.1, 0.3, 0.6]), queries)
        >>> [round(float(share), 2) for share in shares]
        [0.33, 0.0, 0.5, 0.3, 0.0, 1.0]
    """
    weights = np.exp(scores - scores.max(), dtype=np.float64)
    drawn, weight, _, largest = shares_of(is_annotated.astype(bool), weights)
    fewest = fewest_conditions(queries) == 0
    best = np.isclose(scores, scores[fewest].max(), rtol=0, atol=1e-5) & fewest
    of_fewest, of_best = is_annotated[fewest].mean(), is_annotated[best].mean()
    return drawn, float(is_annotated[0]), of_fewest, weight, largest, of_best


def measured(
    scores: Mapping[str, np.ndarray], annotated: Mapping[str, np.ndarray]
) -> dict[str, int | float]:
    """The share of the annotated query: drawn from Z, weighed by q, and if the largest q decides.

    Means over questions that have several solutions with the annotated one among them, and, "all",
    over all questions.

    Example:
        >>> one = {"a": np.array([True, False]), "b": np.array([True])}
        >>> found = measured({"a": np.log([0.9, 0.3]), "b": np.zeros(1)}, one)
        >>> [round(float(found[name]), 3) for name in ("drawn", "weight", "largest", "drawn, all")]
        [0.5, 0.75, 1.0, 0.75]
    """
    every = shares_by_question(scores, annotated)
    several = [shares for id, shares in every.items() if len(scores[id]) > 1 and sum(shares)]
    if not several:
        return {"questions": 0}
    drawn, weight, largest = np.mean(several, axis=0).tolist()
    drawn_of_all, _, largest_of_all = np.mean(list(every.values()), axis=0).tolist()
    return {
        "questions": len(several),
        **{"drawn": drawn, "weight": weight, "largest": largest},
        **{"drawn, all": drawn_of_all, "largest, all": largest_of_all},
    }


def shares_by_question(
    scores: Mapping[str, np.ndarray], annotated: Mapping[str, np.ndarray]
) -> dict[str, tuple[float, float, float]]:
    """Question id -> the share of the annotated query drawn, weighed, or if the largest decides."""
    shares = {}
    for id, is_annotated in annotated.items():
        weights = np.exp(scores[id] - scores[id].max(), dtype=np.float64)
        drawn, weight, _, largest = shares_of(is_annotated, weights)
        shares[id] = drawn, weight, largest
    return shares
