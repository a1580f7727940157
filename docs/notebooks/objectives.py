# %% [markdown]
# # One batch, five objectives
#
# All objectives read the same numbers, log P(z | x) of the solutions in Z. They differ in how
# much they trust each solution. This notebook shows the trust, as weights of the gradient, and
# what it leads to. It needs jax and matplotlib, and runs in seconds.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from hardem_jax import EM, MML, FirstOnly, HardEM
from hardem_jax.objectives import weights
from hardem_jax.posteriors import Tempered, TopK

OBJECTIVES = {
    "First-only": FirstOnly(),
    "MML": MML(),
    "tempered, beta = 3": EM(Tempered(3.0)),
    "top 2": EM(TopK(2)),
    "hard EM": HardEM(),
}

# %% [markdown]
# ## Trust
#
# A question with four solutions. The model gives them 5, 40, 30 and 5 % and the rest to answers
# that are wrong for certain. Each objective's weights add up to 1:

# %%
log_probs = jnp.log(jnp.array([0.05, 0.4, 0.3, 0.05]))
for name, objective in OBJECTIVES.items():
    print(f"{name:20}", *(f"{abs(weight):.2f}" for weight in weights(objective, log_probs)))

# %% [markdown]
# First-only looks at the order of Z and at nothing else. MML trusts in proportion to the model.
# Hard EM trusts one solution, though another is nearly as likely; the others are in between.
#
# ## What it leads to
#
# Now the weights act. A planted problem: 10 classes, inputs tell the right one, and Z holds it
# with two others. One of these is any class by chance. The other is class 0 in half of the
# questions: a spurious solution that is often there, such as a word that occurs in most
# documents. First-only gets Z in random order.

# %%
CLASSES, WIDTH, QUESTIONS = 10, 16, 2000


def make_data(rng):
    """Inputs [N, WIDTH], Z [N, 3] and the right class [N]."""
    means = np.random.default_rng(0).normal(size=(CLASSES, WIDTH))
    right = rng.integers(1, CLASSES, QUESTIONS)
    inputs = means[right] + 0.7 * rng.normal(size=(QUESTIONS, WIDTH))
    steps = rng.permuted(np.tile(np.arange(1, CLASSES - 1), (QUESTIONS, 1)), axis=1)[:, :2]
    other, another = (1 + (right[:, None] - 1 + steps) % (CLASSES - 1)).T  # neither is right
    common = np.where(rng.random(QUESTIONS) < 0.5, 0, another)
    z = np.stack([right, common, other], axis=1)
    return inputs.astype(np.float32), rng.permuted(z, axis=1), right


inputs, z, _ = make_data(np.random.default_rng(1))
test_inputs, _, test_right = make_data(np.random.default_rng(2))


def train(objective, steps=300, rate=0.3):
    """Accuracy on unseen questions every 10 steps of gradient descent."""

    def loss_fn(params, step):
        log_probs = jax.nn.log_softmax(inputs @ params["w"] + params["b"])
        key = jax.random.fold_in(jax.random.key(0), step)
        return objective(jnp.take_along_axis(log_probs, z, axis=-1), step=step, key=key)[0]

    @jax.jit
    def ten_steps(params, step):
        def one(i, params):
            grads = jax.grad(loss_fn)(params, step + i)
            return jax.tree.map(lambda p, g: p - rate * g, params, grads)

        params = jax.lax.fori_loop(0, 10, one, params)
        answers = jnp.argmax(test_inputs @ params["w"] + params["b"], axis=-1)
        return params, jnp.mean(answers == test_right), jnp.mean(answers == 0)

    start = 0.01 * jax.random.normal(jax.random.key(0), (WIDTH, CLASSES))
    params, curve = {"w": start, "b": jnp.zeros(CLASSES)}, []
    for step in range(0, steps, 10):
        params, *found = ten_steps(params, step)
        curve.append(found)
    return 100 * np.array(curve)


OBJECTIVES["annealed, tau = 150"] = HardEM(tau=150)
curves = {name: train(objective) for name, objective in OBJECTIVES.items()}

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharex=True)
for name, curve in curves.items():
    for axis, values in zip(axes, curve.T, strict=True):
        axis.plot(10 * np.arange(1, len(curve) + 1), values, label=name)
axes[0].set(title="right class (%)", xlabel="step")
axes[1].set(title="class 0, the spurious one (%)", xlabel="step")
axes[1].legend(fontsize=8)
figure.tight_layout()
plt.show()

# %%
for name, curve in curves.items():
    print(f"{name:20} right {curve[-1, 0]:5.1f} %   class 0 {curve[-1, 1]:5.1f} %")

# %% [markdown]
# First-only trusts whatever comes first, so it learns to answer with class 0 as well. All others
# notice that one class fits the inputs better than the others in Z, and find it. This is an easy
# problem: where a spurious solution is easier to learn than the right one, or Z lacks the right
# one, they part ways. That is why [the guide to objectives](../objectives.md) begins with a
# comparison on your own data.
