"""No number that a flag can hold is a traceback."""

import math

import pytest

from experiments import build, drop, triviaqa, wikisql
from experiments.quickstart.__main__ import Quickstart
from tests.commands import refused
from tests.robustness.flags import numbers

NUMBERS = numbers()
# Where 0 means something.
MAY_BE_ZERO = set(
    """
    BatchConfig.negatives BeamHardEM.memory BeamHardEM.samples BeamMML.memory BeamMML.samples
    Compare.shown Compare.train_questions CountWeightedMML.power EquationRules.digits
    EquationRules.max_count Evaluate.no_answer_threshold HardEM.tau IterativeML.samples
    Knobs.first Knobs.missing Knobs.noise Knobs.spurious Knobs.warm MAPO.alpha MAPO.explore
    MAPOX.alpha MAPOX.explore MAPOX.warmup MERL.samples MERL.warmup
    NAQANetModelConfig.num_highway_layers OptimizerConfig.b1 OptimizerConfig.b2
    OptimizerConfig.ema_decay OptimizerConfig.rate_multipliers OptimizerConfig.warmup_fraction
    OptimizerConfig.weight_decay PassageConfig.b PassageConfig.k1 PassageConfig.title_weight
    PlantedConfig.decoys PlantedConfig.max_passing PlantedConfig.missing PlantedConfig.noise
    PlantedConfig.spurious Predict.no_answer_threshold ProgramRules.max_links Regimes.minutes
    Reproduce.minutes RetrieverConfig.article_weight Sampled.inverse_temperature
    SetSizes.minutes SetSizes.shown SetSizes.subset_seed Show.solutions
    SpanInference.no_answer_threshold SqlRules.max_conditions Tempered.inverse_temperature
    TrainStep.minutes Values.first Values.missing Values.noise Values.spurious Values.warm
""".split()
)
RATE = ("dropout", "attention_dropout", "layer_dropout", "seed", "seeds")
# Annealing that never ends is MML.
MAY_BE_INFINITE = {"HardEM.tau"}
# A bias may have either sign, and the weight of an entropy.
ONLY_FINITE = set(
    """
    EntropyRegularizedMML.weight EquationSettings.no_tag_bias TaggerConfig.no_tag_bias
""".split()
)
MAY_BE_HUGE = ONLY_FINITE | set(
    """
    Annealed.end Annealed.start Annealed.tau CountWeightedMML.power
    EquationSettings.learning_rate HardEM.tau OptimizerConfig.clip_norm OptimizerConfig.eps
    OptimizerConfig.learning_rate OptimizerConfig.rate_multipliers OptimizerConfig.weight_decay
    PassageConfig.k1 Regimes.minutes Reproduce.minutes RetrieverConfig.article_weight
    Sampled.inverse_temperature SetSizes.minutes SetSizes.subset_questions SetSizes.targets
    Settings.learning_rate Tempered.inverse_temperature TrainStep.minutes
""".split()
)


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
