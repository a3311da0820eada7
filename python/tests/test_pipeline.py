"""Models on texts: the same values as the command's."""

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
        ({"dimensions": 1.5}, TypeError, ""),
        ({"pooling": "middle"}, RotaryError, "mean-sqrt"),
        ({"texts": ["a", 3]}, TypeError, "text 1 is of type int"),
        ({"texts": 3}, TypeError, ""),
        ({"texts": None}, TypeError, ""),
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
    ],
)
def test_what_cannot_be_opened_is_said(sentences, monkeypatch, model, options, says):
    monkeypatch.chdir(sentences)
    with pytest.raises(RotaryError, match=says):
        rotary.Pipeline(model, **options)
