"""The command ``export`` of every task that answers with spans."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from hardem_jax import __version__
from hardem_jax.cli.command import path_name, words_of
from hardem_jax.cli.export.model_card import Card, Scores
from hardem_jax.cli.spans import Train
from hardem_jax.data.files import read_json, work_folder, write_text
from hardem_jax.errors import InputError
from hardem_jax.hub import upload
from hardem_jax.settings import to_json
from hardem_jax.training.config import METRICS_FILE
from hardem_jax.training.metrics_file import read_metrics


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
        from hardem_jax.tasks import trained as runs
        from hardem_jax.tasks.spans import task as tasks

        out = self.out.resolve()
        empty = os.path.isdir(out) and not os.listdir(out)
        if os.path.lexists(out) and not empty:
            raise InputError(f"{self.out}: expected a new or an empty folder, found files in it")
        trained = runs.Trained(tasks.SpanTask, self.run_dir, self.checkpoint)
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
            write_text(new / "README.md", card.text())
            if self.program:
                trained.model.export_program(trained.params, new / "reader.jaxprogram")
            if empty:
                out.rmdir()
            new.rename(out)
        print(self.out)
        if self.push_to_hub is not None:
            print(upload(out, self.push_to_hub, private=self.private))

    def _card(self, trained: Any) -> Card:
        content = read_json(self.run_dir / "config.json")
        used = content["flags"]
        checkpoint = {"name": self.checkpoint, "number": trained.step}
        windows, model = trained.task.windows, trained.model
        room = windows.max_tokens - windows.max_question_tokens
        room -= model.tokenizer.template.num_special_tokens
        return Card(
            name=self.name or self.push_to_hub or self.out.absolute().name,
            training={
                "objective": _objective(used),
                "encoder": path_name(used["model"]["encoder"]),
                "step": f"{checkpoint['number']} (the {self.checkpoint} checkpoint)",
                "spans compete with": f"all spans of the {trained.task.inference.scope}",
            },
            command=" ".join(["train", *words_of(used, _defaults(Train))]),
            data=dict(_data(content)),
            scores=[*_scores_in_training(self.run_dir, used, checkpoint["number"])]
            + [*_later_scores(self.run_dir, checkpoint)],
            versions=_versions(content),
            max_tokens=windows.max_tokens,
            overlap=max(0, room - windows.stride),
            max_answer_tokens=trained.task.inference.max_answer_tokens,
            by_selector=trained.task.inference.scope == "window",
            choices=windows.choices,
        )


def _objective(used: Mapping[str, Any]) -> str:
    """The objective and its parameters, in words.

    Example:
        >>> _objective({"objective": {"type": "EM", "posterior": {"type": "TopK", "k": 5}}})
        'em, posterior:top-k, posterior.k 5'
    """
    kind, *words = words_of({"objective": used["objective"]}, {})
    text = re.sub(r" (?:--)?objective\.", ", ", "".join(f" {word}" for word in words))
    return kind.removeprefix("objective:") + text


def _defaults(kind: type) -> dict[str, Any]:
    """The flags of a command that have a default, as `to_json` gives them."""
    defaults = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = to_json(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = to_json(field.default_factory())
    return defaults


def _data(content: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of each split -> what is known of it."""
    used, settings = content["flags"], content.get("settings", {})
    for name in ("data", "dev"):
        folders = used[name] if isinstance(used[name], list) else [used[name]]
        found = json.loads(settings.get(f"contents of {name}", "{}"))
        metas: Sequence[Any] = found if isinstance(found, list) else [found]
        for folder, meta in zip(folders, metas, strict=False):
            role = "training" if name == "data" else "evaluation"
            yield f"{path_name(folder)} ({role})", _facts(meta)


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
) -> Iterator[Scores]:
    """The last evaluation of this step in training, if the folder still says it."""
    if not (run_dir / METRICS_FILE).exists():  # copied without its log
        return
    found = [x for x in read_metrics(run_dir) if x["kind"] == "eval" and x["step"] == step]
    if found:
        count = used.get("dev_questions")
        which = "in training" if count is None else f"in training, first {count} questions"
        values = {name: x for name, x in found[-1].items() if name not in ("kind", "step")}
        yield Scores(path_name(used["dev"]), which, values)


def _later_scores(run_dir: Path, checkpoint: Mapping[str, Any]) -> Iterator[Scores]:
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
            yield Scores(split, ", ".join(changed), content["scores"])
            if chosen := content.get("chosen"):
                which = f"{chosen['questions']} chosen questions ({options['questions']})"
                yield Scores(split, ", ".join([*changed, which]), chosen["scores"])


def _versions(content: Mapping[str, Any]) -> dict[str, str]:
    names = ("jax", "flax", "tokenizers")
    return {
        "hardem_jax, in training": content.get("version", "unknown"),
        "hardem_jax": __version__,
        **{name: version(name) for name in names},
        "python": platform.python_version(),
    }
