"""Measure how the generation of the family graph scales: time and peak memory at one size and at ten times this size.

python benchmarks/genealogy.py [--size 100000]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHILD = """
import sys
from pathlib import Path
from kgcore.data.datasets.family import write_genealogy
write_genealogy(Path(sys.argv[1]), int(sys.argv[2]), 0)
"""


def measure(size: int) -> tuple[float, float]:
    """Generate a family graph of that size in a process of its own. Return its seconds and its peak memory in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", CHILD, folder, str(size)], check=True)  # noqa: S603
        seconds = time.perf_counter() - started
        lines = sum(1 for _ in (Path(folder) / "train.txt").open())
    print(f"{size:>10,} people  {lines:>12,} train triples  {seconds:6.1f} s", end="")
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="time and memory of the generated graph")
    parser.add_argument("--size", type=int, default=100_000, help="people; then ten times as many")
    size = parser.parse_args().size
    small, small_memory = measure(size)
    print(f"  {small_memory:6.0f} MiB")
    large, large_memory = measure(10 * size)
    print(f"  {large_memory:6.0f} MiB")
    print(f"ten times the size: {large / small:.1f} times the time, {large_memory / small_memory:.2f} times the memory")


if __name__ == "__main__":
    main()
