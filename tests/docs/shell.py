"""Shell commands of the documentation, run as a reader would type them."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import ROOT, blocks


def run_shell(page: str, folder: Path, variables: Mapping[str, str], *, leave_out: str = "") -> str:
    """Runs the ``sh`` blocks of a page in a folder, one after another, in one shell.

    Args:
        page: of docs.
        folder: to run them in.
        variables: their values in place of those that the page assigns, or on top of them.
        leave_out: what a block must not contain, as a regular expression.

    Returns:
        What they print.
    """
    chosen = [b for b in blocks(page, "sh") if not (leave_out and re.search(leave_out, b))]
    code = f'python() {{ {sys.executable} "$@"; }}\n'
    code += "hardem() { python -c 'from hardem_jax.cli.main import main; main()' \"$@\"; }\n"
    code += "".join(chosen)
    for name, value in variables.items():
        code = re.sub(rf"^{name}=.*$", f"{name}={value}", code, flags=re.MULTILINE)
    # One device, as on a reader's machine; eight are for tests of devices.
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
