"""Measure the speed of training side by side with other libraries, in one run: scored triples a second.

    python benchmarks/peers.py [--dataset wn11] [--models transe,distmult,complex,rotate] [--plot FILE] [--json FILE]

Each library has a virtual environment of its own, in the folder `--folder` (KGCAL_PEERS, or ~/.cache/kgcal-peers). The
first run installs them with pip, which takes minutes and 4 GB. A library that cannot be installed or that fails has
the reason below the table. `--peers none` measures kgcal alone.

All libraries get the same triples, k, batch and eta, and the same cores. They train in turn, so that a busy machine
slows down all of them. A pause before each turn lets the library before come to rest. The first epoch of a turn does
not count: a machine that has rested is slow at first. The epochs after it take at least a second in all. A scored
triple is a positive or a corruption. The table has millions of them a second, the median over the rounds, and how many
times as fast kgcal is. PyKEEN and AmpliGraph give every positive its own corruptions: the same figure of theirs stands
beside each way of kgcal. PyTorch-BigGraph shares corruptions, as many as kgcal in the same row; its TransE has the
squared L2 norm, which is the fastest that it has.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import sleep

import numpy as np
from cases import graph_of
from peer_runs import PEERS, Case, PeerError, Runner

CHUNK = 64
PAUSE = 1.0  # seconds before a turn, for the threads and the files of the library before
LEAST = 1.0  # seconds of a turn that count, at least
# name of a way -> (corruptions of a positive, positives that share them)
WAYS = {"20 shared": (20, CHUNK), "198 shared": (198, CHUNK), "20 a positive": (20, 1)}
TITLES = {"pykeen": "PyKEEN", "ampligraph": "AmpliGraph", "biggraph": "PyTorch-BigGraph"}
NAMES = {"transe": "TransE", "distmult": "DistMult", "complex": "ComplEx", "rotate": "RotatE"}


@dataclass(frozen=True)
class Entry:
    """Someone who takes part in the turns of a model: a library and its way to draw corruptions."""

    peer: str
    model: str
    way: str
    norm: int = 1


@dataclass
class Result:
    """The result of an entry.

    versions  the versions of the library and of what it computes with
    speeds    millions of triples a second, for each turn
    reason    the sentence of a failure; '': the entry has not failed
    """

    versions: str = ""
    speeds: tuple[float, ...] = ()
    reason: str = ""

    @property
    def usual(self) -> float | None:
        """The median speed; None: the entry has failed before the first round."""
        return median(self.speeds) if self.speeds else None


def ours(model: str, ways: list[str]) -> list[Entry]:
    """Return the rows of the table for a model. TransE has rows for both norms."""
    rows = [Entry("kgcal", model, way) for way in ways if model != "rotate" or way == "20 shared"]
    return rows + [Entry("kgcal", model, way, 2) for way in ways if model == "transe" and way != "20 a positive"]


def theirs(peer: str, row: Entry) -> Entry | None:
    """Return what a row of kgcal is compared with, or None."""
    if peer == "biggraph":
        shared = row.way != "20 a positive" and row.model != "rotate"
        return Entry(peer, row.model, row.way, 2 if row.model == "transe" else 1) if shared else None
    return Entry(peer, row.model, "20 a positive") if row.way != "198 shared" else None


def measure(entries: list[Entry], case: Case, options: argparse.Namespace) -> dict[Entry, Result]:
    """Let the entries train in turn, and return what each has shown."""
    results = {entry: Result() for entry in entries}
    runners: dict[Entry, Runner] = {}
    positives = len(np.load(case.triples, mmap_mode="r"))
    try:
        for number in range(-1, options.rounds):  # at -1, the libraries start and compile
            for entry in [entry for entry in entries if not results[entry].reason]:
                eta, sharing = WAYS[entry.way]
                try:
                    if number < 0:
                        changed = {"model": entry.model, "norm": entry.norm, "eta": eta, "sharing": sharing}
                        job = Case(**vars(case) | changed)
                        runners[entry] = Runner(entry.peer, job, options.folder, options.threads)
                        results[entry].versions = runners[entry].versions
                        runners[entry].epoch()
                        continue
                    sleep(PAUSE)
                    speed = positives * (1 + eta) / runners[entry].turn(LEAST) / 1e6
                except PeerError as error:
                    results[entry].reason = str(error)
                    continue
                results[entry].speeds += (speed,)
    finally:
        for runner in runners.values():
            runner.close()
    return results


def machine(threads: int) -> str:
    """Describe the machine: processor, the cores that the run may use, and versions."""
    cpuinfo, name = Path("/proc/cpuinfo"), platform.processor() or platform.machine()
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {usable} of {os.cpu_count()} cores, {threads} threads, Python {platform.python_version()}"


def table(rows: list[Entry], results: dict[Entry, Result], peers: list[str]) -> str:
    """Return the Markdown table: millions of triples a second, and in brackets how many times as fast kgcal is."""
    lines = [
        f"| | {' | '.join(['kgcal', *(TITLES[peer] for peer in peers)])} |",
        "|---" * (2 + len(peers)) + "|",
    ]
    for row in rows:
        own, cells = results[row].usual, []
        for peer in peers:
            other = theirs(peer, row)
            speed = results[other].usual if other in results else None
            ratio = f" (x {own / speed:.1f})" if own and speed else ""
            cells.append("" if other is None else "failed" if speed is None else f"{speed:.2f}{ratio}")
        norm = f", L{row.norm}" if row.model == "transe" else ""
        speed = "failed" if own is None else f"{own:.2f}"
        lines.append(f"| {' | '.join([f'{NAMES[row.model]}{norm}, {row.way}', speed, *cells])} |")
    reasons = {f"{entry.peer}, {entry.model}: {result.reason}" for entry, result in results.items() if result.reason}
    return "\n".join([*lines, *(f"\n{reason}" for reason in sorted(reasons))])


def draw(rows: list[Entry], results: dict[Entry, Result], peers: list[str], target: Path) -> None:
    """Write the speeds of the table as a bar chart."""
    from kgcore.measure.report.plots import COLOURS, new_figure

    figure = new_figure(8.6, 0.9 + 0.55 * len(rows))
    axes = figure.subplots()
    height = 0.8 / (1 + len(peers))
    for number, peer in enumerate(["kgcal", *peers]):
        entries = [row if peer == "kgcal" else theirs(peer, row) for row in rows]
        speeds = [(results[entry].usual if entry in results else None) or 0.0 for entry in entries]
        places = np.arange(len(rows)) + number * height
        axes.barh(places, speeds, height, color=COLOURS[number], label=TITLES.get(peer, peer))
        for place, speed in zip(places, speeds, strict=True):
            if speed:
                axes.annotate(f" {speed:.1f}", (speed, place), va="center", fontsize=7)
    labels = [f"{NAMES[row.model]}{f' L{row.norm}' if row.model == 'transe' else ''}, {row.way}" for row in rows]
    axes.set_yticks(np.arange(len(rows)) + height * len(peers) / 2, labels)
    axes.invert_yaxis()
    axes.set_xlabel("million scored triples a second")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options of the command line."""
    parser = argparse.ArgumentParser(description="speed of training, beside other libraries")
    cache = os.environ.get("KGCAL_PEERS", "~/.cache/kgcal-peers")
    parser.add_argument("--dataset", default="wn11", help="a registered data set; KGCAL_MIRROR names a mirror")
    parser.add_argument("--size", type=int, default=3000, help="people, if the data set is generated")
    parser.add_argument("--peers", default=",".join(TITLES), help="libraries, separated by commas, or none")
    parser.add_argument("--models", default=",".join(NAMES), help="models, separated by commas")
    parser.add_argument("--ways", default=",".join(WAYS), help="ways to draw corruptions, separated by commas")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1152)
    parser.add_argument("--triples", type=int, help="train on so many triples, drawn at random; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(cache), help="folder of the virtual environments")
    parser.add_argument("--plot", type=Path, help="also draw the speeds into this file")
    parser.add_argument("--json", type=Path, help="also write all speeds to this file")
    options = parser.parse_args(arguments)
    options.peers = [] if options.peers == "none" else options.peers.split(",")
    options.models, options.ways = options.models.split(","), options.ways.split(",")
    for given, known in ((options.peers, PEERS), (options.models, NAMES), (options.ways, WAYS)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"unknown: {', '.join(unknown)}. Choose from {', '.join(known)}")
    options.folder = options.folder.expanduser().absolute()
    return options


def main(arguments: list[str] | None = None) -> None:
    options, rows, results = parsed(arguments), [], {}
    graph = graph_of(options)
    with tempfile.TemporaryDirectory() as folder:
        triples = np.random.default_rng(0).permutation(graph.train.triples)[: options.triples]
        np.save(Path(folder) / "triples.npy", triples)
        sizes = (len(graph.entities), len(graph.predicates))
        case = Case(str(Path(folder) / "triples.npy"), *sizes, "", 1, 0, 0, options.k, options.batch)
        for model in options.models:
            new = ours(model, options.ways)
            others = [theirs(peer, row) for peer in options.peers for row in new]
            rows += new
            results |= measure([*new, *dict.fromkeys(entry for entry in others if entry)], case, options)
            print(f"{model}: measured", file=sys.stderr, flush=True)
    versions = sorted({result.versions for result in results.values() if result.versions})
    print(f"{options.dataset}: {len(triples):,} triples, {sizes[0]:,} entities; k = {options.k}, ", end="")
    print(f"{options.batch:,} positives a step; {machine(options.threads)}")
    print(f"{'; '.join(versions)}\n\n{table(rows, results, options.peers)}")
    if options.plot:
        draw(rows, results, options.peers, options.plot)
    if options.json:
        found = [vars(entry) | vars(result) for entry, result in results.items()]
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
