"""What commands compute on."""

import dataclasses

import jax
import numpy as np
import pytest

from hardem_jax.cli.command import parse
from hardem_jax.cli.devices import OnDevices
from hardem_jax.errors import InputError
from hardem_jax.training.devices.mesh import (
    data_mesh,
    make_place_fn,
    round_up_to_devices,
    with_shardings,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command(OnDevices):
    """Computes nothing."""


def test_flags_make_the_mesh():
    command = parse(Command, prog="test", argv=["--num-devices", "4", "--fsdp", "2"])
    assert dict(command.mesh().shape) == {"data": 2, "fsdp": 2}
    assert dict(Command().mesh().shape) == {"data": 8, "fsdp": 1}
    with pytest.raises(InputError, match="fsdp: expected a divisor of the 4 devices, found 3"):
        dataclasses.replace(command, fsdp=3).mesh()
    with pytest.raises(InputError, match="distributed"):
        parse(Command, prog="test", argv=["--distributed", "perhaps"])


def test_batches_to_evaluate_on_are_filled_up_and_split():
    mesh = data_mesh(3)
    assert [round_up_to_devices(rows, mesh) for rows in (1, 3, 32)] == [3, 3, 33]
    assert round_up_to_devices(32, None) == 32
    batch = {"x": np.arange(6)}
    assert len(make_place_fn(mesh)(batch)["x"].addressable_shards) == 3
    assert make_place_fn(None)(batch) is batch


def test_parameters_are_loaded_to_where_they_are_used():
    shapes = {"kernel": jax.ShapeDtypeStruct((256, 128), np.float32)}
    assert with_shardings(shapes, None) is shapes
    placed = with_shardings(shapes, data_mesh(4, fsdp=2))["kernel"]
    assert placed.shape == (256, 128) and tuple(placed.sharding.spec) == ("fsdp",)
