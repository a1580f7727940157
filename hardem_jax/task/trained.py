"""A model that answers: `BatchReader`, and `Trained`, one with what a run folder holds."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from hardem_jax.data.batching.padding import BatchConfig, Inputs, Pad
from hardem_jax.data.batching.plans import PADDING, evaluation_batches
from hardem_jax.errors import InputError
from hardem_jax.search.protocol import LOSS_ONLY
from hardem_jax.task.base import A, D, R, Task
from hardem_jax.task.run_config import RunConfig
from hardem_jax.training.checkpoints import load_params, newest_step
from hardem_jax.training.mesh import (
    available_devices,
    make_place_fn,
    round_up_to_devices,
    with_shardings,
)

Array = jax.Array
TaskT = TypeVar("TaskT", bound=Task)
#: Wraps an iterator whose items show how far an evaluation has come.
Progress = Callable[[Iterator[Any]], Iterator[Any]]


class BatchReader(Generic[D, R, A]):
    """A model ready to answer: compiled once per shape, for any parameters of its shape.

    Shapes are those of the buckets of ``batches`` and one more for a longer input; packed
    (``inference.packed_tokens``), one for all. Batch size and packing of ``batches`` are those of
    training, and not used; nor is ``max_solutions`` if ``task.WHOLE_Z``. Without a mesh, it is on
    the first device.
    """

    def __init__(
        self,
        task: Task[D, R, A],
        graphdef: nnx.GraphDef,
        pad: Callable[[Any, int], Pad],
        *,
        batches: BatchConfig,
        mesh: Mesh | None = None,
    ):
        @jax.jit
        def decode(params: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
            return task.decode(nnx.merge(graphdef, params)(batch), batch)

        rows = round_up_to_devices(task.inference.batch_size, mesh)
        self.task = task
        self._decode = decode
        self._pad = pad
        self._batches = dataclasses.replace(
            batches,
            batch_size=rows,
            accumulate=1,
            packed_tokens=task.packed_tokens(),
            max_solutions=None if task.WHOLE_Z else batches.max_solutions,
        )
        self._num_devices = 1 if mesh is None else mesh.size
        self._place = make_place_fn(mesh)

    def read(self, params: Any, inputs: Inputs) -> Iterator[tuple[int, R]]:
        """Yields ``(index, reading)`` of every input, in the order of the batches."""
        pad = self._pad(inputs, self._batches.num_solutions(inputs.sizes))
        lengths, config = inputs.sizes[:, 0], self._batches
        if config.packed_tokens:
            check_packs(pad, "--packed-tokens")
        batches = evaluation_batches(
            inputs, lengths, config=config, pad=pad, num_devices=self._num_devices
        )
        for indices, arrays in batches:
            out = fetch(self._decode(params, self._place(arrays)))
            arrays.pop("packing", None)  # has rows of its own
            for row, index in enumerate(indices):
                if index == PADDING:
                    continue
                outputs, entries = ({n: x[row] for n, x in part.items()} for part in (out, arrays))
                yield int(index), self.task.reading(inputs, int(index), outputs, entries)

    def evaluate(
        self, params: Any, data: D, inputs: Inputs, *, progress: Progress = iter
    ) -> tuple[dict[str, float], A]:
        """Scores of a split, and the answers to its questions; see `Task.score`."""
        return self.task.score(data, progress(self.read(params, inputs)))


class Trained(Generic[TaskT]):
    """What a run folder holds, ready to answer.

    ``model`` and ``inference`` replace fields of the run's; without a mesh, it is on the first
    device. `InputError`: the folder holds no such run, a file of it is damaged, its task does not
    pack inputs, or training saved another checkpoint while this one was read.
    """

    def __init__(
        self,
        kind: type[TaskT],
        run_dir: Path,
        checkpoint: str = "best",
        *,
        mesh: Mesh | None = None,
        model: Mapping[str, Any] | None = None,
        **inference: Any,
    ):
        if "packed_tokens" in inference and not kind.PACKS:
            raise InputError(
                f"--packed-tokens: expected none for {kind.NAME}, which read no packed rows"
            )
        available_devices()
        run = RunConfig(run_dir, kind.NAME)
        config = dataclasses.replace(run.flags("model", *kind.MODELS), **(model or {}))
        self.run_dir = run_dir
        self.task: TaskT = kind.restore(run, **inference)
        self.model: Any = kind.MODELS[type(config)].restore(config, run)
        folder = run_dir / checkpoint
        self.step = newest_step(folder)
        like = with_shardings(self.model.params, mesh)
        self.params = load_params(folder, like, leave_out=LOSS_ONLY)
        if (later := newest_step(folder)) != self.step:
            raise InputError(
                f"{folder}: expected step {self.step}, which was being read, found step {later}: "
                "the run is still training; try again"
            )
        self.reader = BatchReader(
            self.task,
            self.model.graphdef,
            self.model.pad,
            batches=run.flags("batches", BatchConfig),
            mesh=mesh,
        )

    def evaluate(
        self, data: Any, progress: Callable[[int, str], Progress] = lambda total, unit: iter
    ) -> tuple[dict[str, float], Any]:
        """Scores of a split, and the answers to its questions, see `Task.score`. ``progress`` gets
        the number of inputs and what they are called, and wraps their iterator. `InputError`: there
        are no questions, they were prepared in another way, or one is too long."""
        if not len(data.questions):
            raise InputError(f"{data.place}: expected questions, found none")
        self.task.check(data, self.model, str(self.run_dir))
        inputs = self.model.inputs(data)
        self.model.check_inputs(inputs, data.place)
        bar = progress(len(inputs), self.task.UNIT)
        return self.reader.evaluate(self.params, data, inputs, progress=bar)


def check_packs(pad: Pad, flag: str) -> None:
    """Raises `InputError` if these batches, which ``flag`` wants packed, hold no tokens."""
    if "token_ids" not in pad([None], 1):
        raise InputError(f"{flag}: only pretrained encoders read packed rows")


def fetch(arrays: Any) -> Any:
    """``jax.device_get``, also of arrays whose rows are on the devices of several processes. All
    processes have to ask for the same arrays, and all get all of their rows."""

    def whole(array: Array) -> Any:
        if array.is_fully_addressable:
            return array
        return multihost_utils.process_allgather(array, tiled=True)

    return jax.device_get(jax.tree.map(whole, arrays))
