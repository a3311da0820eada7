"""Makes the reference data for tokenizers in `tokenizer/`.

    python golden/tokenizer.py

Ids and offsets are those of transformers' RoFormerTokenizer (with rjieba) and
BertTokenizer on a vocabulary made here. See README.md for the files.
"""

import json
import random
import shutil
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import rjieba
import tokenizers
import transformers

import manifest

OUT = Path(__file__).resolve().parent / "tokenizer"
SEED = 20210420
STRINGS = 2000

# Everyday sentences; the vocabulary gets most of their characters and some of their words.
CHINESE = """
今天天气非常好，我们一起去公园散步吧。
北京大学的学生正在图书馆里看书。
他在上海工作了三年，去年才回到家乡。
这部电影的故事很感人，很多观众都哭了。
人工智能正在改变世界，也改变了我们的生活。
中国科学技术大学位于安徽省合肥市。
请问附近有没有好吃的餐馆？
研究人员提出了一种新的位置编码方法。
旋转位置编码能够表示词语之间的相对距离。
自然语言处理是计算机科学的重要方向。
小明买了一台笔记本电脑，花了五千多元。
我不喜欢下雨天，但是雨后的空气很新鲜。
经济发展需要稳定的政策和开放的市场。
老师说：“明天考试，请大家认真复习。”
这家公司的产品质量很好，价格也便宜。
春天来了，花园里的花都开了！
医生建议他每天早上跑步半个小时。
长城是世界上最长的城墙，历史悠久。
孩子们在操场上踢足球、打篮球、跳绳。
法院认为，被告应当承担违约责任。
模型的训练数据来自百科、新闻和问答网站。
火车站人山人海，大家都急着回家过年。
如果明天不下雨，我们就去爬山。
她的中文说得很流利，英语也不错。
""".split()
ENGLISH = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they
which one you were her all she there would their we him been has when who will more no if out so said what up its about
into than them can only other new some could time these two may then do first any my now such like our over man me even
most made after also did many before must through back years where much your way well down should because each just
those people how too little state good very make world still own see men work long get here between both life being
under never day same another know while last might us great old year off come since against go came right used take
three model token position rotary embedding attention transformer language training data word piece unknown hello""".split()
PIECES = "s ed ing er ly ness tion al able est ic ize or en y e t n d a i o r l m c p u h g b f w k v x z j q".split()
ASCII = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
WIDE = "，。！？；：、（）《》〈〉【】「」『』“”‘’…—～·￥％＋－＝／＠＃＆＊"
# What no vocabulary expects: other scripts, letters with accents in both forms, full-width forms, symbols, emoji, blanks,
# characters that are removed, and Chinese characters outside the main block.
OTHER = {
    "script": "привет мир γειά שלום مرحبا नमस्ते สวัสดี 안녕하세요 こんにちは カタカナ ｶﾞｷﾞ Ǆ ǅ İstanbul ŐŰ ß ẞ ﬁ Ω Å",
    "accent": "café cafe\u0301 naïve nai\u0308ve Zu\u0308rich ZÜRICH e\u0301\u0323 \u0301 \u0344 Đà Nẵng ố ǖ 각 각",
    "wide": "ＡＢＣ ａｂｃ １２３ Ｔｒａｎｓｆｏｒｍｅｒ ３．１４ ㈱ ① ⅷ ㎏ ½",
    "symbol": "© ® ™ € £ ¥ § ° ± × ÷ ≤ ∑ → ☆ ♪ █ � ¡ ¿ « » – ‰ ′ ⁂",
    "emoji": "😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇨🇳 ❤️ 1️⃣ 🧑🏿‍🚀 ☺",
    "blank": " |  |\t|\n|\r\n|\r|\u00a0|\u3000|\u2003|\u2028|\u2029|\u1680|\u202f|\u205f|\u000b|\u000c|\u0085",
    "removed": "\0|\x01|\x07|\x1b|\x1c|\x1f|\x7f|\x9f|\u200b|\u200d|\u200e|\ufeff|\u00ad|\ue000|\ufffd|\uffff|\u0378|\U000e0001|\U0010ffff",
    "rare": "㐀 㬎 龥 鿿 \uf900 \ufa6d \U00020000 \U0002a6d6 \U0002a700 \U0002b740 \U0002b820 \U0002b91f \U0002b920 \U0002ceb0 \U0002f800 \U00030000 〇 々 〻 ㄅ",
}
SPECIAL = ["[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[unused7]", "[mask]", "[MASK", "MASK]", "[[MASK]]", "##s", "##"]
TERMS = "c++ C# .net a.b.c 3.14 1,000 50% wi-fi GPT-4 e-mail x_y A&B AT&T http://a.cn/?q=1 T恤 卡拉OK K歌 阿Q 3D打印 5G".split()


def vocabulary():
    """Tokens laid out as in BERT's Chinese vocabulary, with words of jieba's among them."""
    random.seed(SEED)
    specials = ["[PAD]"] + [f"[unused{i}]" for i in range(1, 100)] + ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "<T>"]
    characters = sorted({c for line in CHINESE for c in line if c >= "\u4e00"})
    # A fifth of the characters is left out, so that there are unknown ones inside and outside of words.
    everyday = sorted(random.sample(characters, len(characters) * 4 // 5))
    # The everyday characters of GB 2312, all rows of its first level but the last.
    common = [bytes([high, low]).decode("gb2312") for high in range(0xB0, 0xD7) for low in range(0xA1, 0xFF)]
    characters = sorted({*everyday, *random.sample(common, 400)}) + list("㐀𠀀豈〇")
    words = sorted({w for line in CHINESE for w in rjieba.cut(line, False) if len(w) > 1 and w[0] >= "\u4e00"})
    pairs = (a + b for a in characters for b in characters)
    pairs = [pair for pair in pairs if rjieba.cut(pair, False) == [pair]]
    words = sorted({*random.sample(words, len(words) * 2 // 3), *random.sample(pairs, 500)}) + ["卡拉OK", "T恤", "阿Q", "天天", "天天气"]
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
    pieces = [f"##{p}" for p in PIECES] + [f"##{d}" for d in "0123456789.-+#%&_"]
    continued = [f"##{c}" for c in characters[::3]]
    others = list("абвпригет") + list("こんちは") + ["é", "ü", "ß", "1️⃣"[0], "３", "ａ", "😀", "®", "½", "##️", "3.14", "c++", "gp"]
    tokens = specials + list(ASCII) + list(WIDE) + letters + characters + words + ENGLISH + pieces + continued + others
    return list(dict.fromkeys(tokens))


def other(kind):
    values = OTHER[kind]
    return random.choice(values.split("|") if kind in ("blank", "removed") else values.split(" "))


def fragment():
    """A piece of a text."""
    line = random.choice(CHINESE)
    start = random.randrange(len(line))
    part = line[start : start + random.randint(1, 12)]
    kinds = {
        part: 40,
        line: 6,
        " ".join(random.choices(ENGLISH, k=random.randint(1, 6))): 20,
        random.choice(ENGLISH).title() + random.choice(PIECES): 8,
        "".join(random.choices("abcdefghijklmnopqrstuvwxyzABCXYZ", k=random.randint(1, 14))): 4,
        str(random.randrange(10 ** random.randint(1, 8))): 6,
        random.choice(TERMS): 8,
        random.choice(SPECIAL): 8,
        random.choice(ASCII) * random.choice([1, 1, 1, 2, 3]): 8,
        random.choice(WIDE): 8,
    } | {other(kind): 4 for kind in OTHER}
    return random.choices(list(kinds), list(kinds.values()))[0]


def strings():
    """Texts as strings, or as `[fragment, count]` where they are long."""
    found = [""] + [value for kind in OTHER for value in (other(kind) for _ in range(8))] + SPECIAL + TERMS + CHINESE
    found += [a + b for kind in ("script", "accent", "wide", "symbol", "emoji", "rare") for a, b in
              [(OTHER[kind], ""), (OTHER[kind].replace(" ", ""), "天天气"), ("好", OTHER[kind].upper())]]
    found += [OTHER["blank"].replace("|", "好"), OTHER["removed"].replace("|", "好"), OTHER["removed"].replace("|", "")]
    found += [["a", n] for n in (99, 100, 101, 10000)] + [["ab1", 34], ["ａ", 101], ["é", 101], ["e\u0301", 60]]
    found += [["今天天气非常好。", 400], ["天", 3000], ["。", 3000], ["hello world, ", 700], ["[MASK]", 1200], [" ", 5000],
              ["\u0301", 3000], ["👨‍👩‍👧‍👦", 400], ["中国a", 1500], ["ＡＢＣ", 1000], ["\u200b", 3000], ["%", 4000]]
    while len(found) < STRINGS:
        text = "".join(fragment() + random.choice(["", "", "", " "]) for _ in range(random.randint(1, 7)))
        found.append(text[: random.choice([20, 40, 80])])
    return found


def expand(text):
    return text if isinstance(text, str) else text[0] * text[1]


def encoded(tokenizer, *texts, **options):
    """Ids, and the character offsets of all tokens one after the other."""
    out = tokenizer(*texts, return_offsets_mapping=True, return_token_type_ids=True, **options)
    return out, {"ids": out.input_ids, "offsets": [x for pair in out.offset_mapping for x in pair]}


def line(row):
    return json.dumps(row, ensure_ascii=True, separators=(",", ":"))


def main():
    transformers.logging.set_verbosity_error()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    tokens = vocabulary()
    assert [tokens.index(t) for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [0, 100, 101, 102, 103]
    (OUT / "vocab.txt").write_text("".join(f"{t}\n" for t in tokens), newline="\n")
    ids = {token: i for i, token in enumerate(tokens)}
    # The vocabulary is passed as a dictionary. From a folder with vocab.txt alone this version of transformers hands its
    # path to the rule, which then looks words up in the path and finds none.
    kinds = {
        "roformer": transformers.RoFormerTokenizer(vocab=ids),
        "bert": transformers.BertTokenizer(vocab=ids),
        "roformer-cased": transformers.RoFormerTokenizer(vocab=ids, do_lower_case=False),
        "bert-plain": transformers.BertTokenizer(vocab=ids, strip_accents=False, tokenize_chinese_chars=False),
    }
    kinds["roformer"].save_pretrained(OUT / "saved")
    saved = json.loads((OUT / "saved/tokenizer.json").read_text())
    assert saved["pre_tokenizer"]["type"] == "BertPreTokenizer"
    again = transformers.RoFormerTokenizer.from_pretrained(OUT / "saved")

    rows, known = [], Counter()
    texts = strings()
    for number, text in enumerate(texts):
        row = {"text": text}
        for kind in list(kinds)[: 4 if number % 4 == 0 else 2]:
            row[kind] = encoded(kinds[kind], expand(text))[1]
            known[kind] += len(row[kind]["ids"])
            known[f"{kind} unknown"] += row[kind]["ids"].count(100)
        assert encoded(again, expand(text))[1] == row["roformer"]
        if row["bert"] == row["roformer"]:
            row["bert"] = "roformer"
        rows.append(row)
    plain = [text for text in texts if isinstance(text, str)]
    pairs = []
    for _ in range(200):
        first, second = random.choice(plain), random.choice(plain)
        row = {"first": first, "second": second, "max_length": random.choice([None, 3, 8, 9, 13, 16])}
        cut = {"truncation": "longest_first", "max_length": row["max_length"]} if row["max_length"] else {}
        for kind in ("roformer", "bert"):
            out, row[kind] = encoded(kinds[kind], first, second, **cut)
            row[kind]["token_types"] = out.token_type_ids
        pairs.append(row)
    parts = [",\n".join(map(line, part)) for part in (rows, pairs)]
    (OUT / "cases.json").write_text('{{"cases":[\n{}\n],"pairs":[\n{}\n]}}\n'.format(*parts))
    print(f"{len(tokens)} tokens, {len(rows)} texts, {len(pairs)} pairs, {dict(known)}")
    print(f"{sum(row['bert'] != 'roformer' for row in rows)} texts differ between the two rules")
    manifest.update("tokenizer", rjieba=version("rjieba"), tokenizers=tokenizers.__version__)


if __name__ == "__main__":
    main()
