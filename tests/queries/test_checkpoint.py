"""Parsers of naver/sqlova: read from its files, they score as its PyTorch modules do."""

import jax
import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.queries.checkpoint import load_sqlova
from tests.queries.sqlova_files import LAYERS, SIZE, state_dicts, write
from tests.queries.test_model import CONFIG, HEADERS, QUESTIONS, WORDS, make_batch


class Original:
    """The forward pass of naver/sqlova for one question, from its formulas, without padding."""

    def __init__(self, torch, state, num_layers):
        self.torch, self.num_layers = torch, num_layers
        self.state = {name: torch.from_numpy(x) for name, x in state.items()}

    def linear(self, name, x):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def mlp(self, name, x):
        return self.linear(f"{name}.2", self.linear(f"{name}.0", x).tanh())

    def lstm(self, name, x, initial=None):
        """PyTorch's own LSTM on ``[T, I]``."""
        inputs, half = x.shape[1], SIZE // 2
        lstm = self.torch.nn.LSTM(inputs, half, self.num_layers, bidirectional=True)
        weights = {n.removeprefix(name + "."): w for n, w in self.state.items() if name + "." in n}
        lstm.load_state_dict(weights)
        return lstm(x, initial)[0]

    def seen(self, module, question, header):
        """The question as a header sees it."""
        return (self.linear(f"{module}.W_att", question) @ header).softmax(0) @ question

    def __call__(self, question, headers):
        """Logits from the encodings ``[Q, I]`` of the question and ``[H, I]`` of each header."""
        torch = self.torch
        read = {
            module: torch.stack([self.lstm(f"{module}.enc_h", h)[-1] for h in headers])
            for module in LAYERS
        }
        weights = self.linear("wnp.W_att_h", read["wnp"])[:, 0].softmax(0)
        pooled = weights @ read["wnp"]
        initial = tuple(
            self.linear(f"wnp.{name}", pooled).view(2 * self.num_layers, SIZE // 2)
            for name in ("W_hidden", "W_cell")
        )
        asked = {
            module: self.lstm(f"{module}.enc_n", question, initial if module == "wnp" else None)
            for module in LAYERS
        }
        tables = {name: [] for name in ("select", "aggregator", "column", "operator", "value")}
        for column in range(len(headers)):
            joined = {}
            for module in ("scp", "wcp", "wop", "wvp"):
                header = read[module][column]
                context = self.seen(module, asked[module], header)
                parts = self.linear(f"{module}.W_c", context), self.linear(f"{module}.W_hs", header)
                joined[module] = torch.cat(parts)
            tables["select"].append(self.linear("scp.sc_out.1", joined["scp"].tanh())[0])
            tables["column"].append(self.linear("wcp.W_out.1", joined["wcp"].tanh())[0])
            tables["operator"].append(self.mlp("wop.wo_out", joined["wop"]))
            context = self.seen("sap", asked["sap"], read["sap"][column])
            tables["aggregator"].append(self.mlp("sap.sa_out", context))
            operators = self.linear("wvp.W_op", torch.eye(4))
            pairs = [[torch.cat([joined["wvp"], o, x]) for x in asked["wvp"]] for o in operators]
            scores = [[self.mlp("wvp.wv_out", pair) for pair in row] for row in pairs]
            tables["value"].append(torch.stack([torch.stack(row) for row in scores]))
        weights = self.linear("wnp.W_att_n", asked["wnp"])[:, 0].softmax(0)
        number = self.mlp("wnp.wn_out", weights @ asked["wnp"])
        return {"number": number, **{name: torch.stack(rows) for name, rows in tables.items()}}


def original_scores(torch, transformers, parser, bert, batch, row, num_layers, num_target_layers):
    """The tables of `QueryDistribution` for a row of a batch, from PyTorch's logits."""
    config = transformers.BertConfig(
        **{
            name: getattr(CONFIG, name)
            for name in (
                *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
                *("intermediate_size", "max_position_embeddings"),
            )
        },
        attn_implementation="eager",
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    renamed = {"gamma": "weight", "beta": "bias"}
    weights = {
        ".".join(renamed.get(part, part) for part in name.split(".")): torch.from_numpy(value)
        for name, value in bert.items()
        if not name.startswith("pooler")
    }
    model.load_state_dict(weights)
    there = np.asarray(batch["where"][row])
    ids, types = (
        torch.from_numpy(np.asarray(batch[name][row])[there].astype(np.int64))[None]
        for name in ("token_ids", "token_type_ids")
    )
    layers = model(ids, token_type_ids=types, output_hidden_states=True).hidden_states
    tokens = torch.cat([x[0] for x in layers[::-1][:num_target_layers]], dim=1)
    places = np.asarray(batch["question_tokens"][row])[np.asarray(batch["question_where"][row])]
    headers = [
        tokens[np.asarray(batch["header_tokens"][row, column])[where].tolist()]
        for column, where in enumerate(np.asarray(batch["header_where"][row]))
        if where.any()
    ]
    found = Original(torch, parser, num_layers)(tokens[places.tolist()], headers)
    # A fourth condition and a fourth operator do not occur.
    value = found["value"][:, :3].log_softmax(2)
    column = found["column"]
    return {
        "select": found["select"].log_softmax(0),
        "aggregator": found["aggregator"].log_softmax(1),
        "number": found["number"][:4].log_softmax(0),
        "column": torch.stack([-column, column], 1).sigmoid().log(),
        "operator": found["operator"][:, :3].log_softmax(1),
        "first": value[..., 0],
        "last": value[..., 1],
    }


@pytest.mark.parametrize("layers", [(2, 2), (1, 1)])
def test_scores_are_those_of_the_original(torch_bert, tmp_path, layers):
    """In batches with padding of every kind, which the original's numbers are made without."""
    torch, transformers = torch_bert
    parser, bert = state_dicts(CONFIG, *layers)
    loaded = load_sqlova(*write(torch, tmp_path, parser, bert), CONFIG)
    batch = make_batch([1, 0], tokens=24, pieces=8, words=7, columns=5, header=4, junk=3)
    found = jax.jit(loaded)(batch)
    for row, example in enumerate((1, 0)):
        columns, words = len(HEADERS[example]), list(WORDS[example])
        with torch.no_grad():
            scores = original_scores(torch, transformers, parser, bert, batch, row, *layers)
        assert scores["first"].shape == (columns, 3, QUESTIONS[example])
        for name, expected in scores.items():
            ours = np.asarray(getattr(found, name)[row])
            if name != "number":
                ours = ours[:columns]
            if name in ("first", "last"):
                ours, expected = ours[..., : len(words)], expected[..., words]
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4, err_msg=name)
        assert np.all(found.first[row, :, :, len(words) :] == -np.inf)


def widened(parser):
    return {n: np.pad(parser[n], ((0, 0), (0, 1))) for n in parser if "weight_ih_l0" in n}


DENSE, WORDS_OF = "wvp.wv_out.0.weight", "embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    ("of_parser", "of_bert", "file", "message"),
    [
        (lambda x: {"wop.W_c.bias": None}, {}, "model_best", "in 1 places: missing: wop.W_c.bias"),
        (lambda x: {"scp.W_att.weight": None}, {}, "model_best", "no matrix scp.W_att.weight"),
        (lambda x: {"wvp.W_n.bias": x[DENSE]}, {}, "model_best", "not used: wvp.W_n.bias"),
        (widened, {}, "model_best", "expected inputs of layers 8 wide, .* found 17"),
        (lambda x: {DENSE: 0 * x[DENSE]}, {}, "model_best", "wvp.wv_out.0: .* full rank"),
        (dict, {WORDS_OF: 5}, "model_bert_best", r"misshapen: .* \(30, 8\), found \(5, 8\)"),
    ],
)
def test_files_that_do_not_fit_are_refused(torch_bert, tmp_path, of_parser, of_bert, file, message):
    parser, bert = state_dicts(CONFIG)
    parser |= of_parser(parser)
    bert |= {name: bert[name][:length] for name, length in of_bert.items()}
    parser = {name: value for name, value in parser.items() if value is not None}
    files = write(torch_bert[0], tmp_path, parser, bert)
    with pytest.raises(InputError, match=f"{file}.pt: .*{message}"):
        load_sqlova(*files, CONFIG)
    with pytest.raises(InputError, match="bert_best.pt: expected a table of tensors under 'model'"):
        load_sqlova(*files[::-1], CONFIG)
