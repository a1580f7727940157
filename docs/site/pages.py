"""Pages of the site that are no Markdown in this folder, and links that leave it.

A hook of MkDocs. Notebooks (`notebooks/*.py`, percent scripts) are executed during the build, and
an exception in one fails it. README.md, CONTRIBUTING.md and CHANGELOG.md lie at the root of the
repository, where their readers look for them. Links to code become plain text, for a site has none.
"""

import os
import re
from pathlib import Path

import jupytext
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[2]
# Pages at the root -> where the site has them.
ROOT_PAGES = {
    "README.md": "about.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# A kernel that the shell has not prepared: no accelerator is assumed, and devices are one.
KERNEL = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}

# What a browser fetches without being asked: scripts, pictures, frames, styles, fonts.
_FOREIGN = re.compile(
    r"<(?:script|img|iframe|video|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s>]*"
    r"|<link\b(?=[^>]*\b(?:stylesheet|preconnect|icon)\b)[^>]*\bhref=[\"']?(?:https?:)?//[^\s>]*"
)
_ROOT_LINK = re.compile(r"\]\(((?:\.\./)+)(README\.md|CONTRIBUTING\.md|CHANGELOG\.md)")
_CODE_LINK = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?!docs/)[^)#\s]*\.(?:py|toml|yml)\)")


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Replaces notebooks by what they print, and adds the files of the root."""
    for file in list(files):
        if file.src_uri.startswith("notebooks/") and file.src_uri.endswith(".py"):
            files.remove(file)
            for made in _executed(Path(file.abs_src_path or ""), file.src_uri, config):
                files.append(made)
    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        for other, uri in ROOT_PAGES.items():
            text = text.replace(f"]({other})", f"]({uri})")
        text = re.sub(r"\[([^\]]*)\]\((?:LICENSE|CITATION\.cff)\)", r"\1", text)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to code as text, those to files of the root as links to their pages."""
    del page, config, files
    # The root is one folder above docs: a page in docs has one "../" too many for the site.
    markdown = _ROOT_LINK.sub(lambda m: f"]({m[1][3:]}{ROOT_PAGES[m[2]]}", markdown)
    return _CODE_LINK.sub(r"\1", markdown)


def on_post_page(output: str, /, *, page: Page, config: MkDocsConfig) -> str:
    """Refuses a page that would load something from another host."""
    del config
    if found := _FOREIGN.search(output):
        raise PluginError(f"{page.file.src_uri}: loads from another host: {found.group()}")
    return output


def _executed(script: Path, uri: str, config: MkDocsConfig) -> list[File]:
    """A notebook as a page of Markdown, and its pictures."""
    notebook = jupytext.read(script)
    before = {name: os.environ.get(name) for name in KERNEL}
    os.environ.update(KERNEL)
    try:
        # Pipes on this machine: the default, a port, is open to all its users, and warns of that.
        pipes = Config({"AsyncKernelManager": {"transport": "ipc"}})
        client = NotebookClient(notebook, config=pipes, timeout=300, kernel_name="python3")
        client.execute(cwd=str(ROOT))
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    names = {"unique_key": script.stem}
    exporter = MarkdownExporter()
    # Lines that were printed one by one are one block.
    exporter.register_preprocessor(CoalesceStreamsPreprocessor, enabled=True)
    text, resources = exporter.from_notebook_node(notebook, resources=names)
    page = uri.removesuffix(".py") + ".md"
    folder = uri.rpartition("/")[0]
    made = [File.generated(config, page, content=text)]
    for name, content in resources.get("outputs", {}).items():
        made.append(File.generated(config, f"{folder}/{name}", content=content))
    return made
