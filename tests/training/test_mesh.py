"""Where the rows of a batch land."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.training import mesh
from hardem_jax.training.mesh import data_mesh, place_batch, place_global_batch, round_up_to_devices


@pytest.mark.parametrize("count", [0, -1, 9])
def test_number_of_devices_is_checked(count):
    with pytest.raises(InputError, match=f"expected 1 to 8 .*found {count}"):
        data_mesh(count)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_rows_are_split_in_order_and_scalars_are_copied(count):
    mesh = data_mesh(count)
    x = np.arange(48, dtype=np.int32).reshape(16, 3)
    placed = place_batch({"x": x, "nested": {"tau": np.float32(2.5)}}, mesh)
    shards = sorted(placed["x"].addressable_shards, key=lambda shard: shard.index[0].start or 0)
    assert len(shards) == count
    for shard, rows in zip(shards, np.split(x, count), strict=True):
        np.testing.assert_array_equal(shard.data, rows)
    tau = placed["nested"]["tau"]
    assert tau.shape == () and len(tau.addressable_shards) == count
    assert float(tau) == 2.5


def test_default_mesh_has_all_devices():
    assert data_mesh().size == len(jax.devices()) == 8
    assert [round_up_to_devices(rows, data_mesh()) for rows in (1, 8, 9)] == [8, 8, 16]


def test_as_many_devices_of_each_process_are_taken(monkeypatch):
    found = [SimpleNamespace(process_index=i % 2, id=i) for i in range(8)]
    monkeypatch.setattr(mesh, "available_devices", lambda: found)
    monkeypatch.setattr(mesh, "mesh_over", lambda devices, fsdp: [x.id for x in devices])
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert data_mesh(4) == [0, 2, 1, 3]
    for count in (1, 3):
        with pytest.raises(InputError, match=f"many of each of 2 processes, found {count}"):
            data_mesh(count)


def test_rows_that_do_not_divide_are_named():
    batch = {"features": {"x": np.zeros((12, 2))}}
    for place in (place_batch, place_global_batch):
        with pytest.raises(
            InputError, match="features.x: expected a multiple of 8 rows for 8 devices, found 12"
        ):
            place(batch, data_mesh())
