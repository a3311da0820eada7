"""Models on texts: the same values as the command's."""

import multiprocessing
import threading
from dataclasses import asdict

import numpy
import pytest

import rotary
from rotary import Pipeline, RotaryError

TEXTS = ["The weather is lovely today.", "a", "He drove to the stadium."]


@pytest.fixture(scope="module")
def prompts(sentences):
    return Pipeline(sentences / "prompts", device="cpu")


def test_embed_gives_the_vectors_of_the_command(sentences, prompts, objects):
    model = ["--model", sentences / "prompts", "--device", "cpu"]
    for flags, options in (
        ([], {}),
        (["--prompt-name", "query"], {"prompt_name": "query"}),
        (["--prompt", ""], {"prompt": ""}),
        (["--dimensions", "8", "--normalize"], {"dimensions": 8, "normalize": True}),
        (["--pooling", "mean-sqrt"], {"pooling": "mean-sqrt"}),
    ):
        printed = [line["embedding"] for line in objects("embed", *model, *flags, *TEXTS)]
        vectors = prompts.embed(TEXTS, **options)
        assert vectors.dtype == numpy.float32 and (vectors == numpy.array(printed, "f4")).all(), flags
        assert (prompts.embed(TEXTS[1], **options) == vectors[1]).all()


def test_texts_in_any_number_and_their_progress(prompts):
    assert prompts.embed([]).shape == (0, 32)
    told = []
    vectors = prompts.embed(["a", "b"] * 600, progress=lambda done, total: told.append((done, total)))
    assert told == [(512, 1200), (1024, 1200), (1200, 1200)]
    assert (vectors[0::2] == vectors[0]).all() and (vectors[1::2] == vectors[1]).all()


def test_long_texts_are_told_more_often(prompts):
    told = []
    prompts.embed(["a " * 150_000] * 9, progress=lambda done, total: told.append(done))
    assert told == [4, 8, 9], "four of them have a mebibyte, and the folder cuts them"


def test_texts_that_the_vocabulary_does_not_have_are_warned_of(examples):
    with pytest.warns(RuntimeWarning, match="vocabulary"):
        Pipeline(examples / "tiny-mlm", device="cpu").embed(["☃ ☂ ☁ ♠ ♣"] * 50)


def test_what_a_callback_raises_ends_the_work(prompts):
    def refuse(done, total):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        prompts.embed(["a"] * 2000, progress=refuse)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"prompt_name": "other"}, RotaryError, "query"),
        ({"prompt_name": "query", "prompt": "a"}, RotaryError, "both"),
        ({"dimensions": -1}, RotaryError, "from 1 to 32"),
        ({"dimensions": 33}, RotaryError, "from 1 to 32"),
        ({"dimensions": 1.5}, TypeError, None),
        ({"pooling": "middle"}, RotaryError, "mean-sqrt"),
        ({"texts": ["a", 3]}, TypeError, "text 1 is of type int"),
        ({"texts": 3}, TypeError, None),
        ({"texts": None}, TypeError, None),
    ],
)
def test_what_cannot_be_embedded_is_said(prompts, options, kind, says):
    with pytest.raises(kind, match=says):
        prompts.embed(**{"texts": ["a"], **options})


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        ("/nowhere", {}, "no such folder"),
        ("nobody/nothing", {}, "nobody/nothing"),
        ("prompts", {"dtype": "f17"}, "dtype is"),
        ("prompts", {"dtype": "tf32", "device": "cpu"}, "tf32"),
        ("prompts", {"device": "tpu"}, "device is"),
        ("prompts", {"max_tokens": 0}, "at least 1"),
        ("prompts", {"max_tokens": -1}, "max_tokens is -1"),
        ("a\0b", {}, None),
    ],
)
def test_what_cannot_be_opened_is_said(sentences, monkeypatch, model, options, says):
    monkeypatch.chdir(sentences)
    with pytest.raises(RotaryError, match=says):
        rotary.Pipeline(model, **options)


def test_similarity_and_rank_are_the_command_s(sentences, prompts, objects):
    model = ["--model", sentences / "prompts", "--device", "cpu"]
    printed = objects("similarity", *model, TEXTS[0], TEXTS[1])[0]["score"]
    assert prompts.similarity(TEXTS[0], TEXTS[1]) == pytest.approx(printed, rel=2**-24)
    assert prompts.similarity(TEXTS[:1], TEXTS[1:2]) == [prompts.similarity(TEXTS[0], TEXTS[1])]
    for name, top in ("prompts", 2), ("cross-encoder", 3):
        pipeline = Pipeline(sentences / name, device="cpu")
        flags = ["--model", sentences / name, "--device", "cpu", "--top-k", top]
        printed = objects("rank", *flags, "the weather", *TEXTS)
        ranked = pipeline.rank("the weather", TEXTS, top_k=top)
        assert [found.text for found in ranked] == [line["text"] for line in printed]
        assert [found.index + 1 for found in ranked] == [line["line"] for line in printed]
        scores = [line["score"] for line in printed]
        assert [found.score for found in ranked] == pytest.approx(scores, rel=2**-24)
    assert pipeline.rank("the weather", []) == []


