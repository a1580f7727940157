"""The commands that lead from the official downloads to each table and figure of the paper.

Batch sizes, tau, numbers of passages and lengths are the paper's (section 4 and appendix C); what
it does not give, such as the number of steps, is in `_TASKS`, or the default of the command.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.download.catalog import DATASETS
from hardem_jax.errors import InputError

#: Parameters of BERT-base that a token passes through: all but the embeddings, in millions.
_MILLIONS = 86
#: Dense bf16 TFLOP/s of the data sheets, and how many chips.
MACHINES = {"8 x TPU v5e": 8 * 197.0, "1 x H200": 989.0}
#: Share of it that training is taken to reach: what a step of 64 rows of 300 tokens reached on an
#: H200, see docs/performance.md. Nothing was measured on a TPU.
UTILIZATION = 0.3


@dataclasses.dataclass(frozen=True)
class Stage:
    """A command, and what it costs.

    Attributes:
        name: what it makes, such as "triviaqa/runs".
        command: after ``python -m``.
        bytes: that it downloads; None where the size is not known before.
        tokens: that it trains on, in the longest inputs, over all objectives and seeds.
        always: run it again, too, when it has ended: it only prints.
    """

    name: str
    command: tuple[str, ...]
    bytes: int | None = 0
    tokens: int = 0
    always: bool = False

    @property
    def shell(self) -> str:
        """The command as one types it."""
        return f"python -m {shlex.join(self.command)}"

    def hours(self, machine: str) -> float:
        """Of training on one of `MACHINES`: 6 FLOPs a token and parameter (Kaplan et al., 2020)."""
        flops = 6 * _MILLIONS * 1e6 * self.tokens
        return flops / (MACHINES[machine] * 1e12 * UTILIZATION) / 3600


def outcome_of(command: Sequence[str]) -> list[str]:
    """A command without what does not change its outcome.

    Example:
        >>> outcome_of(("experiments.drop", "prepare", "--processes", "8", "--out", "x"))
        ['experiments.drop', 'prepare', '--out', 'x']
    """
    words = list(command)
    if "--processes" in words:
        place = words.index("--processes")
        del words[place : place + 2]
    return words


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the plans have in common.

    Attributes:
        out: folder for everything.
        encoder: a hub name, or a folder.
        seeds: of every comparison.
        processes: of ``prepare``.
        compare: more flags for every ``compare``; they override those of the plan.
    """

    out: Path
    encoder: str = "bert-base-uncased"
    seeds: tuple[int, ...] = (0, 1, 2)
    processes: int = 1
    compare: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Task:
    """A row of Table 3 or 4.

    Attributes:
        steps: of training; more than twice tau.
        batch: items of a batch.
        length: longest input, in wordpieces.
        tau: of hard EM; None without annealing.
        negatives: windows without a mention that come with each item.
    """

    steps: int
    batch: int
    length: int
    tau: int | None
    negatives: int = 0

    @property
    def objectives(self) -> tuple[str, ...]:
        return ("first-only", "mml", "released-mml", self.hard_em)

    @property
    def hard_em(self) -> str:
        return "hard-em" if self.tau is None else f"hard-em --tau {self.tau}"


_TASKS = {
    "triviaqa": _Task(40_000, 20, 300, 15_000, negatives=1),
    "narrativeqa": _Task(50_000, 20, 300, 20_000, negatives=1),
    "triviaqa-open": _Task(20_000, 192, 300, 4_000, negatives=1),
    "nq-open": _Task(20_000, 192, 300, 8_000, negatives=1),
    "drop-bert": _Task(40_000, 14, 512, 10_000),
    "drop-qanet": _Task(40_000, 14, 400, None),
    "wikisql": _Task(100_000, 10, 180, None),
}


def _download(settings: Settings, name: str) -> Stage:
    sizes = [source.size for source in DATASETS[name].sources]
    known = [size for size in sizes if size is not None]
    return Stage(
        f"data/{name}",
        ("experiments.download", name, "--out", str(settings.out / "data")),
        bytes=sum(known) if len(known) == len(sizes) else None,
    )


def _prepare(settings: Settings, module: str, name: str, split: str, *flags: str) -> Stage:
    out = settings.out / "prepared" / f"{name}-{split}"
    command = (f"experiments.{module}", "prepare", *flags, "--out", str(out))
    if split != "train":
        command += ("--split", split)
    command += ("--tokenizer", settings.encoder, "--processes", str(settings.processes))
    return Stage(f"prepared/{name}-{split}", command)


def _build(settings: Settings, module: str, data: str, name: str, *flags: str) -> Stage:
    folders = ("--folder", str(settings.out / "data" / data))
    out = ("--out", str(settings.out / "built" / name))
    command = (f"experiments.{module}", "prepare", *folders, *out)
    return Stage(f"built/{name}", (*command, "--processes", str(settings.processes), *flags))


