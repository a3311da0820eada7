"""Corpora: Parquet in, Parquet out, in pieces; the same bytes by one process and by the workers of an engine."""

import json
import os
import subprocess
import sys

import numpy
import pytest

from rotary import Pipeline, RotaryError

pyarrow = pytest.importorskip("pyarrow")

import pyarrow.parquet as parquet  # noqa: E402

from rotary import corpus  # noqa: E402

ROWS, PIECE, BAD = 230, 40, (0, 57, 229)


@pytest.fixture
def source(tmp_path):
    """Two files, one of several row groups; three rows have no text."""
    texts = [None if id in BAD else f"{'a word and ' * (id % 9)}the row {id}" for id in range(ROWS)]
    table = pyarrow.table({"id": list(range(ROWS)), "text": texts, "kept": [f"k{id % 3}" for id in range(ROWS)]})
    folder = tmp_path / "corpus"
    folder.mkdir()
    parquet.write_table(table.slice(0, 150), folder / "a.parquet", row_group_size=33)
    parquet.write_table(table.slice(150), folder / "b.parquet")
    return folder, texts


@pytest.fixture
def model(sentences):
    return sentences / "prompts"


def read(out):
    return pyarrow.concat_tables([parquet.read_table(path) for path in sorted(out.glob("part-*.parquet"))])


def bytes_of(out):
    return {path.name: path.read_bytes() for path in sorted(out.glob("part-*.parquet"))}


def test_vectors_are_those_of_the_pipeline(source, model, tmp_path):
    folder, texts = source
    told = []
    report = corpus.embed_parquet(
        folder, tmp_path / "out", model, rows=PIECE, progress=lambda done, total: told.append((done, total))
    )
    assert (report.rows, report.failed, report.pieces, report.kept) == (ROWS, 3, 6, 0)
    assert told == [(done, 6) for done in range(1, 7)]
    table = read(tmp_path / "out")
    assert table.column_names == ["id", "text", "kept", "vector", "error"]
    assert table.column("id").to_pylist() == list(range(ROWS)) and table.column("text").to_pylist() == texts
    exact = Pipeline(model, device="cpu").embed([text for text in texts if text is not None])
    vectors, errors = table.column("vector").to_pylist(), table.column("error").to_pylist()
    found = numpy.array([vector for vector in vectors if vector is not None], "f4")
    assert found.tobytes() == exact.tobytes()
    for id in range(ROWS):
        assert (vectors[id] is None) == (id in BAD)
        assert errors[id] == ("the text is null; expected text" if id in BAD else None)


def test_what_is_done_is_not_done_again(source, model, tmp_path):
    folder, _ = source
    whole, out = tmp_path / "whole", tmp_path / "out"
    corpus.embed_parquet(folder, whole, model, rows=PIECE)
    corpus.embed_parquet(folder, out, model, rows=PIECE)
    times = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    (out / "part-000002.parquet").unlink()
    # What a process that was killed leaves behind.
    (out / ".part-000002.parquet.1.partial").write_bytes(b"half")
    report = corpus.embed_parquet(folder, out, model, rows=PIECE)
    assert (report.rows, report.kept) == (ROWS, 5)
    assert bytes_of(out) == bytes_of(whole) and not list(out.glob(".*.partial"))
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert {name for name in times if kept[name] == times[name]} == set(times) - {"part-000002.parquet"}


def test_pieces_and_threads_change_no_bit(source, model, tmp_path):
    folder, _ = source
    corpus.embed_parquet(folder, tmp_path / "one", model, rows=PIECE)
    program = (
        "import sys; from rotary import corpus\n"
        "corpus.embed_parquet(sys.argv[1], sys.argv[2], sys.argv[3], rows=17, threads=2)"
    )
    subprocess.run([sys.executable, "-c", program, folder, tmp_path / "two", model], check=True)
    assert read(tmp_path / "one").drop(["error"]).equals(read(tmp_path / "two").drop(["error"]))


