"""Write a small data set: 40 entities, 2 predicates, no labelled negatives."""

from collections.abc import Sequence
from pathlib import Path

ROWS = tuple(f"e{i % 40}\tr{i % 2}\te{(i % 40 + i // 40 + 1) % 40}" for i in range(1200))
TRAIN, VALID, TEST = ROWS[:900], ROWS[900:1050], ROWS[1050:]


def write_folder(
    folder: Path, train: Sequence[str] = TRAIN, valid: Sequence[str] = VALID, test: Sequence[str] = TEST
) -> Path:
    """Write train.txt, valid.txt and test.txt into the folder, and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, rows in (("train", train), ("valid", valid), ("test", test)):
        (folder / f"{name}.txt").write_text("\n".join(rows) + "\n")
    return folder
