"""Which commands and which numbers the walk over the experiment modules meets."""

from tests.robustness.flags import numbers


def test_the_walk_meets_the_numbers_of_every_command():
    found = numbers()
    assert len(found) > 150
    assert {"BatchConfig.buckets", "Predict.top", "TaggerConfig.max_tokens"} <= set(found)
    assert {"WikiTableQuestions.number", "TrainStep.tokens"} <= set(found)
