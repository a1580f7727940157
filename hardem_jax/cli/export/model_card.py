"""The model card of a span reader: what it was trained on, how it scores, how PyTorch uses it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hardem_jax.analysis.comparison import score_text

_HEADER = """\
---
library_name: transformers
pipeline_tag: question-answering
tags:
- question-answering
- weak-supervision
- hardem_jax
---

# {name}

A span reader that hardem_jax trained from answers alone, without their places: of all mentions of
the answer in a document, the objective decides which ones to trust. `model.safetensors` is a
model for question answering; `selector.safetensors` holds a second head, linear in the maximum of
the last layer over all tokens, whose class 1 says that a window holds the answer.
"""

_USE = """\
```python
import torch
from safetensors.torch import load_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

folder = "."  # where this file is
question = "Who wrote it?"
document = "Nobody knows who wrote it."

tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
head = load_file(f"{{folder}}/selector.safetensors")

windows = tokenizer(
    question, document, truncation="only_second", max_length={max_tokens}, stride={overlap},
    return_overflowing_tokens=True, return_offsets_mapping=True, padding=True, return_tensors="pt",
)
inputs = {{name: windows[name] for name in tokenizer.model_input_names}}
with torch.no_grad():
    outputs = model(**inputs, output_hidden_states=True)

last, real = outputs.hidden_states[-1], inputs["attention_mask"].bool()
pooled = last.masked_fill(~real[..., None], -torch.inf).amax(1)
logits = pooled @ head["qa_classifier.weight"].T + head["qa_classifier.bias"]
holds_answer = logits.softmax(-1)[:, 1]

count, tokens = real.shape
context = torch.tensor([[part == 1 for part in windows.sequence_ids(i)] for i in range(count)])
start = outputs.start_logits.masked_fill(~context, -torch.inf)
end = outputs.end_logits.masked_fill(~context, -torch.inf)
length = torch.arange(tokens) - torch.arange(tokens)[:, None] + 1
allowed = (length > 0) & (length <= {max_answer_tokens})
scores = (start[:, :, None] + end[:, None, :]).masked_fill(~allowed, -torch.inf)

window = {window}.argmax().item()
first, last = divmod(scores[window].argmax().item(), tokens)
offsets = windows["offset_mapping"][window]
answer = document[offsets[first][0] : offsets[last][1]].strip()
print(answer)
```
"""

_USE_CHOICES = """\
Every window of a document begins with the words "{choices}", which are answers like any other. Only
hardem_jax puts them there:

```python
from hardem_jax.tasks.answering import Reader

for answer in Reader.from_pretrained(".").answer("Who wrote it?", "Nobody knows who wrote it."):
    print(f"{{answer.probability:.0%}} {{answer.text or '(no answer)'}}")
```
"""


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of one evaluation in percent.

    Attributes:
        split: what was evaluated on.
        options: what else distinguishes the evaluation; may be empty.
        values: by name.
    """

    split: str
    options: str
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """What a model card says.

    Attributes:
        name: of the model.
        training: facts about the run, by what they are.
        data: name of each split -> facts about it.
        scores: of this checkpoint.
        command: that trained it.
        versions: of packages.
        max_tokens: of a window.
        overlap: tokens that two windows of a document share, at least.
        max_answer_tokens: of an answer.
        by_selector: whether the selector chooses the window, or its span scores do.
        choices: words in front of every window.
    """

    name: str
    training: Mapping[str, Any]
    data: Mapping[str, Mapping[str, Any]]
    scores: Sequence[Scores]
    command: str
    versions: Mapping[str, str]
    max_tokens: int
    overlap: int
    max_answer_tokens: int
    by_selector: bool
    choices: Sequence[str] = ()

    def text(self) -> str:
        """The card as Markdown.

        Example:
            >>> card = Card(name="reader", training={"objective": "MML"}, data={},
            ...     scores=[Scores("dev", "", {"em": 31.25})], command="train objective:mml",
            ...     versions={"jax": "0.10"}, max_tokens=300, overlap=105,
            ...     max_answer_tokens=10, by_selector=True)
            >>> [line for line in card.text().splitlines() if "31" in line or "MML" in line]
            ['| objective | MML |', '| dev |  | em | 31.2 |']
        """
        use = _USE.format(
            max_tokens=self.max_tokens,
            overlap=self.overlap,
            max_answer_tokens=self.max_answer_tokens,
            window="holds_answer" if self.by_selector else "scores.amax((1, 2))",
        )
        if self.choices:
            use = _USE_CHOICES.format(choices=" ".join(self.choices))
        rows = [
            (scores.split, scores.options, name, score_text(name, value))
            for scores in self.scores
            for name, value in scores.values.items()
        ]
        parts = [
            _HEADER.format(name=self.name),
            "## Training\n",
            _table(("", ""), self.training.items()),
            f"```\n{self.command}\n```\n",
            "## Data\n",
            _table(
                ("split", "", ""),
                ((split, *pair) for split, facts in self.data.items() for pair in facts.items()),
            ),
            "## Scores\n",
            _table(("split", "", "metric", "%"), rows) if rows else "None were measured.\n",
            "## Use\n",
            use,
            "## Versions\n",
            _table(("package", "version"), self.versions.items()),
        ]
        return "\n".join(parts)


def _table(header: Sequence[str], rows: Any) -> str:
    """A Markdown table; a value has no line breaks and no bars."""
    lines = [_row(header), "|" + "---|" * len(header), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[Any]) -> str:
    texts = (" ".join(str(cell).split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"
