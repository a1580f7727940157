"""A generated reading corpus in which the true solution is known: planted solutions.

Every document tells of a few people. One sentence per person is a *fact*, "Varel painted the
mill"; the other sentences mention the same people in passing, "Varel slept in the barn". The
question asks for one fact, "who painted the mill?". Its answer, a name, is mentioned several
times, so Z holds several spans; one of them, in the fact's sentence, is the true solution and
the others are spurious.

What can and what cannot be exploited, by construction:

- All people of a document are alike: each has one fact and a number of mentions drawn from one
  distribution. Neither counting mentions nor their place gives the answer away; a reader
  that does not read the question is right for one person in ``num_people``.
- Facts of a document share verbs and objects ("painted the mill", "painted the gate", "sold the
  mill"), so that both have to be matched.
- Sentences stand in random order: the true mention is equally likely to be the first, the
  second, ... of Z.
- The people, and the (verb, object) pairs that are asked for, are different in training and
  development data. Names are two wordpieces, each of which training has seen, in a
  combination that it has not: no answer can be remembered.
- Every verb has a *habit*, "Varel mixed colours" for painting. In each document, the habit of
  the asked verb is shown once, with probability ``habit_strength`` by the person who is the answer and
  else by another. Reading habits gives the answer to that many questions and no more;
  such mentions are the spurious solutions that are hard to tell from the true one.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hardem_jax.data.examples import Document, ReadingExample
from hardem_jax.data.tokenizer import Wordpieces

# verb of the fact -> what people who do this are also often said to have done
HABITS = {
    "painted": "dripped",
    "founded": "spoke",
    "designed": "sketched",
    "bought": "haggled",
    "repaired": "hammered",
    "burned": "stank",
    "guarded": "watched",
    "robbed": "hid",
}
OBJECTS = ("Ashford", "Milby", "Norwell", "Oxley", "Stanton", "Thorpe", "Upham", "Wexcombe")
PASSING = (
    "slept",
    "waited",
    "danced",
    "laughed",
    "wrote",
    "sang",
    "coughed",
    "prayed",
    "whistled",
    "left",
)
_ONSETS = ("Bar", "Cal", "Dor", "Fen", "Gil", "Hol", "Jas", "Kel", "Lor", "Mar", "Nel", "Per",
           "Ras", "Sel", "Tor", "Val", "Wen", "Zor", "Bri", "Cla")  # fmt: skip
_ENDINGS = ("da", "bert", "mina", "vek", "los", "ric", "tha", "wyn", "gor", "nia", "pel", "sen",
            "tus", "ra", "mond", "lin", "dek", "fia", "xo", "ban")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PlantedConfig:
    num_train: int = 4000
    num_dev: int = 200
    num_people: int = 3
    min_mentions: int = 2
    max_mentions: int = 6
    habit_strength: float = 0.7
    dev_share: float = 0.2
    seed: int = 0
    num_verbs: int = 6
    hard: bool = False
    passive: bool = False


def planted_examples(config, split):
    rng = np.random.default_rng((config.seed, 0 if split == "train" else 1))
    world = np.random.default_rng(config.seed)
    names = [a + b for a in _ONSETS for b in _ENDINGS]
    pairs = [(v, o) for v in range(len(HABITS)) for o in range(len(OBJECTS))]
    names = _share(world, names, config.dev_share, split)
    pairs = _share(world, pairs, config.dev_share, split)
    for n in range(config.num_train if split == "train" else config.num_dev):
        yield _example(rng, config, f"{split}-{n}", names, pairs)


def _share(rng, items, dev_share, split):
    order = rng.permutation(len(items))
    cut = int(dev_share * len(items))
    return [items[i] for i in (order[cut:] if split == "train" else order[:cut])]


def _example(rng, config, id, names, pairs):
    while True:
        on = rng.choice(20, 2, replace=False); en = rng.choice(20, 2, replace=False)
        dev = (on[:, None] + en[None]) % 5 == 0
        if (dev.all() if id.startswith("dev") else not dev.any()): break
    grid = [_ONSETS[o] + _ENDINGS[e] for o in on for e in en]
    people = [grid[i] for i in rng.permutation(4)[:config.num_people]]
    pairs = [q for q in pairs if q[0] < config.num_verbs]
    facts = []
    for k in rng.permutation(len(pairs)):
        if all(pairs[k][0] != f[0] and pairs[k][1] != f[1] for f in facts):
            facts.append(pairs[k])
        if len(facts) == config.num_people: break
    verb, obj = facts[0]
    verbs = list(HABITS)
    mentions = rng.integers(config.min_mentions, config.max_mentions + 1, config.num_people)
    sentences = []
    habit_of = (
        0 if rng.random() < config.habit_strength else 1 + rng.integers(config.num_people - 1)
    )
    for i, person in enumerate(people):
        v, o = facts[i]
        if not config.passive or rng.random() < 0.5:
            s = f"{person} {verbs[v]} {OBJECTS[o]}."
        else:
            s = f"The {OBJECTS[o]} was {verbs[v]} by {person}."
        sentences.append((s, i == 0, s.index(person), person))
        passing = [PASSING[j] for j in rng.choice(len(PASSING), mentions[i] - 1, replace=False)]
        if passing:
            passing[0] = HABITS[verbs[facts[i if rng.random() < config.habit_strength else (i + 1 + rng.integers(config.num_people - 1)) % config.num_people][0]]]
        for w in passing:
            sentences.append((f"{person} {w}.", False, 0, person))
    text = ""
    true = None
    for k in rng.permutation(len(sentences)):
        s, t, at, person = sentences[k]
        if text:
            text += " "
        if t:
            true = (0, len(text) + at, len(text) + at + len(person))
        text += s
    return ReadingExample(
        id=id,
        question=f"Who {verbs[verb]} {OBJECTS[obj]}?",
        documents=(Document(id + "-d", text),),
        aliases=(people[0],),
        golds=(people[0],),
        true_mention=true,
    )


def planted_tokenizer():
    words = set("who the was by . ?".split())
    for s in (*HABITS, *HABITS.values(), *OBJECTS, *PASSING):
        words |= set(s.lower().split())
    vocab = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *sorted(words),
        *(o.lower() for o in _ONSETS),
        *("##" + e for e in _ENDINGS),
    ]
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocab)}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Wordpieces(t)
