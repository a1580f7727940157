"""Wordpieces with their place in the text."""

import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hardem_jax.data.json_stream import read_json_object, read_text
from hardem_jax.errors import InputError
from hardem_jax.hub import download
from hardem_jax.solutions.spans import skip_combining_marks

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class Pieces:
    """A text as wordpieces.

    Attributes:
        ids: ``[T]`` int32 vocabulary entries, without special tokens.
        offsets: ``[T, 2]`` int32, character start and exclusive end of each piece.
    """

    ids: np.ndarray
    offsets: np.ndarray


class Wordpieces:
    """A Hugging Face fast tokenizer, reduced to what a reader needs.

    Args:
        tokenizer: any `tokenizers.Tokenizer` with [CLS], [SEP] and [PAD] entries. A copy
            is kept, on which truncation and padding are off: checkpoints ship
            tokenizers that silently cut at 128.

    Attributes:
        cls_id, sep_id, pad_id: ids of the special tokens.
        vocab_size: number of entries, int.
        fingerprint: hexadecimal digest of the complete tokenizer.

    Example:
        >>> from tokenizers import models, pre_tokenizers
        >>> vocab = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "##m"])}
        >>> tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
        >>> tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> pieces = Wordpieces(tokenizer).encode(["whom ?"])[0]
        >>> pieces.ids.tolist(), pieces.offsets.tolist()
        ([4, 5, 1], [[0, 3], [3, 4], [5, 6]])
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.cls_id, self.sep_id, self.pad_id = map(self._special, ("[CLS]", "[SEP]", "[PAD]"))
        self.vocab_size = self._tokenizer.get_vocab_size()
        self.fingerprint = hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> list[Pieces]:
        """Wordpieces of each text, in parallel over texts.

        A piece ends after the combining marks that follow it, also where the tokenizer drops them.
        """
        texts = list(texts)
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [
            Pieces(
                np.array(encoding.ids, np.int32),
                _with_marks(text, np.array(encoding.offsets, np.int32).reshape(-1, 2)),
            )
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.json`` into ``folder``, readable by `load_tokenizer`."""
        text = self._tokenizer.to_str(pretty=True)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")

    def _special(self, token: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise InputError(f"tokenizer: expected a BERT vocabulary, found no {token} in it")
        return token_id


def _with_marks(text: str, offsets: np.ndarray) -> np.ndarray:
    """Moves the ends of pieces past combining marks that belong to no piece."""
    if text.isascii():
        return offsets
    starts = [*offsets[1:, 0].tolist(), len(text)]
    for piece, next_start in zip(offsets, starts, strict=False):
        piece[1] = max(piece[1], min(skip_combining_marks(text, piece[1]), next_start))
    return offsets


def load_tokenizer(name_or_path: str | Path) -> Wordpieces:
    """The tokenizer of a Hugging Face checkpoint.

    Args:
        name_or_path: a local folder with ``tokenizer.json`` or ``vocab.txt``, or a hub name.

    Raises:
        InputError: if there is no such tokenizer or it is not one of the BERT family.
    """
    folder = Path(name_or_path).expanduser()
    if not os.path.isdir(folder):
        if not isinstance(name_or_path, str) or re.match(r"[./~]", name_or_path):
            raise InputError(f"{name_or_path}: expected a folder with a tokenizer, found none")
        patterns = ["tokenizer.json", "vocab.txt", "tokenizer_config.json"]
        folder = download(name_or_path, patterns, what="a tokenizer")
    for name, read in (("tokenizer.json", Tokenizer.from_file), ("vocab.txt", _from_vocabulary)):
        if os.path.isfile(folder / name):
            try:
                return Wordpieces(read(str(folder / name)))
            except InputError as error:
                raise InputError(f"{folder / name}: {error}") from error
            except Exception as error:  # tokenizers raises nothing more specific
                raise InputError(
                    f"{folder / name}: expected a tokenizer, found: {error}"
                ) from error
    raise InputError(
        f"{name_or_path}: expected a tokenizer (tokenizer.json or vocab.txt), found neither file"
    )


def _from_vocabulary(file: str) -> Tokenizer:
    """BERT's tokenizer with the wordpieces of ``vocab.txt``, one a line."""
    settings = Path(file).with_name("tokenizer_config.json")
    config = read_json_object(settings) if settings.is_file() else {}
    vocabulary: dict[str, int] = {}
    for number, piece in enumerate(read_text(file).removesuffix("\n").split("\n")):
        vocabulary[piece.removesuffix("\r")] = number
    if "[UNK]" not in vocabulary:
        raise InputError("expected a BERT vocabulary, found no [UNK] in it")
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [piece for piece in _SPECIAL if piece in vocabulary]
    tokenizer.add_special_tokens(special)
    return tokenizer
