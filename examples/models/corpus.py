"""The sentences that the tiny models are trained on, made from templates.

A template is a string with named slots. A slot whose name has an underscore fills several names at
once, so that words which belong together (a country and its capital) stay together.
"""

import itertools


def fill(template, **slots):
    """Every sentence of a template."""
    names = [name for name in slots if any(f"{{{part}}}" in template for part in name.split("_"))]
    sentences = []
    for choice in itertools.product(*(slots[name] for name in names)):
        words = {}
        for name, value in zip(names, choice):
            words |= dict(zip(name.split("_"), value if "_" in name else [value]))
        sentences.append(template.format(**words))
    return sentences


def pairs(text):
    return [tuple(item.split("-")) for item in text.split()]


# -------------------------------------------------------------------- statements

PEOPLE = "我 他 她 我们 小明 小红 爸爸 妈妈 老师 朋友".split()
CITIES = "北京 上海 广州 深圳 杭州 南京 成都 武汉 西安 重庆".split()
CAPITALS = pairs("中国-北京 日本-东京 法国-巴黎 英国-伦敦 德国-柏林 韩国-首尔 泰国-曼谷 意大利-罗马")
SEASONS = pairs("春天-暖和 夏天-炎热 秋天-凉快 冬天-寒冷")
HOBBIES = pairs("吃-苹果 吃-香蕉 喝-茶 喝-咖啡 看-书 看-电影 听-音乐 打-篮球 踢-足球 学-数学 学-英语")
ERRANDS = pairs("学校-学习 图书馆-看书 电影院-看电影 公园-散步 医院-看病 超市-买东西 饭店-吃饭 公司-上班")
COLOURS = pairs("苹果-红色 香蕉-黄色 天空-蓝色 草地-绿色 雪花-白色 煤炭-黑色")
OUTDOORS = "我们去公园散步 我们去爬山 适合出去玩 大家都很高兴".split()
RAIN = "记得带伞 路上很滑 我们在家看书".split()
VERY = "很 非常 真 特别".split()

SINGLE = """
床前明月光，疑是地上霜。举头望明月，低头思故乡。
春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。
白日依山尽，黄河入海流。欲穷千里目，更上一层楼。
一年有四个季节，春夏秋冬。
一个星期有七天，一天有二十四个小时。
太阳从东边升起，从西边落下。
你好，很高兴认识你。
早上好，今天天气很好。
谢谢你的帮助，祝你生日快乐。
旋转位置编码是一种相对位置编码。
深度学习是机器学习的一个分支。
RoFormer使用旋转位置编码。
""".split()

STATEMENTS = [
    ("{day}天气{very}好，{outdoors}。", 12),
    ("{day}天气{very}好。", 8),
    ("{day}天气不好。", 3),
    ("{day}下雨，{rain}。", 9),
    ("{day}下雪，外面{very}冷。", 9),
    ("{city}的{season}很{feel}。", 40),
    ("{season}{very}{feel}。", 16),
    ("{country}的首都是{capital}。", 8),
    ("{capital}是{country}的首都。", 8),
    ("{who}喜欢{verb}{thing}。", 60),
    ("{who}很喜欢{city}。", 40),
    ("{who}在{place}{errand}。", 60),
    ("{who}住在{city}。", 60),
    ("{object}是{colour}的。", 6),
]
ENGLISH = [
    ("the weather is {good} today.", 4),
    ("{they} like {fruit}s.", 6),
    ("{they} like {doing}.", 6),
    ("{town} is the capital of {land}.", 4),
]
# Rare sentences are seen as often as the large groups' would be.
REPEATS = 6


def statements(random):
    """Sentences for language models: a list with repeats."""
    slots = {
        "day": ["今天", "明天", "昨天"],
        "very": VERY,
        "outdoors": OUTDOORS,
        "rain": RAIN,
        "city": CITIES,
        "season_feel": SEASONS,
        "country_capital": CAPITALS,
        "who": PEOPLE,
        "verb_thing": HOBBIES,
        "place_errand": ERRANDS,
        "object_colour": COLOURS,
        "good": ["good", "very good", "bad", "very bad"],
        "they": ["i", "we", "they"],
        "fruit": ["apple", "banana", "book"],
        "doing": ["reading", "singing", "cooking"],
        "town_land": pairs("beijing-china tokyo-japan paris-france london-england"),
    }
    sentences = SINGLE * (2 * REPEATS)
    for template, most in STATEMENTS + ENGLISH:
        group = fill(template, **slots)
        chosen = random.sample(group, min(most, len(group)))
        sentences += chosen * (REPEATS if len(chosen) < 20 else 1)
    return sentences


# --------------------------------------------------------------------- sentiment

