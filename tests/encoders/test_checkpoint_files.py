"""Files of checkpoints: the formats that are read, downloading, and how broken ones are refused."""

import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from flax import nnx

from hardem_jax.encoders.bert import Bert
from hardem_jax.encoders.checkpoint_files import read_torch
from hardem_jax.encoders.pretrained import load_config, load_encoder
from hardem_jax.errors import InputError
from tests.encoders.bert_checkpoints import (
    CONFIG,
    assert_same_parameters,
    leaves,
    replace_tensors,
    tensors_of,
)
from tests.encoders.test_family import change_config


def test_pytorch_bin_in_half_precision(torch_bert, folder):
    torch, _ = torch_bert
    tensors = tensors_of(folder)
    (folder / "model.safetensors").unlink()
    halves = {name: torch.from_numpy(x).to(torch.bfloat16) for name, x in tensors.items()}
    torch.save(halves, folder / "pytorch_model.bin")
    loaded = load_encoder(folder)
    for x, y in zip(leaves(loaded), leaves(Bert(CONFIG, rngs=nnx.Rngs(0))), strict=True):
        assert x.dtype == jnp.float32
        np.testing.assert_array_equal(x, y.astype(jnp.bfloat16).astype(jnp.float32))
    (folder / "pytorch_model.bin").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="pytorch_model.bin: not a readable PyTorch checkpoint"):
        load_encoder(folder)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pytorch_bin_that_ends_early(torch_bert, tmp_path, zipped):
    """Which torch's readers of the two formats, zipped or of before 2020, notice in many ways."""
    torch, _ = torch_bert
    file = tmp_path / "x.bin"
    torch.save({"x": torch.ones(2, 3)}, file, _use_new_zipfile_serialization=zipped)
    whole = file.read_bytes()
    for length in range(0, len(whole), 1 if not zipped else 17):
        file.write_bytes(whole[:length])
        with pytest.raises(InputError, match="x.bin: not a readable PyTorch checkpoint"):
            read_torch(file)


def test_pytorch_bin_of_a_training_run(torch_bert, folder):
    """As Lightning and others save it: weights are one of several entries."""
    torch, _ = torch_bert
    (folder / "model.safetensors").unlink()
    for content, found in (
        ({"state_dict": {"x": torch.zeros(2)}, "epoch": 3}, "dict under 'state_dict'"),
        ({"x": torch.zeros(2), "epoch": 3}, "int under 'epoch'"),
    ):
        torch.save(content, folder / "pytorch_model.bin")
        message = f"pytorch_model.bin: expected a table of tensors, found {found}"
        with pytest.raises(InputError, match=message):
            load_encoder(folder)


def test_safetensors_in_a_type_that_numpy_lacks(torch_bert, folder):
    torch, _ = torch_bert
    import safetensors.torch

    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    name = "encoder.layer.0.output.dense.weight"
    tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    safetensors.torch.save_file(tensors, file)
    message = f"model.safetensors: expected one of F64, .*, found F8_E4M3 in {name}"
    with pytest.raises(InputError, match=message):
        load_encoder(folder)


def test_pytorch_bin_without_torch(folder, monkeypatch):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="pytorch_model.bin: .*needs torch"):
        load_encoder(folder)


def test_sharded_files(folder):
    expected = load_encoder(folder)
    tensors = tensors_of(folder)
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        safetensors.numpy.save_file({name: tensors[name] for name in part}, folder / file)
    index = {name: file for file, part in shards.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    assert_same_parameters(load_encoder(folder), expected)
    (folder / "b.safetensors").unlink()
    with pytest.raises(InputError, match="index.json: names files that are missing: b.safetensors"):
        load_encoder(folder)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_half_precision_becomes_float32(folder, dtype):
    full = leaves(load_encoder(folder))
    replace_tensors(folder, {name: x.astype(dtype) for name, x in tensors_of(folder).items()})
    for x, y in zip(leaves(load_encoder(folder)), full, strict=True):
        assert x.dtype == jnp.float32
        np.testing.assert_array_equal(x, y.astype(dtype).astype(jnp.float32))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "gpt2"}, "model_type: expected one of bert, distilbert, .*, found 'gpt2'"),
        ({"position_embedding_type": "relative_key"}, "expected 'absolute', found 'relative_key'"),
        ({"is_decoder": True}, "is_decoder: expected False, found True"),
        ({"hidden_act": "swish"}, "hidden_act: expected one of .*, found 'swish'"),
        ({"hidden_act": ["gelu"]}, r"hidden_act: expected one of .*, found \['gelu'\]"),
        ({"hidden_size": 10**20}, "hidden_size: expected at most 2147483647, found 1000"),
        ({"hidden_size": "8"}, "hidden_size: expected an integer, found '8'"),
        ({"hidden_size": None}, "hidden_size: expected an integer, found None"),
        ({"remove": ("vocab_size", "model_type")}, "json: missing keys model_type, vocab_size$"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_wrong_configs(folder, change, message):
    change_config(folder, **change)
    with pytest.raises(InputError, match=message):
        load_config(folder)


def test_broken_and_missing_files(folder):
    (folder / "model.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="model.safetensors: not a readable safetensors file"):
        load_encoder(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="expected model.safetensors, .*found none"):
        load_encoder(folder)
    for content, message in (
        ("{", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("[]", "expected a JSON object, found list"),
    ):
        (folder / "config.json").write_text(content)
        with pytest.raises(InputError, match=f"config.json: {message}"):
            load_encoder(folder)
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match="config.json: no such file"):
        load_config(folder)
    for absent in folder / "absent", str(folder / "absent"), "./absent":
        with pytest.raises(InputError, match="absent: expected a folder with a checkpoint"):
            load_encoder(absent)


def test_download(folder, monkeypatch):
    """The hub is asked for safetensors first; a failure names the checkpoint."""
    import huggingface_hub

    asked = []

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, name, timeout: None)

    def snapshot(name, *, allow_patterns, local_files_only):
        asked.append((name, allow_patterns))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert load_encoder("someone/tiny-bert").config == CONFIG
    assert [name for name, _ in asked] == ["someone/tiny-bert"]
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="found none"):
        load_encoder("someone/tiny-bert")
    assert asked[-1][1] == ["config.json", "pytorch_model*"]

    def fail(name, *, allow_patterns, local_files_only):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(InputError, match=r"someone/tiny-bert: .*\(ConnectionError: no route\)"):
        load_config("someone/tiny-bert")
