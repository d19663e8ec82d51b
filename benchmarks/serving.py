"""Measure the latency of `kgcal serve`: clients that ask at the same time, for some triples per request.

kgcal serve --dataset family &
python benchmarks/serving.py http://127.0.0.1:8080
"""

import argparse
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import requests


def ask(address: str, rows: list[dict[str, str]], number: int) -> list[float]:
    """Send `number` requests, one after the other, and return the seconds of each."""
    taken = []
    with requests.Session() as session:
        for _ in range(number):
            started = time.perf_counter()
            reply = session.post(f"{address}/predict", json={"triples": rows}, timeout=60)
            reply.raise_for_status()
            assert len(reply.json()["answers"]) == len(rows)
            taken.append(time.perf_counter() - started)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--triples", type=int, default=100)
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
        jobs = [pool.submit(ask, arguments.address, rows, arguments.requests) for _ in range(arguments.clients)]
        taken = np.concatenate([job.result() for job in jobs])
    seconds = time.perf_counter() - started
    middle, slow = np.percentile(taken, [50, 99]) * 1000
    print(f"{len(taken):,} requests of {arguments.triples} triples from {arguments.clients} clients, no error")
    print(f"p50 {middle:.0f} ms, p99 {slow:.0f} ms, {len(taken) / seconds:.0f} requests per second")


if __name__ == "__main__":
    main()
