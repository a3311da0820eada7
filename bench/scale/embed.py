"""A corpus of short texts embedded by one process, by two, and by two workers of an engine: the same bytes, and how fast.

    python bench/scale/embed.py FOLDER                                  # one, plain, ray, spark, daft, one after the other
    python bench/scale/embed.py FOLDER one plain spark --rounds 5       # in turns, and medians at the end
    python bench/scale/embed.py FOLDER one plain spark --texts 1000000  # a larger corpus
    python bench/scale/embed.py FOLDER ray spark --kill                 # a worker is killed in the middle

Needs the wheel of python/build and `pip install pyarrow "ray[data]" pyspark daft`; Spark needs Java. `one` is one process, whose
vectors the others must have, `plain` two processes without an engine. Every time is that of a whole call, with the start of its
workers and the model, but without the start of the engine itself (Ray's processes, Spark's JVM, Daft's runner), which is given
apart; the second rate begins when every worker has done a piece. An engine is started once: its first call has a fresh session, the
others one that has worked before.
"""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet

import rotary
from rotary import corpus

MODEL = str(Path(__file__).parents[2] / "examples" / "models" / "tiny-sim")
WORDS = "今天 天气 苹果 多少 钱 去 机场 怎么 走 香蕉 价格 北京 公园 散步 很好 不错 我们 喜欢 的 是".split()
FILES, ROWS, BAD = 4, 5_000, 9973
WORKERS = 2


def make(folder: Path, texts: int) -> list[str]:
    """The corpus: the same texts every time. One row in some thousands has no text."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for file in range(FILES):
        ids = range(file * texts // FILES, (file + 1) * texts // FILES)
        rows = [None if id % BAD == 0 else text(id) for id in ids]
        table = pyarrow.table({"id": list(ids), "text": rows, "source": [f"s{id % 7}" for id in ids]})
        files.append(str(folder / f"{file}.parquet"))
        parquet.write_table(table, files[-1])
    return files


def text(id: int) -> str:
    state, words = id * 2654435761 % 2**32, []
    for _ in range(3 + id % 8):
        state = (state * 1103515245 + 12345) % 2**31
        words.append(WORDS[state // 65536 % len(WORDS)])
    return "".join(words) + f"{id % 1000}？"


def plain(files: list[str], out: Path) -> corpus.Report:
    """Two processes without an engine, each with every other piece."""
    settings = corpus.Settings(MODEL)
    pieces, left = corpus.plan(files, out, settings, ROWS)
    program = (
        "import sys, json; from rotary import corpus\n"
        "files, out, model, rows, which, of = json.loads(sys.argv[1])\n"
        "settings = corpus.Settings(model)\n"
        "for piece in corpus.plan(files, out, settings, rows)[0][which::of]: corpus.embedder(settings).piece(piece)"
    )
    import json

    each = [[files, str(out), MODEL, ROWS, which, WORKERS] for which in range(WORKERS)]
    running = [subprocess.Popen([sys.executable, "-c", program, json.dumps(given)]) for given in each]
    assert all(process.wait() == 0 for process in running)
    return corpus.finish(pieces, left, out)


def vectors(out: Path) -> tuple[list[int], bytes, list]:
    """The ids, the vectors' bytes and the errors, in the order of the pieces."""
    ids, numbers, errors = [], [], []
    for path in sorted(out.glob("part-*.parquet")):
        table = parquet.read_table(path)
        assert table.column_names == ["id", "text", "source", "vector", "error"], table.column_names
        ids += table.column("id").to_pylist()
        numbers.append(table.column("vector").combine_chunks().flatten().to_numpy().tobytes())
        errors += table.column("error").to_pylist()
    return ids, b"".join(numbers), errors


def at_work(out: Path) -> float:
    """Texts per second from when each worker has done its first piece until the last piece is done: without the start."""
    ends = sorted(path.stat().st_mtime_ns for path in out.glob("part-*.parquet"))
    return (len(ends) - WORKERS) * ROWS / ((ends[-1] - ends[WORKERS - 1]) / 1e9)