def test_a_process_that_is_killed_leaves_whole_pieces(source, model, tmp_path):
    folder, _ = source
    corpus.embed_parquet(folder, tmp_path / "whole", model, rows=5)
    program = (
        "import os, signal, sys; from rotary import corpus\n"
        "def stop(done, total):\n"
        "    if done == 7: os.kill(os.getpid(), signal.SIGKILL)\n"
        "corpus.embed_parquet(sys.argv[1], sys.argv[2], sys.argv[3], rows=5, progress=stop)"
    )
    done = subprocess.run([sys.executable, "-c", program, folder, tmp_path / "out", model])
    assert done.returncode < 0 and len(bytes_of(tmp_path / "out")) == 7
    report = corpus.embed_parquet(folder, tmp_path / "out", model, rows=5)
    assert report.kept == 7 and bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")


def test_a_folder_of_another_corpus_is_refused(source, model, tmp_path):
    folder, _ = source
    out = tmp_path / "out"
    corpus.embed_parquet(folder, out, model, rows=PIECE)
    for changed, says in (
        ({"normalize": True}, "normalize False, now True"),
        ({"column": "kept"}, "column 'text', now 'kept'"),
        ({"rows": 41}, "its rows are others"),
        ({"source": folder / "a.parquet"}, "its files are others"),
    ):
        asked = {"source": folder, "rows": PIECE, **changed}
        with pytest.raises(RotaryError, match=says):
            corpus.embed_parquet(asked.pop("source"), out, model, **asked)
    # More threads are no other corpus.
    assert corpus.embed_parquet(folder, out, model, rows=PIECE, threads=2).kept == 6


def test_what_cannot_be_read_is_said(source, model, tmp_path):
    folder, _ = source
    (tmp_path / "empty").mkdir()
    for asked, says in (
        ({"source": tmp_path / "empty"}, "no Parquet files"),
        ({"source": tmp_path / "none-*.parquet"}, "no Parquet files"),
        ({"rows": 0}, "rows is 0"),
        ({"column": "body"}, "'body' is not there; expected one of id, text, kept"),
        ({"vectors": "kept"}, "'kept' is there already"),
    ):
        given = {"source": folder, **asked}
        with pytest.raises(RotaryError, match=says):
            corpus.embed_parquet(given.pop("source"), tmp_path / f"out-{len(says)}", model, **given)
    for wrong, says in (
        ({"max_tokens": 0}, "max_tokens is 0; expected at least 1"),
        ({"dimensions": -1}, "dimensions is -1; expected at least 1"),
        ({"threads": 0}, "threads is 0; expected at least 1"),
        ({"prompt": "a", "prompt_name": "b"}, "prompt and prompt_name are both given"),
    ):
        with pytest.raises(RotaryError, match=says):
            corpus.embed_parquet(folder, tmp_path / "never", model, **wrong)
    assert not (tmp_path / "never").exists()
    for place, (wrong, says) in enumerate(
        (
            ({"pooling": "best"}, "expected cls, mean, max, mean-sqrt, weighted, last or pooler"),
            ({"dimensions": 10_000}, "which a vector of this model has"),
            ({"prompt_name": "nobody"}, "nobody"),
        )
    ):
        with pytest.raises(RotaryError, match=says):
            corpus.embed_parquet(folder, tmp_path / f"wrong-{place}", model, **wrong)
        assert not list((tmp_path / f"wrong-{place}").glob("part-*"))
    with pytest.raises(TypeError, match="colour"):
        corpus.embed_parquet(folder, tmp_path / "out", model, colour="red")
    lying = tmp_path / "lying.parquet"
    lying.write_bytes(b"PAR1" + b"\0" * 40)
    with pytest.raises(RotaryError, match="lying.parquet"):
        corpus.embed_parquet(lying, tmp_path / "out-lying", model)


def test_a_piece_that_has_lost_rows_is_an_error(source, model, tmp_path):
    folder, _ = source
    out = tmp_path / "out"
    corpus.embed_parquet(folder, out, model, rows=PIECE)
    parquet.write_table(parquet.read_table(out / "part-000001.parquet").slice(1), out / "part-000001.parquet")
    with pytest.raises(RotaryError, match="part-000001.parquet has 39 rows; expected 40"):
        corpus.embed_parquet(folder, out, model, rows=PIECE)


