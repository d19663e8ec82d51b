"""Measure how long the commands of kgcal take to start, as multiples of the start of Python.

python benchmarks/startup.py [--rounds 5] [--json]

`status` and `run` use a KGCAL_HOME of their own. `cached run` is a pipeline on a small graph whose stages all re-use
finished runs. The figures are medians of seconds of processor time, user and system: a start waits for nothing, so on a
quiet core it takes as long as this, and other programs on the core change it less than the clock's seconds.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from statistics import median

SMALL = ["run", "--dataset", "family", "--size", "300", "--preset", "none", "--k", "8", "--epochs", "2"]
COMMANDS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import prefect and mlflow": ["-c", "import prefect, mlflow"],
    "kgcal --help": ["-m", "kgcal", "--help"],
    "kgcal status": ["-m", "kgcal", "status"],
    "kgcal run --help": ["-m", "kgcal", "run", "--help"],
    "cached kgcal run": ["-m", "kgcal", *SMALL],
}
BASELINES = ("python", "import torch")


def seconds_of(words: list[str], home: str) -> float:
    """Return the seconds of processor time that Python takes with these words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"KGCAL_HOME": home}
    subprocess.run([sys.executable, *words], env=environment, check=True, capture_output=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description="time to start")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as home:
        for words in COMMANDS.values():
            seconds_of(words, home)  # the first start reads the files from the disk, and computes the cached run
        for _ in range(given.rounds):
            for name, words in COMMANDS.items():
                taken[name].append(seconds_of(words, home))
    found = {name: median(times) for name, times in taken.items()}
    if given.json:
        ratios = {f"to {base}": {n: round(s / found[base], 2) for n, s in found.items()} for base in BASELINES}
        print(json.dumps({"seconds": {name: round(s, 3) for name, s in found.items()}, "ratios": ratios}))
        return
    for name, seconds in found.items():
        print(f"{name:<28} {seconds:6.2f} s  {seconds / found['python']:6.1f} times the start of Python")


if __name__ == "__main__":
    main()
