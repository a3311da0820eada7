"""A query of Daft, Parquet to Parquet, with vectors by Python once a batch (`rotary.daft.embed`) and by the native functions.

    python adapters/daft/bench.py FOLDER [ROUNDS]

In turns, medians; the columns must be the same to the bit. Needs the wheels of both packages, pyarrow and daft.
"""

import shutil
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "scale"))

import daft  # noqa: E402
import embed  # noqa: E402
import pyarrow.parquet as parquet  # noqa: E402
import rotary_daft  # noqa: E402

import rotary.daft  # noqa: E402

TEXTS = 200_000


def by_python(frame):
    return rotary.daft.embed(frame, embed.MODEL, workers=embed.WORKERS)


def natively(frame):
    found = frame.with_column("found", rotary_daft.embed_with_errors(daft.col("text"), embed.MODEL))
    both = {"vector": daft.col("found")["vector"], "error": daft.col("found")["error"]}
    return found.with_columns(both).exclude("found")


def main() -> None:
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    embed.make(folder / "corpus", TEXTS)
    seconds: dict[str, list[float]] = {}
    columns = {}
    for _ in range(rounds):
        for way in by_python, natively:
            out = folder / way.__name__
            shutil.rmtree(out, ignore_errors=True)
            start = time.perf_counter()
            way(daft.read_parquet(str(folder / "corpus" / "*.parquet"))).write_parquet(str(out))
            seconds.setdefault(way.__name__, []).append(time.perf_counter() - start)
            columns[way.__name__] = parquet.read_table(out).sort_by("id").combine_chunks()
        assert columns["by_python"].equals(columns["natively"]), "the columns differ"
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        print(f"{name:10} {middle:6.2f} s, {TEXTS / middle:7.0f} texts/s ({', '.join(f'{each:.2f}' for each in taken)})")


if __name__ == "__main__":
    main()
