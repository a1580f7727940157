"""A synthetic corpus in official layouts, small enough for runs of a few seconds."""

import json
from pathlib import Path

from flax import nnx
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hardem_jax.models.encoders.bert import Bert, BertConfig
from hardem_jax.models.encoders.pretrained import save_encoder

PEOPLE = ("Ada", "Bo", "Cyd", "Dov", "Eve", "Fay", "Gus", "Hal")
PLACES = ("Oslo", "Rome", "Lima", "Bonn", "Kyiv", "Baku", "Doha", "Riga")
WORDS = ("who", "lives", "in", "met", "and", "saw", ".", "?", ",")


def write_corpus(folder: Path, *, questions: int = 24) -> None:
    """Writes TriviaQA's files, passages and questions for retrieval, and a tiny BERT.

    Args:
        folder: output folder, which is created.
        questions: number of questions, each with two pages.
    """
    pages = folder / "triviaqa" / "evidence" / "wikipedia"
    pages.mkdir(parents=True)
    (folder / "triviaqa" / "qa").mkdir()
    items, passages, rows = [], ["id\ttext\ttitle"], []
    for i in range(questions):
        place, person, other = PLACES[i % 8], PEOPLE[(i + i // 8) % 8], PEOPLE[(i + 3) % 8]
        text = f"{person} saw {other}. {person} lives in {place}. {other} met {person}."
        (pages / f"{i}.txt").write_text(text, encoding="utf-8")
        (pages / f"{i}-other.txt").write_text(f"{other} and Zed in {place}.", encoding="utf-8")
        passages.append(f"p{i}\t{text}\t{place}")
        question = f"Who lives in {place}?"
        rows.append({"question": question, "answer": [person]})
        items.append(
            {
                "QuestionId": f"q{i}",
                "Question": question,
                "EntityPages": [{"Filename": f"{i}.txt"}, {"Filename": f"{i}-other.txt"}],
                "Answer": {
                    "Value": person,
                    "Aliases": [person],
                    "NormalizedAliases": [person.lower()],
                },
            }
        )
    content = {"Data": items, "Domain": "Wikipedia", "Version": 1.0}
    _write(folder / "triviaqa" / "qa" / "wikipedia-train.json", json.dumps(content))
    _write(folder / "passages.tsv", "\n".join(passages) + "\n")
    _write(folder / "NQ-open.dev.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    _write_bert(folder / "bert")


def _write_bert(folder: Path) -> None:
    """Writes a random one-layer BERT with a vocabulary of whole words."""
    folder.mkdir()
    words = (*WORDS, "zed", *map(str.lower, PEOPLE + PLACES))
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    save_encoder(Bert(config, rngs=nnx.Rngs(0)), folder)


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
