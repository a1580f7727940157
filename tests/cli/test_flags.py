"""No number that a flag can hold is a traceback."""

import math

import pytest

from experiments import build, drop, triviaqa, wikisql
from experiments.quickstart.__main__ import Quickstart
from tests.commands import refused
from tests.robustness.flags import numbers

NUMBERS = numbers()
# Where 0 means something.
MAY_BE_ZERO = {
    *("BatchConfig.negatives", "Compare.shown", "Compare.train_questions", "HardEM.tau"),
    *("Show.solutions", "EquationRules.max_count", "EquationRules.digits"),
    *("OptimizerConfig.weight_decay", "OptimizerConfig.warmup_fraction", "OptimizerConfig.b1"),
    *("OptimizerConfig.b2", "OptimizerConfig.ema_decay", "OptimizerConfig.rate_multipliers"),
    *("SqlRules.max_conditions", "ProgramRules.max_links"),
    *("PassageConfig.k1", "PassageConfig.b"),
    *("PassageConfig.title_weight", "RetrieverConfig.article_weight", "PlantedConfig.max_passing"),
    "NAQANetModelConfig.num_highway_layers",
    *("Tempered.inverse_temperature", "Sampled.inverse_temperature", "CountWeightedMML.power"),
    *("PlantedConfig.decoys", "PlantedConfig.spurious", "PlantedConfig.missing"),
    *("PlantedConfig.noise", "Regimes.minutes", "SetSizes.minutes"),
    *("Reproduce.minutes", "TrainStep.minutes"),
    "SetSizes.shown",
    "SetSizes.subset_seed",
    *("Knobs.spurious", "Knobs.missing", "Knobs.first", "Knobs.noise", "Knobs.warm"),
    *(f"{kind}.{name}" for kind in ("BeamMML", "BeamHardEM") for name in ("samples", "memory")),
    *(f"{kind}.no_answer_threshold" for kind in ("SpanInference", "Evaluate", "Predict")),
    *("IterativeML.samples", "MAPO.explore", "MAPO.alpha"),
    *("MAPOX.explore", "MAPOX.alpha", "MAPOX.warmup", "MERL.samples", "MERL.warmup"),
    *("Values.spurious", "Values.missing", "Values.first", "Values.noise"),
    "Values.warm",
}
RATE = ("dropout", "attention_dropout", "layer_dropout", "seed", "seeds")
# Annealing that never ends is MML.
MAY_BE_INFINITE = {"HardEM.tau"}
# A bias may have either sign, and the weight of an entropy.
ONLY_FINITE = {
    *("TaggerConfig.no_tag_bias", "EquationSettings.no_tag_bias", "EntropyRegularizedMML.weight"),
}
MAY_BE_HUGE = {
    *("EquationSettings.learning_rate", *ONLY_FINITE),
    *("SetSizes.minutes", "TrainStep.minutes"),
    "SetSizes.targets",
    *("SetSizes.subset_questions", "HardEM.tau"),
    *(
        "Regimes.minutes",
        "Reproduce.minutes",
        "OptimizerConfig.learning_rate",
        "Settings.learning_rate",
    ),
    *("Tempered.inverse_temperature", "Sampled.inverse_temperature", "CountWeightedMML.power"),
    *("Annealed.tau", "Annealed.start", "Annealed.end"),
    *("OptimizerConfig.weight_decay", "OptimizerConfig.clip_norm", "OptimizerConfig.eps"),
    *("OptimizerConfig.rate_multipliers", "PassageConfig.k1", "RetrieverConfig.article_weight"),
}


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_a_number_that_means_nothing_is_refused(name):
    number = NUMBERS[name]
    illegal = set() if name in ONLY_FINITE else {-1}
    if name not in MAY_BE_ZERO | ONLY_FINITE and number.name not in RATE:
        illegal.add(0)
    if name not in MAY_BE_HUGE:
        illegal.add(10**30)
    if number.kind is float:
        illegal |= {math.nan, -math.inf} | ({math.inf} - MAY_BE_INFINITE)
        if name in MAY_BE_INFINITE:
            illegal.discard(math.inf)
    accepted = []
    for value in illegal:
        try:
            number.set(number.kind(value))
        except ValueError as error:  # objectives know no InputError
            assert number.name in str(error) and "expected" in str(error) or "got" in str(error)
        else:
            accepted.append(value)
    assert not accepted


@pytest.mark.parametrize("name", sorted(MAY_BE_ZERO | {f"ReaderConfig.{RATE[1]}"}))
def test_zero_is_legal_where_it_means_something(name):
    number = NUMBERS[name]
    assert "0" in str(getattr(number.set(0), number.name))


TRAIN = ("train", "--dev", "d", "--out", "o")
REFUSED = [
    (triviaqa, "--batches.buckets 0 128", "--batches.buckets: expected at least 1, found 0"),
    (triviaqa, "--dev-questions -1", "--dev-questions: expected at least 1"),
    (triviaqa, "--optimizer.learning-rate nan", "--optimizer.learning-rate: expected more than 0"),
    (wikisql, "--model.hidden-size 101", "--model.hidden-size: expected an even number"),
    (drop, "--model.max-tokens 60", "--model.max-tokens: expected more than 67, found 60"),
    (drop, "model:naqanet --model.dropout 1", "--model.dropout: expected at least 0 and less"),
]


@pytest.mark.parametrize(("module", "flags", "line"), REFUSED)
def test_the_flag_is_named(module, flags, line, capsys):
    message = refused(capsys, module.COMMANDS, *TRAIN, "--data", "t", *flags.split())
    assert line in message and "Config(" not in message


@pytest.mark.parametrize(
    ("commands", "line", "told"),
    [
        (triviaqa.COMMANDS, "train --dev d --out o --data", "data: expected at least one"),
        (triviaqa.COMMANDS, "train --dev d", "Missing from test train: --out PATH"),
        (
            triviaqa.COMMANDS,
            "prepare --qa-file q --evidence e --out o --windows.max-tokens 64",
            "--windows.max-tokens: expected room for a document besides max_question_tokens (64)",
        ),
        (
            triviaqa.COMMANDS,
            "predict --run-dir r --document d --question q --top -1",
            "top: expected at least 1, found -1",
        ),
        (build.COMMANDS, "show --folder f --count -1", "count: expected at least 1, found -1"),
        (Quickstart, "--seeds -1", "seeds: expected at least 0"),
        (Quickstart, "--equations.largest 1", "--equations.largest: expected at least 2, found 1"),
    ],
)
def test_so_it_is_by_other_commands(commands, line, told, capsys):
    assert told in refused(capsys, commands, *line.split())
