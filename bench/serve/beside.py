"""`roformer serve` beside infinity-emb, on the same folder, the same threads and the same load, one after the other.

    python bench/serve/base.py FOLDER
    python bench/serve/beside.py --model FOLDER --threads 2

Prints one JSON object per server and number of clients: what `roformer bench serve` measured, with the server's name. infinity-emb is
skipped where it is not installed; `--infinity` names its program.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request


def wait(url, process):
    for _ in range(600):
        if process.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(url, timeout=2):
                return True
        except OSError:
            time.sleep(0.5)
    return False


def measure(name, command, health, url, arguments, environment):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        if not wait(health, process):
            print(f"{name}: skipped: it did not start", file=sys.stderr)
            return
        bench = [arguments.program, "bench", "serve", url, "--clients", arguments.clients, "--json"]
        # Warm first: what is compiled or allocated once is not the load.
        subprocess.run([*bench[:4], "--clients", "4", "--seconds", "3", "--json"], capture_output=True)
        run = subprocess.run([*bench, "--seconds", str(arguments.seconds)], capture_output=True, text=True)
        for line in run.stdout.splitlines():
            print(json.dumps({"server": name, **json.loads(line)}), flush=True)
        if run.returncode:
            print(f"{name}: {run.stderr.strip()}", file=sys.stderr)
    finally:
        process.terminate()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/roformer")
    parser.add_argument("--infinity", default="infinity_emb")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--dtypes", default="f32,bf16,int8")
    arguments = parser.parse_args()
    threads = str(arguments.threads)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    for dtype in arguments.dtypes.split(","):
        command = [arguments.program, "serve", "--model", arguments.model, "--dtype", dtype, "--device", "cpu", "--threads", threads,
                   "--port", "3917", "--log-level", "off"]
        address = "http://127.0.0.1:3917"
        measure(f"roformer {dtype}", command, f"{address}/health", f"{address}/v1/embeddings", arguments, environment)
    if not shutil.which(arguments.infinity):
        print("infinity: skipped: not installed", file=sys.stderr)
        return
    for engine in ("torch", "optimum"):
        command = [arguments.infinity, "v2", "--model-id", arguments.model, "--engine", engine, "--device", "cpu", "--host", "127.0.0.1",
                   "--port", "3918", "--url-prefix", "/v1"]
        address = "http://127.0.0.1:3918"
        measure(f"infinity {engine}", command, f"{address}/health", f"{address}/v1/embeddings", arguments, environment)


if __name__ == "__main__":
    main()
