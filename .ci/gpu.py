"""What whoever has a GPU for nine minutes runs: our training step beside PyTorch's.

    python .ci/gpu.py OUT.json
    python .ci/gpu.py OUT.json --device cpu --preset tiny    # only to see that everything runs

Variants are built in processes of their own, take turns, and our step is profiled by kernel. The
file is written after every build and round; what has not ended when the time is over is killed.
"""

import argparse
import gzip
import importlib
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from experiments.benchmark.steps import workers
from experiments.benchmark.steps.setting import Setting, step_flops

PACKED = {"shortest": 0.5, "packed_tokens": 512}
# Changes of the setting, step, flags of XLA: in CUDA graphs, kernels have no names.
VARIANTS = {
    "torch.compile": ({}, "pytorch-compile", ""),
    "torch.compile, CUDA graphs": ({}, "pytorch-graphs", ""),
    "ours": ({}, "ours", ""),
    "ours, packed": (PACKED, "ours", ""),
    "ours, packed, with a mask": (PACKED, "ours", ""),
    "profile": ({}, "ours", "--xla_gpu_enable_command_buffer="),
    "bert-large, packed": ({**PACKED, "preset": "bert-large"}, "ours", ""),
    "SQLova": ({}, "queries", ""),
    "SQLova, LSTMs as loops": ({}, "queries", ""),
}
# Variants in which a kernel takes nothing, because its limit is 0, and other code computes instead.
LIMITS = {
    "ours, packed, with a mask": ("hardem_jax.encoders.ops.attention_kernels", "MOST_SLOTS"),
    "SQLova, LSTMs as loops": ("hardem_jax.encoders.lstm", "_WIDEST"),
}


def take_nothing(module, limit):
    setattr(importlib.import_module(module), limit, 0)


def profile(steps, device):
    """Kernel -> milliseconds and runs a step, the longest first; of the host if no device ran."""
    jax, found = sys.modules["jax"], {}
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            workers.run("ours", steps, device)
        [trace] = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    devices = {e["pid"] for e in events if "/device:" in str(e.get("args", {}).get("name"))}
    ran = [e for e in events if "hlo_op" in e.get("args", {}) and "dur" in e]
    for event in [e for e in ran if e["pid"] in devices] or ran:
        ms, runs = found.get(name := event["name"].rstrip("0123456789._"), (0.0, 0.0))
        found[name] = ms + event["dur"] / 1000 / steps, runs + 1 / steps
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def main():
    from experiments.benchmark.steps.jax_steps import write_weights

    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    defaults = {"device": "gpu", "preset": "bert-base", "seconds": 540, "rounds": 5, "steps": 10}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    sys.stdout.reconfigure(line_buffering=True)
    flags, began, folder = parser.parse_args(), time.monotonic(), Path(tempfile.mkdtemp())
    lock, ready, content, xla = threading.RLock(), {}, {}, os.environ.get("XLA_FLAGS", "")
    shared = {"preset": flags.preset, "rows": 64, "tokens": 300, "device": flags.device}
    small = {"preset": "tiny", "rows": 4, "tokens": 24} if flags.preset == "tiny" else {}
    shared |= {"dtype": "bfloat16", "attention_dropout": 0.0}
    settings = {name: Setting(**{**shared, **v[0], **small}) for name, v in VARIANTS.items()}

    def save(name, **figures):
        with lock:
            content.setdefault(name, {}).update(figures)
            flags.out.write_text(json.dumps(content, indent=1))

    def stop(status, seconds=0):
        time.sleep(seconds)
        with lock:  # the file is whole
            for process in multiprocessing.active_children():
                process.kill()
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(status)

    def build(name):
        worker, started = workers.Worker(folder), time.monotonic()
        with lock:  # a process begins with the flags of its parent
            os.environ["XLA_FLAGS"] = f"{xla} {VARIANTS[name][2]}".strip()
            worker(workers.libraries)
        if name in LIMITS:
            worker(take_nothing, *LIMITS[name])
        what = VARIANTS[name][1], settings[name], folder / settings[name].preset
        save(name, **worker.attempt(workers.build, *what), built_s=time.monotonic() - started)
        if "error" not in content[name]:
            save(name, **worker(workers.libraries))
            ready[name] = worker
        print(f"{time.monotonic() - began:4.0f} s: {name}", content[name].get("error", "is built"))

    threading.Thread(target=lambda: stop(1, flags.seconds), daemon=True).start()
    for preset, setting in {s.preset: s for s in settings.values()}.items():
        write_weights(setting, folder / preset)
    pools = ThreadPoolExecutor(1), ThreadPoolExecutor(2)
    built = [pools[name.startswith("torch")].submit(build, name) for name in VARIANTS]
    wait(built, began + flags.seconds - 60 - time.monotonic())  # leaves out what takes longer
    for turn in range(flags.rounds):
        for name in [n for n in VARIANTS if n in ready and n != "profile"][:: (-1) ** turn]:
            found = ready[name].attempt(workers.run, VARIANTS[name][1], flags.steps, flags.device)
            save(name, rounds=[*content[name].get("rounds", []), found])
            if "error" in found:
                del ready[name]
    if worker := ready.pop("profile", None):
        save("profile", kernels=worker.attempt(profile, flags.steps, flags.device))
    for name in [n for n in VARIANTS if n in ready and "rounds" in content[n]]:
        ms = 1000 * statistics.median(figures["wall_s"] for figures in content[name]["rounds"])
        padded, real = (step_flops(settings[name], padding=p) / ms / 1e9 for p in (True, False))
        save(name, ms=ms, tflops_as_if_padded=padded, tflops_real=real)
        print(f"{ms:9.2f} ms, {padded:6.2f} TFLOP/s ({real:6.2f} of real tokens): {name}")
    stop(int(not any("ms" in figures for figures in content.values())))


if __name__ == "__main__":
    main()
