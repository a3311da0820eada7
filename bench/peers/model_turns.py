"""The forward pass of a model by ours and its peers, which take turns: one table.

    python model_turns.py ROFORMER FAMILY DTYPE THREADS ROUNDS

ROFORMER is our program. All are loaded, each a process of its own; then for each shape, round by round, one after the other runs it some
times while the others sleep. So a machine that becomes busier or quieter meanwhile is so for all, and ratios are taken within a round.
`bench/model` builds and calls this.
"""
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

SHAPES = {"roformer": 5, "bert": 6, "modernbert": 6, "qwen3-embedding": 3}
ALL_SHAPES = [(1, 16), (1, 128), (8, 128), (2, 512), (1, 1024), (1, 4096)]
PEERS = {"f32": ["transformers", "onnxruntime", "openvino"], "bf16": ["transformers", "openvino"],
         "int8": ["onnxruntime", "openvino"]}
# Passes of a turn: so many that they take about a second.
TURN_SECONDS = 1.0
MANY_PASSES = 50
# Threads that wait for work in a loop have stopped by then.
REST_SECONDS = 0.3
TICKS = os.sysconf("SC_CLK_TCK")


class Program:
    """One that answers `BATCH LENGTH REPEATS` with the median of so many passes."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.failure = None
        self.ready = False
        answer = self.answer()
        self.ready = answer is not None and answer["what"] == "ready"

    def answer(self):
        """Its next answer; `None` if it failed, which is kept."""
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"what": "failed", "why": f"ended with status {self.process.wait()}"}
        if answer["what"] == "failed":
            self.failure = self.failure or answer["why"]
            self.ready = False
            return None
        return answer

    def turn(self, shape, repeats):
        try:
            print(*shape, repeats, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        return self.answer()

    def seconds(self):
        """Seconds of all cores that it has used."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ")[1].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0.0
        return (int(fields[11]) + int(fields[12])) / TICKS


def say(text):
    print(text, file=sys.stderr, flush=True)


def machine_seconds():
    """Seconds that all cores worked, and seconds that there were."""
    user, nice, system, idle, wait, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    busy = user + nice + system + irq + softirq
    return busy / TICKS, (busy + idle + wait) / TICKS


def programs(roformer, family, dtype, threads, folder):
    ours = lambda dtype: [roformer, "bench", "model", "--asked", "--family", family, "--dtype", dtype, "--threads", threads]
    yield f"roformer {dtype}", ours(dtype)
    if dtype != "f32":
        yield "roformer f32", ours("f32")
    script = str(Path(__file__).with_name("model_cpu.py"))
    path = f"{folder}/model.onnx"
    say(f"writing {family} for ONNX Runtime and OpenVINO …")
    subprocess.run([sys.executable, script, "export", family, path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for peer in PEERS[dtype]:
        yield f"{peer} {dtype}", [sys.executable, script, peer, family, dtype, threads, path]


def passes(program, shape):
    """How many passes a turn has, by a pass that does not count."""
    first = program.turn(shape, 1)
    return 1 if first is None else max(1, min(MANY_PASSES, round(TURN_SECONDS * 1e3 / first["ms"])))


def measure(loaded, shape, rounds):
    """Milliseconds of each program in each round, and what part of the peak ours reached."""
    repeats = {program.name: passes(program, shape) for program in loaded}
    times, parts = {program.name: [] for program in loaded}, []
    for index in range(rounds):
        say(f"{shape[0]}×{shape[1]}, round {index + 1} of {rounds}")
        # Another order each time, so that nobody always comes after the same one.
        for program in loaded[index % len(loaded):] + loaded[:index % len(loaded)]:
            time.sleep(REST_SECONDS)
            answer = program.turn(shape, repeats[program.name]) if program.ready else None
            times[program.name].append(answer and answer["ms"])
            if answer and program is loaded[0]:
                parts.append(answer["gflops"] / answer["peak_gflops"])
    times = {name: list for name, list in times.items() if None not in list}
    say(f"{shape[0]}×{shape[1]}: " + ", ".join(f"{name} {median(list):.1f} ms" for name, list in times.items()))
    return times, parts


def spread(numbers, digits):
    return f"{median(numbers):.{digits}f} ({min(numbers):.{digits}f} – {max(numbers):.{digits}f})"


def table(family, dtype, threads, rounds, shapes, results, loaded, others):
    model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    ours = loaded[0].name
    print(f"# A forward pass of {family} in {dtype} beside its peers\n\n- machine: {model}; {threads} threads; roformer {commit}")
    print(f"- milliseconds: the median of {rounds} rounds in which all take turns, and the least and the most; Python "
          f"{platform.python_version()}")
    print("- ratios: the other's time over ours within a round; their median, the least and the most")
    print(f"- other programs took {100 * others:.0f} % of the machine's time meanwhile\n")
    print("| | " + " | ".join(f"{batch}×{length}" for batch, length in shapes) + " |")
    print("|---|" + "--:|" * len(shapes))
    row = lambda name, cell: print(f"| {name} | " + " | ".join(map(cell, range(len(shapes)))) + " |")
    for program in loaded:
        cell = lambda shape: spread(results[shape][0][program.name], 1) if program.name in results[shape][0] else ""
        row(program.name, cell)
    row("of the peak in f32", lambda shape: spread(results[shape][1], 2))

    def fastest(shape):
        times, _ = results[shape]
        others = [times[program.name] for program in loaded if program.name in times and not program.name.startswith("roformer")]
        return spread([min(turn) / own for *turn, own in zip(*others, times[ours])], 2) if others else ""

    row("**fastest peer / ours**", fastest)
    if dtype != "f32":
        row(f"roformer f32 / {ours}", lambda shape: spread(
            [f32 / own for f32, own in zip(results[shape][0]["roformer f32"], results[shape][0][ours])], 2))
    for program in loaded:
        if program.failure:
            print(f"\nNot measured, or not to the end: {program.name}: {program.failure}")


def main():
    roformer, family, dtype, threads, rounds = sys.argv[1:]
    shapes = ALL_SHAPES[:SHAPES[family]]
    with tempfile.TemporaryDirectory() as folder:
        loaded = []
        for name, command in programs(roformer, family, dtype, threads, folder):
            say(f"loading {name} …")
            loaded.append(Program(name, command))
        if not loaded[0].ready:
            sys.exit(f"ours failed: {loaded[0].failure}")
        used = [program.seconds() for program in loaded]
        busy, there = machine_seconds()
        results = [measure(loaded, shape, int(rounds)) for shape in shapes]
        own = sum(program.seconds() - before for program, before in zip(loaded, used))
    now_busy, now_there = machine_seconds()
    others = max(0.0, now_busy - busy - own) / (now_there - there)
    table(family, dtype, threads, rounds, shapes, results, loaded, others)
    for program in loaded:
        program.process.stdin.close()


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main()
