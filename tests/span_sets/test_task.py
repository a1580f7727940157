"""The loss of a reader of several spans, against its distribution."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.objectives import MML, HardEM
from hardem_jax.span_sets.config import TaggingInference
from hardem_jax.span_sets.distribution import OUTSIDE
from hardem_jax.span_sets.inputs import pad_taggings
from hardem_jax.span_sets.model import TaggedReader
from hardem_jax.span_sets.task import TaggingTask, make_tagging_loss
from tests.tiny import roberta_tokenizer

TEXTS = ("Ada met Bo. Ada ran. Bo met Ada", "Bo ran")


@pytest.fixture(scope="module")
def batch():
    tokenizer = Tokenizer(roberta_tokenizer())
    windows = [
        make_windows(
            ReadingExample(
                "q", "Who?", (Document("d", text),), ("Ada", "Bo"), ("Ada", "Bo"), all_required=True
            ),
            tokenizer,
            WindowConfig(),
        )[0]
        for text in TEXTS
    ]
    arrays = pad_taggings(
        [*windows, None], 32, num_taggings=32, max_mentions=8, pad_id=tokenizer.pad_id
    )
    return jax.tree.map(jnp.asarray, arrays), tokenizer.vocab_size


@pytest.fixture(scope="module", params=[2, 3], ids=["IO", "BIO"])
def reader(request, batch):
    config = BertConfig(*(batch[1], 16, 1, 2, 32), hidden_dropout=0.0, attention_dropout=0.0)
    module = TaggedReader(Bert(config, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1), num_tags=request.param)
    return nnx.split(module, nnx.Param)


@pytest.fixture(scope="module")
def found(reader, batch):
    """What the reader says about the batch, what is decoded of it, and two losses of it."""
    graphdef, params = reader

    @jax.jit
    def compute(params, arrays):
        reading = nnx.merge(graphdef, params)(arrays)
        out = TaggingTask(TaggingInference()).decode(reading, arrays)
        gradient, mml = jax.grad(loss_of(graphdef, arrays, MML()), has_aux=True)(params)
        _, hard_em = loss_of(graphdef, arrays, HardEM())(params)
        return reading, out, gradient, mml, hard_em

    return jax.device_get(compute(params, batch[0]))


def loss_of(graphdef, batch, objective):
    loss, key = make_tagging_loss(graphdef, objective), jax.random.key(0)
    return lambda params: loss(params, batch, step=jnp.zeros(()), key=key, dropout_key=key)


def test_mml_is_the_mass_of_all_taggings(found, batch):
    """All 21 taggings of the first window: 2^3 - 1 of Ada times 2^2 - 1 of Bo."""
    reading, _, _, mml, _ = found
    table = np.asarray(reading.taggings.tags[0], np.float64)  # [T, tags], the last tag begins
    gain, mass = table[:, -1] - table[:, OUTSIDE], table[:, OUTSIDE].sum()
    for text in ([0, 4, 9], [2, 7]):  # by definition: every subset but the empty one
        chosen = [np.exp(gain[[*some]].sum()) for n in (1, 2, 3) for some in combinations(text, n)]
        mass += np.log(sum(chosen))
    assert batch[0]["solutions_where"].sum(axis=1).tolist() == [21, 0, 0]
    assert mml["tag_loss"] == pytest.approx(-float(mass), rel=1e-5)
    # A window without a Z only costs the selector; padding costs nothing.
    selector = np.asarray(jax.nn.log_softmax(reading.selector_logits))
    expected = -(selector[0, 1] + selector[1, 0])
    assert mml["selector_loss"] == pytest.approx(float(expected), rel=1e-5)
    assert mml["items"] == 1 and mml["z_size"] == 21


def test_the_selector_learns_from_windows_whose_taggings_are_not_listed(reader, batch, found):
    arrays = batch[0] | {"solutions_where": jnp.zeros_like(batch[0]["solutions_where"])}
    graphdef, params = reader
    selector = np.asarray(jax.nn.log_softmax(found[0].selector_logits))
    cost, metrics = jax.jit(loss_of(graphdef, arrays, MML()))(params)
    assert metrics["items"] == 0 and metrics["tag_loss"] == 0
    assert cost == pytest.approx(-float(selector[0, 1] + selector[1, 0]), rel=1e-5)


def test_mentions_that_touch_are_a_solution_where_tags_tell_them_apart(reader, batch):
    mentions = jnp.zeros_like(batch[0]["mentions"]).at[0, :2].set(jnp.array([[0, 0], [1, 1]]))
    solutions = jnp.zeros_like(batch[0]["solutions"]).at[0, 0, :2].set(True)
    where = jnp.zeros_like(batch[0]["solutions_where"]).at[0, 0].set(True)
    arrays = batch[0] | {"mentions": mentions, "solutions": solutions, "solutions_where": where}
    graphdef, params = reader
    cost, metrics = jax.jit(loss_of(graphdef, arrays, MML()))(params)
    in_bio = params.tag_scores.kernel.get_value().shape[-1] == 3
    assert jnp.isfinite(cost) and metrics["items"] == in_bio
    assert (metrics["tag_loss"] > 0) == in_bio


def test_hard_em_takes_the_likeliest_tagging(found):
    _, out, _, _, hard_em = found
    best = out["solutions"][0, :21].max()
    assert hard_em["tag_loss"] == pytest.approx(-float(best), rel=1e-5)


def test_what_is_decoded_has_its_probability(found, batch):
    reading, out, *_ = found
    table = np.exp(reading.taggings.tags)
    for row in range(2):
        real = np.flatnonzero(batch[0]["words_where"][row])
        expected = np.prod([table[row, t, out["tags"][row, t]] for t in real])
        assert np.exp(out["log_prob"][row]) == pytest.approx(expected, rel=1e-4)
    assert out["tags"][0].any() and out["tags"][1].any() and not out["tags"][2].any()