def test_a_manifest_that_is_no_manifest_is_refused(source, model, tmp_path):
    folder, _ = source
    for content in "", "[]", "{", json.dumps({"settings": 3}):
        out = tmp_path / f"out-{len(content)}"
        out.mkdir()
        (out / "corpus.json").write_text(content)
        with pytest.raises(RotaryError, match="corpus.json"):
            corpus.embed_parquet(folder, out, model)


def test_numbers_and_bytes_are_no_texts(model, tmp_path):
    table = pyarrow.table({"text": pyarrow.array([1, 2], pyarrow.int64())})
    parquet.write_table(table, tmp_path / "numbers.parquet")
    report = corpus.embed_parquet(tmp_path / "numbers.parquet", tmp_path / "out", model)
    assert report.failed == 2
    assert read(tmp_path / "out").column("error").to_pylist() == ["the text is int; expected text"] * 2


# The engines: where they are installed.


def compare_with_one(source, model, tmp_path, run):
    folder, _ = source
    corpus.embed_parquet(folder, tmp_path / "one", model, rows=PIECE)
    report = run(folder, tmp_path / "out")
    assert (report.rows, report.failed, report.kept) == (ROWS, 3, 0)
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "one")
    assert run(folder, tmp_path / "out").kept == 6


def frame_of(table):
    """Vectors and errors of a table in the order of its rows."""
    rows = sorted(table.to_pylist(), key=lambda row: row["id"])
    vectors = [None if row["vector"] is None else numpy.array(row["vector"], "f4").tobytes() for row in rows]
    return [row["id"] for row in rows], vectors, [row["error"] for row in rows]


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


def test_ray_says_what_is_wrong_in_one_line(ray, source, model, tmp_path):
    from rotary import ray as engine

    with pytest.raises(RotaryError, match="nowhere") as raised:
        engine.embed_parquet(source[0], tmp_path / "a", tmp_path / "nowhere", workers=2, rows=PIECE)
    assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(RotaryError, match="workers is 0; expected at least 1"):
        engine.embed_parquet(source[0], tmp_path / "b", model, workers=0)


def test_ray_needs_no_room_for_all_workers(ray, source, model, tmp_path):
    """There are two CPUs: eight workers are asked for, and those that have room do the work."""
    from rotary import ray as engine

    corpus.embed_parquet(source[0], tmp_path / "one", model, rows=PIECE)
    assert engine.embed_parquet(source[0], tmp_path / "out", model, workers=8, rows=PIECE).rows == ROWS
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "one")


def test_ray_has_the_bytes_of_one_process(ray, source, model, tmp_path):
    from rotary import ray as engine

    compare_with_one(source, model, tmp_path, lambda a, b: engine.embed_parquet(a, b, model, workers=2, rows=PIECE))
    dataset = ray.data.read_parquet(str(source[0]))
    mapped = dataset.map_batches(
        engine.Embed, fn_constructor_kwargs={"model": str(model)}, batch_format="pyarrow", concurrency=1, batch_size=32
    )
    table = pyarrow.concat_tables(ray.get(mapped.to_arrow_refs()))
    assert frame_of(table) == frame_of(read(tmp_path / "one"))


