"""Writes a generated corpus: ``python docs/examples/invented_lives.py --help``.

For the tutorial, which needs no download with it, in the layout of TriviaQA; for the guides in that
of SQuAD and as JSON lines. A document tells of three invented people in a dozen sentences. Its
people, towns and years return in several of them, so that an answer is mentioned several times, and
only one mention is what the question asks about. No surname is in both splits.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

FIRST = {
    "She": (
        "Ada Alice Anna Clara Edith Ella Emma Eva Grace Helen Ida Lena Maria Nora Rosa Ruth"
    ).split(),
    "He": (
        "Adam Albert Bruno Carl David Emil Felix Frank George Henry Hugo Jonas Leo Max Otto Paul"
    ).split(),
}
# Each is one token to most encoders, as the names of known people are.
SURNAMES = (
    "Abbott Adler Allen Archer Austin Bailey Baker Barnes Bauer Becker Bennett Berger Bishop Blake"
    " Boyd Bradley Braun Brooks Burns Butler Carter Chandler Clarke Coleman Collins Cook Cooper"
    " Costa Cox Crane Cruz Curtis Davies Dawson Dean Diaz Dixon Drake Dunn Ellis Evans Ferguson"
    " Fischer Fisher Flynn Foster Fuchs Gardner Garner Gibson Glover Gordon Graham Grant Griffin"
    " Haas Hahn Hansen Harding Harper Harris Hayes Hoffman Holt Howard Hudson Hughes Hunt Jensen"
    " Kaiser Keller Kelly Klein Koch Kramer Lambert Lang Larsen Lawson Lewis Lloyd Logan Lopez"
    " Marsh Martin Mason Mayer Meyer Miller Mills Morgan Morris Moss Muller Murphy Murray Nelson"
    " Nielsen Nolan Norris Olsen Owen Palmer Parker Payne Pearson Perry Peters Porter Powell Price"
    " Quinn Ramsey Reed Reid Reyes Rhodes Richter Riley Romero Ross Roth Russo Sanders Santos"
    " Schmidt Schneider Schultz Shaw Silva Simmons Stein Stevens Stone Sutton Taylor Tucker Turner"
    " Vaughan Vogel Wagner Walker Wallace Walsh Watson Weber Wells Werner West Wolf Wood Wright"
).split()
TOWNS = (
    "Amsterdam Athens Basel Belfast Berlin Bologna Boston Bristol Brussels Budapest Cambridge"
    " Chicago Copenhagen Dublin Edinburgh Florence Geneva Glasgow Hamburg Helsinki Leeds Lisbon"
    " Liverpool London Madrid Manchester Milan Munich Naples Oslo Oxford Paris Prague Rome"
    " Stockholm Turin Venice Vienna Warsaw York Zurich"
).split()
OBJECTS = "boat clock farm garden mill piano quarry ship telescope theatre vineyard violin".split()
KINDS = "academy choir circus museum newspaper orchestra school society theatre workshop".split()
ADJECTIVES = (
    "blue broken distant empty golden green hidden last lonely old quiet red silver".split()
)
NOUNS = (
    "bridge candle forest harbour island lantern letter meadow mirror river tower winter".split()
)
WORKS = {"novel": "wrote", "opera": "composed", "painting": "painted", "play": "wrote"}

#: Sentences that tell a fact, and (question, what it asks for). {p} is the person, {she} a pronoun
#: or the name again; {q} another person, {t} a town, {y} a year, {w} a work, {k} its kind, {v} how
#: it is made, {o} an object, {s} a society.
FACTS = [
    (
        [
            "{p} was born in {t} in {y}.",
            "In {y}, {p} was born in {t}, the child of a baker.",
            "{p} (born {y}) grew up in {t}.",
            "{p}, born in {t} in {y}, was the youngest of five.",
        ],
        [
            ("Where was {p} born?", "t"),
            ("In which year was {p} born?", "y"),
            ("When was {p} born?", "y"),
        ],
    ),
    (
        [
            "{she} studied in {t} with {q}.",
            "{q} taught {p} in {t}.",
            "{she} was a pupil of {q} at the university of {t}.",
        ],
        [("Who taught {p}?", "q"), ("Where did {p} study?", "t")],
    ),
    (
        [
            "In {y}, {she} moved to {t}.",
            "{she} left for {t} in {y} and stayed for ten years.",
            "From {y} {p} lived in {t}.",
        ],
        [
            ("When did {p} move to {t}?", "y"),
            ("Where did {p} move in {y}?", "t"),
            ("In which town did {p} live from {y}?", "t"),
        ],
    ),
    (
        [
            '{she} {v} the {k} "{w}" in {y}.',
            'The {k} "{w}", which {p} {v} in {y}, made little money.',
            'In {y}, {she} {v} "{w}", the first {k} of its kind.',
        ],
        [
            ("Who {v} {w}?", "p"),
            ("Which {k} did {p} create?", "w"),
            ("In which year was {w} created?", "y"),
        ],
    ),
    (
        [
            "{she} bought a {o} from {q} in {t}.",
            "{q}, who lived in {t}, sold {p} a {o}.",
            "A {o} was sold to {p} by {q} in {t}.",
        ],
        [
            ("Who sold {p} a {o}?", "q"),
            ("What did {p} buy from {q}?", "o"),
            ("Who bought a {o}?", "p"),
        ],
    ),
    (
        [
            "{she} founded the {s} in {y}.",
            "The {s} was founded by {p} in {y}, when money was short.",
            "In {y}, {she} became the founder of the {s}.",
        ],
        [
            ("Who founded the {s}?", "p"),
            ("What did {p} found?", "s"),
            ("When was the {s} founded?", "y"),
        ],
    ),
    (
        [
            "{p} and {q} were married in {t} in {y}.",
            "In {t}, {she} married {q} in {y}.",
            "{she} married {q} in {y}.",
        ],
        [
            ("Whom did {p} marry?", "q"),
            ("Who married {p}?", "q"),
            ("When did {p} and {q} marry?", "y"),
        ],
    ),
    (
        [
            "{p} died in {t} in {y}.",
            "{she} died in {y}, on a journey to {t}.",
            "In {y}, {she} died at home in {t}.",
        ],
        [("When did {p} die?", "y"), ("In which year did {p} die?", "y")],
    ),
]
FILLERS = [
    "Little else is known about those years.",
    "Letters from that time are lost.",
    "A street in {t} is named after the family.",
    "Neighbours remembered {p} as a quiet guest.",
    "Some say that {q} and {p} never spoke again.",
    "The winter of {y} was hard.",
]


def document(rng: random.Random, surnames: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """The text of a document, and questions with their answers."""
    people = []
    for surname in rng.sample(surnames, 3):
        pronoun = rng.choice(list(FIRST))
        people.append((f"{rng.choice(FIRST[pronoun])} {surname}", pronoun))
    towns = rng.sample(TOWNS, 3)
    sentences, questions = [], []
    # No fact is told twice, of two people: what happened tells them apart before names do.
    facts = rng.sample(range(len(FACTS)), len(FACTS))
    for (person, pronoun), told in zip(people, (facts[:3], facts[3:6], facts[6:]), strict=True):
        born = rng.randrange(1820, 1900)
        years = sorted(rng.sample(range(born + 18, born + 75), 3))
        for number, fact in enumerate(sorted(told)):
            kind = rng.choice(list(WORKS))
            words = {
                "p": person,
                "she": rng.choice([person, person, pronoun]) if number else person,
                "q": rng.choice([name for name, _ in people if name != person]),
                "t": rng.choice(towns),
                "y": years[number] if fact else born,
                "k": kind,
                "v": WORKS[kind],
                "w": f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}".title(),
                "o": rng.choice(OBJECTS),
                "s": f"{rng.choice(surnames)} {rng.choice(KINDS)}".title(),
            }
            texts, asked = FACTS[fact]
            sentences.append(
                rng.choice(texts).format(**words).replace(f", {pronoun} ", f", {pronoun.lower()} ")
            )
            if rng.random() < 0.25:
                sentences.append(rng.choice(FILLERS).format(**words))
            questions += [(text.format(**words), str(words[key])) for text, key in asked]
    return " ".join(sentences), questions


def examples(split: str, count: int, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """(document, question, answer) of a split."""
    rng = random.Random(f"{split} {seed}")
    shuffled = random.Random(seed).sample(SURNAMES, len(SURNAMES))
    own = shuffled[30:] if split == "train" else shuffled[:30]
    for _ in range(count):
        text, questions = document(rng, own)
        # What several facts of the document answer differently is no question.
        asked = [text for text, _ in questions]
        question, answer = rng.choice([pair for pair in questions if asked.count(pair[0]) == 1])
        yield text, question, answer


def triviaqa(folder: Path, split: str, rows: list[tuple[str, str, str]]) -> Path:
    """``qa/wikipedia-SPLIT.json`` and ``evidence/wikipedia/``."""
    pages = folder / "evidence" / "wikipedia"
    pages.mkdir(parents=True, exist_ok=True)
    records = []
    for number, (text, question, answer) in enumerate(rows):
        name = f"{split}-{number}"
        (pages / f"{name}.txt").write_text(text, encoding="utf-8")
        known = {"Value": answer, "Aliases": [answer], "NormalizedAliases": [answer.lower()]}
        documents = [{"Filename": f"{name}.txt"}]
        records.append(
            {"QuestionId": name, "Question": question, "EntityPages": documents, "Answer": known}
        )
    content = {"Data": records, "Domain": "Wikipedia", "Version": 1.0}
    return save(folder / "qa" / f"wikipedia-{split}.json", json.dumps(content))


def squad(folder: Path, split: str, rows: list[tuple[str, str, str]]) -> Path:
    """``SPLIT.json``."""
    paragraphs = []
    for number, (text, question, answer) in enumerate(rows):
        asked = {"id": f"{split}-{number}", "question": question, "answers": [{"text": answer}]}
        paragraphs.append({"context": text, "qas": [asked]})
    content = {"data": [{"title": "Invented lives", "paragraphs": paragraphs}]}
    return save(folder / f"{split}.json", json.dumps(content))


def lines(folder: Path, split: str, rows: list[tuple[str, str, str]]) -> Path:
    """``SPLIT.jsonl``, as `own_questions` reads it."""
    written = [
        {"id": f"{split}-{n}", "question": question, "document": text, "answers": [answer]}
        for n, (text, question, answer) in enumerate(rows)
    ]
    text = "".join(json.dumps(line) + "\n" for line in written)
    return save(folder / f"{split}.jsonl", text)


def save(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


LAYOUTS = {"triviaqa": triviaqa, "squad": squad, "lines": lines}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("data/lives"))
    parser.add_argument("--layout", choices=LAYOUTS, default="triviaqa")
    parser.add_argument("--train", type=int, default=6000, help="questions to train on")
    parser.add_argument("--dev", type=int, default=200, help="questions to evaluate on")
    arguments = parser.parse_args()
    for split, count in (("train", arguments.train), ("dev", arguments.dev)):
        file = LAYOUTS[arguments.layout](arguments.out, split, list(examples(split, count)))
        print(f"{file}: {count} questions")
