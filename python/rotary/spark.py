"""Spark: corpora over its executors. Needs `pip install pyspark pyarrow` and Java.

`embed` gives a frame its columns of vectors and errors, by `mapInArrow`; `embed_udf` is a function of a column, as those that
`predict_batch_udf` makes; `embed_parquet` is Parquet to Parquet, goes on where it stopped, and gives the bytes of one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import corpus
from ._rotary import RotaryError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql._typing import UserDefinedFunctionLike

MOST = 8
"""The most pieces of a task."""


def embed(frame: DataFrame, model: str | os.PathLike[str], **settings: Any) -> DataFrame:
    """The frame with the columns `vector` and `error` behind its own. The keywords are the fields of `rotary.corpus.Settings`."""
    _spark()
    from pyspark.sql.types import ArrayType, FloatType, StringType, StructField, StructType

    chosen = corpus.Settings(os.fspath(model), **settings)
    corpus.check(chosen, frame.columns)
    added = [StructField(chosen.vectors, ArrayType(FloatType())), StructField(chosen.errors, StringType())]
    schema = StructType([*frame.schema.fields, *added])

    def batches(given: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for batch in given:
            yield from corpus.embedder(chosen).table(pyarrow.Table.from_batches([batch])).to_batches()

    return frame.mapInArrow(batches, schema)


def embed_udf(model: str | os.PathLike[str], **settings: Any) -> UserDefinedFunctionLike:
    """A function of a column of texts that gives their vectors, `ArrayType(FloatType())`, as `pyspark.ml.functions.predict_batch_udf`
    makes functions of models. Needs pandas too.

    frame.withColumn("vector", rotary.spark.embed_udf("...", normalize=True)("text"))

    A null text has a null vector. One that cannot be read ends the query with the reason: `embed` has a column for those. The
    keywords are the fields of `rotary.corpus.Settings`, but for the names of columns. Texts are put into batches by their length, so
    there is no size to choose.
    """
    _spark()
    try:
        import pandas
    except ImportError:
        raise RotaryError("pandas is not installed; expected it for functions of a column: pip install pandas") from None
    from pyspark.sql.functions import pandas_udf
    from pyspark.sql.types import ArrayType, FloatType

    for name in "column", "vectors", "errors":
        if name in settings:
            raise TypeError(f"{name} is given; expected none: the function takes a column and gives one")
    chosen = corpus.Settings(os.fspath(model), **settings)

    def vectors(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            texts = [None if missing else text for text, missing in zip(batch, batch.isna())]
            found, errors = corpus.embedder(chosen).rows(texts)
            for text, error in zip(texts, errors):
                if text is not None and error is not None:
                    raise RotaryError(error)
            yield pandas.Series(found, dtype=object)

    # What Spark reads the kind of function from. As words they would be looked up among the names of this file.
    vectors.__annotations__ = {"batches": Iterator[pandas.Series], "return": Iterator[pandas.Series]}
    return pandas_udf(vectors, ArrayType(FloatType()))


def embed_parquet(
    spark: SparkSession,
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    rows: int = corpus.PIECE,
    **settings: Any,
) -> corpus.Report:
    """Embeds a corpus with the executors of a session: each does pieces, one at a time for each core that it has. Paths must mean
    the same on all machines. A task that is lost is given to another executor as often as the session allows
    (`spark.task.maxFailures`; in local mode `local[2,4]`); a call that was broken off goes on where it stopped."""
    _spark()
    chosen = corpus.Settings(os.fspath(model), **settings)
    pieces, left = corpus.plan(source, out, chosen, rows)
    if left:
        tasks = _tasks(left, spark.sparkContext.defaultParallelism)
        listed = spark.sparkContext.parallelize(tasks, len(tasks))
        listed.map(lambda task: sum(corpus.embedder(chosen).piece(piece) for piece in task)).sum()
    return corpus.finish(pieces, left, out)


def _tasks(pieces: list[corpus.Piece], cores: int) -> list[list[corpus.Piece]]:
    """The pieces of each task: several at first, because Spark takes some 20 ms from one task to the next, and one at the end, so that
    no core waits long for another. What a task has done is not lost with it: its files are there."""
    tasks, first = [], 0
    while first < len(pieces):
        many = min(MOST, -((first - len(pieces)) // (2 * cores)))
        tasks.append(pieces[first : first + many])
        first += many
    return tasks


def _spark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise RotaryError("pyspark is not installed; expected it: pip install pyspark pyarrow") from None
