"""A device against the CPU, in losses and gradients: ``... benchmark.correctness --help``.

The loss of every task and its gradient are computed on the CPU, in float32 and with attention by
XLA, and on the device in each dtype and with each implementation of attention that it has. In
float32 they must agree to `TOLERANCE`. Rounding to 16 bits moves the maxima of the selector, so
that no fixed tolerance fits: the device may be twice as far from the reference as the CPU is in the
same dtype. The objective is MML, since hard EM may rightly choose another z after rounding.
"""

import dataclasses
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rich.progress import track

from experiments.benchmark.steps.setting import STEPS, Device, Preset, Setting, Task
from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.encoders.config import Implementation
from hardem_jax.errors import InputError, require

#: Largest relative error of the gradient in float32: the norm of the difference over the norm. In
#: 16 bits this much more than twice the CPU's.
TOLERANCE, SLACK = 1e-3, 1e-2
#: The kernel of each kind of device.
KERNELS: dict[str, Implementation] = {"gpu": "cudnn", "tpu": "splash"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Correctness:
    """Compare losses and gradients with the CPU's; exit code 1 if one is wrong.

    Attributes:
        tasks: whose loss.
        dtypes: of the device's computation, in this order.
        preset: size of the encoder.
        rows: R.
        tokens: T.
        solutions: Z.
        device: what is compared with the CPU; "auto" is what JAX would take.
        out: write the figures here, as JSON, and the table beside it, as Markdown.
    """

    tasks: tuple[Task, ...] = tuple(STEPS)
    # float32 last: XLA needs minutes to compile products of full precision on a GPU.
    dtypes: tuple[Literal["bfloat16", "float32"], ...] = ("bfloat16", "float32")
    preset: Preset = "minilm"
    rows: int = 8
    tokens: int = 128
    solutions: int = 16
    device: Literal["auto", Device] = "auto"
    out: Path | None = None

    def __post_init__(self) -> None:
        for name in ("tasks", "dtypes"):
            if not getattr(self, name):
                raise InputError(f"{name}: expected at least one, found none")
        require(self, "solutions", at_least=1)
        self._setting("spans")

    def _setting(self, task: Task) -> Setting:
        shared = {name: getattr(self, name) for name in ("preset", "rows", "tokens", "solutions")}
        return Setting(task=task, dropout=0.0, shortest=0.5, **shared)

    def run(self) -> None:
        from experiments.benchmark.steps.jax_steps import use_device

        report, device = Report(self, self.out), use_device(self.device)
        kernels = ["xla", *([KERNELS[device]] if device in KERNELS else [])]
        forms: list[dict[str, Any]] = [
            {"dtype": dtype, "attention": attention}
            for dtype, attention in itertools.product(self.dtypes, kernels)
            # The kernel of GPUs has 16 bits only.
            if not (attention == "cudnn" and dtype == "float32")
        ]
        results: list[dict[str, Any]] = []
        for task in track(self.tasks, "comparing", transient=True):
            setting = dataclasses.replace(self._setting(task), attention="xla")
            reference = loss_and_gradient(setting, "cpu")
            rounded = loss_and_gradient(dataclasses.replace(setting, dtype="bfloat16"), "cpu")
            of_cpu = compared(rounded, reference)["gradient"]
            allowed = {"float32": TOLERANCE, "bfloat16": 2 * of_cpu + SLACK}
            for form in forms:
                if STEPS[task].own_encoder and form["attention"] != "xla":
                    continue
                began = time.perf_counter()
                found = loss_and_gradient(dataclasses.replace(setting, **form), device)
                result = {"task": task, **form, **compared(found, reference)}
                result["allowed"] = allowed[form["dtype"]]
                result["right"] = result["gradient"] <= result["allowed"]
                results.append(result | {"seconds": time.perf_counter() - began})
                report.save({"device": device, "results": results})
                error = f"{result['gradient']:.7f}, {result['allowed']:.4f} allowed"
                print(f"{', '.join([task, *form.values()])}: relative error {error}", flush=True)
        wrong = [r for r in results if not r["right"]]
        drawn = table(f"{device} against CPU in float32", results, COLUMNS, left=3)
        report.write({"device": device, "results": results}, drawn)
        if wrong:
            names = ", ".join(f"{r['task']} ({r['dtype']}, {r['attention']})" for r in wrong)
            print(f"{len(wrong)} of {len(results)} differ: {names}")
            raise SystemExit(1)
        print(f"all {len(results)} agree")


COLUMNS = {
    "task": "task",
    "dtype": "dtype",
    "attention": "attention",
    "kernels": "kernels",
    "loss on the CPU": ("expected", 1, 6),
    "loss": ("loss", 1, 6),
    "gradient, relative error": ("gradient", 1, 7),
    "allowed": ("allowed", 1, 4),
    "s": ("seconds", 1, 1),
}


def loss_and_gradient(setting: Setting, device: str) -> dict[str, Any]:
    """The loss of MML, its gradient by name, as numpy, and the kernels that computed them."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from flax import nnx

    from experiments.benchmark.steps.jax_steps import make_encoder, step_batch
    from hardem_jax.encoders.ops.attention import kernels
    from hardem_jax.objectives import MML
    from hardem_jax.training.state import named_leaves

    task = STEPS[setting.task]
    how: dict[str, Any] = {"dtype": jnp.dtype(setting.dtype), "attention": setting.attention}
    precision = "highest" if setting.dtype == "float32" else None
    with jax.default_matmul_precision(precision), jax.default_device(jax.devices(device)[0]):
        # Drawn where they are used: the numbers of threefry are the same everywhere.
        graphdef, params = nnx.split(task.model(make_encoder(setting, **how)), nnx.Param)
        loss_fn = task.make_loss(graphdef, MML())
        keys = dict(zip(("key", "dropout_key"), jax.random.split(jax.random.key(0)), strict=True))
        step = jax.jit(jax.value_and_grad(loss_fn, has_aux=True))
        compiled = step.lower(params, step_batch(setting), step=jnp.int32(0), **keys).compile()
        (loss, _), gradient = compiled(params, step_batch(setting), step=jnp.int32(0), **keys)
    return {
        "loss": float(loss),
        "gradient": {name: np.asarray(x) for name, x in named_leaves(gradient).items()},
        "kernels": ", ".join(kernels(compiled.as_text() or "")) or "none",
    }


def compared(found: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, Any]:
    """The losses, and the norm of the difference of the gradients over that of the reference."""
    import numpy as np

    def norm(gradient: Mapping[str, Any]) -> float:
        return float(np.linalg.norm([np.linalg.norm(x) for x in gradient.values()]))

    expected = reference["gradient"]
    difference = {name: found["gradient"][name] - x for name, x in expected.items()}
    return {
        "loss": found["loss"],
        "expected": reference["loss"],
        "gradient": norm(difference) / norm(expected),
        "kernels": found["kernels"],
    }


if __name__ == "__main__":
    run_command(Correctness, prog="python -m experiments.benchmark.correctness")
