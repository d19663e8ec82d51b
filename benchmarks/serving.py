"""Measure the latency of `kgcal serve`: clients that ask at the same time, for some triples per request.

kgcal serve --dataset family &
python benchmarks/serving.py http://127.0.0.1:8080
"""

import argparse
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

import numpy as np
import requests


def ask(address: str, rows: list[dict[str, str]], number: int, pause: float, client: int) -> list[float]:
    """Send `number` requests over one connection, one after the other, and return the seconds of each.

    Before each, wait `pause` seconds on average, which `client` seeds. Without a pause, ten times the clients wait ten
    times as long, because the server is always busy.

    The clients share one process, so each does as little as it can: `requests` itself would take most of the time.
    """
    body, taken, draw = json.dumps({"triples": rows}).encode(), [], random.Random(client)  # noqa: S311
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    for _ in range(number):
        time.sleep(draw.uniform(0, 2 * pause))
        started = time.perf_counter()
        connection.request("POST", "/predict", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        text = reply.read()
        taken.append(time.perf_counter() - started)
        assert reply.status == 200, text
        assert len(json.loads(text)["answers"]) == len(rows)
    connection.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--triples", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0, help="seconds between two requests of a client")
    arguments = parser.parse_args()

    def names(kind: str) -> list[str]:
        found = requests.get(f"{arguments.address}/names", params={"kind": kind, "limit": 100}, timeout=60)
        return list(found.json()["names"])

    entities, predicates, draw = names("entity"), names("predicate"), random.Random(0)  # noqa: S311
    rows = [
        {"subject": draw.choice(entities), "predicate": draw.choice(predicates), "object": draw.choice(entities)}
        for _ in range(arguments.triples)
    ]
    started = time.perf_counter()
    with ThreadPoolExecutor(arguments.clients) as pool:
        settings = arguments.address, rows, arguments.requests, arguments.pause
        jobs = [pool.submit(ask, *settings, client) for client in range(arguments.clients)]
        taken = np.concatenate([job.result() for job in jobs])
    seconds = time.perf_counter() - started
    middle, slow = np.percentile(taken, [50, 99]) * 1000
    print(f"{len(taken):,} requests of {arguments.triples} triples from {arguments.clients} clients, no error")
    print(f"p50 {middle:.0f} ms, p99 {slow:.0f} ms, {len(taken) / seconds:.0f} requests per second")


if __name__ == "__main__":
    main()
