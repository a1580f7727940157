"""Scores of solutions in a file: what is read is what was written, of this split or not at all."""

import dataclasses
import io

import numpy as np
import pytest

from hardem_jax.data.scores import Scored, SolutionScores, write_scores
from hardem_jax.errors import InputError

SCORES = {
    "a": np.array([-3.0, -1.0, -np.inf]),
    "": np.array([5.0]),
    "b": np.zeros(0),
    "é ": np.array([-np.inf, -np.inf]),
}


@pytest.fixture
def file(tmp_path):
    write_scores(tmp_path / "scores.npz", SCORES, content="c0ffee")
    return tmp_path / "scores.npz"


def test_scores_come_back_with_the_best_of_a_question_at_0(file):
    found = SolutionScores.read(file, content="c0ffee")
    assert set(found.scores) == set(SCORES)
    for id, expected in {"a": [-2, 0, -np.inf], "": [0], "b": [], "é ": [-np.inf] * 2}.items():
        values = found.of(id, len(expected))
        assert values.dtype == np.float32 and values.tolist() == expected


def test_no_scores_at_all_come_back_too(tmp_path):
    write_scores(tmp_path / "none.npz", {}, content="c0ffee")
    assert SolutionScores.read(tmp_path / "none.npz", content="c0ffee").scores == {}


@pytest.mark.parametrize("changes", [{"counts": [3, 1, 0, 1]}, {"counts": [6]}, {"ids": ["a"]}])
def test_counts_that_do_not_add_up_are_refused(file, changes):
    with np.load(file) as found:
        np.savez(file, **(dict(found) | {name: np.array(x) for name, x in changes.items()}))
    with pytest.raises(InputError, match="expected scores of . questions, found . counts and 6"):
        SolutionScores.read(file, content="c0ffee")


@pytest.mark.parametrize(
    "id, count, message",
    [("a", 2, "expected 2 scores of a, found 3"), ("c", 1, "of c, found none")],
)
def test_questions_with_another_z_are_refused(file, id, count, message):
    with pytest.raises(InputError, match=message):
        SolutionScores.read(file, content="c0ffee").of(id, count)


def test_scores_of_another_split_and_damaged_files_are_refused(file, tmp_path):
    with pytest.raises(InputError, match="split with digest beef, found c0ffee"):
        SolutionScores.read(file, content="beef")
    with pytest.raises(InputError, match=r"none\.npz: expected a file"):
        SolutionScores.read(tmp_path / "none.npz", content="c0ffee")
    whole = file.read_bytes()
    single, others = io.BytesIO(), io.BytesIO()
    np.save(single, np.zeros(2))
    np.savez(others, other=np.zeros(2))
    for content in (
        *(b"", whole[: len(whole) // 2], b"text"),
        *(single.getvalue(), others.getvalue()),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match="expected scores of solutions, found"):
            SolutionScores.read(file, content="c0ffee")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_score_is_not_written(tmp_path, bad):
    with pytest.raises(ValueError, match="below infinity"):
        write_scores(tmp_path / "scores.npz", {"a": np.array([0.0, bad])}, content="")
    assert not list(tmp_path.iterdir())


@dataclasses.dataclass(frozen=True)
class Question:
    id: str
    z: np.ndarray
    log_weights: np.ndarray | None = None


def test_questions_get_their_scores_when_they_are_read(file):
    scores = SolutionScores.read(file, content="c0ffee")
    questions = [Question("a", np.zeros((3, 2))), Question("", np.zeros((1, 2)))]
    scored = Scored(questions, scores, "z")
    assert [q.log_weights.tolist() for q in scored] == [[-2, 0, -np.inf], [0]]
    assert scored[-1].id == "" and len(scored) == 2
