"""The command ``export`` of every task that answers with spans."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from hardem_jax.analysis.comparison import score_text
from hardem_jax.data.files import read_json, work_folder, write_text
from hardem_jax.errors import InputError
from hardem_jax.hub import upload
from hardem_jax.objectives import AnyObjective, label
from hardem_jax.registry import task_type
from hardem_jax.settings import from_json
from hardem_jax.training.config import METRICS_FILE
from hardem_jax.training.run_progress import read_metrics
from hardem_jax.version import __version__

#: Split, what else distinguishes the evaluation, metric, score in percent.
Score = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a trained reader as a Hugging Face folder, for PyTorch and for `load_reader`.

    The folder holds ``config.json``, the weights, the whole tokenizer and a model card,
    ``README.md``, with the code that answers a question in PyTorch.

    Attributes:
        run_dir: folder of the run.
        out: folder to write, new or empty.
        checkpoint: "best" or "last".
        name: of the model in its card; None for that on the hub, or the name of ``out``.
        push_to_hub: also upload the folder to this repository of the Hugging Face hub, such as
            "me/reader", with the token of ``hf auth login``.
        private: if the repository does not exist yet, create it as a private one.
        program: also write ``reader.jaxprogram``, which scores batches of any size with jax alone.
    """

    run_dir: Path
    out: Path
    checkpoint: Literal["best", "last"] = "best"
    name: str | None = None
    push_to_hub: str | None = None
    private: bool = True
    program: bool = False

    def run(self) -> None:
        # With "." or a link, the folder itself is replaced.
        from hardem_jax.task import trained as runs

        out = self.out.resolve()
        empty = os.path.isdir(out) and not os.listdir(out)
        if os.path.lexists(out) and not empty:
            raise InputError(f"{self.out}: expected a new or an empty folder, found files in it")
        trained = runs.Trained(task_type("spans"), self.run_dir, self.checkpoint)
        inference = trained.task.inference
        details = {
            "windows": dataclasses.asdict(trained.task.windows),
            "inference": {
                name: getattr(inference, name)
                for name in ("scope", "joint", "max_answer_tokens", "whole_words")
                + ("no_answer_threshold",)
            },
        }
        card = self._card(trained)
        with work_folder(out) as work:
            new = work / "new"
            new.mkdir()
            trained.model.export(trained.params, new, details)
            write_text(new / "README.md", card)
            if self.program:
                trained.model.export_jax(trained.params, new / "reader.jaxprogram")
            if empty:
                out.rmdir()
            new.rename(out)
        print(self.out)
        if self.push_to_hub is not None:
            print(upload(out, self.push_to_hub, private=self.private))

    def _card(self, trained: Any) -> str:
        """The model card: how the model came about, how it scores, how PyTorch uses it."""
        content = read_json(self.run_dir / "config.json")
        used = content["flags"]
        checkpoint = {"name": self.checkpoint, "number": trained.step}
        windows, inference = trained.task.windows, trained.task.inference
        room = windows.max_tokens - windows.max_question_tokens
        room -= trained.model.tokenizer.template.num_special_tokens
        training = {
            "objective": label(from_json(AnyObjective, used["objective"], str(self.run_dir))),
            "encoder": _path_name(used["model"]["encoder"]),
            "step": f"{trained.step} (the {self.checkpoint} checkpoint)",
            "spans compete with": f"all spans of the {inference.scope}",
        }
        use = _filled(
            "use_choices.md" if windows.choices else "use.md",
            max_tokens=windows.max_tokens,
            overlap=max(0, room - windows.stride),
            max_answer_tokens=inference.max_answer_tokens,
            # The selector chooses the window, or the scores of spans do.
            window="holds_answer" if inference.scope == "window" else "scores.amax((1, 2))",
            choices=" ".join(windows.choices),
        )
        scores = [*_scores_in_training(self.run_dir, used, trained.step)]
        scores += _later_scores(self.run_dir, checkpoint)
        header = ("split", "", "metric", "%")
        return _filled(
            "model_card.md",
            name=self.name or self.push_to_hub or self.out.absolute().name,
            training=_table(("", ""), training.items()),
            flags=",\n".join(
                f"{json.dumps(x)}: {json.dumps(_without_folders(used[x]))}" for x in used
            ),
            data=_table(("split", "", ""), _data(content)),
            scores=_table(header, scores) if scores else "None were measured.\n",
            use=use,
            versions=_table(("package", "version"), _versions(content).items()),
        )


