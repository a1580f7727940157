"""The same training step in PyTorch: `transformers` BertModel, with SDPA or without padding."""

from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from safetensors.torch import load_file
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]
from transformers import AttentionInterface, BertModel, get_linear_schedule_with_warmup

from experiments.benchmark.steps.setting import (
    NUM_STEPS,
    OPTIMIZER,
    Setting,
)
from hardem_jax.errors import InputError
from hardem_jax.spans.benchmark import random_batch


class SpanReader(torch.nn.Module):
    """Encoder, span head and selector; calling it gives the loss of hard EM on a batch.

    Args:
        setting: sizes and rates.
        folder: weights.
        candidate_losses: compute the loss like the paper's release.
        unpadded: leave padding out of everything that the encoder computes.
        masked: mask padding. Compiled, transformers makes a mask [B, 1, T, T] of it, with which
            SDPA cannot use flash attention.
    """

    def __init__(
        self,
        setting: Setting,
        folder: Path,
        *,
        candidate_losses: bool,
        unpadded: bool,
        masked: bool,
    ):
        super().__init__()
        self.candidate_losses, self.unpadded = candidate_losses, unpadded
        self.masked = masked
        self.encoder = BertModel.from_pretrained(
            folder,
            add_pooling_layer=False,
            attn_implementation=UNPADDED if unpadded else "sdpa",
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
            if self.unpadded:
                hidden = self._encode_unpadded(batch)
            else:
                hidden = self._encode(batch)
        hidden = hidden.float()
        scores = self.span_scores(hidden).masked_fill(~batch["context"][..., None], -torch.inf)
        log_probs_of = candidate_by_candidate if self.candidate_losses else gathered
        log_probs = log_probs_of(scores, batch["solutions"])
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

    def _encode_unpadded(self, batch):
        """As in MosaicBERT and ModernBERT: the real tokens of all texts in one row."""
        real = batch["real_tokens"]
        row = self.encoder(
            input_ids=batch["token_ids"].flatten()[real][None],
            token_type_ids=batch["token_type_ids"].flatten()[real][None],
            position_ids=batch["positions"][None],
            text_begins=batch["text_begins"],
            longest=batch["token_ids"].shape[1],
        ).last_hidden_state[0]
        padded = row.new_zeros(*batch["token_ids"].shape, row.shape[-1])
        return padded.flatten(0, 1).index_copy(0, real, row).unflatten(0, padded.shape[:2])


def _attend_within_texts(
    module, query, key, value, mask, *, text_begins, longest, scaling, dropout=0.0, **_
):
    """``[1, heads, N, width]`` of several texts in one row -> ``[1, N, heads, width]``."""
    del module, mask
    if query.device.type == "cuda":
        if dropout:
            raise ValueError("variable-length attention has no dropout: --attention-dropout 0")
        from torch.nn.attention.varlen import varlen_attn  # pyright: ignore[reportMissingImports]

        q, k, v = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
        begins = text_begins.int()
        out = varlen_attn(q, k, v, begins, begins, longest, longest, scale=scaling)
        assert isinstance(out, torch.Tensor)  # nothing else was requested
        return out[None], None
    lengths = text_begins.diff().tolist()
    parts = zip(*(x.split(lengths, dim=2) for x in (query, key, value)), strict=True)
    texts = [
        F.scaled_dot_product_attention(*part, dropout_p=dropout, scale=scaling) for part in parts
    ]
    return torch.cat(texts, dim=2).transpose(1, 2), None


UNPADDED = "unpadded"
AttentionInterface.register(UNPADDED, _attend_within_texts)


def _without_padding(batch):
    """What `SpanReader` needs of a batch to leave its padding out, by name."""
    lengths = batch["where"].sum(axis=1)
    return {
        "real_tokens": np.flatnonzero(batch["where"]),
        "positions": np.concatenate([np.arange(length) for length in lengths]),
        "text_begins": np.concatenate([[0], np.cumsum(lengths)]),
    }


def gathered(scores, solutions):
    log_probs = F.log_softmax(scores, dim=1)
    start = log_probs[..., 0].gather(1, solutions[..., 0])
    end = log_probs[..., 1].gather(1, solutions[..., 1])
    return start + end


def candidate_by_candidate(scores, solutions):
    """As the paper's release has it: cross-entropies of one candidate after the other, stacked."""
    losses = [
        F.cross_entropy(scores[..., 0], candidate[:, 0], reduction="none")
        + F.cross_entropy(scores[..., 1], candidate[:, 1], reduction="none")
        for candidate in solutions.unbind(1)
    ]
    return -torch.stack(losses, dim=1)


class ReaderStep:
    """Model, optimiser and batch.

    Args:
        setting, folder: see `SpanReader`.
        mode: of `torch.compile`, None to compile nothing. Clipping and update stay eager: compiled,
            they were slower (H200, 34.3 to 40.5 ms a step instead of 33.2).
        candidate_losses, unpadded: see `SpanReader`.

    Where no row has padding, the mask is left out, so that attention is flash attention.

    The optimiser is PyTorch's fused AdamW, the fastest of its three on CPU and on GPU.
    """

    def __init__(
        self,
        setting: Setting,
        folder: Path,
        *,
        mode: str | None = None,
        candidate_losses: bool = False,
        unpadded: bool = False,
    ):
        if setting.device == "tpu" or setting.num_devices > 1:
            raise InputError("PyTorch is measured on one CPU or GPU")
        torch.manual_seed(0)
        device = "cuda" if setting.device == "gpu" else "cpu"
        self._cuda = device == "cuda"
        batch = random_batch(setting.batch_sizes)
        model = SpanReader(
            setting,
            folder,
            candidate_losses=candidate_losses,
            unpadded=unpadded,
            masked=not batch["where"].all(),
        )
        model = model.to(device).train()
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
        if unpadded:
            batch |= _without_padding(batch)
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