REVIEWED = {
    "这部电影 这个故事 这本书 这场演出": ("好看 精彩 感人 有意思", "难看 无聊 乏味 没意思"),
    "这家饭店的菜 这里的面条 今天的午饭": ("好吃 新鲜 可口 香", "难吃 油腻 咸 凉"),
    "这家酒店的房间 这个座位 这里的环境": ("干净 舒服 安静 宽敞", "脏 吵 拥挤 破旧"),
    "服务员的态度 这家店的服务 客服": ("热情 周到 好 耐心", "冷淡 差 糟糕 恶劣"),
    "这部手机 这台电脑 这件衣服": ("好用 漂亮 结实 便宜", "难用 难看 贵 容易坏"),
}
PRAISE = "我很喜欢 非常满意 值得推荐 下次还会再来 强烈推荐给大家 没有让我失望 物超所值 太棒了".split()
BLAME = "我不喜欢 非常失望 不值得推荐 再也不会来了 不推荐给大家 让我很失望 浪费钱 太差了".split()
REVIEWS_EN = {"movie": ("great", "boring"), "book": ("good", "bad"), "food": ("delicious", "terrible")}


def review(random):
    """A review and its label: 1 is positive."""
    label = random.randrange(2)
    if random.random() < 0.06:
        subject = random.choice(list(REVIEWS_EN))
        word = REVIEWS_EN[subject][1 - label]
        return random.choice([f"this {subject} is {word}.", f"the {subject} is very {word}."]), label
    subjects, (good, bad) = random.choice(list(REVIEWED.items()))
    subject, good, bad = (random.choice(text.split()) for text in (subjects, good, bad))
    degree = random.choice(["很", "非常", "真", "特别", "实在太", "确实很"])
    plain = good if label else bad
    body = subject + degree + plain
    kind = random.random()
    if kind < 0.25 and not (good.startswith("没") or good.startswith("有")):
        # A good word is denied: 不好看, or its bad word is: 不难看.
        body = subject + (random.choice(["一点也不", "不", "不太"]) + good if label == 0 else "一点也不" + bad)
    elif kind < 0.4:
        # The clause after 但是 decides.
        body = f"{subject}虽然{bad}，但是{degree}{good}" if label else f"{subject}虽然{good}，但是{degree}{bad}"
    closing = random.choice(PRAISE if label else BLAME)
    form = random.random()
    text = closing if form < 0.12 else body if form < 0.6 else f"{body}，{closing}"
    return text + random.choice(["。", "！", ""]), label


# -------------------------------------------------------------- names and places

SURNAMES = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗"
GIVEN = "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超秀霞平刚桂英华玉兰红建文辉"
PLACES = CITIES + "天津 苏州 青岛 大连 厦门 长沙 郑州 昆明 中国 日本 法国 英国 巴黎 伦敦 东京 纽约".split()
TAGGED = """
{P}住在{L}。
{P}和{P}一起去{L}旅游。
{P}在{L}工作。
{L}的天气很好。
昨天{P}从{L}来到{L}。
{P}是我的朋友，他喜欢{L}。
{P}是我的同学，她喜欢{L}。
我想去{L}看{P}。
{P}老师在{L}教数学。
从{L}到{L}要坐两个小时的火车。
{P}喜欢看书，{P}喜欢踢足球。
{P}出生在{L}，现在住在{L}。
今天我和{P}去公园散步。
明天下雨，记得带伞。
他们在图书馆学习英语。
""".split()


def tagged(random):
    """A sentence and the label of each character: 0 other, 1 in a person's name, 2 in a place's."""
    text, labels = "", []
    parts = random.choice(TAGGED).replace("{", "|{").replace("}", "}|").split("|")
    for part in parts:
        label = {"{P}": 1, "{L}": 2}.get(part, 0)
        if label == 1:
            given = "".join(random.choice(GIVEN) for _ in range(random.choice([1, 2, 2])))
            # A child's name as it is said at home: 小明.
            part = "小" + given[0] if random.random() < 0.3 else random.choice(SURNAMES) + given
        elif label == 2:
            part = random.choice(PLACES)
        text += part
        labels += [label] * len(part)
    return text, labels


# --------------------------------------------------------------------- questions

NAMED = pairs("小明-他 小红-她 小刚-他 小丽-她 小华-他 小芳-她 张伟-他 李娜-她 王强-他 刘洋-他 陈静-她 杨勇-他")
NUMBERS = "五 六 七 八 九 十 十一 十二 二十 三十".split()
LIKED = "苹果 香蕉 喝茶 喝咖啡 看书 看电影 听音乐 打篮球 踢足球 游泳 画画 唱歌".split()
WORKPLACES = "学校 医院 银行 饭店 工厂 公司 超市 图书馆".split()
JOBS = "老师 医生 司机 厨师 画家 学生 警察 工程师".split()
# What is said of a person, the answers, questions about the answer, the question about the person.
FACTS = [
    ("住在{}", CITIES, ["{}住在哪里", "{}住在什么地方", "{}的家在哪里"], "谁住在{}"),
    ("喜欢{}", LIKED, ["{}喜欢什么", "{}的爱好是什么"], "谁喜欢{}"),
    ("今年{}岁", NUMBERS, ["{}今年多大", "{}几岁", "{}今年几岁"], "谁今年{}岁"),
    ("在{}工作", WORKPLACES, ["{}在哪里工作", "{}在哪里上班"], "谁在{}工作"),
    ("是{}", JOBS, ["{}是做什么的", "{}的工作是什么"], "谁是{}"),
]