def test_ray_makes_the_shards_of_a_comparison(ray, tmp_path):
    import rotary
    from rotary import ray as engine

    settings = {"tasks": ["copy"], "preset": "quick", "steps": 3, "seeds": 2}
    whole = rotary.compare(["none", "rotary"], out=tmp_path / "whole", device="cpu", **settings)
    parts = engine.compare(["none", "rotary"], out=tmp_path / "parts", shards=3, **settings)
    assert (tmp_path / "parts/results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()
    assert type(parts) is type(whole)


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    # Its workers import what this process does.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        session = builder.getOrCreate()
    except Exception as error:
        pytest.skip(f"Spark does not start: {str(error).splitlines()[0]}")
    yield session
    session.stop()


def test_spark_has_the_bytes_of_one_process(spark, source, model, tmp_path):
    from rotary import spark as engine

    compare_with_one(source, model, tmp_path, lambda a, b: engine.embed_parquet(spark, a, b, model, rows=PIECE))
    table = engine.embed(spark.read.parquet(str(source[0])), model).toArrow()
    assert frame_of(table) == frame_of(read(tmp_path / "one"))
    with pytest.raises(RotaryError, match="'body' is not there"):
        engine.embed(spark.read.parquet(str(source[0])), model, column="body")


def test_spark_has_a_function_of_a_column(spark, source, model):
    pytest.importorskip("pandas")
    from pyspark.sql.types import ArrayType, FloatType

    from rotary import spark as engine

    folder, texts = source
    vectors = engine.embed_udf(model, normalize=True, prompt="about: ")
    frame = spark.read.parquet(str(folder)).repartition(3).withColumn("vector", vectors("text"))
    assert frame.schema["vector"].dataType == ArrayType(FloatType())
    found = {row["id"]: row["vector"] for row in frame.collect()}
    usable = [text for text in texts if text is not None]
    exact = Pipeline(model, device="cpu").embed(usable, normalize=True, prompt="about: ")
    assert numpy.array([found[id] for id in range(ROWS) if id not in BAD], "f4").tobytes() == exact.tobytes()
    assert all(found[id] is None for id in BAD)
    # In SQL too, by whatever name it is registered under.
    spark.udf.register("embed", vectors)
    frame.createOrReplaceTempView("texts")
    again = {row["id"]: row["again"] for row in spark.sql("SELECT id, embed(text) AS again FROM texts").collect()}
    assert again == found


def test_what_is_wrong_with_a_function_of_a_column(spark, source, model, tmp_path):
    pytest.importorskip("pandas")
    from rotary import spark as engine

    for name in "column", "vectors", "errors":
        with pytest.raises(TypeError, match=f"{name} is given; expected none"):
            engine.embed_udf(model, **{name: "text"})
    with pytest.raises(TypeError, match="colour"):
        engine.embed_udf(model, colour="red")
    with pytest.raises(TypeError, match="int"):
        engine.embed_udf(3)
    with pytest.raises(RotaryError, match="dimensions is 0; expected at least 1"):
        engine.embed_udf(model, dimensions=0)
    frame = spark.read.parquet(str(source[0]))
    for vectors, column, says in (
        (engine.embed_udf(model), "id", "the text is int; expected text"),
        (engine.embed_udf(tmp_path / "nowhere"), "text", "nowhere"),
        (engine.embed_udf(model, pooling="best"), "text", "expected cls, mean, max, mean-sqrt, weighted, last or pooler"),
        (engine.embed_udf(model, dtype="f8"), "text", "expected f32, bf16, int8, tf32 or auto"),
        (engine.embed_udf(model, dimensions=10_000), "text", "which a vector of this model has"),
    ):
        with pytest.raises(Exception, match=f"RotaryError: .*{says}"):
            frame.select(vectors(column)).collect()


def test_tasks_of_spark_are_large_first_and_then_small():
    pytest.importorskip("pyspark")
    from rotary import spark as engine

    for pieces, cores in (1, 1), (7, 64), (40, 2), (1000, 3):
        listed = list(range(pieces))
        tasks = engine._tasks(listed, cores)
        assert [piece for task in tasks for piece in task] == listed
        sizes = [len(task) for task in tasks]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] <= engine.MOST and set(sizes[-cores:]) == {1}


def test_daft_has_the_bytes_of_one_process(source, model, tmp_path):
    daft = pytest.importorskip("daft")
    from rotary import daft as engine

    compare_with_one(source, model, tmp_path, lambda a, b: engine.embed_parquet(a, b, model, workers=2, rows=PIECE))
    table = engine.embed(daft.read_parquet(str(source[0] / "*.parquet")), model).to_arrow()
    assert frame_of(table) == frame_of(read(tmp_path / "one"))
    with pytest.raises(RotaryError, match="'body' is not there"):
        engine.embed(daft.read_parquet(str(source[0] / "*.parquet")), model, column="body")
