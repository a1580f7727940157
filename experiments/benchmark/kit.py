"""What a machine without a network needs to be measured: ``... benchmark.kit --help``.

Packs an encoder in float16, data and the wheels of packages that are missing there, with a script
that runs in the root of a checkout. An accelerator is often lent for some minutes at a time, so
measuring everything and training take their minutes, and go on where an earlier call has stopped if
the folder of its results is the same::

    python -m experiments.benchmark.kit --out kit --encoder minilm --data built=built/wikisql \
        gold=wikisql --wheels tyro grain array-record --workers 4 --train "wikisql compare \
        --data built --dev built --gold gold --loop.num-steps 500 --seeds 0 1 2"
    sh kit/run.sh correctness results
    sh kit/run.sh everything results 9
    sh kit/run.sh train results 9
    sh kit/run.sh pack results

Name the comparison that matters most first: all workers begin with it, and take up the next one as
soon as no run of it is left to them. Data whose builds are too large to carry are packed as they
are, and built there by ``run.sh prepare``, from
``--prepare "narrativeqa prepare --folder raw --tokenizer ../encoder --out built"``.
The last stage packs what was measured and the scores of all runs, without checkpoints, into
``results.tgz``, which `experiments.tabulate` reads once it is unpacked.
"""

import dataclasses
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hardem_jax.cli.command import run_command
from hardem_jax.data.files import new_folder, write_json
from hardem_jax.errors import InputError, require
from hardem_jax.settings import to_json

FORMAT = "kit 1"
ENCODER, WHEELS, WEIGHTS_FILE = "encoder", "wheels", "model.safetensors"
#: Oldest first: pip takes a wheel of exactly one of these.
PLATFORMS = ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")

SCRIPT = """\
#!/bin/sh
# sh run.sh STAGE RESULTS [MINUTES], in the root of a checkout; STAGE is correctness, everything,
# prepare, train or pack. Called again, it goes on with what is left; prepare runs once.
set -eu
kit=$(cd "$(dirname "$0")" && pwd)
stage=$1
mkdir -p "$2"
results=$(cd "$2" && pwd)
minutes=${{3:-9}}
if [ -d "$kit/wheels" ]; then
    python3 -m pip install -q --no-index --no-deps --upgrade --target "$kit/site" \\
        "$kit"/wheels/*.whl
    export PYTHONPATH="$PWD:$kit/site${{PYTHONPATH:+:$PYTHONPATH}}"
else
    export PYTHONPATH="$PWD${{PYTHONPATH:+:$PYTHONPATH}}"
fi
ended() {{  # Waits for all; the last status that is not well is that of the script.
    failed=0
    for pid in $pids; do
        status=0
        wait "$pid" || status=$?
        # 124: the minutes are over, and a checkpoint was saved.
        case $status in 0 | 124) ;; *) failed=$status ;; esac
    done
    [ "$failed" -eq 0 ] || exit "$failed"
}}
case $stage in
correctness)
    python3 -m experiments.benchmark.correctness {correctness} --out "$results/correctness.json"
    ;;
everything)
    python3 -m experiments.benchmark.everything {everything} \\
        --minutes "$minutes" --out "$results/everything.json"
    ;;
prepare)
    cd "$kit/data"
    export JAX_PLATFORMS=cpu
    pids=
{prepare}
    ended
    ;;
train)
    cd "$kit/data"
    if [ {workers} -gt 1 ]; then
        # Each process has its part of an accelerator's memory, and with NVIDIA's Multi-Process
        # Service, where there is one, their kernels run side by side.
        export XLA_PYTHON_CLIENT_MEM_FRACTION={fraction}
        if command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d; then
            trap 'echo quit | nvidia-cuda-mps-control' EXIT
        fi
    fi
    pids=
    for _ in $(seq {workers}); do
        timeout "${{minutes}}m" sh "$kit/train.sh" "$kit/encoder" "$results" &
        pids="$pids $!"
    done
    ended
    ;;
pack)
    tar -czf "$results.tgz" --exclude=best --exclude=last -C "$results" .
    ;;
*)
    echo "expected correctness, everything, prepare, train or pack, found $stage" >&2
    exit 2
    ;;
esac
"""
PREPARE = """\
    python3 -m experiments.{command} &
    pids="$pids $!\""""
