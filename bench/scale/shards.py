#!/usr/bin/env python3
"""What several processes that train together hold, send and take, beside what is expected of them.

    unshare --net sh -c 'ip link set lo up; python3 bench/scale/shards.py FOLDER [--width N] [--steps N] [WORLD ...]'

In a network of its own all bytes over the loopback device are theirs (without one, those of others are counted too). Each run is
repeated, and the difference of a long run and a short one is what steps take: reading the text and the first step are in both. Needs
target/release/roformer.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECE, BLOCK = 1 << 15, 4096


def loopback():
    """Bytes that the loopback device has carried."""
    for line in open("/proc/net/dev"):
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[8])
    return 0


def run(world, flags, out):
    """Seconds, bytes, and the most memory of each rank."""
    shutil.rmtree(out, ignore_errors=True)
    before, start = loopback(), time.perf_counter()
    ranks = []
    for rank in range(world):
        own = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": 29700 + world}
        env = os.environ | ({name: str(value) for name, value in own.items()} if world > 1 else {})
        command = [str(ROOT / "target/release/roformer"), "train", *flags, "--out", str(out)]
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    memory = []
    for process in ranks:
        _, status, used = os.wait4(process.pid, 0)
        if status:
            sys.exit(process.stderr.read().decode())
        memory.append(used.ru_maxrss / 1024)
    seconds = time.perf_counter() - start
    said = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return seconds, said[-2]["seconds"], loopback() - before, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("worlds", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    flags = ["--data", "README.md", "docs/training.md", "docs/compare.md", "--threads", "1", "--device", "cpu"]
    for name in ("width", "layers", "batch", "block", "accumulate"):
        flags += [f"--{name}", str(getattr(given, name))]
    flags += ["--eval-every", "100000", "--save-every", "100000", "--eval-batches", "1"]
    os.chdir(ROOT)
    for world in given.worlds:
        found = {}
        for steps in (2, 2 + given.steps):
            runs = [run(world, [*flags, "--steps", str(steps)], given.folder / "run") for _ in range(given.times)]
            # The least: what else runs on the machine only adds.
            found[steps] = [min(numbers) for numbers in list(zip(*runs))[:3]] + [runs[0][3]]
        short, long = found.values()
        state = given.folder / "run" / json.loads((given.folder / "run/state.json").read_text())["state"]
        numbers = state.stat().st_size // 12
        rounds = -(-given.accumulate // world)
        # Everyone's gradients of each round but its own part, and its own part of the parameters to all others.
        payload = (given.accumulate + world) * (world - 1) / world * 4 * numbers * (world > 1)
        print(
            json.dumps(
                {
                    "processes": world,
                    "parameters": numbers,
                    "ms_step": round((long[1] - short[1]) / given.steps * 1e3, 2),
                    "rounds": rounds,
                    "bytes_step": (long[2] - short[2]) // given.steps,
                    "bytes_step_expected": int(payload),
                    "moments_mib_rank_expected": round(8 * numbers / world / 2**20, 2),
                    "most_memory_mib": [round(rank, 1) for rank in long[3]],
                }
            ),
            flush=True,
        )


main()
