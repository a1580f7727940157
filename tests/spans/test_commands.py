"""What reading tasks' commands share."""

import types

import numpy as np
import pytest

from hardem_jax.spans.answers import WindowReading
from hardem_jax.spans.commands import Train
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.task import SpanTask
from tests.spans.windows import window


@pytest.mark.parametrize("best, expected", [(1, 0.3), (0, 0.4)])
def test_the_prediction_is_on_one_scale_with_z(best, expected, tmp_path):
    asked = window("q1", [6, 7, 8, 6], [(3, 3), (6, 6)], true=1)
    places = asked.place(4, 4), asked.place(6, 6)  # the first is not in Z
    chances = sorted([(places[best], expected), (places[1 - best], 0.2)], key=lambda p: -p[1])
    reading = WindowReading(
        np.log(0.5),  # the selector
        texts=tuple(map(str, range(2))),
        log_probs=tuple(float(np.log(p)) for _, p in chances),
        spans=tuple(place for place, _ in chances),
        log_partitions=(0.0, 0.0),
        best_solution=1,
        true_solution=1,
        solutions=(np.log(0.05), np.log(0.3 if best else 0.2)),
    )
    question = types.SimpleNamespace(id="q1", question="?", golds=["c"])
    data = types.SimpleNamespace(questions=[question], places=np.array([[0, 0, 0]]))
    setting = Train(data=(tmp_path,), dev=tmp_path, out=tmp_path)
    [view] = setting.views(SpanTask(SpanInference()), data, [asked], [(0, reading)])
    assert view.probability == pytest.approx(expected)
    assert view.predicted == (1 if best else -1) and view.true == 1
    if best:
        assert view.probability == pytest.approx(view.probabilities[view.predicted])
