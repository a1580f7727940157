"""The command ``export`` of every task that answers with spans."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shlex
import string
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from hardem_jax.analysis.comparison import score_text
from hardem_jax.buckets.names import shown
from hardem_jax.data.files import markdown_rows, read_json, work_folder, write_text
from hardem_jax.errors import InputError
from hardem_jax.hub import upload
from hardem_jax.objectives import AnyObjective, label
from hardem_jax.registry import task_type
from hardem_jax.settings import from_json
from hardem_jax.training.config import METRICS_FILE
from hardem_jax.training.run_progress import read_metrics
from hardem_jax.version import __version__
from hardem_jax.words import LETTERS_ALONE, NUMBER_SEPARATORS, PARTED

#: Split, which of its questions, options of the evaluation, metric, score in percent.
Row = tuple[str, str, str, str, str]
#: What the card asks the reader, which then says what it answered.
QUESTION = "Who founded the observatory?"
DOCUMENT = (
    "The observatory stands on a hill above Bergen. Clara Holm founded it in 1884, and Otto Lund "
    "gave it a telescope."
)
#: Folders that are called after what is in them, so that the one around them says whose it is.
_UNNAMED = ("model", "encoder", "checkpoint", "best", "last")
#: What a reader that is loaded needs to know of `SpanInference`.
_INFERENCE = (
    *("scope", "joint", "max_answer_tokens", "whole_words", "no_answer_threshold"),
    *("num_documents", "top"),
)


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a trained reader as a Hugging Face folder, for PyTorch and for `load_reader`.

    The folder holds ``config.json``, the weights, the whole tokenizer and a model card,
    ``README.md``, with the code that answers a question in PyTorch.

    Attributes:
        run_dir: folder of the run.
        out: folder to write, new or empty.
        checkpoint: "best" or "last".
        push_to_hub: also upload the folder to this repository of the Hugging Face hub, such as
            "me/reader", with the token of ``hf auth login``.
        private: if the repository does not exist yet, create it as a private one.
        program: also write ``reader.jaxprogram``, which scores batches of any size with jax alone.
    """

    run_dir: Path
    out: Path
    checkpoint: Literal["best", "last"] = "best"
    push_to_hub: str | None = None
    private: bool = True
    program: bool = False

    def run(self) -> None:
        from flax import nnx

        from hardem_jax.spans.checkpoint import save_reader
        from hardem_jax.spans.jax_export import export_reader
        from hardem_jax.task.trained import Trained

        # With "." or a link, the folder itself is replaced.
        out = self.out.resolve()
        empty = os.path.isdir(out) and not os.listdir(out)
        if os.path.lexists(out) and not empty:
            raise InputError(f"{self.out}: expected a new or an empty folder, found files in it")
        trained = Trained(task_type("spans"), self.run_dir, self.checkpoint, batch_size=1)
        details = {
            "windows": dataclasses.asdict(trained.task.windows),
            "inference": {name: getattr(trained.task.inference, name) for name in _INFERENCE},
        }
        card = self._card(trained)
        with work_folder(out) as work:
            new = work / "new"
            new.mkdir()
            reader: Any = nnx.merge(trained.model.graphdef, trained.params)
            encoder = trained.model.encoder
            save_reader(reader, new, details=details)
            trained.model.tokenizer.save_pretrained(
                new,
                max_tokens=encoder.max_tokens,
                token_types=getattr(encoder, "type_vocab_size", 1) > 1,
            )
            write_text(new / "README.md", card)
            if self.program:
                (new / "reader.jaxprogram").write_bytes(export_reader(reader))
            for file in new.iterdir():
                file.chmod(0o644)  # safetensors lets only their owner read its files
            if empty:
                out.rmdir()
            new.rename(out)
        files = ", ".join(sorted(file.name for file in out.iterdir()))
        print(_filled("written.md", folder=shown(out), files=files), end="")
        if self.push_to_hub is not None:
            print(upload(out, self.push_to_hub, private=self.private))

    def _card(self, trained: Any) -> str:
        """The model card: how the model came about, how it scores, how PyTorch uses it."""
        from hardem_jax.spans.reader import Reader

        content = read_json(self.run_dir / "config.json")
        used = content["flags"]
        checkpoint = {"name": self.checkpoint, "number": trained.step}
        windows, inference = trained.task.windows, trained.task.inference
        room = windows.max_tokens - windows.max_question_tokens
        room -= trained.model.tokenizer.template.num_special_tokens
        training = {
            "objective": label(from_json(AnyObjective, used["objective"], str(self.run_dir))),
            "encoder": _encoder_name(used["model"]["encoder"]),
            "step": f"{trained.step} (the {self.checkpoint} checkpoint)",
            "spans compete with": f"all spans of the {inference.scope}",
        }
        found = Reader(trained).answer(QUESTION, DOCUMENT, top=1)
        # The selector chooses the window, or the scores of spans do, or both.
        window = "holds_answer" if inference.scope == "window" else "scores.amax((1, 2))"
        if inference.joint:
            tokens = used["model"].get("softmax_over") == "tokens"
            window = _filled("joint.md", positions="real" if tokens else "context").strip()
        use = _filled(
            "use_choices.md" if windows.choices else "use.md",
            question=json.dumps(QUESTION),
            document=json.dumps(DOCUMENT),
            answer=" ".join(found[0].text.split()) if found and found[0].text else "(no answer)",
            whole_words=inference.whole_words,
            max_tokens=windows.max_tokens,
            overlap=max(0, room - windows.stride),
            max_answer_tokens=inference.max_answer_tokens,
            window=window,
            letters_alone=LETTERS_ALONE.encode("unicode_escape").decode(),
            number_separators=NUMBER_SEPARATORS.encode("unicode_escape").decode(),
            parted=PARTED.replace("，", "\\uff0c"),
            choices=" ".join(windows.choices),
        )
        scores = list(_scores(self.run_dir, used, checkpoint))
        versions = {"hardem_jax, in training": content.get("version", "unknown")}
        versions |= {"hardem_jax": __version__, "python": platform.python_version()}
        versions |= {name: version(name) for name in ("jax", "flax", "tokenizers")}
        header = ("split", "questions", "options", "metric", "%")
        command = shlex.split(content.get("made by", {}).get("command", ""))
        return _filled(
            "model_card.md",
            name=self.push_to_hub or self.out.absolute().name,
            training=markdown_rows([("", ""), *training.items()]),
            command=shlex.join(map(_word, command)) or "unknown",
            flags=",\n".join(
                f"{json.dumps(x)}: {json.dumps(_without_folders(used[x]))}" for x in used
            ),
            scores=markdown_rows([header, *scores]) if scores else "None were measured.\n",
            use=use,
            versions=markdown_rows([("package", "version"), *versions.items()]),
        )


