"""Names and tokenizers of planted corpora."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.errors import check_choice

_ONSETS = ("bar", "cal", "dor", "fen", "gil", "hol", "jas", "kel", "lor", "mar")
_ENDINGS = ("da", "bert", "mina", "vek", "los", "ric")
NAMES = tuple(onset + ending for onset in _ONSETS for ending in _ENDINGS)


def split_names(seed: int, split: Literal["train", "dev"]) -> list[str]:
    """Returns the names used in a split: a fifth of all for dev, the rest for train."""
    check_choice(split, Literal["train", "dev"], "split")
    order = np.random.default_rng(seed).permutation(len(NAMES))
    cut = len(NAMES) // 5
    chosen = order[:cut] if split == "dev" else order[cut:]
    return [NAMES[i].capitalize() for i in chosen]


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """Returns a tokenizer with one piece per lower-case word; ids are indices into `words`."""
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Tokenizer(tokenizer)
