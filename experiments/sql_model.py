"""SQLova with the inputs it takes and the files it needs."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from flax import nnx

from experiments.encoder import load_encoder, untrained_encoder
from experiments.model_configs import SQLovaConfig
from experiments.runs import RunConfig
from hardem_jax.data.batching.padding import Batch, Pad
from hardem_jax.data.inputs.sqlova import QueryInputs, pad_query_inputs
from hardem_jax.data.prepared.queries import QueryQuestion
from hardem_jax.data.tokenizer import Wordpieces, load_tokenizer
from hardem_jax.models.encoders.bert import Bert, BertConfig
from hardem_jax.models.sqlova import SQLova
from hardem_jax.solutions.sql.enumeration import MAX_CONDITIONS, Table


@dataclasses.dataclass(frozen=True)
class Parser:
    """A model and the way from questions to its batches.

    Attributes:
        graphdef: of the module.
        params: values, or shapes where the run's checkpoint has the values.
        tokenizer: of the encoder.
        config: see `SQLovaConfig`.
        bert: configuration of the encoder.
    """

    graphdef: nnx.GraphDef
    params: Any
    tokenizer: Wordpieces
    config: SQLovaConfig
    bert: dict[str, Any]

    @classmethod
    def start(cls, config: SQLovaConfig, *, seed: int) -> Self:
        """The pretrained encoder with everything else fresh.

        Raises:
            InputError: see `encoder.load_encoder`.
        """
        tokenizer = load_tokenizer(config.encoder)
        return cls._of(_module(config, load_encoder(config, tokenizer), seed), tokenizer, config)

    @classmethod
    def restore(cls, config: SQLovaConfig, run_dir: Path, run: RunConfig) -> Self:
        """The shape of a run's model, from what `save` returned."""
        bert = run.restore(BertConfig, run.part.get("bert") or {}, "parser.bert")
        abstract = nnx.eval_shape(lambda: _module(config, untrained_encoder(config, bert), seed=0))
        return cls._of(abstract, load_tokenizer(run_dir), config)

    @classmethod
    def _of(cls, module: SQLova, tokenizer: Wordpieces, config: SQLovaConfig) -> Self:
        bert = dataclasses.asdict(module.encoder.config)
        return cls(*nnx.split(module, nnx.Param), tokenizer, config, bert)

    def inputs(
        self, questions: Sequence[QueryQuestion], tables: Mapping[str, Table]
    ) -> QueryInputs:
        """The questions as inputs, by index."""
        return QueryInputs(
            questions,
            tables,
            self.tokenizer,
            max_tokens=self.config.max_tokens,
            max_header_tokens=self.config.max_header_tokens,
        )

    def pad(self, inputs: QueryInputs, num_solutions: int) -> Pad:
        """Makes batches of these inputs with room for so many queries."""

        def pad(rows: Sequence[Any], num_tokens: int) -> Batch:
            return pad_query_inputs(
                rows,
                num_tokens,
                **inputs.shape(num_tokens),
                num_solutions=num_solutions,
                pad_id=self.tokenizer.pad_id,
            )

        return pad

    def save(self, run_dir: Path) -> dict[str, Any]:
        """Write the files that `restore` needs; returns what else it needs."""
        self.tokenizer.save(run_dir)
        return {"bert": self.bert}


def _module(config: SQLovaConfig, encoder: Bert, seed: int) -> SQLova:
    return SQLova(
        encoder,
        hidden_size=config.hidden_size,
        num_lstm_layers=config.num_lstm_layers,
        num_target_layers=config.num_target_layers,
        dropout=config.dropout,
        max_conditions=MAX_CONDITIONS,
        rngs=nnx.Rngs(seed),
    )