def _filled(file: str, **values: Any) -> str:
    return string.Template(Path(__file__).with_name(file).read_text("utf-8")).substitute(values)


def _without_folders(value: Any) -> Any:
    """Flags without folders, which mean nothing elsewhere."""
    if isinstance(value, dict):
        return {name: _without_folders(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_folders(part) for part in value]
    return _path_name(value) if isinstance(value, str) else value


def _path_name(text: str) -> str:
    return os.path.basename(text.rstrip("/")) if os.path.isabs(text) else text


def _word(word: str) -> str:
    """A word of a command line without folders, also after "="."""
    flag, equals, value = word.partition("=")
    return f"{flag}={_path_name(value)}" if equals else _path_name(word)


def _encoder_name(text: str) -> str:
    """The name of an encoder on the hub, also of its copy in the hub's cache, or of its folder."""
    *_, above, name = ["", "", *Path(text).parts]
    for part in Path(text).parts:
        if part.startswith("models--"):
            return part.removeprefix("models--").replace("--", "/")
    return f"{above}/{name}" if name in _UNNAMED else _path_name(text)


def _scores(run_dir: Path, used: Mapping[str, Any], checkpoint: Mapping[str, Any]) -> Iterator[Row]:
    """What ``evaluate`` and the evaluation in training say of a checkpoint, as far as they are
    still in the folder; a score that several of them found alike, once."""
    evaluations: list[tuple[str, str, str, Mapping[str, float]]] = []
    for file in sorted(run_dir.glob("scores-*.json")):
        content = read_json(file)
        if content["checkpoint"] == checkpoint:
            split = content["split"]["name"]
            given = content["options"].items()
            options = {n: x for n, x in given if x not in (None, []) and x is not False}
            del options["checkpoint"]
            how = ", ".join(f"{name} {x}" for name, x in options.items())
            evaluations.append((split, "all", how, content["scores"]))
    if (run_dir / METRICS_FILE).exists():  # not copied without its log
        for line in read_metrics(run_dir):
            if line["kind"] == "eval" and line["step"] == checkpoint["number"]:
                count = used.get("dev_questions")
                scores = {name: x for name, x in line.items() if name not in ("kind", "step")}
                which = "all" if count is None else f"first {count}"
                evaluations.append((Path(used["dev"]).name, which, "in training", scores))
    seen = set()
    for split, which, how, scores in evaluations:
        for name, value in scores.items():
            if (key := (split, which, name, score_text(name, value))) not in seen:
                seen.add(key)
                yield split, which, how, name, key[-1]
