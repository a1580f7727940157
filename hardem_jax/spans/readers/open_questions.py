"""Reader for KILT's questions, and checks shared by readers of open-domain questions.

    {"id": ..., "input": "who wrote the iliad", "output": [{"answer": "Homer", ...}, ...]}

KILT (Petroni et al., 2021) has one such object per line; ``output`` also has the passages that
annotators found, which are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from hardem_jax.data.exclusions import EMPTY_QUESTION, NO_ANSWER, ExclusionCounts
from hardem_jax.data.json_fields import distinct, get_field, get_id, get_objects, lacks
from hardem_jax.data.json_stream import PathLike, iter_json_records
from hardem_jax.documents.examples import OpenQuestion
from hardem_jax.words import ARTICLES, split_words

# Reason of `ExclusionCounts`, for questions left out:
NO_WORD = "no word left in the question after normalisation"
# and warning, for questions kept:
REPEATED = "question id occurs again"


def find_defect(question: str, answers: tuple[str, ...], *, require_answers: bool) -> str | None:
    """Why a question cannot be used, as a reason of `ExclusionCounts`, or None."""
    if not question.strip():
        return EMPTY_QUESTION
    if ARTICLES.issuperset(split_words(question).forms):
        return NO_WORD
    if require_answers and not any(answer.strip() for answer in answers):
        return NO_ANSWER
    return None


class IdCheck:
    """Warns about repeated question ids, because predictions are keyed by id."""

    def __init__(self, skips: ExclusionCounts):
        self._skips = skips
        self._seen: set[str] = set()

    def __call__(self, id: str) -> None:
        if id in self._seen:
            self._skips.warn(REPEATED, id)
        self._seen.add(id)


def read_kilt_questions(
    path: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[OpenQuestion]:
    """Streams the questions of a file of KILT, each with its distinct answers.

    ``require_answers=False`` keeps questions without an answer, for prediction.
    """
    check = IdCheck(skips)
    for _, place, record in iter_json_records(path):
        id, question = get_id(record, "id", place), get_field(record, "input", str, place)
        if id is None or question is None:
            raise lacks(record, "'id' and 'input'", place)
        outputs = get_objects(record, "output", place)
        answers = distinct(get_field(one, "answer", str, place) or "" for one in outputs)
        if reason := find_defect(question, answers, require_answers=require_answers):
            skips.add(reason, id)
        else:
            check(id)
            yield OpenQuestion(id, question, answers)