TRAIN = """\
#!/bin/sh
# sh train.sh ENCODER RESULTS: a worker of run.sh, which takes part in one comparison after another.
trap : TERM  # so that the command that it stops is waited for
encoder=$1 results=$2 status=0
run() {{  # Of a comparison that fails, the next one is taken up; after a stop, none is.
    out=$results/runs/$1 module=$2 command=$3
    shift 3
    python3 -m "$module" "$command" --model.encoder "$encoder" --out "$out" "$@" && return
    status=$?
    [ $status -lt 128 ] || exit $status
}}
{train}exit $status
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kit:
    """Pack what a machine without a network needs, and a script that measures and trains.

    Attributes:
        out: new folder to write.
        encoder: checkpoint in Hugging Face layout, with safetensors.
        train: modules of `experiments`, each with its command and flags, but for the encoder and
            ``--out``; paths are names in `data`. They are trained in this order, into ``runs/0``,
            ``runs/1`` and so on.
        prepare: modules with `prepare` and its flags, for data that are built there, all at once;
            paths are names in `data`, and ``../encoder`` is the encoder.
        workers: processes at a time, which share the runs of each `compare`.
        data: name=path of every file or folder that `train` and `prepare` need.
        correctness: flags of `experiments.benchmark.correctness`, in quotes and after "=".
        everything: flags of `experiments.benchmark.everything`, in the same way.
        wheels: packages that the machine lacks; pip downloads them, without what they depend on.
        python: version of Python there.
        limit_mib: size that must not be exceeded.
    """

    out: Path
    encoder: Path
    train: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    workers: int = 1
    data: tuple[str, ...] = ()
    correctness: str = ""
    everything: str = ""
    wheels: tuple[str, ...] = ()
    python: str = "3.12"
    limit_mib: float = 64.0

    def __post_init__(self) -> None:
        require(self, "limit_mib", above=0)
        require(self, "workers", at_least=1)
        commands = [shlex.split(text) for text in self.train]
        for text, words in zip(self.train, commands, strict=True):
            if len(words) < 2:
                raise InputError(f"train: expected a module and its command, found {text!r}")
            if self.workers > 1 and words[1] != "compare":
                raise InputError(f"train: expected compare, whose runs are shared, found {text!r}")
        for given in self.data:
            name, _, path = given.partition("=")
            if not name or "/" in name or not Path(path).exists():
                raise InputError(f"data: expected name=path of what exists, found {given!r}")

    def run(self) -> None:
        with new_folder(self.out, format=FORMAT) as folder:
            write_json(folder / "meta.json", {"format": FORMAT, "flags": to_json(self)})
            half_size(self.encoder, folder / ENCODER)
            (folder / "data").mkdir()
            for given in self.data:
                name, _, path = given.partition("=")
                copy = shutil.copytree if Path(path).is_dir() else shutil.copy2
                copy(path, folder / "data" / name)
            if self.wheels:
                download_wheels(self.wheels, self.python, folder / WHEELS)
            for name, script in self._scripts().items():
                (folder / name).write_text(script)
            size = sum(file.stat().st_size for file in files(folder)) / 2**20
            if size > self.limit_mib:
                largest = max(files(folder), key=lambda file: file.stat().st_size)
                raise InputError(
                    f"limit_mib: expected at most {self.limit_mib:g} MiB, found {size:.1f}, most "
                    f"of it in {largest.relative_to(folder)}"
                )
        print(f"{self.out}: {size:.1f} MiB")

    def _scripts(self) -> dict[str, str]:
        train = "".join(
            f"run {index} experiments.{shlex.join(shlex.split(text))}\n"
            for index, text in enumerate(self.train)
        )
        run = SCRIPT.format(
            correctness=shlex.join(shlex.split(self.correctness)),
            everything=shlex.join(shlex.split(self.everything)),
            prepare="\n".join(
                PREPARE.format(command=shlex.join(shlex.split(text))) for text in self.prepare
            ),
            workers=self.workers,
            fraction=f"{0.9 / self.workers:.3f}",
        )
        return {"run.sh": run, "train.sh": TRAIN.format(train=train)}


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def half_size(checkpoint: Path, folder: Path) -> None:
    """Copies a checkpoint with its weights in float16, its configuration and its tokenizer.

    Raises:
        InputError: there is no such checkpoint.
    """
    from safetensors.numpy import load_file, save_file

    if not (checkpoint / WEIGHTS_FILE).is_file():
        raise InputError(f"{checkpoint}: expected a checkpoint with {WEIGHTS_FILE}")
    folder.mkdir()
    for file in checkpoint.iterdir():
        if file.suffix in (".json", ".txt") and file.is_file():
            shutil.copy2(file, folder)
    halved = {
        name: x.astype(np.float16) if x.dtype == np.float32 else x
        for name, x in load_file(checkpoint / WEIGHTS_FILE).items()
    }
    save_file(halved, folder / WEIGHTS_FILE, metadata={"format": "pt"})


def download_wheels(packages: tuple[str, ...], python: str, folder: Path) -> None:
    """Wheels of exactly these packages, for x86-64 Linux.

    Raises:
        InputError: pip found no wheel of one of them.
    """
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    command += [f"--platform={name}_x86_64" for name in reversed(PLATFORMS)]
    done = subprocess.run([*command, *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["pip said nothing"]
        raise InputError(f"wheels: pip could not download them ({said[-1]})")


if __name__ == "__main__":
    run_command(Kit, prog="python -m experiments.benchmark.kit")
