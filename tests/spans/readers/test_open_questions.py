"""Questions of KILT."""

import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.open_questions import read_kilt_questions


def test_questions_of_kilt(tmp_path):
    file, skips = tmp_path / "nq.jsonl", ExclusionCounts()
    outputs = [{"answer": "Ada"}, {"provenance": []}, {"answer": "Ada"}, {"answer": "Bo"}]
    rows = [{"id": "1", "input": "who", "output": outputs}, {"id": "2", "input": "what"}]
    file.write_text("\n".join(map(json.dumps, rows)))
    [question] = read_kilt_questions(file, skips=skips)
    assert question.answers == ("Ada", "Bo") and skips.left_out == [("2", "no answer given")]
    asked = read_kilt_questions(file, skips=ExclusionCounts(), require_answers=False)
    assert [(one.id, one.answers) for one in asked] == [("1", ("Ada", "Bo")), ("2", ())]
    file.write_text('{"id": "1", "question": "who"}')
    with pytest.raises(InputError, match="expected 'id' and 'input', found the keys 'id'"):
        list(read_kilt_questions(file, skips=ExclusionCounts()))
