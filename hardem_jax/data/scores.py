"""Scores of solutions from outside a model, a second signal beside the answer, in a file.

Anything that tells something about a solution may write one, such as the log-probabilities of
another model. Training adds them, as
``log_weights``, to log P(z | x) (`hardem_jax.losses`, "Samples and weights"). A score of -inf
leaves a solution out; a question whose scores are all -inf counts as one without a solution.
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.data.files import file_digest, new_file
from hardem_jax.errors import InputError

_FORMAT = "hardem-jax solution scores 1"


def write_scores(file: Path, scores: Mapping[str, np.ndarray], *, content: str) -> None:
    """Writes the scores of a split's solutions, complete or not at all.

    Args:
        file: to write, ``.npz``.
        scores: question id -> ``[Z]`` float, a log-score of each solution, in the order of Z.
        content: digest of the split, as its build records it.

    Raises:
        InputError: the file cannot be written.
        ValueError: a score is NaN or +inf.
    """
    found = [np.asarray(values, np.float32) for values in scores.values()]
    flat = np.concatenate([np.zeros(0, np.float32), *found])
    if not (flat < np.inf).all():
        raise ValueError("scores must be numbers below infinity, got NaN or inf")
    arrays = {
        "format": np.array(_FORMAT),
        "content": np.array(content),
        "ids": np.array(list(scores)),
        "counts": np.array([len(values) for values in found], np.int64),
        "scores": flat,
    }
    with new_file(file) as partial, open(partial, "wb") as out:
        np.savez(out, **arrays)


@dataclasses.dataclass(frozen=True)
class SolutionScores:
    """The content of a file that `write_scores` wrote.

    Attributes:
        file: for messages.
        digest: of the file.
        scores: question id -> ``[Z]`` float32.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "scores.npz")
        ...     write_scores(file, {"q": np.array([-1.0, -3.0])}, content="c0ffee")
        ...     SolutionScores.read(file, content="c0ffee").of("q", 2)
        array([ 0., -2.], dtype=float32)
    """

    file: Path
    digest: str
    scores: Mapping[str, np.ndarray]

    @classmethod
    def read(cls, file: Path, *, content: str) -> SolutionScores:
        """The scores in a file.

        Args:
            file: to read.
            content: digest of the split that they must belong to.

        Raises:
            InputError: the file is missing, damaged, or of another split.
        """
        digest = file_digest(file)
        try:
            with open(file, "rb") as opened:
                found = np.load(opened, allow_pickle=False)
                if isinstance(found, np.ndarray):
                    raise ValueError("a single array")
                arrays = {name: found[name] for name in ("format", "content", "ids")}
                counts, flat = found["counts"], found["scores"]
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(f"{file}: expected scores of solutions, found {error}") from error
        if (kind := str(arrays["format"])) != _FORMAT:
            raise InputError(f"{file}: expected {_FORMAT}, found {kind}")
        if (split := str(arrays["content"])) != content:
            raise InputError(
                f"{file}: expected scores of the split with digest {content}, found {split}; "
                "score the solutions of this build again"
            )
        ids, ends = arrays["ids"].tolist(), np.cumsum(counts, dtype=np.int64)
        if len(ids) != len(counts) or len(flat) != (ends[-1] if ids else 0):
            raise InputError(
                f"{file}: expected scores of {len(ids)} questions, found {len(counts)} counts and "
                f"{len(flat)} scores"
            )
        return cls(file, digest, dict(zip(ids, np.split(flat, ends)[:-1], strict=True)))

    def of(self, id: str, count: int) -> np.ndarray:
        """The log-scores of a question's solutions, shifted so that the largest is 0.

        A constant per question changes no E-step, and this one keeps weighted probabilities below
        those of the model.

        Raises:
            InputError: there are none, or not as many as the question has solutions.
        """
        found = self.scores.get(id)
        if found is None or len(found) != count:
            there = "none" if found is None else len(found)
            raise InputError(f"{self.file}: expected {count} scores of {id}, found {there}")
        peak = found.max(initial=-np.inf)
        return found - peak if peak > -np.inf else found


class Scored(Sequence[Any]):
    """Questions with ``log_weights``, read lazily.

    Args:
        questions: with a Z each.
        scores: of all of them.
        solutions: name of the field that holds Z.
    """

    def __init__(self, questions: Sequence[Any], scores: SolutionScores, solutions: str):
        self._questions, self._scores, self._solutions = questions, scores, solutions

    def __len__(self) -> int:
        return len(self._questions)

    def __getitem__(self, index):
        question = self._questions[range(len(self))[index]]
        count = len(getattr(question, self._solutions))
        log_weights = self._scores.of(question.id, count)
        return dataclasses.replace(question, log_weights=log_weights)
