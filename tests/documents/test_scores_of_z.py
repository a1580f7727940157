"""If the official metrics take a span of a text for the answer, Z has one that they take."""

import re
import string

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.mentions import AliasMatcher, enumerate_spans
from hardem_jax.documents.metrics import nq_open, quoref, squad, squad2, triviaqa
from hardem_jax.documents.records import annotated_mentions
from hardem_jax.words import cuts_word, split_words

METRICS = {m.__name__.rpartition(".")[2]: m for m in (squad, squad2, nq_open, triviaqa, quoref)}
# Words of each language, and what its texts put between them and around them.
LANGUAGES = {
    "English": (
        "a the A-levels spider-man U.S. US Milne A. 1,000 £100 1990s can't",
        " , . (“ ”) - ",
    ),
    "German": ("das Straße Müller GmbH 5 € §12 „Die“ 3,5 an", " , „ “ – . "),
    "French": ("l’an à café «oui» 100 € É. a", " , « » ’ ; "),
    "Vietnamese": ("Hội An Đà Nẵng Việt Nam a 10 %", " , . – "),
    "Turkish": ("İstanbul'da ırmak Işık 7’si an", " , ' . "),
    "Russian": ("Москва «Ёлка» № 5 −3 а", " , « » — "),
    "Greek": ("ΟΔΥΣΣΕΥΣ Οδυσσεύς άλφα Α. 2€", " , · ; « » "),
    "Arabic": ("لندن القاهرة ١٢ 12 مُحَمَّد نعم", " ، ؟ « » . "),
    "Hindi": ("हिन्दी दिल्ली १२ ₹500 क्ष", " , । ‘ ’ "),
    "Thai": ("กรุงเทพ ที่ ๒๕๖๓ บาท ฿20", " ๆ . ( ) "),
    "Chinese": ("北京 黑豹队 308 分 2020年 iPhone", "，。“”、 "),
    "Japanese": ("東京タワー ｶﾞｽ 7時 が １２ ￥5", "、。「」 ・"),
    "Korean": ("서울은 서울 대학교에서 3월 김", " , . ‘ ’ "),
}


def generate(language: str, seed: int) -> tuple[str, tuple[int, int]]:
    """A text of a language, and a place of it that cuts no word: the annotated one."""
    rng = np.random.default_rng([seed, *language.encode()])
    words, between = LANGUAGES[language][0].split(), list(LANGUAGES[language][1])
    parts = []
    for word in rng.choice(words, 9):
        parts += [word, *rng.choice(between, rng.integers(0, 3))]
        parts += [" "] * int(rng.integers(0, 2))
    text = "".join(parts)
    free = np.flatnonzero(~cuts_word(text)).tolist()
    start, end = sorted(rng.choice(free, 2, replace=False).tolist())
    return text, (start, end)


# Numbers that punctuation joins, but not by a comma in front of three digits.
JOINED = re.compile(r"\d(?!,\d{3}(?!\d))[!-/:-@[-`{-~]+(?=\d)")


def scoring(metric, text: str, gold: str) -> list[tuple[int, int]]:
    """Every span that cuts no word and that the metric takes for the gold.

    SQuAD's metric takes "2.5" for "25", which nobody wants.
    """
    free = np.flatnonzero(~cuts_word(text)).tolist()
    return [
        (start, end)
        for start in free
        for end in free
        if start < end
        and text[start:end].strip() == text[start:end]
        and metric.exact_match(text[start:end], [gold]) == 1
        and set(JOINED.findall(text[start:end])) <= set(JOINED.findall(gold))
    ]


def written(gold: str, rng: np.random.Generator) -> str:
    """The gold as somebody else might have written it."""
    forms = [gold, gold.upper(), "the " + gold, gold.strip(string.punctuation + " ") + "."]
    forms += [gold.replace("-", ""), gold.replace(",", ""), gold.replace(" ", "  ")]
    return forms[rng.integers(7)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_z_has_a_span_that_scores_if_there_is_one(language):
    checked = 0
    for seed in range(30):
        text, (start, end) = generate(language, seed)
        gold = written(text[start:end], np.random.default_rng(seed))
        found = enumerate_spans(split_words(text), AliasMatcher([gold])).tolist()
        assert not cuts_word(text)[found].any()
        for name, metric in METRICS.items():
            # An answer of nothing but articles and punctuation equals each of these.
            if not squad.normalize_answer(gold):
                continue
            if scoring(metric, text, gold):
                checked += 1
                texts = [text[a:b] for a, b in found]
                right = any(metric.exact_match(span, [gold]) == 1 for span in texts)
                assert right, (name, text, gold, texts)
    assert checked > 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_supervision_keeps_an_annotated_span_that_scores(language):
    for seed in range(30):
        text, (start, end) = generate(language, seed)
        gold = text[start:end]
        if not squad.normalize_answer(gold):
            continue
        example = ReadingExample(
            "q", "?", (Document("d", text),), (gold,), (gold,), true_mention=(0, start, end)
        )
        (kept,) = annotated_mentions([example], skips=ExclusionCounts())
        ((_, a, b),) = kept.mentions
        assert start <= a < b <= end and not cuts_word(text)[[a, b]].any()
        for name, metric in METRICS.items():
            assert metric.exact_match(text[a:b], [gold]) == 1, (name, text, gold, text[a:b])
