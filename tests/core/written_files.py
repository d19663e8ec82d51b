"""Facts, files that tests write of them, and the rows that are read from files."""

from pathlib import Path

from kgcore.data.formats.base import TriplesFile, read_blocks
from kgcore.errors import InputError

FACTS = sorted({(f"d{n % 19}", ("treats", "helps")[n % 2], f"x{n * 7 // 3 % 23}") for n in range(400)})


def text_of(facts: list[tuple[str, str, str]], between: str = "\t", end: str = "\n") -> str:
    return "".join(between.join(fact) + end for fact in facts)


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def read(path: Path) -> list[tuple[str, ...]]:
    """Return the rows of a file. Raises InputError for its faults."""
    blocks = list(read_blocks(TriplesFile(path)))
    if faults := [fault for block in blocks for fault in block.faults]:
        raise InputError("; ".join(faults))
    return [tuple(row.values()) for block in blocks for row in block.names.to_pylist()]
