"""Tables of the parser of programs: what suits a slot, and nothing from padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.losses import mml_loss
from hardem_jax.programs.model import FIELD_FACTS, KINDS, LINK_FACTS, ProgramParser
from hardem_jax.programs.solutions.rules import may_modify, may_select
from hardem_jax.programs.solutions.types import OPERATORS, PARTS, SHAPES, Field, Shape

CONFIG = BertConfig(30, 8, 1, 2, 16, max_position_embeddings=40)
# Two examples: words, tokens of each column, fields, links.
WORDS = (3, 5)
HEADERS = ((2, 1), (1, 3, 1))
FIELDS = ([(0, 0), (1, 4), (2, 4)], [(0, 0), (1, 1), (1, 7), (2, 4), (3, 4)])
LINKS = ([(0, 0, 0, 1)], [(0, 6, 1, 1), (17, 0, 2, 3), (30, 2, 4, 4), (13, 7, -1, -1)])


@pytest.fixture(scope="module")
def parser():
    return ProgramParser(Bert(CONFIG, rngs=nnx.Rngs(0)), hidden_size=6, rngs=nnx.Rngs(1))


def make_batch(examples, *, tokens=20, words=6, columns=4, links=4, junk=0):
    """Rows as `hardem_jax.programs.inputs` lays them out; ``junk`` stands in all padding."""
    rows, fields = len(examples), columns * len(PARTS)
    batch = {
        "token_ids": np.full((rows, tokens), junk),
        "token_type_ids": np.zeros((rows, tokens), int),
        "where": np.zeros((rows, tokens), bool),
        "words_first": np.full((rows, words), junk),
        "headers": np.zeros((rows, columns, 2), int),
        "row_number": np.zeros(rows, int),
        "fields_where": np.zeros((rows, fields), bool),
        "field_facts": np.full((rows, fields, FIELD_FACTS), junk, np.float32),
        "links": np.full((rows, links, 4), junk),
        "links_where": np.zeros((rows, links), bool),
        "link_facts": np.full((rows, links, LINK_FACTS), junk, np.float32),
        "shapes_where": np.ones((rows, len(SHAPES)), bool),
    }
    for row, example in enumerate(examples):
        rng = np.random.default_rng(example)
        count, end = WORDS[example], WORDS[example] + 2
        batch["words_first"][row, :count] = 1 + np.arange(count)
        for column, length in enumerate(HEADERS[example]):
            batch["headers"][row, column] = end, end + length
            batch["token_type_ids"][row, end : end + length + 1] = 1
            end += length + 1
        batch["token_ids"][row, :end] = rng.integers(1, 30, end)
        batch["where"][row, :end] = True
        batch["row_number"][row] = len(HEADERS[example])
        codes = [Field(*field).code for field in FIELDS[example]]
        batch["fields_where"][row, codes] = True
        batch["field_facts"][row, codes] = rng.random((len(codes), FIELD_FACTS))
        size = len(LINKS[example])
        batch["links"][row, :size] = LINKS[example]
        batch["links_where"][row, :size] = True
        batch["link_facts"][row, :size] = rng.random((size, LINK_FACTS))
    return {name: jnp.asarray(x) for name, x in batch.items()}


def test_a_slot_has_what_suits_it_and_nothing_else(parser):
    """Every field and link of the table that the rules of programs allow, for every shape."""
    programs = jax.jit(parser)(make_batch([0, 1]))
    held = [OPERATORS.index("="), OPERATORS.index("contains")]
    for row, (fields, links) in enumerate(zip(FIELDS, LINKS, strict=True)):
        columns = len(HEADERS[row])
        for shape, kinds in zip(SHAPES, KINDS, strict=True):
            slots = (programs.select, programs.modify, programs.link1, programs.link2)
            found = [
                set(np.flatnonzero(np.isfinite(table[row, kind]))) if kind >= 0 else None
                for table, kind in zip(slots, kinds, strict=True)
            ]
            for place, (used, may) in enumerate(
                ((shape.has_select, may_select), (shape.has_modify, may_modify))
            ):
                expected = {
                    Field(*f).code for f in fields if used and may(shape, Field(*f), columns)
                }
                assert found[place] == (expected if used else None), shape
            for place in range(2):
                restricted = shape.connective == "or" or (place and shape.connective == "and not")
                expected = {n for n, x in enumerate(links) if not restricted or x[1] in held}
                assert found[2 + place] == (expected if shape.num_links > place else None), shape
    for table in (programs.select, programs.modify, programs.link1, programs.link2):
        sums = np.exp(table).sum(axis=-1)
        assert np.all(np.isclose(sums, 1, rtol=1e-5) | (sums == 0))
    np.testing.assert_allclose(np.exp(programs.shape).sum(axis=-1), 1, rtol=1e-5)


def test_padding_changes_nothing(parser):
    """Alone and tight, or next to another one in a larger batch full of junk."""
    read = jax.jit(parser)
    together = read(make_batch([0, 1]))
    wide = read(make_batch([1, 0], tokens=24, words=9, columns=6, links=7, junk=3))
    for example in (0, 1):
        codes = [Field(*field).code for field in FIELDS[example]]
        count = len(LINKS[example])
        for name in ("shape", "select", "modify", "link1", "link2"):
            one, other = getattr(together, name)[example], getattr(wide, name)[1 - example]
            if name != "shape":
                entries = slice(count) if "link" in name else np.array(codes)
                one, other = one[:, entries], other[:, entries]
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)


def test_every_part_learns(parser):
    graphdef, params = nnx.split(parser, nnx.Param)
    highest, negated, plain = (
        SHAPES.index(Shape(*names))
        for names in (
            ("values", "highest", "one"), ("count", "none", "and not"), ("values", "none", "all"),
        )
    )  # fmt: skip
    z = [[highest, 0, Field(2, 4).code, 2, -1], [negated, -1, -1, 3, 1]]
    z += [[plain, Field(1, 1).code, -1, -1, -1]]
    batch = make_batch([1])

    def loss(params):
        found = nnx.merge(graphdef, params)(batch, rngs=nnx.Rngs(dropout=0))
        return mml_loss(found.log_prob(jnp.array([z])))

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    assert np.isfinite(value)
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        assert np.all(np.isfinite(grad)), path
        if "bias" not in str(path):  # what all alternatives share cancels
            assert np.any(grad != 0), path