def question(random):
    """A question, a context, and where in the context the answer starts and ends."""
    people = random.sample(NAMED, random.choice([1, 2, 2, 2]))
    # Nobody shares an answer, so that 谁 has one answer.
    values = [random.sample(answers, len(people)) for _, answers, _, _ in FACTS]
    context, spans = "", []
    # When the same is said of everybody, only the name in the question tells which answer is meant.
    same, common = random.random() < 0.6, random.sample(range(len(FACTS)), random.choice([1, 1, 2]))
    for i, (person, pronoun) in enumerate(people):
        kinds = common if same else random.sample(range(len(FACTS)), random.choice([1, 1, 2]))
        for said, kind in enumerate(kinds):
            subject = person if said == 0 else random.choice([pronoun, "", "", ""])
            if context:
                context += "。" if subject else "，"
            if said == 0:
                first = len(context)
            context += subject
            before = FACTS[kind][0].split("{")[0]
            start = len(context) + len(before)
            context += FACTS[kind][0].format(values[kind][i])
            spans.append((kind, i, (first, first + len(person)), (start, start + len(values[kind][i]))))
    kind, i, name, value = random.choice(spans)
    _, _, direct, reverse = FACTS[kind]
    if random.random() < 0.25:
        asked, span = reverse.format(values[kind][i]), name
    else:
        asked, span = random.choice(direct).format(people[i][0]), value
    return asked + random.choice(["？", ""]), context + "。", *span


# ------------------------------------------------------------------- paraphrases

FRUITS = "苹果 香蕉 西瓜 葡萄".split()
GOODS = "手机 电脑 衣服 自行车 书包 雨伞 手表".split()
SPOTS = "火车站 机场 图书馆 医院 电影院 公园 学校 超市 博物馆 银行".split()
SUBJECTS = "英语 数学 画画 游泳 弹琴 编程 做饭 开车 书法 唱歌".split()
SHADES = "红色 黑色 白色 蓝色 绿色".split()
LOVED = CITIES + "苹果 香蕉 音乐 电影 篮球 足球".split()
SAID = ["今天", "明天", "昨天"]
REVIEW_THINGS = "这部电影 这本书 这首歌 这家饭店 这件衣服 这部手机".split()

# Each entry has the sentences of one meaning, or of opposite meanings that are told apart.
SAME = [
    ["{a}和{b}哪个好？|{b}和{a}哪个好？|{a}和{b}哪个比较好？|{b}和{a}哪个更好？|{a}好还是{b}好？|{b}跟{a}比哪个好？|{a}与{b}相比哪个好？"],
    ["{ware}多少钱？|{ware}的价格是多少？|{ware}怎么卖？|买{ware}要花多少钱？|请问{ware}卖多少钱？"],
    ["去{spot}怎么走？|{spot}怎么走？|请问到{spot}怎么走？|怎么去{spot}？|我想去{spot}，该怎么走？"],
    ["怎么学{subject}？|如何学习{subject}？|怎样才能学好{subject}？|学{subject}有什么好方法？|{subject}要怎么学？"],
    ["{city}今天天气怎么样？|今天{city}的天气如何？|请问{city}今天天气好吗？|我想知道今天{city}的天气。"],
    ["给我推荐一款{shade}的{good}。|有没有{shade}的{good}？|我想买一款{shade}的{good}。|麻烦推荐一款{shade}{good}。"],
    ["{said}天气不错。|{said}天气很好。|{said}的天气真好。", "{said}天气不好。|{said}天气很差。|{said}的天气真糟糕。"],
    ["我喜欢{loved}。|我很喜欢{loved}。|我特别喜欢{loved}。", "我不喜欢{loved}。|我讨厌{loved}。|我不太喜欢{loved}。"],
    ["{thing}不错。|{thing}很好。|{thing}真棒。", "{thing}不好。|{thing}很差。|{thing}太糟糕了。"],
]


def paraphrases(random, count):
    """Blocks of meanings, and `count` meanings that are held out; a meaning is a list of sentences.

    A block keeps opposites together. What is held out has two slots, so that its words are seen elsewhere.
    """
    slots = {
        "a_b": list(itertools.combinations(CITIES, 2)) + list(itertools.combinations(FRUITS, 2)),
        "good": GOODS,
        "ware": FRUITS + GOODS,
        "spot": SPOTS,
        "subject": SUBJECTS,
        "city": CITIES,
        "shade": SHADES,
        "said": SAID,
        "loved": LOVED,
        "thing": REVIEW_THINGS,
    }
    blocks, wide = [], []
    for entry in SAME:
        columns = [[fill(template, **slots) for template in meaning.split("|")] for meaning in entry]
        # Sentence by sentence the slots take the same values in the same order.
        found = zip(*(map(list, zip(*column)) for column in columns))
        (wide if entry[0].split("|")[0].count("{") > 1 else blocks).extend(found)
    random.shuffle(wide)
    return blocks + wide[count:], [meaning for (meaning,) in wide[:count]]
