"""Writes a generated corpus in TriviaQA's layout: ``python docs/examples/planted_triviaqa.py``.

For the tutorial where the download of TriviaQA is too much. Documents are logbooks of invented
people; each answer is mentioned several times, and one mention is what the question asks about.
"""

import argparse
import json
from pathlib import Path

from hardem_jax.documents.planted import PlantedConfig, planted_examples


def write(folder: Path, config: PlantedConfig) -> None:
    """Writes ``qa/wikipedia-{train,dev}.json`` and ``evidence/wikipedia/``."""
    pages = folder / "evidence" / "wikipedia"
    pages.mkdir(parents=True, exist_ok=True)
    (folder / "qa").mkdir(exist_ok=True)
    for split in ("train", "dev"):
        records = []
        for example in planted_examples(config, split):
            [document] = example.documents
            name = f"{example.id}.txt"
            (pages / name).write_text(document.text, encoding="utf-8")
            answer = example.golds[0]
            records.append(
                {
                    "QuestionId": example.id,
                    "Question": example.question,
                    "EntityPages": [{"Filename": name}],
                    "Answer": {
                        "Value": answer,
                        "Aliases": [answer],
                        "NormalizedAliases": [answer.lower()],
                    },
                }
            )
        content = {"Data": records, "Domain": "Wikipedia", "Version": 1.0}
        file = folder / "qa" / f"wikipedia-{split}.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        print(f"{file}: {len(records)} questions")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("data/triviaqa"))
    parser.add_argument("--train", type=int, default=700, help="questions to train on")
    parser.add_argument("--dev", type=int, default=200, help="questions to evaluate on")
    arguments = parser.parse_args()
    write(arguments.out, PlantedConfig(num_train=arguments.train, num_dev=arguments.dev))
