"""The native functions of Daft beside `Pipeline.embed` of the package `rotary`, to the bit."""

import os
from pathlib import Path

import daft
import numpy
import pytest
import rotary_daft
from rotary import Pipeline

os.environ["HF_HUB_OFFLINE"] = "1"
ROOT = Path(__file__).parents[3]
SIM = ROOT / "examples" / "models" / "tiny-sim"
SENTENCES = ROOT / "golden" / "sentence-transformers" / "prompts"

TEXTS = [None if id % 97 == 0 else f"{'a word and ' * (id % 9)}今天天气 {id}" for id in range(1500)]


def bits(vectors):
    """The bytes of each vector, or None where there is none."""
    return [None if vector is None else numpy.asarray(vector, "f4").tobytes() for vector in vectors]


def right(texts, model, dtype="f32", max_tokens=None, **how):
    """What the package gives."""
    pipeline = Pipeline(model, device="cpu", dtype=dtype, max_tokens=max_tokens)
    vectors = iter(pipeline.embed([text for text in texts if text is not None], **how))
    return bits(None if text is None else next(vectors) for text in texts)


def column(expression, texts=TEXTS):
    frame = daft.from_pydict({"text": texts}).select(expression.alias("found"))
    return frame.to_pydict()["found"]


@pytest.mark.parametrize(
    "model, settings",
    [
        (SIM, {}),
        (SIM, {"dtype": "bf16"}),
        (SIM, {"dtype": "int8", "pooling": "mean"}),
        (SIM, {"normalize": True, "dimensions": 7}),
        (SIM, {"max_tokens": 5}),
        (SENTENCES, {}),
        (SENTENCES, {"prompt_name": "query"}),
        (SENTENCES, {"prompt": "about: ", "pooling": "max"}),
    ],
)
def test_vectors_have_the_bits_of_the_pipeline(model, settings):
    expected = right(TEXTS, model, **settings)
    assert bits(column(rotary_daft.embed(daft.col("text"), model, **settings))) == expected
    found = column(rotary_daft.embed_with_errors(daft.col("text"), model, **settings))
    assert bits(row["vector"] for row in found) == expected
    for text, row in zip(TEXTS, found):
        assert row["error"] == ("the text is null; expected text" if text is None else None)


def test_types_are_known_before_anything_runs():
    frame = daft.from_pydict({"text": ["a"]})
    kind = daft.DataType
    vector = frame.select(rotary_daft.embed(daft.col("text"), "nowhere").alias("v")).schema()["v"].dtype
    assert vector == kind.list(kind.float32())
    both = frame.select(rotary_daft.embed_with_errors(daft.col("text"), "nowhere").alias("v")).schema()["v"].dtype
    assert both == kind.struct({"vector": kind.list(kind.float32()), "error": kind.string()})


def test_parquet_in_many_parts(tmp_path):
    """Daft calls on several threads, batch by batch; rows stay rows."""
    for part in range(6):
        rows = range(part * 250, part * 250 + 250)
        daft.from_pydict({"id": list(rows), "text": [TEXTS[id] for id in rows]}).write_parquet(str(tmp_path / f"{part}"))
    frame = daft.read_parquet(str(tmp_path / "*" / "*.parquet")).into_batches(40)
    found = frame.with_column("vector", rotary_daft.embed(daft.col("text"), SIM)).sort("id").to_pydict()
    assert found["id"] == list(range(1500)) and found["text"] == TEXTS
    assert bits(found["vector"]) == right(TEXTS, SIM)


