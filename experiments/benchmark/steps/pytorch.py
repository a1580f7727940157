"""The same training step in PyTorch: `transformers` BertModel, with SDPA."""

from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from safetensors.torch import load_file
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]
from transformers import BertModel, get_linear_schedule_with_warmup

from experiments.benchmark.steps.setting import NUM_STEPS, OPTIMIZER, Setting
from hardem_jax.errors import InputError
from hardem_jax.spans.benchmark import random_batch


class SpanReader(torch.nn.Module):
    """Encoder, span head and selector; calling it gives the loss of hard EM on a batch.

    Of ``masked`` padding transformers makes, compiled, a mask [B, 1, T, T], with which SDPA cannot
    use flash attention.
    """

    def __init__(self, setting: Setting, folder: Path, *, masked: bool):
        super().__init__()
        self.masked = masked
        self.encoder = BertModel.from_pretrained(
            folder,
            add_pooling_layer=False,
            attn_implementation="sdpa",
            hidden_dropout_prob=setting.dropout_rates["hidden_dropout"],
            attention_probs_dropout_prob=setting.dropout_rates["attention_dropout"],
        )
        self.span_scores = torch.nn.Linear(setting.sizes.hidden, 2)
        self.selector = torch.nn.Linear(setting.sizes.hidden, 2)
        weights = load_file(folder / "model.safetensors")
        weights |= load_file(folder / "selector.safetensors")
        for head, name in (self.span_scores, "qa_outputs"), (self.selector, "qa_classifier"):
            head.load_state_dict({x: weights[f"{name}.{x}"] for x in ("weight", "bias")})
        self.autocast = setting.dtype == "bfloat16"

    def forward(self, batch):
        where, device = batch["where"], batch["where"].device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.autocast):
            hidden = self._encode(batch).float()
        scores = self.span_scores(hidden).masked_fill(~batch["context"][..., None], -torch.inf)
        start, end = F.log_softmax(scores, dim=1).unbind(-1)
        starts, ends = batch["solutions"].unbind(-1)
        log_probs = start.gather(1, starts) + end.gather(1, ends)
        in_z = log_probs.masked_fill(~batch["solutions_where"], -torch.inf)
        answerable = batch["solutions_where"].any(dim=1)
        num_items = answerable.sum().clamp(min=1)
        best = in_z.max(dim=1).values  # hard EM: the most likely mention, one among ties
        span_loss = torch.where(answerable, -best, 0.0).sum() / num_items
        pooled = hidden.masked_fill(~where[..., None], -torch.inf).max(dim=1).values
        selector_loss = F.cross_entropy(self.selector(pooled), answerable.long(), reduction="none")
        selector_loss = torch.where(batch["row_where"], selector_loss, 0.0).sum() / num_items
        return span_loss + selector_loss

    def _encode(self, batch):
        inputs = {name: batch[name] for name in ("token_ids", "token_type_ids")}
        inputs["input_ids"] = inputs.pop("token_ids")
        if self.masked:
            return self.encoder(**inputs, attention_mask=batch["where"]).last_hidden_state
        # Compiled, the model itself makes a mask of ones where it is given none.
        return self.encoder.encoder(self.encoder.embeddings(**inputs)).last_hidden_state


class ReaderStep:
    """Model, optimiser and batch; ``mode`` is that of `torch.compile`, None to compile nothing.

    Clipping and update stay eager: compiled, they were slower (H200, 34.3 to 40.5 ms a step instead
    of 33.2). PyTorch's fused AdamW is the fastest of its three on CPU and on GPU. Where no row has
    padding, the mask is left out, so that attention is flash attention.
    """

    def __init__(self, setting: Setting, folder: Path, *, mode: str | None = None):
        if setting.device == "tpu":
            raise InputError("PyTorch is measured on one CPU or GPU")
        torch.manual_seed(0)
        device = "cuda" if setting.device == "gpu" else "cpu"
        self._cuda = device == "cuda"
        batch = random_batch(setting.batch_sizes)
        model = SpanReader(setting, folder, masked=not batch["where"].all()).to(device).train()
        self._parameters = list(model.parameters())
        decayed, others = [], []
        for name, parameter in model.named_parameters():
            free = name.endswith(".bias") or "LayerNorm" in name
            (others if free else decayed).append(parameter)
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
        self._compiled = compiled = mode is not None
        self._loss = torch.compile(model, dynamic=False, mode=mode) if compiled else model
        # Gathering wants 64-bit indices; converting once is part of making the batch.
        self._batch = {
            name: torch.from_numpy(x if x.dtype == bool else x.astype(np.int64)).to(device)
            for name, x in batch.items()
        }

    def run(self, steps: int) -> list[tuple[float, float]]:
        """Runs this many steps; returns ``(loss, norm of the gradient)`` of each."""
        metrics = []
        for _ in range(steps):
            if self._compiled:  # with CUDA graphs, a step overwrites what the last one returned
                torch.compiler.cudagraph_mark_step_begin()
            loss = self._loss(self._batch)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self._parameters, OPTIMIZER["clip_norm"])
            self._optimizer.step()
            self._schedule.step()
            self._optimizer.zero_grad(set_to_none=True)
            metrics.append((loss.detach().clone(), norm))
        if self._cuda:
            torch.cuda.synchronize()
        return [(float(loss), float(norm)) for loss, norm in metrics]
