"""Texts as tokens with their place in the text, and the special tokens around a pair of texts."""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from hardem_jax.data.json_stream import read_json_object, read_text
from hardem_jax.errors import InputError, check_unicode
from hardem_jax.words import skip_combining_marks

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA_SPECIAL = ("<s>", "</s>", "<unk>", "<pad>", "<mask>")
_PADDING = ("[PAD]", "<pad>")
_UNKNOWN = ("[UNK]", "<unk>")
_MASK = ("[MASK]", "<mask>")
_BLANKS = np.array([code for code in range(0x3001) if chr(code).isspace()], np.uint32)

#: Special tokens around a pair of texts, at least: those of BERT. For checks of a configuration
#: that are made before its tokenizer is read.
MIN_SPECIAL_TOKENS = 3


@dataclasses.dataclass(frozen=True)
class Encoding:
    """A text as tokens.

    Attributes:
        ids: ``[T]`` int32 vocabulary entries, without special tokens.
        offsets: ``[T, 2]`` int32, character start and exclusive end of each token, without blanks
            around it. A token of blanks only is empty there. Starts ascend, and so do ends; tokens
            that are parts of one character share its place.
    """

    ids: np.ndarray
    offsets: np.ndarray


@dataclasses.dataclass(frozen=True)
class PairTemplate:
    """The special tokens of an input that consists of two texts.

    Attributes:
        before: ids before the first text.
        between: ids between the two.
        after: ids after the second text.

    Example:
        >>> bert, roberta = PairTemplate((2,), (3,), (3,)), PairTemplate((0,), (2, 2), (2,))
        >>> first, second = np.array([7, 8]), np.array([9])
        >>> bert.join(first, second).tolist(), bert.second_start(2), bert.num_special_tokens
        ([2, 7, 8, 3, 9, 3], 4, 3)
        >>> roberta.join(first, second).tolist(), roberta.second_start(2)
        ([0, 7, 8, 2, 2, 9, 2], 5)
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def num_special_tokens(self) -> int:
        """Number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, first: np.ndarray, *others: np.ndarray) -> np.ndarray:
        """``[T]`` int32, the input of two texts, or of several with ``after`` after each but the
        first."""
        parts = [self.before, first, self.between]
        for other in others:
            parts += [other, self.after]
        return np.concatenate([np.asarray(part, np.int32) for part in parts])

    def second_start(self, num_first: int) -> int:
        """Position of the second text after a first text of ``num_first`` tokens."""
        return len(self.before) + num_first + len(self.between)