def _compare(
    settings: Settings,
    module: str,
    name: str,
    task: _Task,
    data: Path,
    dev: Path,
    *flags: str,
    objectives: Sequence[str] | None = None,
    encoder: bool = True,
) -> Stage:
    objectives = objectives or task.objectives
    command = (f"experiments.{module}", "compare", "--data", str(data), "--dev", str(dev))
    command += ("--out", str(settings.out / "runs" / name))
    command += ("--seeds", *map(str, settings.seeds), "--objectives", *objectives)
    command += ("--loop.num-steps", str(task.steps), "--batches.batch-size", str(task.batch))
    if encoder:
        flags = ("--model.encoder", settings.encoder, "--model.dtype", "bfloat16", *flags)
    runs = len(objectives) * len(settings.seeds)
    steps = _overridden(settings.compare, "--loop.num-steps", task.steps)
    batch = _overridden(settings.compare, "--batches.batch-size", task.batch)
    inputs = batch * (1 + _overridden(settings.compare, "--batches.negatives", task.negatives))
    tokens = steps * inputs * task.length * runs
    command += (*flags, *settings.compare)
    return Stage(f"runs/{name}", command, tokens=tokens if encoder else 0)


def _overridden(flags: Sequence[str], name: str, planned: int) -> int:
    """The value of a flag that was given, or the planned one."""
    words = [part for flag in flags for part in flag.split("=", 1)]
    for word, value in zip(words, words[1:], strict=False):
        if word == name:
            if not value.isdecimal():
                raise InputError(f"compare: expected a whole number as {name}, found {value!r}")
            planned = int(value)
    return planned


def _tabulate(settings: Settings, *names: str, against: str = "MML") -> Stage:
    runs = [str(settings.out / "runs" / name) for name in names]
    command = ("experiments.tabulate", "--runs", *runs, "--against", against)
    return Stage(f"table/{names[0]}", command, always=True)


def _document_stages(
    settings: Settings, name: str, objectives: Sequence[str] | None = None
) -> list[Stage]:
    """TriviaQA or NarrativeQA."""
    data, prepared = settings.out / "data" / name, settings.out / "prepared"
    stages = [_download(settings, name)]
    if name == "triviaqa":
        for split in ("train", "dev"):
            flags = ("--qa-file", str(data / "qa" / f"wikipedia-{split}.json"))
            flags += ("--evidence", str(data / "evidence"))
            stages.append(_prepare(settings, name, name, split, *flags))
    else:
        for split in ("train", "valid"):
            stages.append(_prepare(settings, name, name, split, "--folder", str(data)))
    train, dev = (prepared / stage.name.rpartition("/")[2] for stage in stages[1:])
    return [
        *stages,
        _compare(settings, name, name, _TASKS[name], train, dev, objectives=objectives),
    ]


def _open_stages(settings: Settings, name: str) -> list[Stage]:
    """NQ-open or TriviaQA-open, with the same index."""
    out, module = settings.out, name.replace("-", "_")
    passages = out / "data" / "dpr-wikipedia" / "psgs_w100.tsv.gz"
    index = ("--passages", str(passages), "--out", str(out / "index"))
    stages = [
        _download(settings, "dpr-wikipedia"),
        Stage("index", ("experiments.retrieve", "index", *index)),
        _download(settings, name),
    ]
    for split, count in (("train", 20), ("dev", 80)):
        questions = out / "data" / name / f"NQ-open.{split}.jsonl"
        layout: tuple[str, ...] = ()
        if name == "triviaqa-open":
            questions = out / "data" / name / "triviaqa-unfiltered"
            questions /= f"unfiltered-web-{split}.json"
            layout = ("--layout", "triviaqa")
        contexts = out / "contexts" / f"{name}-{split}.jsonl"
        command = ("experiments.retrieve", "retrieve", "--index", str(out / "index"))
        command += ("--questions", str(questions), "--out", str(contexts), *layout)
        command += ("--retriever.passages", str(count))
        stages.append(Stage(f"contexts/{name}-{split}", command))
        flags = ("--contexts", str(contexts), "--passages", str(count))
        stages.append(_prepare(settings, module, name, split, *flags))
    train, dev = (out / "prepared" / f"{name}-{split}" for split in ("train", "dev"))
    return [*stages, _compare(settings, module, name, _TASKS[name], train, dev)]