def test_nothing_and_nulls_alone():
    assert column(rotary_daft.embed(daft.col("text"), SIM), [None, None]) == [None, None]
    empty = daft.from_pydict({"text": ["a"]}).where(daft.col("text") == "b")
    assert empty.select(rotary_daft.embed(daft.col("text"), SIM).alias("v")).to_pydict() == {"v": []}
    typed = daft.from_pydict({"text": daft.Series.from_pylist([None, None], dtype=daft.DataType.string())})
    assert typed.select(rotary_daft.embed(daft.col("text"), SIM).alias("v")).to_pydict() == {"v": [None, None]}


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"model": "/nowhere"}, "/nowhere"),
        ({"dtype": "f64"}, 'dtype is "f64"; expected f32, bf16, int8 or auto'),
        ({"pooling": "best"}, "expected cls, mean, max, mean-sqrt, weighted, last or pooler"),
        ({"max_tokens": 0}, "max_tokens is 0; expected at least 1"),
        ({"max_tokens": -3}, "max_tokens is -3; expected at least 1"),
        ({"dimensions": 0}, "dimensions is 0; expected at least 1"),
        ({"dimensions": 1 << 70}, "the settings cannot be read"),
        ({"normalize": "yes"}, "invalid type: string"),
        ({"dimensions": 1 << 20}, "which a vector of this model has"),
        ({"prompt": "a", "prompt_name": "b"}, "prompt and prompt_name are both given"),
        ({"prompt_name": "none"}, "none"),
    ],
)
def test_what_is_wrong_is_named_when_it_runs(settings, says):
    given = {"model": SIM, **settings}
    with pytest.raises(Exception, match=says.replace("(", r"\(")) as raised:
        column(rotary_daft.embed(daft.col("text"), given.pop("model"), **given))
    assert len(str(raised.value).strip().splitlines()) == 1, raised.value


def test_what_is_wrong_is_named_before():
    frame = daft.from_pydict({"number": [1, 2], "text": ["a", "b"]})
    with pytest.raises(Exception, match="the column is of type Int64; expected text"):
        frame.select(rotary_daft.embed(daft.col("number"), SIM)).schema()
    with pytest.raises(TypeError, match="the texts are of type str; expected an expression"):
        rotary_daft.embed("text", SIM)
    with pytest.raises(TypeError, match="colour"):
        rotary_daft.embed(daft.col("text"), SIM, colour="red")
    with pytest.raises(TypeError, match="int"):
        rotary_daft.embed(daft.col("text"), 3)


def test_a_text_that_cannot_be_read():
    """One of too many tokens: the others have their vectors where errors are told, and the query ends where they are not."""
    texts = ["好" * 70_000, "今天", None]
    with pytest.raises(Exception, match="is 70002; expected at most 65536"):
        column(rotary_daft.embed(daft.col("text"), SIM), texts)
    found = column(rotary_daft.embed_with_errors(daft.col("text"), SIM), texts)
    assert found[0]["vector"] is None and "is 70002; expected at most 65536" in found[0]["error"]
    assert bits([found[1]["vector"]]) == right(["今天"], SIM)
    assert found[2]["error"] == "the text is null; expected text"


def test_settings_that_are_no_constant():
    """Whoever calls the function by its name may give anything."""
    rotary_daft.load()
    frame = daft.from_pydict({"text": ["a", "b"], "how": [f'{{"model": "{SIM}"}}', "{}"]})
    with pytest.raises(Exception, match="the settings differ from row to row"):
        frame.select(daft.get_function("rotary_embed", daft.col("text"), daft.col("how"))).collect()
    for how, says in (("{", "the settings cannot be read"), ('{"colour": 1}', "unknown field `colour`"), ("{}", "missing field `model`")):
        with pytest.raises(Exception, match=says):
            frame.select(daft.get_function("rotary_embed", daft.col("text"), daft.lit(how))).collect()
    with pytest.raises(Exception, match="the settings are null"):
        frame.select(daft.get_function("rotary_embed", daft.col("text"), daft.lit(None))).collect()
    with pytest.raises(Exception, match="the arguments are 1; expected 2"):
        frame.select(daft.get_function("rotary_embed", daft.col("text"))).collect()


def test_a_session_of_its_own():
    with daft.session():
        assert bits(column(rotary_daft.embed(daft.col("text"), SIM))) == right(TEXTS, SIM)