def _filled(file: str, **values: Any) -> str:
    return string.Template(Path(__file__).with_name(file).read_text("utf-8")).substitute(values)


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; a value has no line breaks and no bars."""
    texts = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |\n" for row in (header, *texts)]
    return "".join([lines[0], "|" + "---|" * len(header) + "\n", *lines[1:]])


def _without_folders(value: Any) -> Any:
    """Flags without folders, which mean nothing elsewhere."""
    if isinstance(value, dict):
        return {name: _without_folders(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_folders(part) for part in value]
    return _path_name(value) if isinstance(value, str) else value


def _path_name(text: str) -> str:
    return os.path.basename(text.rstrip("/")) if os.path.isabs(text) else text


def _data(content: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Name of each split, and each fact about it."""
    used, settings = content["flags"], content.get("settings", {})
    for name in ("data", "dev"):
        folders = used[name] if isinstance(used[name], list) else [used[name]]
        found = json.loads(settings.get(f"contents of {name}", "{}"))
        metas: Sequence[Any] = found if isinstance(found, list) else [found]
        for folder, meta in zip(folders, metas, strict=False):
            role = "training" if name == "data" else "evaluation"
            for fact, value in _facts(meta).items():
                yield f"{_path_name(folder)} ({role})", fact, value


def _facts(meta: Mapping[str, Any]) -> dict[str, Any]:
    sources = meta.get("sources", {})
    files = [
        f"{file} ({digest})"
        for value in sources.values()
        if isinstance(value, Mapping) and "type" not in value
        for file, digest in value.items()
    ]
    facts: dict[str, Any] = {"files (SHA-256 begins)": ", ".join(files)} if files else {}
    facts |= meta.get("counts", {})
    sizes = meta.get("solutions per question", {})
    return facts | {f"{name} mentions per question": value for name, value in sizes.items()}


def _scores_in_training(
    run_dir: Path, used: Mapping[str, Any], step: int | None
) -> Iterator[Score]:
    """The last evaluation of this step in training, if the folder still says it."""
    if not (run_dir / METRICS_FILE).exists():  # copied without its log
        return
    found = [x for x in read_metrics(run_dir) if x["kind"] == "eval" and x["step"] == step]
    if found:
        count = used.get("dev_questions")
        which = "in training" if count is None else f"in training, first {count} questions"
        values = {name: x for name, x in found[-1].items() if name not in ("kind", "step")}
        yield from _rows(_path_name(used["dev"]), which, values)


def _later_scores(run_dir: Path, checkpoint: Mapping[str, Any]) -> Iterator[Score]:
    """What ``evaluate`` wrote about this checkpoint."""
    for file in sorted(run_dir.glob("scores-*.json")):
        content = read_json(file)
        if content["checkpoint"] == checkpoint:
            options, split = content["options"], content["split"]["name"]
            changed = [
                f"{name} {value}"
                for name, value in options.items()
                if name != "questions"  # of which only the chosen scores are
                and not (value is None or value is False or value == [])  # but 0 was given
            ]
            changed.remove(f"checkpoint {checkpoint['name']}")
            yield from _rows(split, ", ".join(changed), content["scores"])
            if chosen := content.get("chosen"):
                which = f"{chosen['questions']} chosen questions ({options['questions']})"
                yield from _rows(split, ", ".join([*changed, which]), chosen["scores"])


def _rows(split: str, which: str, scores: Mapping[str, float]) -> Iterator[Score]:
    return ((split, which, name, score_text(name, value)) for name, value in scores.items())


def _versions(content: Mapping[str, Any]) -> dict[str, str]:
    names = ("jax", "flax", "tokenizers")
    return {
        "hardem_jax, in training": content.get("version", "unknown"),
        "hardem_jax": __version__,
        **{name: version(name) for name in names},
        "python": platform.python_version(),
    }
