"""`kgcal serve` under attack: honest clients lose no request, `/health` answers, and the memory stays bounded.

ATTACK is how many seconds an attack lasts, FLOOD how many clients never read.
"""

import json
import os
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import requests

from tests.core.graph_files import repeated
from tests.e2e.serving import started
from tests.pipeline.all_commands import SEED
from tests.pipeline.finished import finished

pytestmark = pytest.mark.kills

SECONDS = float(os.environ.get("ATTACK", "5"))
FLOOD = int(os.environ.get("FLOOD", "300"))
BODY = {"triples": [{"subject": f"person_{i}", "predicate": "cousin_of", "object": "person_1"} for i in range(2, 22)]}


class Attack:
    """Attackers and honest clients of a server, and what the honest ones have seen.

    slowest  the longest time of each address, in seconds
    """

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.end = address, time.monotonic() + SECONDS
        self.failures, self.count, self.slowest = list[str](), 0, dict[str, float]()
        wide = ("subject,predicate,object," + ",".join(f"c{n}" for n in range(100_000)) + "\n").encode()
        tall = b"subject,predicate,object\n" + b"person_1,cousin_of,person_2\n" * 200_000
        bomb = repeated(folder / "bomb.parquet", 6_000, 2**18).read_bytes()
        self.bodies = [("csv", wide), ("csv", tall), ("parquet", bomb), ("tsv", b"x" * 2**22), ("jsonl", b"[" * 2**20)]

    def honest(self, ask: Callable[[], requests.Response], name: str) -> None:
        while time.monotonic() < self.end:
            begun = time.monotonic()
            try:
                answer = ask()
                if answer.status_code != 200:
                    self.failures.append(f"{name}: {answer.text}")
            except requests.RequestException as error:
                self.failures.append(f"{name}: {error}")
            self.count += 1
            self.slowest[name] = max(self.slowest.get(name, 0), time.monotonic() - begun)
            time.sleep(0.02)

    def attacker(self, number: int) -> None:
        rng, host = random.Random(f"{SEED} {number}"), ("127.0.0.1", int(self.address.rpartition(":")[2]))
        opened = []
        while time.monotonic() < self.end:
            kind, data = rng.choice(self.bodies)
            lines = (f"POST /file?format={kind} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}", "", "")
            head = "\r\n".join(lines).encode()
            ways = (data, data[: rng.randrange(len(data))], rng.randbytes(2**16))  # whole, left in the middle, noise
            sent = rng.choice([head + way for way in ways] + [rng.randbytes(2**12), head[:20]])
            with suppress(OSError):
                opened.append(socket.create_connection(host, timeout=5))
                opened[-1].sendall(sent)
                opened[-1].settimeout(rng.uniform(0.01, 2))
                opened[-1].recv(2**16)  # an answer, or the attacker leaves before it
            if len(opened) > rng.randrange(50):  # the others stay half-open
                opened.pop(rng.randrange(len(opened))).close()
        for connection in opened:
            connection.close()


def test_an_attacked_server_serves_honest_clients(tmp_path: Path) -> None:
    kgcal, _ = finished(tmp_path)
    with started(kgcal, "serve", "--dataset", "family") as (address, process):
        attack, memory = Attack(address, tmp_path), 0
        clients = [
            *(threading.Thread(target=attack.attacker, args=(number,)) for number in range(8)),
            *(
                threading.Thread(target=attack.honest, args=(ask, name))
                for name, ask in {
                    "health": lambda: requests.get(f"{address}/health", timeout=30),
                    "predict": lambda: requests.post(f"{address}/predict", json=BODY, timeout=30),
                }.items()
            ),
        ]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            memory = max(memory, psutil.Process(process.pid).memory_info().rss)
            time.sleep(0.1)
        print(f"{attack.count} honest requests, slowest {attack.slowest}, {memory / 1e6:.0f} MB")
        assert requests.get(f"{address}/health", timeout=30).status_code == 200
    assert not attack.failures
    assert attack.slowest.keys() == {"health", "predict"}
    assert max(attack.slowest.values()) < 10  # seconds, on a busy machine
    assert memory < 1.5e9


def flood(port: int, ended: threading.Event) -> None:
    """Send requests over FLOOD connections, and never read an answer. Lost connections are opened again."""
    body = json.dumps(BODY).encode()
    kinds = [
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in ("/names?kind=entity", "/health", "/x")
    ]
    kinds.append(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    with select.epoll() as ready:
        opened: dict[int, socket.socket] = {}
        while not ended.is_set():
            for _ in range(min(50, FLOOD - len(opened))):
                client = socket.socket()
                client.setblocking(False)
                with suppress(BlockingIOError):
                    client.connect(("127.0.0.1", port))
                opened[client.fileno()] = client
                ready.register(client, select.EPOLLOUT)
            for number, _ in ready.poll(0.02):
                try:
                    opened[number].send(kinds[number % len(kinds)] * 50)
                except BlockingIOError:
                    continue
                except OSError:
                    ready.unregister(number)
                    opened.pop(number).close()
        for client in opened.values():
            client.close()


def test_health_is_answered_in_a_flood_of_clients_that_never_read(tmp_path: Path) -> None:
    kgcal, _ = finished(tmp_path)
    with started(kgcal, "serve", "--dataset", "family") as (address, process):
        ended, taken, memory, asked = threading.Event(), list[float](), 0, list[int]()

        def predict() -> None:
            while not ended.is_set():
                asked.append(requests.post(f"{address}/predict", json=BODY, timeout=120).status_code)

        clients = [threading.Thread(target=flood, args=(int(address.rpartition(":")[2]), ended))]
        clients.append(threading.Thread(target=predict))
        for client in clients:
            client.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or not asked:
            begun = time.monotonic()
            assert requests.get(f"{address}/health", timeout=60).status_code == 200
            taken.append(time.monotonic() - begun)
            memory = max(memory, psutil.Process(process.pid).memory_info().rss)
            time.sleep(0.05)
        ended.set()
        for client in clients:
            client.join()
    print(f"{FLOOD} clients never read; {len(asked)} honest requests; {len(taken)} times /health, median", end=" ")
    print(f"{sorted(taken)[len(taken) // 2]:.3f} s, slowest {max(taken):.3f} s; {memory / 1e6:.0f} MB")
    assert set(asked) == {200}
    assert sorted(taken)[len(taken) // 2] < 1  # second; the slowest can be longer on a busy machine
    assert memory < 1.5e9
