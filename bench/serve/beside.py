"""`roformer serve` beside infinity-emb, on the same folder, the same threads and the same load, one after the other.

    pip install 'infinity_emb[server,torch,optimum]==0.0.78' 'optimum==1.24.0' 'datasets<4' 'pyarrow<20'
    python bench/serve/base.py FOLDER
    python bench/serve/beside.py --model FOLDER --threads 2

Prints one JSON object per server and number of clients: what `roformer bench serve` measured, with the server's name; and before and
after each of its own what `bench model --family bert` does at 8×128. infinity-emb is skipped where it is not installed; `--infinity`
names its program. Its engine `torch` reads the folder's safetensors, its engine `optimum` runs `model.onnx` with ONNX Runtime, for which
it needs this optimum: later ones have no `BetterTransformer`, and refuse how it asks for ONNX Runtime's own optimisation.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
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


def measure(name, command, address, arguments, environment):
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment, cwd=arguments.model)
        try:
            if not wait(f"{address}/health", process):
                log.seek(0)
                why = [line.strip() for line in log if "Error" in line]
                print(f"{name}: skipped: it did not start: {why[-1] if why else 'no reason given'}", file=sys.stderr)
                return
            bench = [arguments.program, "bench", "serve", f"{address}/v1/embeddings", "--json"]
            # Warm first: what is compiled or allocated once is not the load.
            subprocess.run([*bench, "--clients", "4", "--seconds", "3"], capture_output=True)
            run = subprocess.run([*bench, "--clients", arguments.clients, "--seconds", str(arguments.seconds)], capture_output=True, text=True)
            for line in run.stdout.splitlines():
                print(json.dumps({"server": name, **json.loads(line)}), flush=True)
            if run.returncode:
                print(f"{name}: {run.stderr.strip()}", file=sys.stderr)
        finally:
            process.terminate()
            process.wait()


def model(arguments, dtype):
    """Tokens per second of the model alone."""
    command = [arguments.program, "bench", "model", "--family", "bert", "--dtype", dtype, "--threads", str(arguments.threads), "--asked"]
    run = subprocess.run(command, input="8 128 15\n", capture_output=True, text=True)
    turn = json.loads(run.stdout.splitlines()[-1])
    line = {"model": f"bert {dtype}", "batch": turn["batch"], "length": turn["length"], "tokens_s": 1e3 * turn["batch"] * turn["length"] / turn["ms"]}
    print(json.dumps(line), flush=True)


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
    arguments.program, threads = os.path.abspath(arguments.program), str(arguments.threads)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    for dtype in filter(None, arguments.dtypes.split(",")):
        command = [arguments.program, "serve", "--model", ".", "--dtype", dtype, "--device", "cpu", "--threads", threads, "--port", "3917",
                   "--log-level", "off"]
        model(arguments, dtype)
        measure(f"roformer {dtype}", command, "http://127.0.0.1:3917", arguments, environment)
        model(arguments, dtype)
    infinity = shutil.which(arguments.infinity)
    if not infinity:
        print("infinity: skipped: not installed", file=sys.stderr)
        return
    for engine in ("torch", "optimum"):
        # From within the folder: of a file that it finds there it hands on the path, and optimum expects its name alone. What it makes of
        # a model it keeps, by the model's name.
        with tempfile.TemporaryDirectory() as kept:
            command = [os.path.abspath(infinity), "v2", "--model-id", ".", "--served-model-name", "model", "--engine", engine, "--device", "cpu",
                       "--host", "127.0.0.1", "--port", "3918"]
            measure(f"infinity {engine}", [*command, "--url-prefix", "/v1"], "http://127.0.0.1:3918", arguments, {**environment, "HF_HOME": kept})


if __name__ == "__main__":
    main()