def _drop_stages(
    settings: Settings, name: str, objectives: Sequence[str] | None = None
) -> list[Stage]:
    built = settings.out / "built" / name
    if name == "drop-bert":
        build, flags = ("--rules.percent", "term"), ()
    else:
        build = ("--rules.no-special-numbers", "--rules.no-question-numbers")
        build += ("--rules.max-count", "9")
        flags = ("--batches.buckets", "160", "240", "320", "400")
        flags += ("--optimizer.learning-rate", "5e-4", "--optimizer.schedule", "constant")
        flags += ("--optimizer.warmup-fraction", "0", "--optimizer.weight-decay", "0")
        flags += ("--optimizer.clip-norm", "5", "--optimizer.b1", "0.8")
        flags += ("--optimizer.eps", "1e-7", "--optimizer.ema-decay", "0.9999", "model:naqanet")
        vectors = settings.out / "data" / "glove" / "glove.840B.300d.txt"
        flags += ("--model.word-vectors", str(vectors))
    qanet = name == "drop-qanet"
    return [
        _download(settings, "drop"),
        *([_download(settings, "glove")] if qanet else []),
        _build(settings, "drop", "drop", name, *build),
        _compare(
            settings,
            "drop",
            name,
            _TASKS[name],
            built,
            built,
            *flags,
            encoder=not qanet,
            objectives=objectives,
        ),
    ]


def _wikisql_stages(settings: Settings) -> list[Stage]:
    built, gold = settings.out / "built" / "wikisql", settings.out / "built" / "wikisql-annotated"
    data, task = str(settings.out / "data" / "wikisql"), _TASKS["wikisql"]
    return [
        _download(settings, "wikisql"),
        _build(settings, "wikisql", "wikisql", "wikisql"),
        _build(settings, "wikisql", "wikisql", gold.name, "--supervised", "--splits", "train"),
        _compare(settings, "wikisql", "wikisql", task, built, built, "--gold", data),
        _compare(
            *(settings, "wikisql", "wikisql-annotated", task, gold, built, "--gold", data),
            objectives=("mml",),
        ),
    ]


def _search_stages(settings: Settings) -> list[Stage]:
    built, data = settings.out / "built" / "wikisql", settings.out / "data" / "wikisql"
    search = ("reinforce", "iterative-ml", "beam-hard-em", "beam-mml", "mapo", "mapox", "merl")
    return [
        _download(settings, "wikisql"),
        _build(settings, "wikisql", "wikisql", "wikisql"),
        _compare(
            *(settings, "wikisql", "wikisql-search", _TASKS["wikisql"], built, built),
            *("--gold", str(data)),
            objectives=search,
        ),
    ]


def _set_size_stages(settings: Settings) -> list[Stage]:
    built, task = settings.out / "built" / "wikisql", _TASKS["wikisql"]
    command = ("experiments.paper.set_sizes", "--data", str(built), "--dev", str(built))
    command += ("--gold", str(settings.out / "data" / "wikisql"))
    command += ("--out", str(settings.out / "runs" / "set-sizes"))
    command += ("--seeds", *map(str, settings.seeds), "--objectives", "mml", "hard-em")
    command += ("--loop.num-steps", "20000", "--model.encoder", settings.encoder)
    steps = _overridden(settings.compare, "--loop.num-steps", 20_000)
    batch = _overridden(settings.compare, "--batches.batch-size", task.batch)
    tokens = steps * batch * task.length * 2 * 5 * len(settings.seeds)
    return [
        _download(settings, "wikisql"),
        _build(settings, "wikisql", "wikisql", "wikisql"),
        Stage("runs/set-sizes", (*command, *settings.compare), tokens=tokens),
    ]


def _annealed(*taus: int) -> tuple[str, ...]:
    return ("hard-em", *(f"hard-em --tau {tau}" for tau in taus))


Plan = Callable[[Settings], list[Stage]]

#: Table or figure -> task -> its stages.
PLANS: Mapping[str, Mapping[str, Plan]] = {
    "table3": {
        "triviaqa": lambda s: [*_document_stages(s, "triviaqa"), _tabulate(s, "triviaqa")],
        "narrativeqa": lambda s: [*_document_stages(s, "narrativeqa"), _tabulate(s, "narrativeqa")],
        "triviaqa-open": lambda s: [
            *_open_stages(s, "triviaqa-open"),
            _tabulate(s, "triviaqa-open"),
        ],
        "nq-open": lambda s: [*_open_stages(s, "nq-open"), _tabulate(s, "nq-open")],
        "drop-bert": lambda s: [*_drop_stages(s, "drop-bert"), _tabulate(s, "drop-bert")],
        "drop-qanet": lambda s: [*_drop_stages(s, "drop-qanet"), _tabulate(s, "drop-qanet")],
    },
    "table4": {
        "wikisql": lambda s: [
            *_wikisql_stages(s),
            _tabulate(s, "wikisql", "wikisql-annotated"),
        ],
        "search": lambda s: [*_search_stages(s), _tabulate(s, "wikisql-search", against="MAPO")],
    },
    "table6": {
        "triviaqa": lambda s: _document_stages(
            s, "triviaqa", objectives=_annealed(20_000, 30_000, 40_000)
        ),
        "drop-bert": lambda s: _drop_stages(
            s, "drop-bert", objectives=_annealed(5_000, 10_000, 20_000)
        ),
    },
    "figure3": {"wikisql": _set_size_stages},
}
