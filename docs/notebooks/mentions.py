# %% [markdown]
# # Which mention is right?
#
# The library's planted corpus has documents in which an answer is mentioned several times, and
# only one mention is what the question asks about. Because the corpus is generated, the right one
# is known, and one can watch whether training finds it.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from hardem_jax import MML, FirstOnly, HardEM, find_spans
from hardem_jax.documents.planted import PlantedConfig, planted_examples

config = PlantedConfig(num_train=1500, num_dev=300, num_people=4, num_verbs=4, decoys=2)
example = next(planted_examples(config, "train"))
print("question:", example.question)
print("answer:  ", example.golds[0])
find_spans(example.documents[0].text, list(example.aliases))

# %% [markdown]
# Z has several mentions of the same name. Only the line with the verb of the question answers it.
#
# ## A small model
#
# The model scores each line of the logbook by a table of (verb of the question, verb of the
# line), and P(z | x) is a softmax over all lines. Z are the lines with the name of the answer.
# Nobody tells the model that equal verbs belong together.


# %%
def lines_of(example):
    """(name, verb) of each line of a logbook."""
    return [tuple(line.split()) for line in example.documents[0].text.strip().split("\n")]


examples = {split: list(planted_examples(config, split)) for split in ("train", "dev")}
verbs = sorted({verb for example in examples["train"] for _, verb in lines_of(example)})
number = {verb: i for i, verb in enumerate(verbs)}
most = max(len(lines_of(example)) for split in examples.values() for example in split)


def arrays(split):
    """Verb of each question [N], verbs of its lines [N, L], Z as a mask [N, L], right line [N]."""
    asked, lines = np.zeros(len(split), int), np.full((len(split), most), -1)
    z, right = np.zeros((len(split), most), bool), np.zeros(len(split), int)
    for i, example in enumerate(split):
        text = example.documents[0].text
        asked[i] = number[example.question.removeprefix("Who ").removesuffix("?")]
        for j, (name, verb) in enumerate(lines_of(example)):
            lines[i, j], z[i, j] = number[verb], name == example.golds[0]
        right[i] = text[: example.true_mention[1]].count("\n")
    return asked, lines, z, right


asked, lines, z, right = arrays(examples["train"])
print(f"{len(asked)} questions, |Z| {z.sum(1).mean():.1f} on average")
print(f"the right mention is the first of Z in {np.mean(z.argmax(1) == right):.0%}")


# %% [markdown]
# ## Training
#
# The losses want the solutions of each row side by side. Here Z is a mask over all lines, which
# is the same with as many columns as there are lines.


# %%
def log_probs(table, asked, lines):
    scores = jnp.where(lines >= 0, table[asked[:, None], lines], -jnp.inf)
    return jax.nn.log_softmax(scores, axis=-1)


def train(objective, steps=400, seed=0):
    """Share of questions whose most likely z in Z is the right mention, every 10 steps."""
    table = 0.1 * jax.random.normal(jax.random.key(seed), (len(verbs), len(verbs)))

    def loss_fn(table, step, rows):
        key = jax.random.fold_in(jax.random.key(seed), step)
        found = log_probs(table, asked[rows], lines[rows])
        return objective(found, step=step, key=key, where=z[rows])[0]

    @jax.jit
    def ten_steps(table, step):
        def one(i, table):
            key = jax.random.fold_in(jax.random.key(seed + 1), step + i)
            rows = jax.random.randint(key, (64,), 0, len(asked))
            return table - 1.0 * jax.grad(loss_fn)(table, step + i, rows)

        table = jax.lax.fori_loop(0, 10, one, table)
        inside = jnp.where(z, log_probs(table, asked, lines), -jnp.inf)
        return table, jnp.mean(jnp.argmax(inside, axis=-1) == right)

    curve = []
    for step in range(0, steps, 10):
        table, share = ten_steps(table, step)
        curve.append(100 * float(share))
    return table, curve


asked, lines, z, right = map(jnp.asarray, (asked, lines, z, right))
found = {
    name: train(objective)
    for name, objective in {
        "First-only": FirstOnly(),
        "MML": MML(),
        "hard EM": HardEM(),
        "annealed, tau = 100": HardEM(tau=100),
    }.items()
}

# %%
figure, axis = plt.subplots(figsize=(6, 3.4))
for name, (_, curve) in found.items():
    axis.plot(10 * np.arange(1, len(curve) + 1), curve, label=name)
axis.set(xlabel="step", ylabel="right mention is the most likely (%)")
axis.legend(fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# First-only works here only because the order of Z is random. Hard EM from the start has
# committed to wrong mentions for some verbs, at random, and stays with them; annealing, which
# begins as MML, avoids that.
#
# ## On unseen questions
#
# With other names, and over all lines of a document, not only those in Z:

# %%
dev = arrays(examples["dev"])
for name, (table, curve) in found.items():
    answers = jnp.argmax(log_probs(table, *dev[:2]), axis=-1)
    unseen = 100 * np.mean(answers == dev[3])
    print(f"{name:20} right mention in training {curve[-1]:5.1f} %, dev {unseen:5.1f} %")

# %% [markdown]
# ## Z with its probabilities
#
# A Z can carry what a model says about it; the page is then shaded by probability:

# %%
table = found["MML"][0]
first = examples["dev"][0]
spans = find_spans(first.documents[0].text, list(first.aliases))
row = np.exp(log_probs(table, dev[0][:1], dev[1][:1]))[0]
line_of = [first.documents[0].text[: span.start].count("\n") for span in spans]
print("question:", first.question)
spans.with_probabilities([float(row[line]) for line in line_of])

# %% [markdown]
# The same comparison with a real reader, three seeds and intervals is `python -m
# experiments.quickstart`; [Regimes](../results/regimes.md) makes Z larger, wrong, ordered or
# misleading, one property at a time.
