"""Windows: nothing lost, nothing doubled, and always the way back to the text."""

import dataclasses
import unicodedata

import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.mentions import AliasMatcher, enumerate_spans
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.errors import InputError
from hardem_jax.words import split_words
from tests.tiny import modernbert_tokenizer, roberta_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    """Every letter is a piece, so that places are easy to count."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?'"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)]
    model = models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.enable_truncation(5)  # what a checkpoint may ship and must not act
    return Tokenizer(tokenizer)


def example(*texts, question="who?", aliases=("Bo",), golds=None, **fields):
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts))
    golds = aliases if golds is None else golds
    return ReadingExample("q1", question, documents, aliases, golds, **fields)


SMALL = WindowConfig(max_tokens=20, stride=5, max_question_tokens=4, max_windows=None)


def test_one_short_document_is_one_window(tokenizer):
    [window] = make_windows(example("Hi Bo."), tokenizer, SMALL)
    # [CLS] w h o ? [SEP] h i b o . [SEP]
    assert window.num_tokens == 12 and window.context_start == 6
    assert window.token_ids[[0, 5, 11]].tolist() == [2, 3, 3]
    assert window.solutions.tolist() == [[8, 9]]
    assert window.span_text(8, 9) == "Bo"
    assert window.true_solution == -1


@pytest.mark.parametrize("joined", ["Bo✓", "✓Bo", "e✓Bo✓e"])
def test_a_token_that_says_more_than_the_answer_is_no_solution(tokenizer, joined):
    # A wordpiece tokenizer has one unknown token for all that an unknown character joins.
    [window] = make_windows(example(f"{joined} Bo"), tokenizer, SMALL)
    [(first, last)] = window.solutions
    assert window.text[: len(joined)] == joined and window.span_text(first, last) == "Bo"


CHOICES = dataclasses.replace(SMALL, max_tokens=28, choices=("yes", "No", "unknown"))


def test_choices_are_words_in_front_of_the_document(tokenizer):
    [window] = make_windows(example("Hi Bo no.", aliases=("Bo", "no")), tokenizer, CHOICES)
    assert window.text == "yes No unknown Hi Bo no." and window.choices == ("yes", "No", "unknown")
    # [CLS] w h o ? [SEP] y e s n o u n k n o w n h i b o n o . [SEP]
    assert window.num_tokens == 26 and window.context_start == 6
    assert [window.span_text(*span) for span in window.solutions] == ["No", "Bo"]
    assert window.solutions.tolist() == [[9, 10], [20, 21]]
    assert [window.place(*span) for span in window.solutions] == [(0, -11, -9), (0, 3, 5)]
    assert window.unknown == (0, -8, -1)


@pytest.mark.parametrize("alias, gold", [("NO", "NO"), ("the no!", "the no!"), ("unknown", "")])
def test_a_choice_is_looked_for_among_the_choices_only(tokenizer, alias, gold):
    text = "no unknown aaaa no bbbbb unknown ccc dddddd no"
    config = dataclasses.replace(CHOICES, max_tokens=32)
    windows = make_windows(example(text, aliases=(alias,), golds=(gold,)), tokenizer, config)
    assert len(windows) > 2
    for window in windows:
        [span] = window.solutions
        assert window.span_text(*span).lower() in alias.lower() and window.place(*span)[1] < 0


def test_choices_move_nothing_in_the_document(tokenizer):
    text = "xx Bo yyyy zz Bo ww Bo"
    fields = {"aliases": ("yes", "Bo"), "true_mention": (0, 14, 16)}
    room = dataclasses.replace(CHOICES, max_tokens=32)
    pairs = zip(
        make_windows(example(text, **fields), tokenizer, room),
        make_windows(example(text, **fields), tokenizer, dataclasses.replace(SMALL, max_tokens=20)),
        strict=True,
    )
    for window, without in pairs:
        assert window.text[window.lead :] == without.text
        assert window.text_start == without.text_start
        places = [window.place(*span) for span in window.solutions]
        assert places[0] == (0, -15, -12)
        assert places[1:] == [without.place(*span) for span in without.solutions]
        assert window.true_solution == without.true_solution + (without.true_solution >= 0)


def test_choices_do_not_go_with_spans_near_the_answer(tokenizer):
    near = example("Hi Bo.", aliases=(), golds=("no",), mentions=((0, 3, 5),))
    with pytest.raises(InputError, match="choices: expected none where Z holds spans near the ans"):
        make_windows(near, tokenizer, CHOICES)
    unanswered = example("Hi Bo.", aliases=(), golds=(), mentions=())
    assert len(make_windows(unanswered, tokenizer, CHOICES)) == 1


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (("do not know",), "choices: expected single words, found 'do not know'"),
        (("the sun",), "choices: expected single words, found 'the sun'"),
        ("yes", "choices: expected a list of strings, found the string 'yes'"),
        (("",), "choices: expected single words, found ''"),
        (("yes", "Yes"), "choices: expected different words, found 'Yes' twice"),
    ],
)
def test_bad_choices_are_refused(choices, message):
    with pytest.raises((InputError, TypeError)) as error:
        WindowConfig(choices=choices)
    assert str(error.value) == message


def test_long_questions_are_cut(tokenizer):
    [window] = make_windows(example("Hi Bo.", question="what is it?"), tokenizer, SMALL)
    assert window.context_start == 6


def test_windows_cover_every_token_and_hold_every_short_mention(tokenizer):
    text = "xx Bo yyyy zz Bo ww Bo"
    windows = make_windows(example(text), tokenizer, SMALL)
    covered, found = set(), set()
    for window in windows:
        assert window.num_tokens <= 20
        assert window.text == text[window.text_start : window.text_start + len(window.text)]
        for start, end in window.offsets:
            covered.update(range(window.text_start + start, window.text_start + end))
        for first, last in window.solutions:
            assert window.span_text(first, last) == "Bo"
            found.add(window.text_start + int(window.offsets[first - window.context_start, 0]))
    assert covered == {i for i, c in enumerate(text) if c != " "}
    assert found == {3, 14, 20}
    # Every five tokens, until one reaches the end.
    assert [w.text_start for w in windows] == [0, 7]
    windows = make_windows(example("a" * 28), tokenizer, SMALL)
    assert [w.text_start for w in windows] == [0, 5, 10, 15]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Pieces 0 to 12 and 5 to 17; one mention at 4 and 5, one at 12 and 13.
        ("xxxx Bo yyyyyy Bo zzzz", [[(4, 5)], [(12, 13)]]),
        # At the very edges: 5 and 6, 11 and 12.
        ("xxxxx Bo yyyy Bo zzzzz", [[(5, 6), (11, 12)], [(5, 6), (11, 12)]]),
    ],
)
def test_a_mention_that_crosses_the_edge_of_a_window_is_not_in_it(tokenizer, text, expected):
    windows = make_windows(example(text), tokenizer, SMALL)
    pieces = [w.solutions - w.context_start + 5 * i for i, w in enumerate(windows)]
    assert [list(map(tuple, found.tolist())) for found in pieces] == expected
    assert {w.span_text(*span) for w in windows for span in w.solutions} == {"Bo"}


def test_documents_are_windowed_apart_and_empty_ones_give_nothing(tokenizer):
    windows = make_windows(example("Bo", "", "  ", "no"), tokenizer, SMALL)
    assert [(w.document, len(w.solutions)) for w in windows] == [(0, 1), (3, 0)]
    assert make_windows(example(""), tokenizer, SMALL) == []


def test_the_true_mention_is_found_among_the_solutions(tokenizer):
    [window] = make_windows(example("Bo, Bo, Bo", true_mention=(0, 4, 6)), tokenizer, SMALL)
    assert len(window.solutions) == 3 and window.true_solution == 1
    # Not the shorter mention that begins at the same place.
    nested = example("Bo Xi", aliases=("Bo", "Bo Xi"), true_mention=(0, 0, 5))
    [window] = make_windows(nested, tokenizer, SMALL)
    assert window.solutions.tolist() == [[6, 7], [6, 9]] and window.true_solution == 1


def test_a_true_mention_in_another_window_is_unknown(tokenizer):
    long = example("Bo" + " a" * 20 + " Bo", true_mention=(0, 43, 45))
    windows = make_windows(long, tokenizer, SMALL)
    # The third window ends within the mention, and has none.
    assert [len(w.solutions) for w in windows] == [1, 0, 0, 1]
    assert [w.true_solution for w in windows] == [-1, -1, -1, 0]


def test_given_mentions_replace_the_search(tokenizer):
    [window] = make_windows(example("Bo, Bo", mentions=((0, 4, 6),)), tokenizer, SMALL)
    assert window.solutions.tolist() == [[9, 10]]
    given = ((0, 4, 6), (0, 0, 2), (1, 0, 2), (0, 4, 6))
    first, second = make_windows(example("Bo, Bo", "Bo", mentions=given), tokenizer, SMALL)
    assert first.solutions.tolist() == [[6, 7], [9, 10]] and second.solutions.tolist() == [[6, 7]]


def test_tf_idf_keeps_the_windows_that_speak_of_the_question(tokenizer):
    texts = ("cats purr", "oslo is cold", "dogs bark", "oslo oslo", "fish swim")
    config = dataclasses.replace(SMALL, max_windows=2)
    windows = make_windows(example(*texts, question="Oslo"), tokenizer, config)
    assert [w.text for w in windows] == ["oslo is cold", "oslo oslo"]
    accents = ("cats purr", "malmö is cold", "dogs bark")
    one = dataclasses.replace(SMALL, max_windows=1)
    [window] = make_windows(example(*accents, question="Malmo"), tokenizer, one)
    assert window.document == 1
    # Words that stand everywhere do not count.
    words = ("who was the one who was", "a king")
    [window] = make_windows(example(*words, question="who was the king?"), tokenizer, one)
    assert window.document == 1
    # Ties go to the earlier window, of however many.
    many = [f"oslo {('paris', 'rome')[i % 2]}" for i in range(60)]
    windows = make_windows(example(*many, question="Paris"), tokenizer, config)
    assert [w.document for w in windows] == [0, 2]
    # A language without spaces.
    chinese = "这句话说的是别的事情。" * 12 + "黑豹队丢了308分。"
    config = WindowConfig(max_tokens=48, stride=16, max_question_tokens=20, max_windows=2)
    asked = example(chinese, question="黑豹队丢了多少分？", aliases=("308",))
    assert any(len(w.solutions) for w in make_windows(asked, tokenizer, config))
    # Nothing but stop words: the first ones, not an error.
    windows = make_windows(example("it is", "he was", "so on"), tokenizer, config)
    assert [w.text for w in windows] == ["it is", "he was"]


@pytest.mark.parametrize(
    "wrong",
    [
        dict(stride=0), dict(stride=14), dict(max_question_tokens=17), dict(max_windows=0),
        dict(max_question_tokens=0),
    ],
)  # fmt: skip
def test_sizes_that_cannot_work_are_named(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        dataclasses.replace(SMALL, **wrong)


def test_real_text_maps_back_exactly(minilm_dir):
    tokenizer = load_tokenizer(minilm_dir)
    text = (
        "Rubik’s Cube™ — the “Magic Cube” — was sold in 1,000,000s; naïve Zürich fans "
        "(ﬁrst in Budapest\u00a0…) bought Rubik's\tCube. 東京も. E=mc². Rubik’s cubes!"
    )
    aliases = ("Rubik’s Cube", "rubik s cube", "Zürich", "東京も", "1,000,000s")
    [window] = make_windows(example(text, aliases=aliases), tokenizer, WindowConfig())
    expected = [text[s:e] for s, e in enumerate_spans(split_words(text), AliasMatcher(aliases))]
    assert [window.span_text(*span) for span in window.solutions] == expected
    assert len(expected) == 5


@pytest.mark.parametrize("make", [modernbert_tokenizer, roberta_tokenizer])
def test_a_decomposed_syllable_keeps_all_of_its_letters(make):
    # 서울 with an archaic letter of U+D7B0 to U+D7FF after it, which no syllable has.
    text = unicodedata.normalize("NFD", "수도는 서울 이다 각\ud7cb")
    config = WindowConfig(max_tokens=120, stride=5, max_question_tokens=4)
    for alias in ("서울", "각\ud7cb"):
        [window] = make_windows(example(text, aliases=(alias,)), Tokenizer(make()), config)
        [[first, last]] = window.solutions.tolist()
        assert unicodedata.normalize("NFC", window.span_text(first, last)) == alias


# --- RoBERTa -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def byte_level():
    return roberta_tokenizer()


def test_a_window_of_roberta_is_the_official_pair(byte_level):
    text = "Ada  lives in Zürich.\n\nBo met 東京 😀."
    [window] = make_windows(
        example(text, question="Who lives?", aliases=("Bo", "東京")),
        Tokenizer(byte_level),
        dataclasses.replace(SMALL, max_tokens=64, max_question_tokens=16),
    )
    official = byte_level.encode("Who lives?", text)
    assert window.token_ids.tolist() == official.ids
    assert window.context_start == official.sequence_ids.index(1)
    assert window.offsets.shape == (official.sequence_ids.count(1), 2)
    assert [window.span_text(*span) for span in window.solutions] == ["Bo", "東京"]
    batch = pad_windows([window], 64, num_solutions=2, pad_id=1)
    assert batch["token_ids"][0, window.num_tokens :].tolist() == [1] * (64 - window.num_tokens)
    # A span may neither begin nor end at a blank token.
    shown = [window.span_text(i, i) for i in np.flatnonzero(batch["context"][0])]
    assert all(shown) and [token.strip() for token in shown] == shown
    blanks = batch["context"][0, window.context_start : window.num_tokens - 1].tolist().count(False)
    assert blanks == len([token for token in official.tokens if token in ("Ġ", "Ċ")]) > 2


def test_a_stride_that_only_bert_has_room_for_is_refused(tokenizer, byte_level):
    config = WindowConfig(max_tokens=20, stride=13, max_question_tokens=4)
    assert make_windows(example("Hi Bo."), tokenizer, config)
    with pytest.raises(InputError, match="stride: expected at most 12"):
        make_windows(example("Hi Bo."), Tokenizer(byte_level), config)
    config = WindowConfig(max_tokens=8, stride=1, max_question_tokens=4)
    with pytest.raises(InputError, match=r"max_tokens: .* \(4\) and 4 special tokens, found 8"):
        make_windows(example("Hi Bo."), Tokenizer(byte_level), config)


def test_a_given_mention_of_a_choice_is_the_choice_alone(tokenizer):
    text = "no, Bo no."
    fields = {"aliases": ("no", "Bo"), "mentions": ((0, 0, 2), (0, 4, 6), (0, 7, 9))}
    [window] = make_windows(example(text, **fields), tokenizer, CHOICES)
    assert [window.place(*span) for span in window.solutions] == [(0, -11, -9), (0, 4, 6)]
    [searched] = make_windows(example(text, aliases=("no", "Bo")), tokenizer, CHOICES)
    assert searched.solutions.tolist() == window.solutions.tolist()
