"""Finding a tokenizer: formats, and how what is none is refused."""

import json
import shutil
import subprocess
import sys

import pytest

from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.errors import InputError

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "rome", "##s", "Rome"]


def test_a_vocabulary_is_enough(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode(["Romes [SEP]"])[0].ids.tolist() == [4, 5, 3]
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id) == (2, 3, 0)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert load_tokenizer(tmp_path).encode(["Rome"])[0].ids.tolist() == [6]


def test_it_cuts_as_the_complete_tokenizer_does(minilm_dir, tmp_path):
    shutil.copy(minilm_dir / "vocab.txt", tmp_path)
    text = "Zürich’s naïve fans bought 1,000,000 cubes, 東京も; \u00a0[MASK] ﬁrst\tMcDonald"
    ours, theirs = (load_tokenizer(f).encode([text])[0] for f in (tmp_path, minilm_dir))
    assert ours.ids.tolist() == theirs.ids.tolist()
    assert ours.offsets.tolist() == theirs.offsets.tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "tokenizer.json: expected a tokenizer, found"),
        ("vocab.txt", "rome\n", r"vocab.txt: expected a BERT vocabulary, found no \[UNK\] in it"),
        ("vocab.txt", "[UNK]\n[PAD]", r"vocab.txt: .*found no \[CLS\] in it"),
        ("other.txt", "", r"expected a tokenizer \(tokenizer.json or vocab.txt\), found neither"),
    ],
)
def test_what_is_no_tokenizer_is_named(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        load_tokenizer(tmp_path)


def test_a_folder_is_refused_before_anything_slow_is_imported(tmp_path):
    code = (
        "import sys\n"
        "from hardem_jax.data.tokenizer import load_tokenizer\n"
        "for name in sys.argv[1:]:\n"
        "    try: load_tokenizer(name)\n"
        "    except ValueError as error: print(error)\n"
        "assert not {'transformers', 'huggingface_hub'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), "./absent"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "found neither" in said and "./absent: expected a folder with a tokenizer" in said


def test_a_name_on_the_hub_without_a_network_is_one_line(monkeypatch):
    import huggingface_hub

    def unreachable(self, name, timeout):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(InputError) as refused:
        load_tokenizer("someone/absent")
    assert str(refused.value) == (
        "someone/absent: found neither a local folder nor a tokenizer to download "
        "(ConnectionError: no route)"
    )
