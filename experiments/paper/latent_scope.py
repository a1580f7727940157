"""What the latent variable ranges over, on open-domain questions: a grid of comparisons.

The paper's reader has a softmax and a Z in every window. Here Z also ranges over the windows of a
document or of all passages of a question, and the likelihood of a mention is that of its span or of
its start and end positions (Cheng et al., 2020): six cells, in all of which answers compete in the
scope that was trained. Flags are those of ``experiments.nq_open compare``; TriviaQA-open takes the
same::

    python -m experiments.paper.latent_scope --data prepared/nq-train --dev prepared/nq-dev \
        --out runs/nq-latent --seeds 0 1 2 --objectives mml "hard-em --tau 8000" --minutes 60

Again, it continues. ``cells.md`` and ``cells.json`` hold the monitored score of every cell,
``latent_scope.png`` shows it.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from experiments.open_qa import Compare
from experiments.paper.cells import CellsCommand, Found, curves, metric_of
from hardem_jax.cli.command import run_command
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.data.batching.grouped import Scope
from hardem_jax.errors import InputError
from hardem_jax.training.fingerprint import may_change

Likelihood = Literal["span", "position"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LatentScope(Compare, CellsCommand):
    """Compare the objectives for every scope and likelihood of the latent variable.

    Attributes:
        scopes: what Z ranges over, in training and for answers.
        likelihoods: of a mention.
        latent: gives ``group_size``; its scope and likelihood are those of the cell.
        inference: its scope is that of the cell.
    """

    scopes: tuple[Scope, ...] = may_change(
        "a cell has one", default=("window", "document", "question")
    )
    likelihoods: tuple[Likelihood, ...] = may_change("a cell has one", default=("span", "position"))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("scopes", "likelihoods"):
            if not getattr(self, name):
                raise InputError(f"{name}: expected at least one value, found none")

    def cells(self) -> dict[str, CompareCommand]:
        return {
            f"{scope}, {likelihood}": self.cell(
                Compare,
                out=self.out / f"{scope}-{likelihood}",
                latent=dataclasses.replace(self.latent, scope=scope, likelihood=likelihood),
                inference=dataclasses.replace(self.inference, scope=scope),
            )
            for likelihood in self.likelihoods
            for scope in self.scopes
        }

    def draw(self, found: Found) -> None:
        from hardem_jax.analysis.plots import interval_curves  # slow to import

        metric = metric_of(found, self.loop.monitor)
        panels = {
            f"{self.CURVES.get(metric, metric)}, {likelihood} likelihood": curves(
                (found.get(f"{scope}, {likelihood}", {}) for scope in self.scopes),
                self.rows(),
                metric,
            )
            for likelihood in self.likelihoods
            if any(f"{scope}, {likelihood}" in found for scope in self.scopes)
        }
        interval_curves(
            panels, values=("what Z ranges over", self.scopes), file=self.out / "latent_scope.png"
        )


if __name__ == "__main__":
    run_command(LatentScope, prog="python -m experiments.paper.latent_scope")
