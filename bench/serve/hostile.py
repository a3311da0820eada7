"""What others notice of an attack: the times of a steady load without and with 1,000 connections that never finish their headers, bodies
of a gigabyte, deep JSON, bytes that are no text, header floods and wrong keys.

    python bench/serve/hostile.py --program target/release/roformer --model FOLDER

Prints what `roformer bench serve` measured in either case, and what each attacker was told. Needs nothing but Python.
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import Counter

KEY = "secret"
HEAD = "POST /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
AUTHORIZED = f"{HEAD}Authorization: Bearer {KEY}\r\n"


def told(host, parts):
    """Sends parts until they end or the server has answered; the status that it answered with."""
    with socket.create_connection(host, timeout=60) as stream:
        try:
            for part in parts:
                stream.sendall(part)
        except OSError:
            pass
        try:
            answer = stream.recv(4096)
        except OSError:
            return "reset"
    return answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/") else "closed"


def whole(body, head=AUTHORIZED):
    return [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body]


def large():
    yield f"{AUTHORIZED}Content-Length: {10**9}\r\n\r\n".encode()
    for _ in range(1000):
        yield b"x" * 10**6


ATTACKS = {
    "a gigabyte": large,
    "deep JSON": lambda: whole(b'{"inputs": ' + b"[" * 10**6),
    "no UTF-8": lambda: whole(b'{"inputs": "\xff\xfe"}'),
    "1000 headers": lambda: [(AUTHORIZED + "X: x\r\n" * 1000 + "\r\n").encode()],
    "a header of 1 MB": lambda: [(AUTHORIZED + "X: " + "x" * 10**6 + "\r\n\r\n").encode()],
    "a wrong key": lambda: whole(b'{"inputs": "a"}', f"{HEAD}Authorization: Bearer wrong\r\n"),
}


def attack(name, host, stop, counts, pause):
    while not stop.is_set():
        try:
            counts[name, told(host, ATTACKS[name]())] += 1
        except OSError as error:
            counts[name, type(error).__name__] += 1
        stop.wait(pause)


def hold(host, count, stop):
    """Connections that say a little now and then and never come to the end of their headers."""
    streams = []
    while not stop.is_set():
        while len(streams) < count:
            streams.append(socket.create_connection(host, timeout=60))
            streams[-1].sendall(b"POST /embed HTTP/1.1\r\nHost: x\r\n")
        for stream in list(streams):
            try:
                stream.sendall(b"X: x\r\n")
            except OSError:
                stream.close()
                streams.remove(stream)
        stop.wait(1)
    for stream in streams:
        stream.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/roformer")
    parser.add_argument("--model", required=True)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--clients", default="4")
    parser.add_argument("--seconds", default="20")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between the attacks of one kind")
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    command = [arguments.program, "serve", "--model", arguments.model, "--device", "cpu", "--port", "0", "--api-key", KEY]
    server = subprocess.Popen([*command, "--log-level", "off"], stdout=subprocess.PIPE, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    url = server.stdout.readline().decode().split()[0]
    name, port = url.removeprefix("http://").split(":")
    host = (name, int(port))

    def load(seconds):
        bench = [arguments.program, "bench", "serve", f"{url}/embed", "--clients", arguments.clients, "--api-key", KEY, "--json"]
        run = subprocess.run([*bench, "--seconds", seconds, "--check", arguments.model], capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stderr)
        return json.loads(run.stdout.splitlines()[-1])

    try:
        load("3")
        quiet = load(arguments.seconds)
        stop, counts = threading.Event(), Counter()
        threads = [threading.Thread(target=hold, args=(host, arguments.connections, stop))]
        threads += [threading.Thread(target=attack, args=(kind, host, stop, counts, arguments.pause)) for kind in ATTACKS]
        for thread in threads:
            thread.start()
        time.sleep(3)
        under = load(arguments.seconds)
        stop.set()
        for thread in threads:
            thread.join()
    finally:
        server.terminate()
        code = server.wait(90)
    print(json.dumps({"load": "alone", **quiet}))
    print(json.dumps({"load": "under attack", **under}))
    for (kind, status), count in sorted(counts.items()):
        print(f"{kind}: {status}, {count} times")
    print(f"p99 under attack over p99 alone: {under['p99_ms'] / quiet['p99_ms']:.2f}; the server ended with code {code}")


if __name__ == "__main__":
    main()