def descendants() -> dict[int, str]:
    """The processes that this one started, and theirs: what they are called."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
                names[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
    found: dict[int, str] = {}
    grown = True
    while grown:
        new = {pid: names[pid] for pid, parent in parents.items() if parent in {os.getpid(), *found} and pid not in found}
        found.update(new)
        grown = bool(new)
    return found


def killer(out: Path, pieces: int, word: str, killed: list[int]) -> threading.Thread:
    """Kills one worker, found by a word of its command line, when a quarter of the pieces is done."""

    def watch() -> None:
        while len(list(out.glob("part-*.parquet"))) < pieces // 4:
            time.sleep(0.01)
        # Of forked processes the last one works.
        pids = [pid for pid, name in descendants().items() if word in name]
        if pids:
            os.kill(max(pids), signal.SIGKILL)
            killed.append(max(pids))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def ray_engine():
    import ray

    import rotary.ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    return "_Worker", lambda files, out: rotary.ray.embed_parquet(files, out, MODEL, workers=WORKERS, rows=ROWS)


def spark_engine():
    from pyspark.sql import SparkSession

    import rotary.spark

    builder = SparkSession.builder.master(f"local[{WORKERS},4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.getOrCreate()
    return "pyspark.daemon", lambda files, out: rotary.spark.embed_parquet(spark, files, out, MODEL, rows=ROWS)


def daft_engine():
    import daft

    import rotary.daft

    daft.set_runner_native()
    return "daft", lambda files, out: rotary.daft.embed_parquet(files, out, MODEL, workers=WORKERS, rows=ROWS)


def one_process(files: list[str], out: Path) -> corpus.Report:
    return corpus.embed_parquet(files, out, MODEL, rows=ROWS)


ENGINES = {"ray": ray_engine, "spark": spark_engine, "daft": daft_engine}


class Bench:
    """A corpus, the engines that are started, and the seconds of each call and its texts per second once started."""

    def __init__(self, folder: Path, texts: int, kill: bool) -> None:
        self.folder, self.texts, self.kill = folder, texts, kill
        self.files = make(folder / "corpus", texts)
        self.started: dict[str, tuple] = {"one": ("", one_process), "plain": ("", plain)}
        self.found: dict[str, list[tuple[float, float]]] = {}

    def call(self, name: str) -> None:
        """One call, and its line."""
        out, start, begun = self.folder / name, time.perf_counter(), ""
        shutil.rmtree(out, ignore_errors=True)
        if name not in self.started:
            self.started[name] = ENGINES[name]()
            begun = f", engine started in {time.perf_counter() - start:.2f} s"
        (word, run), killed, again = self.started[name], [], ""
        if self.kill:
            killer(out, self.texts // ROWS, word, killed)
        start = time.perf_counter()
        try:
            report = run(self.files, out)
        except Exception as error:
            if not killed:
                raise
            # An engine that does not replace what is lost ends; the same call goes on.
            again = f", called again after {type(error).__name__}"
            report = run(self.files, out)
        seconds, rate = time.perf_counter() - start, at_work(out)
        self.found.setdefault(name, []).append((seconds, rate))
        line = f"{name:6} {seconds:7.2f} s {report.rows / seconds:9.0f} texts/s, {rate:6.0f} once started{begun}"
        line += f", killed process {killed[0]}{again}" if killed else ""
        if (self.folder / "one").exists() and name != "one":
            ours, theirs = vectors(out), vectors(self.folder / "one")
            assert ours[0] == theirs[0] == list(range(self.texts)), "rows are missing or twice"
            assert ours[1] == theirs[1] and ours[2] == theirs[2], "vectors or errors differ"
            line += f"; {report.rows} rows, {report.failed} of them bad, the bytes of one process"
        print(line, flush=True)

    def medians(self) -> None:
        """The median of all calls of a name, and what `plain` takes as a share of it; an engine's first call stands apart."""
        plain = self.found.get("plain")
        for name, calls in self.found.items():
            parts = {"first": calls[:1], "later": calls[1:]} if name in ENGINES else {"": calls}
            for which, some in parts.items():
                if some:
                    seconds, rate = (statistics.median(numbers) for numbers in zip(*some))
                    line = f"median {name:5} {which:5} {seconds:7.2f} s {rate:9.0f} once started"
                    if plain and name != "plain":
                        usual, rates = (statistics.median(numbers) for numbers in zip(*plain))
                        line += f": {usual / seconds:.2f} and {rate / rates:.2f} of plain"
                    print(line)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("engines", nargs="*", default=["one", "plain", "ray", "spark", "daft"])
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kill", action="store_true")
    asked = parser.parse_intermixed_args()
    if asked.texts % (FILES * ROWS):
        parser.error(f"--texts is {asked.texts}; expected a multiple of {FILES * ROWS}")
    pieces = asked.texts // ROWS
    print(f"rotary {rotary.__version__}, {asked.texts} texts in {pieces} pieces, {WORKERS} workers of one thread", flush=True)
    bench = Bench(asked.folder, asked.texts, asked.kill)
    for turn in range(asked.rounds):
        for name in asked.engines:
            # What the others must have is made once.
            if name != "one" or turn == 0:
                bench.call(name)
    if asked.rounds > 1:
        bench.medians()


if __name__ == "__main__":
    main()
