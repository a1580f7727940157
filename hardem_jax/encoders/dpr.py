"""The reader of DPR (Karpukhin et al., 2020): BERT's encoder below other names.

It gives every token the first token type: both rows of the table get the first one's weights.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from hardem_jax.encoders import bert


def _one_token_type(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    path = "embeddings.token_type"
    return params | {path: np.repeat(params[path][:1], len(params[path]), axis=0)}


ARCHITECTURE = dataclasses.replace(
    bert.ARCHITECTURE,
    weights=dataclasses.replace(
        bert.ARCHITECTURE.weights, prefix="span_predictor.encoder.bert_model."
    ),
    required_values={
        **bert.ARCHITECTURE.required_values,
        "projection_dim": 0,
        "architectures": ["DPRReader"],  # not its encoders of questions and passages
    },
    adapt=_one_token_type,
)
