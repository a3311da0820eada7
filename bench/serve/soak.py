"""A server under all that clients do: requests of random sizes, wrong ones among them, clients that go away.

    python bench/serve/soak.py --program target/release/roformer --model FOLDER --requests 100000

Every vector is compared with what `roformer embed` prints for its text, bit by bit; every request that stays is answered, with a
vector or with the refusal that it deserves. The server's memory is read as it goes. Needs nothing but Python.
"""

import argparse
import http.client
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

WORDS = "the river today weather is fine and a small house 今天 天气 很好 北京 we walk".split()


def texts(count, longest):
    chance = random.Random(1)
    return [" ".join(chance.choices(WORDS, k=round(longest ** chance.random()))) for _ in range(count)]


def pack(vector):
    return struct.pack(f"<{len(vector)}f", *vector)


def expected(program, model, dtype, lines):
    """What the program itself gives."""
    arguments = [program, "embed", "--model", model, "--dtype", dtype, "--normalize", "--json", "--input", "-", "--device", "cpu"]
    run = subprocess.run(arguments, input="\n".join(lines).encode(), capture_output=True)
    if run.returncode:
        sys.exit(run.stderr.decode())
    return [pack(json.loads(line)["embedding"]) for line in run.stdout.splitlines()]


def memory(pid):
    """Resident megabytes."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return float("nan")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Client(threading.Thread):
    def __init__(self, soak, number):
        super().__init__(daemon=True)
        self.soak, self.chance = soak, random.Random(number)
        self.connection = http.client.HTTPConnection(soak.host, timeout=120)

    def run(self):
        while self.soak.take():
            kind = self.chance.choices(["good", "bad", "gone"], [90, 7, 3])[0]
            try:
                getattr(self, kind)()
            except Exception as error:  # a lost request is what this looks for
                self.soak.note("lost", repr(error))
                self.connection = http.client.HTTPConnection(self.soak.host, timeout=120)

    def ask(self, path, body):
        self.connection.request("POST", path, body, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.will_close:
            self.connection.close()
        return answer.status, data

    def good(self):
        count = min(round(1 / (1 - self.chance.random())), 32)
        chosen = [self.chance.randrange(len(self.soak.texts)) for _ in range(count)]
        sent = [self.soak.texts[index] for index in chosen]
        began = time.perf_counter()
        openai = self.chance.random() < 0.3
        body = {"input": sent, "model": "any"} if openai else {"inputs": sent}
        status, data = self.ask("/v1/embeddings" if openai else "/embed", json.dumps(body))
        self.soak.times.append(time.perf_counter() - began)
        if status == 429:
            return self.soak.note("told to come again")
        if status != 200:
            return self.soak.note("wrong", f"status {status}: {data[:200]!r}")
        got = [item["embedding"] for item in json.loads(data)["data"]] if openai else json.loads(data)
        for index, vector in zip(chosen, got, strict=True):
            if pack(vector) != self.soak.vectors[index]:
                return self.soak.note("wrong", f"another vector for {self.soak.texts[index][:60]!r}")
        self.soak.note("answered")
        self.soak.compared += count

    def bad(self):
        body, statuses = self.chance.choice([
            (b"{", {400}),
            (b"\xff\xfe", {400}),
            (b'{"inputs": 5}', {422}),
            (b'{"inputs": []}', {400}),
            (b'{"inputs": ' + b"[" * 5000, {400}),
            (b'{"inputs": "a", "dimensions": 0}', {413}),
            (json.dumps({"inputs": ["a"] * 5000}).encode(), {413}),
            (b" " * 3_000_000, {413}),
        ])
        try:
            status, data = self.ask("/embed", body)
        except (BrokenPipeError, ConnectionResetError):
            # Refused before all of it was sent: the answer may be lost with the rest of the body.
            self.connection = http.client.HTTPConnection(self.soak.host, timeout=120)
            return self.soak.note("refused")
        if status in statuses and "error" in json.loads(data):
            return self.soak.note("refused")
        self.soak.note("wrong", f"{status} for {body[:40]!r}")

    def gone(self):
        body = json.dumps({"inputs": self.chance.choices(self.soak.texts, k=8)}).encode()
        with socket.create_connection(self.soak.host.split(":"), timeout=60) as stream:
            head = f"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            stream.sendall((head + body)[: self.chance.randrange(1, len(head) + len(body) + 1)])
            time.sleep(self.chance.random() * 0.02)
        self.soak.note("went away")


class Soak:
    def __init__(self, arguments):
        self.texts = texts(arguments.texts, arguments.words)
        self.vectors = expected(arguments.program, arguments.model, arguments.dtype, self.texts)
        command = [arguments.program, "serve", "--model", arguments.model, "--dtype", arguments.dtype, "--device", "cpu"]
        self.server = subprocess.Popen([*command, "--port", "0", "--log-level", "error"], stdout=subprocess.PIPE)
        self.host = self.server.stdout.readline().decode().split()[0].removeprefix("http://")
        self.left, self.lock = arguments.requests, threading.Lock()
        self.counts, self.times, self.compared, self.examples = Counter(), [], 0, []

    def take(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def note(self, what, example=None):
        with self.lock:
            self.counts[what] += 1
            if example and len(self.examples) < 10:
                self.examples.append(f"{what}: {example}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/roformer")
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--texts", type=int, default=2000, help="different texts")
    parser.add_argument("--words", type=int, default=100, help="words of the longest text")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    soak = Soak(arguments)
    clients = [Client(soak, number) for number in range(arguments.clients)]
    began = time.perf_counter()
    for client in clients:
        client.start()
    resident = []
    while any(client.is_alive() for client in clients):
        time.sleep(1)
        resident.append(memory(soak.server.pid))
        if soak.server.poll() is not None:
            sys.exit(f"the server ended with {soak.server.returncode}")
        if len(resident) % 30 == 0:
            print(f"{len(resident)} s: {dict(soak.counts)}, {resident[-1]:.0f} MB", flush=True)
    elapsed = time.perf_counter() - began
    soak.server.terminate()
    code = soak.server.wait(60)
    times = sorted(soak.times)
    early = resident[len(resident) // 4] if resident else float("nan")
    summary = {
        "requests": arguments.requests, "seconds": round(elapsed, 1), **soak.counts, "vectors_compared": soak.compared,
        "p50_ms": round(1e3 * times[len(times) // 2], 2), "p99_ms": round(1e3 * times[int(0.99 * len(times))], 2),
        "max_ms": round(1e3 * times[-1], 2), "mb_after_a_quarter": round(early, 1), "mb_at_the_end": round(resident[-1], 1),
        "exit_code": code,
    }
    print(json.dumps(summary, ensure_ascii=False))
    for example in soak.examples:
        print(example)
    sys.exit(bool(soak.counts["wrong"] or soak.counts["lost"] or code))


if __name__ == "__main__":
    main()
