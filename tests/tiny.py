"""A checkpoint and data files small enough to train on in a test, in the real layouts."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from flax import nnx
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from hardem_jax.encoders.base import Encoder
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.modernbert import ModernBert, ModernBertConfig
from hardem_jax.encoders.pretrained import save_encoder
from hardem_jax.encoders.roberta import Roberta, RobertaConfig
from hardem_jax.tables.examples import TableQuestion

PEOPLE = ["Ada", "Bo", "Cyd", "Dov", "Eve", "Fay", "Gus", "Hal"]
PLACES = ["Oslo", "Rome", "Lima", "Bonn", "Kyiv", "Baku", "Doha", "Riga"]
WORDS = ["who", "lives", "in", "met", "and", "saw", ".", "?", ","]
WORDS += ["how", "many", "more", "than", "ran", "yards", "then", *(f"##{i}" for i in range(10))]
WORDS += [str(i) for i in range(10)]


def wordpieces(pieces: Sequence[str]) -> Tokenizer:
    """BERT's tokenizer with these pieces, the first of which are its special tokens."""
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def write_checkpoint(
    folder: Path,
    *,
    hidden_size: int = 16,
    positions: int = 64,
    layers: int = 2,
    words: Sequence[str] = (),
) -> Path:
    """A random BERT with a word-level vocabulary, in Hugging Face layout."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *map(str.lower, PEOPLE + PLACES)]
    vocabulary += words
    sizes = (len(vocabulary), hidden_size, layers, 2, 2 * hidden_size, positions)
    return _saved(folder, wordpieces(vocabulary), Bert(BertConfig(*sizes), rngs=nnx.Rngs(0)))


def roberta_tokenizer(*, vocab_size: int = 400, add_prefix_space: bool = False) -> Tokenizer:
    """A byte-level BPE as RoBERTa has it, trained on the words of the data sets below."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [f"{person} lives in {place}." for person in PEOPLE for place in PLACES]
    tokenizer.train_from_iterator([*texts, "How many yards more than", "Zürich, 東京 😀"], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=add_prefix_space
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write_roberta(folder: Path, *, hidden_size: int = 16) -> Path:
    """A random RoBERTa of two layers with a byte-level vocabulary, in Hugging Face layout."""
    tokenizer = roberta_tokenizer()
    sizes = (tokenizer.get_vocab_size(), hidden_size, 2, 2, 2 * hidden_size, 66)
    return _saved(folder, tokenizer, Roberta(RobertaConfig(*sizes), rngs=nnx.Rngs(0)))


def _saved(folder: Path, tokenizer: Tokenizer, encoder: Encoder) -> Path:
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    save_encoder(encoder, folder)
    return folder


def modernbert_tokenizer(*, vocab_size: int = 400) -> Tokenizer:
    """A byte-level BPE as ModernBERT has it: special tokens of BERT, and runs of blanks."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [f"{person} lives in {place}." for person in PEOPLE for place in PLACES]
    tokenizer.train_from_iterator([*texts, "Zürich, 東京 😀"], trainer)
    # Behind the words, and the blanks as plain added tokens.
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in (4, 3, 2)])
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write_modernbert(folder: Path, *, hidden_size: int = 16) -> Path:
    """A random ModernBERT of four layers, two of them local, in Hugging Face layout."""
    tokenizer = modernbert_tokenizer()
    # As published, with more rows than the tokenizer has entries.
    sizes = (tokenizer.get_vocab_size() + 8, hidden_size, 4, 2, 2 * hidden_size, 64)
    pad = tokenizer.token_to_id("[PAD]")
    config = ModernBertConfig(*sizes, local_attention=8, pad_token_id=pad)
    return _saved(folder, tokenizer, ModernBert(config, rngs=nnx.Rngs(0)))


def write_triviaqa(folder: Path, *, questions: int = 24) -> Path:
    """Questions in TriviaQA's layout: two pages each, one of them without the answer."""
    pages = folder / "evidence" / "wikipedia"
    pages.mkdir(parents=True)
    (folder / "qa").mkdir()
    items = []
    for i in range(questions):
        place, person, other = PLACES[i % 8], PEOPLE[(i + i // 8) % 8], PEOPLE[(i + 3) % 8]
        text = f"{person} saw {other}. {person} lives in {place}. {other} met {person}."
        (pages / f"{i}.txt").write_text(text)
        (pages / f"{i}-other.txt").write_text(f"Zoe met Zed in {place}.")
        items.append(
            {
                "QuestionId": f"q{i}",
                "Question": f"Who lives in {place}?",
                "EntityPages": [{"Filename": f"{i}.txt"}, {"Filename": f"{i}-other.txt"}],
                "Answer": {
                    "Value": person,
                    "Aliases": [person],
                    "NormalizedAliases": [person.lower()],
                },
            }
        )
    file = folder / "qa" / "wikipedia-train.json"
    file.write_text(json.dumps({"Data": items, "Domain": "Wikipedia", "Version": 1.0}))
    return file


def write_squad_layout(file: Path, *, questions: int = 24) -> Path:
    """Questions in SQuAD's layout whose annotated mention is the second of three."""
    paragraphs = []
    for i in range(questions):
        place, person, other = PLACES[i % 8], PEOPLE[(i + i // 8) % 8], PEOPLE[(i + 3) % 8]
        context = f"{person} saw {other}. {person} lives in {place}. {other} met {person}."
        answer = {"text": person, "answer_start": context.index(f"{person} lives")}
        question = {"id": f"q{i}", "question": f"Who lives in {place}?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [question]})
    articles = [{"title": "t", "paragraphs": paragraphs}]
    file.write_text(json.dumps({"authors": ["x"], "data": articles}))
    return file


def write_drop(file: Path, *, passages: int = 12) -> Path:
    """Two questions on each passage in DROP's layout, and others that prepare leaves out."""
    content = {}
    for i in range(passages):
        first, second = PEOPLE[i % 8], PEOPLE[(i + 3) % 8]
        more, less = 40 + i, 31 + i // 2
        passage = f"{first} ran {more} yards. Then {second} ran {less} yards."
        asked = {
            f"How many more than {second}?": more - less,
            f"How many yards, {first} and {second}?": more + less,
        }
        questions = [
            {"query_id": f"q{i}-{j}", "question": question, "answer": drop_answer(str(answer))}
            for j, (question, answer) in enumerate(asked.items())
        ]
        questions.append(
            {"query_id": f"q{i}-who", "question": "Who ran?", "answer": drop_answer(spans=[first])}
        )
        content[f"game_{i}"] = {"passage": passage, "qa_pairs": questions}
    file.write_text(json.dumps(content))
    return file


def drop_answer(number: str = "", spans: Sequence[str] = ()) -> dict:
    """An answer as DROP's files have it."""
    return {"number": number, "date": {"day": "", "month": "", "year": ""}, "spans": list(spans)}


def write_wikisql(folder: Path, *, tables: int = 6) -> Path:
    """Questions in WikiSQL's layout, three on each table of people, places and yards."""
    folder.mkdir(parents=True)
    lines, records = [], []
    for i in range(tables):
        rows = [
            [PEOPLE[(i + j) % 8].lower(), PLACES[(i + 3 * j) % 8].lower(), float(5 + (i + j) % 3)]
            for j in range(4)
        ]
        table = f"1-{i}"
        header, types = ["who", "lives in", "yards"], ["text", "text", "real"]
        records.append({"id": table, "header": header, "types": types, "rows": rows})
        place, other = rows[0][1], rows[1]
        for question, query in (
            (f"Who lives in {place}?", [0, 0, [[1, 0, place]]]),
            ("How many ran more than 6 yards?", [0, 3, [[2, 1, "6"]]]),
            (f"{other[0].title()} lives in?", [1, 0, [[0, 0, other[0].title()]]]),
        ):
            sql = dict(zip(("sel", "agg", "conds"), query, strict=True))
            lines.append({"phase": 1, "table_id": table, "question": question, "sql": sql})
    for name, content in (("train.jsonl", lines), ("train.tables.jsonl", records)):
        text = "".join(json.dumps(record) + "\n" for record in content)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_table_questions(file: Path, questions: Sequence[TableQuestion]) -> Path:
    """Questions on tables in the layout of `hardem_jax.tables.jsonl`."""
    lines, written = [], set()
    for question in questions:
        table = question.table
        if table not in written:
            lines.append({"table": dataclasses.asdict(table)})
            written.add(table)
        fields = {name: getattr(question, name) for name in ("id", "question", "answer", "match")}
        values = {} if question.values is None else {"values": question.values}
        lines.append({**fields, "table_id": table.id, **values})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file
