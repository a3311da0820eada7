"""A server that is killed and started again under load, and one that is told to end: what of the requests is lost.

    python bench/serve/restart.py --program target/release/roformer --model FOLDER --rounds 10

Clients ask without pause while the server is killed (SIGKILL), then while it is told to end (SIGTERM), and is started again on its port
each time. Every vector is compared with what `roformer embed` prints for its text, bit by bit. A kill may cut off what was in flight until
the process had gone, and nothing else; SIGTERM nothing. What nobody let in (no connection, or status 503) is not lost: the client asks it
again. Needs nothing but Python.
"""

import argparse
import http.client
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

from soak import expected, pack, texts


def start(arguments, port):
    """A server, once it answers, and where."""
    command = [arguments.program, "serve", "--model", arguments.model, "--dtype", arguments.dtype, "--device", "cpu"]
    server = subprocess.Popen([*command, "--port", port, "--log-level", "error"], stdout=subprocess.PIPE)
    line = server.stdout.readline().decode()
    if not line:
        sys.exit(f"the server ended with {server.wait()}")
    return server, line.split()[0].removeprefix("http://")


class Client(threading.Thread):
    """Asks until it is stopped; a request that was not let in or was cut off, again."""

    def __init__(self, trial, number):
        super().__init__(daemon=True)
        self.trial, self.chance = trial, random.Random(number)
        self.connection = http.client.HTTPConnection(trial.host, timeout=60)

    def run(self):
        while not self.trial.stop.is_set():
            chosen = [self.chance.randrange(len(self.trial.texts)) for _ in range(self.chance.choice([1, 1, 1, 4]))]
            while not (self.ask(chosen) or self.trial.stop.is_set()):
                time.sleep(0.01)

    def ask(self, chosen):
        """Whether it is answered."""
        body = json.dumps({"inputs": [self.trial.texts[index] for index in chosen]})
        began = time.monotonic()
        sock = self.connection.sock
        if sock and select.select([sock], [], [], 0)[0]:
            # Closed meanwhile: nothing is sent to somebody who has gone.
            self.connection.close()
        try:
            if self.connection.sock is None:
                self.connection.connect()
        except OSError:
            self.trial.note("not let in")
            return False
        try:
            self.connection.request("POST", "/embed", body, {"content-type": "application/json"})
            answer = self.connection.getresponse()
            status, closes, data = answer.status, answer.will_close, answer.read()
        except (OSError, http.client.HTTPException):
            self.trial.cut_off.append((began, time.monotonic()))
            self.connection.close()
            return False
        if closes:
            self.connection.close()
        if status == 503:
            self.trial.note("not let in")
            return False
        right = status == 200 and [pack(vector) for vector in json.loads(data)] == [self.trial.vectors[index] for index in chosen]
        self.trial.note("right" if right else "wrong")
        return True


class Trial:
    def __init__(self, arguments):
        self.texts = texts(1000, 100)
        self.vectors = expected(arguments.program, arguments.model, arguments.dtype, self.texts)
        self.server, self.host = start(arguments, "0")
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.counts, self.cut_off = Counter(), []

    def note(self, what):
        with self.lock:
            self.counts[what] += 1

    def rounds(self, arguments, how):
        """Ends the server under load, again and again. Whether nothing was lost but what a kill may cut off."""
        self.stop, self.counts, self.cut_off = threading.Event(), Counter(), []
        clients = [Client(self, number) for number in range(arguments.clients)]
        for client in clients:
            client.start()
        ended, down, codes = [], [], Counter()
        for _ in range(arguments.rounds):
            time.sleep(arguments.seconds)
            began = time.monotonic()
            self.server.send_signal(how)
            codes[self.server.wait(90)] += 1
            ended.append((began, time.monotonic()))
            self.server, _ = start(arguments, self.host.rsplit(":", 1)[1])
            down.append(time.monotonic() - began)
        time.sleep(arguments.seconds)
        self.stop.set()
        for client in clients:
            client.join()
        in_flight = sum(any(sent <= gone and lost >= told for told, gone in ended) for sent, lost in self.cut_off)
        summary = {
            "signal": how.name, "rounds": arguments.rounds, "clients": arguments.clients, **self.counts, "cut_off": len(self.cut_off),
            "cut_off_at_other_times": len(self.cut_off) - in_flight,
            "seconds_until_it_listens_again": round(max(down), 2), "exit_codes": codes,
        }
        print(json.dumps(summary), flush=True)
        is_lost = summary["cut_off_at_other_times"] or how == signal.SIGTERM and self.cut_off
        is_other = set(codes) != {0 if how == signal.SIGTERM else -how}
        return self.counts["right"] > 0 and not (self.counts["wrong"] or is_lost or is_other)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/roformer")
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2, help="of load before each end")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    trial = Trial(arguments)
    try:
        outcomes = [trial.rounds(arguments, how) for how in (signal.SIGKILL, signal.SIGTERM)]
    finally:
        trial.server.kill()
    sys.exit(not all(outcomes))


if __name__ == "__main__":
    main()
