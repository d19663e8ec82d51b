"""Measure the speed of L1 comparisons in compiled tiles, relative to torch.cdist, in one run."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from kgcore.models.comparators import NegativeDistance

QUERIES, ENTITIES, K, ROUNDS = 256, 38_194, 100, 5


def fastest(function: Callable[[], Tensor]) -> float:
    """Return the seconds of the fastest of ROUNDS calls, after one call that only compiles."""
    function()
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        function()
        taken.append(time.perf_counter() - started)
    return min(taken)


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, entities = (torch.randn(n, K, generator=generator) for n in (QUERIES, ENTITIES))
    comparator = NegativeDistance(1)
    with torch.inference_mode():
        tiles = fastest(lambda: comparator.outer(queries, entities))
        plain = fastest(lambda: torch.cdist(queries, entities, p=1))
    print(f"{QUERIES} queries against {ENTITIES:,} entities, k = {K}, {torch.get_num_threads()} threads:")
    print(f"cdist {1000 * plain:.0f} ms, tiles {1000 * tiles:.0f} ms: {plain / tiles:.1f} times as fast")


if __name__ == "__main__":
    main()