def test_masks_are_filled_as_by_the_command(models, objects):
    pipeline, text = Pipeline(models["masked"], device="cpu"), "the cat [MASK] on the mat"
    printed = objects("fill-mask", "--model", models["masked"], "--device", "cpu", "--top-k", 3, text)[0]["guesses"]
    guesses = pipeline.fill_mask(text, top_k=3)
    assert [(guess.token, guess.id, guess.text) for guess in guesses] == [
        (line["token"], line["id"], line["text"]) for line in printed
    ]
    assert [guess.score for guess in guesses] == pytest.approx([line["score"] for line in printed], rel=2**-24)
    assert pipeline.fill_mask([text, text], top_k=3) == [guesses, guesses]
    with pytest.raises(RotaryError, match="text 1: the text is without a mask"):
        pipeline.fill_mask([text, "no mask"])
    with pytest.raises(RotaryError, match="top_k is -1"):
        pipeline.fill_mask(text, top_k=-1)


def test_texts_are_classified_as_by_the_command(models, objects):
    pipeline, text = Pipeline(models["classification"], device="cpu"), "the old dog sat"
    printed = objects("classify", "--model", models["classification"], "--device", "cpu", text)[0]["labels"]
    labels = pipeline.classify(text)
    assert [found.label for found in labels] == [line["label"] for line in printed]
    assert {found.label for found in labels} == {"good", "bad"}
    assert [found.score for found in labels] == pytest.approx([line["score"] for line in printed], rel=2**-24)
    assert pipeline.classify([text, text], ["a cat", "a cat"])[0] == pipeline.classify(text, "a cat")
    with pytest.raises(RotaryError, match="numbers of texts are 2 and 1"):
        pipeline.classify([text, text], ["a cat"])


def test_text_is_generated_as_by_the_command(models, objects):
    pipeline = Pipeline(models["causal"], device="cpu")
    printed = objects("generate", "--model", models["causal"], "--device", "cpu", "--max-tokens", 12, "the cat")
    whole = pipeline.generate("the cat", max_tokens=12)
    assert whole == printed[0]["text"] and whole
    pieces = pipeline.stream("the cat", max_tokens=12)
    first = next(pieces)
    assert whole.startswith(first) and first + "".join(pieces) == whole
    assert next(pieces, None) is None
    assert pipeline.generate("the cat", seed=1) != pipeline.generate("the cat", seed=2)
    # One that is given up ends.
    del pieces
    next(pipeline.stream("the cat", max_tokens=1000))


def test_questions_tokens_and_paraphrases_are_the_command_s(examples, objects):
    def both(name, command, *words):
        return Pipeline(examples / name, device="cpu"), objects(
            command, "--model", examples / name, "--device", "cpu", *words
        )

    # In characters, of which some have several bytes.
    question, context = "小明住在哪里？", "小明住在北京。他喜欢喝茶。"
    pipeline, (printed,) = both("tiny-qa", "answer", question, context)
    answer = pipeline.answer(question, context)
    assert {**asdict(answer), "score": printed["score"]} == printed
    assert answer.score == pytest.approx(printed["score"], rel=2**-24)
    assert context[answer.start : answer.end] == answer.answer
    assert pipeline.answer([question], [context]) == [answer]

    pipeline, (printed,) = both("tiny-ner", "classify", context)
    tokens = pipeline.classify(context)
    assert [{**asdict(token), "score": None} for token in tokens] == [
        {**token, "score": None} for token in printed["tokens"]
    ]
    with pytest.raises(RotaryError, match="a text alone"):
        pipeline.classify(context, context)

    flags = ("--paraphrase", 3, "--seed", 4)
    pipeline, (printed,) = both("tiny-sim", "generate", *flags, "今天天气很好")
    found = pipeline.paraphrase("今天天气很好", 3, seed=4)
    assert [paraphrase.text for paraphrase in found] == [line["text"] for line in printed["paraphrases"]]
    assert found and found[0].score >= found[-1].score
    with pytest.raises(RotaryError, match="from 1 to 1000"):
        pipeline.paraphrase("今天天气很好", 1 << 40)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": numpy.nan}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_generated_is_said(models, options, says):
    pipeline = Pipeline(models["causal"], device="cpu")
    with pytest.raises(RotaryError, match=says):
        pipeline.generate("the cat", **options)
    with pytest.raises(RotaryError, match=says):
        list(pipeline.stream("the cat", **options))


def test_a_model_is_not_asked_what_it_cannot_do(models, prompts):
    for task in (prompts.classify, prompts.fill_mask, prompts.generate):
        with pytest.raises(RotaryError):
            task("the cat")
    with pytest.raises(RotaryError, match="answers questions"):
        prompts.answer("who?", "the cat")
    with pytest.raises(RotaryError, match="RoFormer-Sim"):
        prompts.paraphrase("the cat")
    with pytest.raises(TypeError, match="one is a str"):
        prompts.similarity("a", ["b"])
    with pytest.raises(TypeError, match="expected a list"):
        prompts.rank("a", "b")


def test_two_threads_run_two_models_at_once(sentences):
    """Each makes progress while the other is at work: neither waits for the other's end."""
    told, started = [], threading.Barrier(2)

    def work(name):
        pipeline = Pipeline(sentences / "mean", device="cpu")
        started.wait()
        vectors = pipeline.embed(["The weather is lovely today."] * 4096, progress=lambda *_: told.append(name))
        results[name] = vectors

    results = {}
    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (results["a"] == results["b"]).all()
    assert told.count("a") == told.count("b") == 8
    assert "".join(told) not in ("a" * 8 + "b" * 8, "b" * 8 + "a" * 8)


def _embedded(pipeline, queue):
    queue.put(pipeline.embed(TEXTS).tolist())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_threads_of_its_own(prompts):
    vectors, context = prompts.embed(TEXTS), multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_embedded, args=(prompts, queue))
    child.start()
    assert queue.get(timeout=60) == vectors.tolist()
    child.join()
