"""The files that naver/sqlova saves, with random values."""

import collections

import numpy as np
from flax import nnx

from hardem_jax.encoders.bert import Bert
from hardem_jax.encoders.pretrained import architecture, flat_params

SIZE = 6
# Names of the authors' modules and of their dense layers: inputs and outputs in multiples of the
# hidden size, or as they are if negative; W_hidden and W_cell have as many for each LSTM layer.
LAYERS = {
    "scp": {"W_att": (1, 1), "W_c": (1, 1), "W_hs": (1, 1), "sc_out.1": (2, -1)},
    "sap": {"W_att": (1, 1), "sa_out.0": (1, 1), "sa_out.2": (1, -6)},
    "wnp": {
        **{"W_att_h": (1, -1), "W_hidden": (1, 1), "W_cell": (1, 1), "W_att_n": (1, -1)},
        **{"wn_out.0": (1, 1), "wn_out.2": (1, -5)},
    },
    "wcp": {"W_att": (1, 1), "W_c": (1, 1), "W_hs": (1, 1), "W_out.1": (2, -1)},
    "wop": {
        **{"W_att": (1, 1), "W_c": (1, 1), "W_hs": (1, 1)},
        **{"wo_out.0": (2, 1), "wo_out.2": (1, -4)},
    },
    "wvp": {
        **{"W_att": (1, 1), "W_c": (1, 1), "W_hs": (1, 1), "W_op": (-4, 1)},
        **{"wv_out.0": (4, 1), "wv_out.2": (1, -2)},
    },
}


def state_dicts(config, num_lstm_layers=2, num_target_layers=2):
    """The content of both files, with random values: the parser's and the encoder's."""
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.normal(0, 0.4, shape).astype(np.float32)

    half, parser = SIZE // 2, {}
    for module, layers in LAYERS.items():
        for text in ("enc_h", "enc_n"):
            for layer in range(num_lstm_layers):
                inputs = SIZE if layer else num_target_layers * config.hidden_size
                for ending in (f"l{layer}", f"l{layer}_reverse"):
                    parser[f"{module}.{text}.weight_ih_{ending}"] = draw(4 * half, inputs)
                    parser[f"{module}.{text}.weight_hh_{ending}"] = draw(4 * half, half)
                    parser[f"{module}.{text}.bias_ih_{ending}"] = draw(4 * half)
                    parser[f"{module}.{text}.bias_hh_{ending}"] = draw(4 * half)
        for name, sizes in layers.items():
            inputs, outputs = (size * SIZE if size > 0 else -size for size in sizes)
            if name in ("W_hidden", "W_cell"):
                outputs *= num_lstm_layers
            parser[f"{module}.{name}.weight"] = draw(outputs, inputs)
            parser[f"{module}.{name}.bias"] = draw(outputs)
    shapes = flat_params(nnx.eval_shape(lambda: Bert(config, rngs=nnx.Rngs(0))))
    values = {path: draw(*leaf.shape) for path, leaf in shapes.items()}
    # As the BERT of naver/sqlova calls them; it also has a pooler.
    renamed = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    bert = {"pooler.dense.bias": draw(config.hidden_size)}
    for name, value in architecture("bert").weights.write(values).items():
        for new, old in renamed.items():
            name = name.replace(new, old)
        bert[name] = value
    return parser, bert


def write(torch, folder, parser, bert):
    """Saves both as naver/sqlova does; returns the paths."""
    files = {"model": parser, "model_bert": bert}
    for key, state in files.items():
        tensors = collections.OrderedDict((name, torch.from_numpy(x)) for name, x in state.items())
        # The format of PyTorch in 2019, when the authors published theirs.
        torch.save({key: tensors}, folder / f"{key}_best.pt", _use_new_zipfile_serialization=False)
    return [folder / f"{key}_best.pt" for key in files]