class Tokenizer:
    """A Hugging Face fast tokenizer, reduced to what a reader needs.

    Args:
        tokenizer: a `tokenizers.Tokenizer` with entries for padding and for unknown tokens, whose
            post-processor puts special tokens around a pair of texts; without post-processor, one
            with [CLS] and [SEP] entries. A copy is kept, with truncation and padding off:
            checkpoints ship tokenizers that silently cut at 128.

    Attributes:
        template: special tokens around a pair of texts.
        pad_id, unknown_id: ids of the special tokens for padding and unknown tokens.
        vocab_size: number of entries, int.
        vocabulary: token -> its id.
        fingerprint: hexadecimal digest of the complete tokenizer.

    Raises:
        InputError: there are no such entries or special tokens.

    Example:
        >>> from tokenizers import models, pre_tokenizers
        >>> vocab = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "##m"])}
        >>> tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
        >>> tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> encoding = Tokenizer(tokenizer).encode(["whom ?"])[0]
        >>> encoding.ids.tolist(), encoding.offsets.tolist()
        ([4, 5, 1], [[0, 3], [3, 4], [5, 6]])
        >>> Tokenizer(tokenizer).template
        PairTemplate(before=(2,), between=(3,), after=(3,))
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer):
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        template = self._pair_template()
        self._has_template = template is not None
        self.template: PairTemplate = template or PairTemplate(
            (self._special("[CLS]"),), *[(self._special("[SEP]"),)] * 2
        )
        self.pad_id = self._special(*_PADDING)
        self.unknown_id = self._special(*_UNKNOWN)
        self.vocab_size = self._tokenizer.get_vocab_size()
        self.fingerprint = hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()[:16]

    @property
    def vocabulary(self) -> dict[str, int]:
        return self._tokenizer.get_vocab()

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokens of each text, in parallel over texts.

        Combining marks that follow a token belong to it, even if the tokenizer drops them.
        Special tokens that a text spells out are special, as in transformers.

        Raises:
            InputError: a text holds half a surrogate pair, which is no character.
        """
        texts = list(texts)
        for text in texts:
            check_unicode(text)
        encodings = []
        for text, found in zip(
            texts, self._tokenizer.encode_batch(texts, add_special_tokens=False), strict=True
        ):
            offsets = np.array(found.offsets, np.int32).reshape(-1, 2)
            offsets = _with_marks(text, _without_blanks(text, offsets))
            encodings.append(Encoding(np.array(found.ids, np.int32), offsets))
        return encodings

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.json`` into ``folder``, readable by `load_tokenizer`."""
        text = self._tokenizer.to_str(pretty=True)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")

    def save_pretrained(self, folder: Path, *, max_tokens: int, token_types: bool) -> None:
        """Writes the tokenizer for ``AutoTokenizer`` and for `load_tokenizer`.

        Given a pair of texts, AutoTokenizer makes the inputs that readers are trained on: the same
        ids, and type 1 for the second text. ``tokenizer.json`` holds all of it, vocabulary and
        casing included; ``tokenizer_config.json`` names special tokens and lengths.

        Args:
            folder: an existing folder.
            max_tokens: of the longest input of the encoder.
            token_types: whether the encoder has two token types.
        """
        whole = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
        first, last = self.template.before[:1], self.template.after[-1:]
        special = {
            **dict(zip(("cls_token", "sep_token"), (*first, *last), strict=False)),
            **{"pad_token": self.pad_id, "unk_token": self.unknown_id},
            "mask_token": next(filter(None, map(whole.token_to_id, _MASK)), None),
        }
        names = {kind: str(whole.id_to_token(id)) for kind, id in special.items() if id is not None}
        if not self._has_template:  # [CLS] and [SEP] are then the project's own choice
            whole.post_processor = processors.BertProcessing(
                (names["sep_token"], last[0]), (names["cls_token"], first[0])
            )
        if whole.decoder is None and isinstance(whole.model, models.WordPiece):
            whole.decoder = decoders.WordPiece()
        inputs = ["input_ids", *(["token_type_ids"] if token_types else []), "attention_mask"]
        content = {
            # Whatever tokenizer.json says. A class of an architecture has a casing of its own.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": max_tokens,
            "model_input_names": inputs,
            "clean_up_tokenization_spaces": False,
            **names,
            **_casing(whole),
        }
        (folder / "tokenizer.json").write_text(whole.to_str(pretty=True), encoding="utf-8")
        config = json.dumps(content, indent=2) + "\n"
        (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")

    def _pair_template(self) -> PairTemplate | None:
        """What the post-processor puts around two texts, whatever kind of post-processor it is;
        None if it puts nothing there."""
        if self._tokenizer.post_processor is not None:
            # A tokenizer that makes one token of each text, whatever the vocabulary.
            single = tokenizers.Tokenizer(models.WordLevel({"x": 0}, unk_token="x"))
            single.post_processor = self._tokenizer.post_processor
            pair = single.encode("x", "x")
            texts = [text for text in pair.sequence_ids if text is not None]
            if texts == [0, 1] and len(pair.ids) > 2:
                first, second = pair.sequence_ids.index(0), pair.sequence_ids.index(1)
                ids = tuple(pair.ids)
                return PairTemplate(ids[:first], ids[first + 1 : second], ids[second + 1 :])
        return None

    def _special(self, *tokens: str) -> int:
        """Id of the first of these tokens that the vocabulary has."""
        ids = map(self._tokenizer.token_to_id, tokens)
        if (found := next((id for id in ids if id is not None), None)) is not None:
            return found
        raise InputError(
            "tokenizer: expected a BERT vocabulary, or special tokens as RoBERTa has them; "
            f"found no {' or '.join(tokens)} in it"
        )


def _casing(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """What BERT's normalizer does, by its names in ``tokenizer_config.json``; none for others."""
    found = json.loads(tokenizer.to_str())["normalizer"] or {}
    if found.get("type") != "BertNormalizer":
        return {}
    return {
        "do_lower_case": found["lowercase"],
        "strip_accents": found["strip_accents"],
        "tokenize_chinese_chars": found["handle_chinese_chars"],
    }


