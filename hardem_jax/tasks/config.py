"""Configurations of tasks and their models. Importing them is cheap: no jax."""

import dataclasses
from pathlib import Path
from typing import Literal

from hardem_jax.data.batching.grouped import Scope
from hardem_jax.data.inputs.naqanet import WordConfig
from hardem_jax.data.tokenizer import MIN_SPECIAL_TOKENS
from hardem_jax.errors import InputError, require
from hardem_jax.models.config import (
    Implementation,
    NAQANetConfig,
    NAQANetSizes,
    Remat,
    ValueUnits,
)
from hardem_jax.training.fingerprint import may_change

#: The set over which the probabilities of a question sum to 1.
Normalize = Literal["tags", "equations"]
#: How an answer is read off a parser of programs, see `ProgramInference`.
ProgramDecoding = Literal["program", "result"]


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """A pretrained encoder.

    Attributes:
        encoder: Hugging Face name or folder of a checkpoint: BERT, RoBERTa, ModernBERT, ...
        num_layers: keep only the first layers; None keeps all.
        dtype: of the computation in the encoder; parameters and losses stay float32.
        remat: what the backward pass recomputes to save memory: nothing, the attention
            probabilities, everything but products with weights, or whole layers.
        scan_layers: compile one layer and loop over it, to save compile time.
        attention: its implementation: XLA, a kernel for GPUs or TPUs, or (auto) the kernel of the
            device if there is no attention dropout, else XLA.
        attention_dropout: on attention probabilities; None for the checkpoint's rate. Kernels need
            0 in training.
        ignore: heads of a fine-tuned checkpoint to leave out, such as "qa_outputs" or "classifier".
    """

    encoder: str = "bert-base-uncased"
    num_layers: int | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = may_change("the same run up to rounding", default="none")
    scan_layers: bool = False
    attention: Implementation = "auto"
    attention_dropout: float | None = None
    ignore: tuple[str, ...] = may_change("what is left out is not read", default=())

    def __post_init__(self) -> None:
        require(self, "num_layers", at_least=1)
        require(self, "attention_dropout", at_least=0, below=1)


@dataclasses.dataclass(frozen=True)
class ReaderConfig(EncoderConfig):
    """A span reader on a pretrained encoder.

    Attributes:
        softmax_over: "context" (default), or all "tokens" as in the paper's formula.
    """

    softmax_over: Literal["context", "tokens"] = "context"


@dataclasses.dataclass(frozen=True)
class TaggedReaderConfig(EncoderConfig):
    """A reader of several spans, which tags every word, on a pretrained encoder.

    Attributes:
        tags: "bio" tells where a span begins; with "io", spans that touch are one.
        max_mentions: maximum number of mentions considered per window. If there are more, the
            first mention of each text is kept, then the second of each, and so on while a whole
            round fits.
        max_taggings: largest Z of a window; of more taggings, those with the fewest mentions are
            kept.
    """

    tags: Literal["bio", "io"] = "bio"
    max_mentions: int = 32
    max_taggings: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "max_mentions", "max_taggings", at_least=1)


@dataclasses.dataclass(frozen=True)
class TaggerConfig(EncoderConfig):
    """An encoder that tags every number with its operator (Min et al., 2019, appendix A).

    Attributes:
        product_over: "numbers" (default), or all "tokens" as in the paper's formula.
        normalize: P(z | x) is a product over the "tags" of all numbers (the paper), although most
            taggings are not equations, or a softmax over all "equations" of Z_tot.
        no_tag_bias: initial bias of a number towards no tag; 0 for heads without bias (the paper).
        max_tokens: tokens of an input; longer passages are cut.
        max_question_tokens: longer questions are cut.
    """

    product_over: Literal["numbers", "tokens"] = "numbers"
    normalize: Normalize = "tags"
    no_tag_bias: float = 2.0
    max_tokens: int = 512
    max_question_tokens: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "max_question_tokens", at_least=1)
        require(self, "max_tokens", above=self.max_question_tokens + MIN_SPECIAL_TOKENS)
        require(self, "no_tag_bias")
        if self.normalize == "equations" and self.product_over == "tokens":
            raise InputError(
                "product_over: expected numbers, found tokens, which changes nothing where "
                "P(z | x) is normalized over equations"
            )


