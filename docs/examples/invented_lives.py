"""Writes a generated corpus in TriviaQA's layout: ``python docs/examples/invented_lives.py``.

For the tutorial where the download of TriviaQA is too much. A document tells the lives of three
invented people in a dozen sentences. Its people, towns and years return in several sentences, so
that an answer is mentioned several times, and only one mention is what the question asks about. No
name of a person, work or society is in both splits.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

FIRST = {
    "She": "Ada Clara Edith Flora Greta Helena Ida Klara Lena Marta Nora Olga Paula Rosa".split(),
    "He": "Anton Bruno Carl Dario Emil Felix Georg Hugo Ivan Jonas Leo Max Otto Viktor".split(),
}
BEGINNINGS = "Al Ber Cor Dal Fen Gar Hol Jar Kel Lor Mar Nor Pel Ros Sten Tor Val Wes".split()
ENDINGS = "bach dorf feld gren holm kamp lund mann negg sted tano verra vik wald zek".split()
TOWNS = (
    "Basel Bergen Bologna Bristol Gdansk Ghent Graz Krakow Leiden Lyon Malmo Porto Prague".split()
)
TOWNS += "Riga Seville Tartu Turin Utrecht Vienna Zagreb".split()
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
        ["{p} was born in {t} in {y}.", "In {y}, {p} was born in {t}, the child of a baker."],
        [("Where was {p} born?", "t"), ("In which year was {p} born?", "y")],
    ),
    (
        ["{she} studied in {t} with {q}.", "{q} taught {p} in {t}."],
        [("Who taught {p}?", "q"), ("Where did {p} study?", "t")],
    ),
    (
        ["In {y}, {she} moved to {t}.", "{she} left for {t} in {y} and stayed for ten years."],
        [("When did {p} move to {t}?", "y"), ("Where did {p} move in {y}?", "t")],
    ),
    (
        [
            '{she} {v} the {k} "{w}" in {y}.',
            'The {k} "{w}", which {p} {v} in {y}, made little money.',
        ],
        [
            ("Who {v} {w}?", "p"),
            ("Which {k} did {p} create?", "w"),
            ("In which year was {w} created?", "y"),
        ],
    ),
    (
        ["{she} bought a {o} from {q} in {t}.", "{q}, who lived in {t}, sold {p} a {o}."],
        [("Who sold {p} a {o}?", "q"), ("What did {p} buy from {q}?", "o")],
    ),
    (
        [
            "{she} founded the {s} in {y}.",
            "The {s} was founded by {p} in {y}, when money was short.",
        ],
        [
            ("Who founded the {s}?", "p"),
            ("What did {p} found?", "s"),
            ("When was the {s} founded?", "y"),
        ],
    ),
    (
        ["{p} and {q} were married in {t} in {y}.", "In {t}, {she} married {q} in {y}."],
        [("Whom did {p} marry?", "q"), ("Where did {p} and {q} marry?", "t")],
    ),
    (
        ["{p} died in {t} in {y}.", "{she} died in {y}, on a journey to {t}."],
        [("When did {p} die?", "y")],
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


def document(rng: random.Random, surnames: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """The text of a document, and questions with their answers."""
    people = []
    for surname in rng.sample(surnames, 3):
        pronoun = rng.choice(list(FIRST))
        people.append((f"{rng.choice(FIRST[pronoun])} {surname}", pronoun))
    towns = rng.sample(TOWNS, 3)
    sentences, questions = [], []
    for person, pronoun in people:
        born = rng.randrange(1820, 1900)
        years = sorted(rng.sample(range(born + 18, born + 75), 4))
        told = sorted(rng.sample(range(len(FACTS)), 4))
        for number, fact in enumerate(told):
            kind = rng.choice(list(WORKS))
            words = {
                "p": person,
                "she": rng.choice([person, pronoun]) if number else person,
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
            if rng.random() < 0.4:
                sentences.append(rng.choice(FILLERS).format(**words))
            questions += [(text.format(**words), str(words[key])) for text, key in asked]
    return " ".join(sentences), questions


def examples(split: str, count: int, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """(document, question, answer) of a split."""
    rng = random.Random(f"{split} {seed}")
    surnames = [first + last for first in BEGINNINGS for last in ENDINGS]
    random.Random(seed).shuffle(surnames)
    half = len(surnames) // 2
    own = surnames[:half] if split == "train" else surnames[half:]
    for _ in range(count):
        text, questions = document(rng, own)
        # What several facts of the document answer differently is no question.
        asked = [text for text, _ in questions]
        question, answer = rng.choice([pair for pair in questions if asked.count(pair[0]) == 1])
        yield text, question, answer


def write(folder: Path, sizes: dict[str, int]) -> None:
    """Writes ``qa/wikipedia-{train,dev}.json`` and ``evidence/wikipedia/``."""
    pages = folder / "evidence" / "wikipedia"
    pages.mkdir(parents=True, exist_ok=True)
    (folder / "qa").mkdir(exist_ok=True)
    for split, count in sizes.items():
        records = []
        for number, (text, question, answer) in enumerate(examples(split, count)):
            name = f"{split}-{number}"
            (pages / f"{name}.txt").write_text(text, encoding="utf-8")
            known = {"Value": answer, "Aliases": [answer], "NormalizedAliases": [answer.lower()]}
            records.append(
                {
                    "QuestionId": name,
                    "Question": question,
                    "EntityPages": [{"Filename": f"{name}.txt"}],
                    "Answer": known,
                }
            )
        file = folder / "qa" / f"wikipedia-{split}.json"
        content = {"Data": records, "Domain": "Wikipedia", "Version": 1.0}
        file.write_text(json.dumps(content), encoding="utf-8")
        print(f"{file}: {count} questions")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("data/triviaqa"))
    parser.add_argument("--train", type=int, default=1500, help="questions to train on")
    parser.add_argument("--dev", type=int, default=200, help="questions to evaluate on")
    arguments = parser.parse_args()
    write(arguments.out, {"train": arguments.train, "dev": arguments.dev})
