"""The same training step in PyTorch: `transformers` BertModel with SDPA, eager or compiled."""

from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]
from transformers import BertModel, get_linear_schedule_with_warmup

from experiments.benchmark.setting import (
    HEADS,
    HEADS_FILE,
    NUM_STEPS,
    OPTIMIZER,
    Setting,
    random_batch,
)


class SpanReader(torch.nn.Module):
    """Encoder, span head and selector; calling it gives the loss of hard EM on a batch."""

    def __init__(self, setting: Setting, folder: Path, *, candidate_losses: bool):
        super().__init__()
        self.candidate_losses = candidate_losses
        self.encoder = BertModel.from_pretrained(
            folder,
            add_pooling_layer=False,
            attn_implementation="sdpa",
            hidden_dropout_prob=setting.dropout_rates["hidden_dropout"],
            attention_probs_dropout_prob=setting.dropout_rates["attention_dropout"],
        )
        self.span_scores = torch.nn.Linear(setting.sizes.hidden, 2)
        self.selector = torch.nn.Linear(setting.sizes.hidden, 2)
        with np.load(folder / HEADS_FILE) as heads, torch.no_grad():
            for name in HEADS:
                head = getattr(self, name)
                head.weight.copy_(torch.from_numpy(heads[f"{name}.kernel"].T))
                head.bias.copy_(torch.from_numpy(heads[f"{name}.bias"]))
        self.autocast = setting.dtype == "bfloat16"

    def forward(self, batch):
        where, device = batch["where"], batch["where"].device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.autocast):
            hidden = self.encoder(
                input_ids=batch["token_ids"],
                attention_mask=where,
                token_type_ids=batch["token_type_ids"],
            ).last_hidden_state
        hidden = hidden.float()
        scores = self.span_scores(hidden).masked_fill(~batch["context"][..., None], -torch.inf)
        log_probs_of = _candidate_by_candidate if self.candidate_losses else _gathered
        log_probs = log_probs_of(scores, batch["solutions"])
        in_z = log_probs.masked_fill(~batch["solutions_where"], -torch.inf)
        answerable = batch["solutions_where"].any(dim=1)
        num_items = answerable.sum().clamp(min=1)
        best = in_z.max(dim=1).values  # hard EM: the likeliest mention, one among ties
        span_loss = torch.where(answerable, -best, 0.0).sum() / num_items
        pooled = hidden.masked_fill(~where[..., None], -torch.inf).max(dim=1).values
        selector_loss = F.cross_entropy(self.selector(pooled), answerable.long(), reduction="none")
        selector_loss = torch.where(batch["row_where"], selector_loss, 0.0).sum() / num_items
        return span_loss + selector_loss


def _gathered(scores, solutions):
    log_probs = F.log_softmax(scores, dim=1)
    start = log_probs[..., 0].gather(1, solutions[..., 0])
    end = log_probs[..., 1].gather(1, solutions[..., 1])
    return start + end


def _candidate_by_candidate(scores, solutions):
    """As the paper's release has it: cross-entropies of one candidate after the other, stacked."""
    losses = [
        F.cross_entropy(scores[..., 0], candidate[:, 0], reduction="none")
        + F.cross_entropy(scores[..., 1], candidate[:, 1], reduction="none")
        for candidate in solutions.unbind(1)
    ]
    return -torch.stack(losses, dim=1)


class ReaderStep:
    """Model, optimiser and batch; `compiled` runs the model through `torch.compile`.

    With `candidate_losses` the loss is computed like that of the paper's release.

    The optimiser is PyTorch's fused AdamW, the fastest of its three on CPU and on GPU.
    """

    def __init__(
        self,
        setting: Setting,
        folder: Path,
        *,
        compiled: bool = False,
        candidate_losses: bool = False,
    ):
        torch.set_float32_matmul_precision("high" if setting.tf32 else "highest")
        torch.manual_seed(setting.seed)
        device = "cuda" if setting.device == "gpu" else "cpu"
        self._cuda = device == "cuda"
        model = SpanReader(setting, folder, candidate_losses=candidate_losses)
        self._model = model.to(device).train()
        self._loss = torch.compile(self._model, dynamic=False) if compiled else self._model
        self._parameters = list(self._model.parameters())
        decayed, others = [], []
        for name, parameter in self._model.named_parameters():
            free = name.endswith(".bias") or "LayerNorm" in name
            (others if free else decayed).append(parameter)
        self._clip_norm = OPTIMIZER["clip_norm"]
        self._optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": OPTIMIZER["weight_decay"]},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=OPTIMIZER["learning_rate"],
            betas=(OPTIMIZER["b1"], OPTIMIZER["b2"]),
            eps=OPTIMIZER["eps"],
            fused=True,
        )
        self._schedule = get_linear_schedule_with_warmup(
            self._optimizer, num_warmup_steps=0, num_training_steps=NUM_STEPS
        )
        # Gathering wants 64-bit indices; converting once is part of making the batch.
        self._batch = {
            name: torch.from_numpy(x if x.dtype == bool else x.astype(np.int64)).to(device)
            for name, x in random_batch(setting).items()
        }

    def run(self, steps: int) -> list[tuple[float, float]]:
        """Make so many steps; returns ``(loss, norm of the gradient)`` of each."""
        metrics = []
        for _ in range(steps):
            loss = self._loss(self._batch)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
            self._optimizer.step()
            self._schedule.step()
            self._optimizer.zero_grad(set_to_none=True)
            metrics.append((loss.detach(), norm))
        if self._cuda:
            torch.cuda.synchronize()
        return [(float(loss), float(norm)) for loss, norm in metrics]
