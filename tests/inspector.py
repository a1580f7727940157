"""The inspector's command and its file, for its tests."""

import functools
import json
import re

from experiments.inspect.__main__ import Inspect
from experiments.inspect.sources import open_source
from tests.commands import call, fails

inspect = functools.partial(call, Inspect)
refused = functools.partial(fails, Inspect)


def opened(folder, count=10):
    return open_source(folder, data=None, split=None, count=count, scratch=folder)


def block(html, id):
    """The JSON of a block of the file."""
    found = re.search(rf'<script type="application/json" id="{id}">(.*?)</script>', html)
    assert found
    return json.loads(found[1])


def written(source, tmp_path, *flags):
    inspect(source, "--out", tmp_path / "z.html", *flags)
    return (tmp_path / "z.html").read_text(encoding="utf-8")
