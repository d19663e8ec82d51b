"""Prepare a random graph of one file, and measure time and memory.

    python benchmarks/prepare.py --triples 100000000 --format parquet [--folder FOLDER] [--json]

The graph has a tenth as many entities as triples, some with far more facts than others, and 50 predicates. `peak_gb` is
the largest resident memory of `kgcal prepare`, in units of 10^9 bytes. The file and KGCAL_HOME are in a temporary
folder, in FOLDER if it is given: 100 million triples need 15 GB there as N-Triples, and 7 GB as Parquet.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PREDICATES, SKEW, BLOCK = 50, 2.5, 1_000_000
PARTS = {
    "parquet": ("Q", "\tP", "\tQ", ""),
    "nt": ("<http://example.org/entity/Q", "> <http://example.org/property/P", "> <http://example.org/entity/Q", "> ."),
    "tsv": ("Q", "\tP", "\tQ", ""),
}


def main() -> None:
    """Write the file, prepare it, and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--format", choices=[*PARTS], default="parquet")
    parser.add_argument("--folder")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        path = Path(folder) / f"graph.{asked.format}"
        write(path, asked.triples)
        environment = os.environ | {"KGCAL_HOME": f"{folder}/home", "KGCAL_PREFECT": "off"}
        started = time.perf_counter()
        command = [sys.executable, "-m", "kgcal", "prepare", "--dataset", str(path)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "triples": asked.triples,
        "format": asked.format,
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 2),
    }
    print(json.dumps(figures) if asked.json else "  ".join(f"{name} {value}" for name, value in figures.items()))


def write(path: Path, triples: int) -> None:
    """Write a random graph block by block."""
    rng, entities, writer = np.random.default_rng(1), max(100, triples // 10), None
    shares = 1 / np.arange(1, PREDICATES + 1)
    with path.open("wb") as file:
        for start in range(0, triples, BLOCK):
            size = min(BLOCK, triples - start)
            ends = [(entities * rng.random(size) ** SKEW).astype(np.int64) for _ in range(2)]
            predicates = rng.choice(PREDICATES, size, p=shares / shares.sum())
            s, p, o = (pa.array(numbers).cast(pa.string()) for numbers in (ends[0], predicates, ends[1]))
            first, second, third, last = PARTS[path.suffix[1:]]
            if path.suffix == ".parquet":
                names = {"subject": ("Q", s), "predicate": ("P", p), "object": ("Q", o)}
                table = pa.table(
                    {n: pc.binary_join_element_wise(letter, own, "") for n, (letter, own) in names.items()}
                )
                writer = writer or pq.ParquetWriter(file, table.schema)
                writer.write_table(table)
            else:
                lines = pc.binary_join_element_wise(first, s, second, p, third, o, f"{last}\n", "")
                file.write("".join(lines.to_pylist()).encode())
        if writer:
            writer.close()


if __name__ == "__main__":
    main()