def _without_blanks(text: str, offsets: np.ndarray) -> np.ndarray:
    """Moves starts and ends of tokens past the blanks that byte-level tokens begin with."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    # One blank more, for tokens that end with the text.
    blank = np.append(np.isin(codes, _BLANKS), True)
    starts, ends = offsets.T
    while (move := (starts < ends) & blank[starts]).any():
        starts = starts + move
    while (move := (starts < ends) & blank[ends - 1]).any():
        ends = ends - move
    return np.stack([starts, ends], axis=1).astype(np.int32)


def _with_marks(text: str, offsets: np.ndarray) -> np.ndarray:
    """Moves the ends of tokens past combining marks that belong to no token."""
    if text.isascii():
        return offsets
    starts = [*offsets[1:, 0].tolist(), len(text)]
    for piece, next_start in zip(offsets, starts, strict=False):
        piece[1] = max(piece[1], min(skip_combining_marks(text, piece[1]), next_start))
    return offsets


def load_tokenizer(name_or_path: str | Path) -> Tokenizer:
    """The tokenizer of a Hugging Face checkpoint.

    Args:
        name_or_path: a hub name, or a local folder with ``tokenizer.json``, with ``vocab.txt``
            (BERT), or with ``vocab.json`` and ``merges.txt`` (RoBERTa).

    Raises:
        InputError: if there is no such tokenizer, or it has no special tokens for pairs of texts.
    """
    folder = Path(name_or_path).expanduser()
    if not os.path.isdir(folder):
        if not isinstance(name_or_path, str) or re.match(r"[./~]", name_or_path):
            raise InputError(f"{name_or_path}: expected a folder with a tokenizer, found none")
        patterns = [*_READERS, "vocab.json", "tokenizer_config.json"]
        from hardem_jax.hub import download

        folder = download(name_or_path, patterns, what="a tokenizer")
    for name, read in _READERS.items():
        if os.path.isfile(folder / name):
            try:
                return Tokenizer(read(folder / name))
            except InputError as error:
                raise InputError(f"{folder / name}: {error}") from error
            except Exception as error:  # tokenizers raises nothing more specific
                raise InputError(
                    f"{folder / name}: expected a tokenizer, found: {error}"
                ) from error
    raise InputError(
        f"{name_or_path}: expected a tokenizer ({', '.join(_READERS)}), found none of these files"
    )


def _from_vocabulary(file: Path) -> tokenizers.Tokenizer:
    """BERT's tokenizer with the wordpieces of ``vocab.txt``, one per line."""
    config = _settings(file)
    pieces = read_text(file).removesuffix("\n").split("\n")
    vocabulary = {piece.removesuffix("\r"): number for number, piece in enumerate(pieces)}
    if "[UNK]" not in vocabulary:
        raise InputError("expected a BERT vocabulary, found no [UNK] in it")
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([piece for piece in _SPECIAL if piece in vocabulary])
    return tokenizer


def _from_merges(file: Path) -> tokenizers.Tokenizer:
    """RoBERTa's byte-level BPE with the tokens of ``vocab.json`` and its ``merges.txt``."""
    config = _settings(file)
    vocabulary = file.with_name("vocab.json")
    if not vocabulary.is_file():
        raise InputError("expected vocab.json in the same folder, found none")
    tokenizer = tokenizers.Tokenizer(models.BPE.from_file(str(vocabulary), str(file)))
    ids = {token: tokenizer.token_to_id(token) for token in _ROBERTA_SPECIAL}
    found = {token: token_id for token, token_id in ids.items() if token_id is not None}
    missing = [token for token in ("<s>", "</s>", "<unk>", "<pad>") if token not in found]
    if missing:
        raise InputError(f"expected a RoBERTa vocabulary, found no {' or '.join(missing)} in it")
    prefix = config.get("add_prefix_space", False)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", found["</s>"]), ("<s>", found["<s>"]), add_prefix_space=prefix
    )
    tokenizer.add_special_tokens(list(found))
    return tokenizer


def _settings(file: Path) -> dict:
    """``tokenizer_config.json`` in the folder of ``file``, empty if there is none."""
    settings = file.with_name("tokenizer_config.json")
    return read_json_object(settings) if settings.is_file() else {}


#: The files that may hold a tokenizer, best first.
_READERS = {
    "tokenizer.json": lambda file: tokenizers.Tokenizer.from_file(str(file)),
    "vocab.txt": _from_vocabulary,
    "merges.txt": _from_merges,
}
