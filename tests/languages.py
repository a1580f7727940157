"""The same facts in several languages, to see that searching them works alike in all."""

import itertools

import numpy as np

# Words of the same meaning, of English, Chinese and Thai, the latter two written without spaces.
ADJECTIVES = [
    *("old 古老 เก่า", "new 全新 ใหม่", "royal 皇家 หลวง", "northern 北方 เหนือ", "small 小型 เล็ก"),
    *(
        "golden 金色 ทอง",
        "public 公共 สาธารณะ",
        "famous 著名 ดัง",
        "silent 安静 เงียบ",
        "red 红色 แดง",
    ),
]
NOUNS = [
    *("museum 博物馆 พิพิธภัณฑ์", "bridge 大桥 สะพาน", "school 学校 โรงเรียน", "theatre 剧院 โรงละคร"),
    *("library 图书馆 ห้องสมุด", "hospital 医院 โรงพยาบาล", "garden 花园 สวน", "market 市场 ตลาด"),
    *("station 车站 สถานี", "factory 工厂 โรงงาน", "castle 城堡 ปราสาท", "team 球队 ทีม"),
]
# Names are three of these together.
SYLLABLES = [
    *("ta 塔 ตา", "ro 罗 โร", "mi 米 มิ", "ka 卡 กา", "lo 洛 โล", "ne 内 เน", "su 苏 ซู", "vi 维 วี"),
    *("do 多 โด", "fe 费 เฟ", "ba 巴 บา", "li 利 ลี", "mo 莫 โม", "sa 萨 ซา", "pe 佩 เป", "gu 古 กู"),
]
VERBS = ["bought 购买 ซื้อ", "lost 丢失 เสีย", "built 建造 สร้าง", "sold 出售 ขาย"]
UNITS = ["boats 船只 เรือ", "books 书籍 หนังสือ", "trees 树木 ต้นไม้", "clocks 时钟 นาฬิกา"]
FACTS = {
    "English": "The {0} {1} of {2} {3} {5} {4}. ",
    "Chinese": "{2}的{0}{1}{3}了{5}{4}。",
    "Thai": "{1}{0}ใน{2}{3}{4}{5} ",
}
QUESTIONS = {
    "English": "How many {4} has the {0} {1} of {2} {3}?",
    "Chinese": "{2}的{0}{1}{3}了多少{4}？",
    "Thai": "{1}{0}ใน{2}{3}{4}เท่าไร",
}


def facts(count: int, seed: int) -> dict[str, list[tuple[str, str, str]]]:
    """Language -> sentence, question and answer of each fact; the same facts in each language."""
    rng = np.random.default_rng(seed)
    syllables = [
        " ".join(map("".join, zip(*(s.split() for s in three), strict=True)))
        for three in itertools.product(SYLLABLES, repeat=3)
    ]
    names = [name.capitalize() for name in rng.permutation(syllables)[: max(count // 4, 1)]]
    kinds = [ADJECTIVES, NOUNS, names, VERBS, UNITS]
    places = rng.choice(int(np.prod([len(kind) for kind in kinds])), count, replace=False)
    chosen = np.stack(np.unravel_index(places, [len(kind) for kind in kinds]), axis=1)
    numbers = [str(number) for number in rng.choice(np.arange(100, 10_000), count, replace=False)]
    return {
        language: [
            (FACTS[language].format(*words, number), QUESTIONS[language].format(*words), number)
            for words, number in (
                ([kind[i].split()[which] for kind, i in zip(kinds, row, strict=True)], number)
                for row, number in zip(chosen, numbers, strict=True)
            )
        ]
        for which, language in enumerate(FACTS)
    }