@dataclasses.dataclass(frozen=True)
class NAQANetModelConfig(NAQANetSizes, WordConfig):
    """NAQANet (Dua et al., 2019) for answers that are numbers; sizes as released.

    Attributes:
        word_vectors: text file of word vectors (GloVe), which stay fixed; None learns vectors along
            with everything else. Only ``train`` needs the file.
        min_words: words that occur less often in the training split are unknown; None for 1 with
            word vectors and 2 without, so that there are unknown words to learn from.
        min_characters: the same for characters (released: 200).
        dtype: of activations and products; parameters, norms, softmax and heads stay float32.
        remat: recompute activations in the backward pass, to save memory.
        normalize: P(z | add or subtract, x) is a product over the signs ("tags") of all numbers,
            as released, or a softmax over all "equations" of Z_tot.
    """

    word_vectors: Path | None = None
    min_words: int | None = None
    min_characters: int = 1
    dtype: Literal["float32", "bfloat16"] = "float32"
    remat: bool = may_change("the same run up to rounding", default=False)
    normalize: Normalize = "tags"

    def __post_init__(self) -> None:
        NAQANetSizes.__post_init__(self)
        WordConfig.__post_init__(self)
        require(self, "min_words", "min_characters", at_least=1)

    @property
    def reading(self) -> WordConfig:
        """How much of a text is read."""
        return WordConfig(**{f.name: getattr(self, f.name) for f in dataclasses.fields(WordConfig)})

    def sizes(self, *, num_words: int, num_characters: int) -> NAQANetConfig:
        """Sizes of the model, given those of its vocabularies."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(NAQANetSizes)}
        return NAQANetConfig(num_words=num_words, num_characters=num_characters, **fields)


@dataclasses.dataclass(frozen=True)
class SQLovaConfig(EncoderConfig):
    """SQLova (Hwang et al., 2019); sizes as released.

    Attributes:
        hidden_size: width of LSTMs and heads.
        num_lstm_layers: layers of every LSTM.
        num_target_layers: layers of the encoder that are read, from the last one down.
        dropout: between the layers of an LSTM; the encoder has its own.
        max_tokens: maximum input length in tokens. Inputs that are too long are shortened in this
            order: headers, then the question, then whole columns.
        max_header_tokens: longer headers are cut.
        value_units: the first and the last word of a value are drawn from the "words" of the
            question, each represented by its first wordpiece, or from all of its "wordpieces", as
            in the original, where pieces within a word have probability too.
    """

    hidden_size: int = 100
    num_lstm_layers: int = 2
    num_target_layers: int = 2
    dropout: float = 0.3
    max_tokens: int = 180
    max_header_tokens: int = 24
    value_units: ValueUnits = "words"

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = ("num_lstm_layers", "num_target_layers", "max_header_tokens")
        require(self, *counts, at_least=1)
        require(self, "hidden_size", at_least=2)
        if self.hidden_size % 2:
            raise InputError(
                "hidden_size: expected an even number, half of it for each direction of an LSTM, "
                f"found {self.hidden_size}"
            )
        require(self, "dropout", at_least=0, below=1)
        require(self, "max_tokens", at_least=8)


@dataclasses.dataclass(frozen=True)
class ProgramParserConfig(EncoderConfig):
    """A parser of programs on a pretrained encoder.

    Attributes:
        hidden_size: width of the layer before the scores of a slot.
        dropout: in that layer; the encoder has its own.
        max_tokens: maximum input length in tokens. Inputs that are too long are shortened in this
            order: headers, then the question, then whole columns.
        max_header_tokens: longer headers are cut.
    """

    hidden_size: int = 256
    dropout: float = 0.1
    max_tokens: int = 180
    max_header_tokens: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "hidden_size", "max_header_tokens", at_least=1)
        require(self, "dropout", at_least=0, below=1)
        require(self, "max_tokens", at_least=8)


@dataclasses.dataclass(frozen=True)
class LatentConfig:
    """What the latent variable ranges over in training.

    Attributes:
        scope: windows that share one softmax and one Z: each "window" (the released code),
            the windows of a "document", or all of a "question" (docs/reproducing.md).
        group_size: G, the number of windows per training item. If a document or question has
            more, one window with a mention and G - 1 others are resampled every epoch.
        likelihood: "span": P(z) is that of a mention, P(start) * P(end). "position": start
            and end are latent variables of their own, each over the positions where a mention
            starts or ends (Cheng et al., 2020).

    Raises:
        InputError: ``group_size`` is below 1.
    """

    scope: Scope = "window"
    group_size: int = 8
    likelihood: Literal["span", "position"] = "span"

    def __post_init__(self):
        require(self, "group_size", at_least=1)

    @property
    def rows(self) -> int:
        """Windows that share one softmax."""
        return 1 if self.scope == "window" else self.group_size


@dataclasses.dataclass(frozen=True)
class SpanInference:
    """How answers are read off a span reader.

    Attributes:
        max_answer_tokens: longest answer in tokens (released code: 10).
        whole_words: answer with whole words and numbers only, as every z is; otherwise a span may
            begin and end at any token, also inside a word.
        top: spans kept per window, or ``keep`` if that is more.
        batch_size: windows read at once.
        scope: what spans compete in. "window" (the paper): the selector chooses a window, and the
            most likely span in it is the answer; "document": it chooses a window and thereby a
            document, whose windows share one softmax; "question": all windows share one softmax,
            and the selector is not used.
        joint: with scope "window", rank by P(window has the answer) * P(span) instead.
        no_answer_threshold: where "unknown" is a choice (`WindowConfig`), say that there is no
            answer if P("unknown") / (P("unknown") + P(best span)) is above this.
        num_documents: read only the first documents of each question; None for all.
        sweep: also score answers from the first n documents only, for each n given, without
            reading again.
        keep: answers kept for each question of a split, best first.
        packed_tokens: pack windows into rows of this many tokens, longer if an input is; None
            pads them to buckets. Answers are the same up to rounding.

    Raises:
        InputError: ``joint`` with another scope, or a number below 1.
    """

    max_answer_tokens: int = 10
    whole_words: bool = True
    top: int = 5
    batch_size: int = 32
    scope: Scope = "window"
    joint: bool = False
    no_answer_threshold: float = 0.5
    num_documents: int | None = None
    sweep: tuple[int, ...] = ()
    keep: int = may_change("scores do not depend on it", default=1)
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self):
        counts = ("max_answer_tokens", "top", "batch_size", "num_documents", "sweep", "keep")
        require(self, *counts, "packed_tokens", at_least=1)
        require(self, "no_answer_threshold", at_least=0, at_most=1)
        if self.joint and self.scope != "window":
            raise InputError(
                f"joint: expected scope 'window', whose windows it ranks, found {self.scope!r}"
            )


@dataclasses.dataclass(frozen=True)
class TaggingInference:
    """How answers are read off a reader of several spans.

    The selector chooses a window, and the most likely tagging in it that marks something is the
    answer.

    Attributes:
        batch_size: windows read at once.
        packed_tokens: pack windows into rows of this many tokens, longer if an input is; None
            pads them to buckets. Answers are the same up to rounding.
    """

    batch_size: int = 32
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self) -> None:
        require(self, "batch_size", "packed_tokens", at_least=1)


@dataclasses.dataclass(frozen=True)
class EquationInference:
    """How answers are read off a model of equations.

    Attributes:
        decoding: "equation" takes the most likely equation of Z_tot; "tags" takes the most likely
            tag of every number independently and adds them up, or the most likely count if the
            model prefers counting, as the original NAQANet does.
        top: equations kept per question.
        batch_size: questions read at once.
        packed_tokens: pack questions into rows of this many tokens, longer if an input is; None
            pads them to buckets. Answers are the same up to rounding.
    """

    decoding: Literal["equation", "tags"] = "equation"
    top: int = 5
    batch_size: int = 32
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self) -> None:
        require(self, "top", "batch_size", "packed_tokens", at_least=1)


#: How answers are read off a semantic parser, see `QueryInference`.
QueryDecoding = Literal["query", "result", "well-formed", "greedy", "execution-guided"]


@dataclasses.dataclass(frozen=True)
class QueryInference:
    """How answers are read off a semantic parser.

    Attributes:
        decoding: "query" takes the most likely query of Z_tot, "result" the most likely result,
            whose probability is the sum over all queries of Z_tot that lead to it; "well-formed"
            also considers queries outside Z_tot, where values may be any spans and no row need meet
            the conditions; "greedy" and "execution-guided" make one decision after another, as
            SQLova does.
        top: queries or results to show for a question; one is the answer.
        batch_size: questions read at once.
    """

    decoding: QueryDecoding = "query"
    top: int = 5
    batch_size: int = 32

    def __post_init__(self) -> None:
        require(self, "top", "batch_size", at_least=1)


@dataclasses.dataclass(frozen=True)
class ProgramInference:
    """How answers are read off a parser of programs.

    Attributes:
        decoding: "program" takes the most likely program of Z_tot with a result; "result" the
            result with the largest total probability over the ``top`` most likely of these.
        top: programs kept per question.
        max_combinations: combinations of slots that are looked at, most likely first.
        batch_size: questions read at once.
    """

    decoding: ProgramDecoding = "program"
    top: int = 50
    max_combinations: int = 20_000
    batch_size: int = 32

    def __post_init__(self) -> None:
        require(self, "top", "max_combinations", "batch_size", at_least=1)
