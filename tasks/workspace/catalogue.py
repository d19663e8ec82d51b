"""What data sets there are, and what is already here."""

from dataclasses import dataclass

from kgcore.registries import DATASETS
from tasks.workspace.settings import home


@dataclass(frozen=True)
class Entry:
    """A data set: counts are train triples, entities, predicates (None = not known beforehand); `generated`: as
    large as you like; `here`: the folders."""

    name: str
    title: str
    labelled: bool
    counts: tuple[int | None, int | None, int | None]
    generated: bool
    here: tuple[str, ...]


def catalogue() -> list[Entry]:
    """Every registered data set. Looks at folders, downloads nothing."""
    entries = []
    for name in DATASETS.names():
        spec = DATASETS.get(name)
        folders = sorted(folder.name for folder in (home() / "datasets").glob(f"{name}*") if folder.is_dir())
        here = tuple(
            folder for folder in folders if folder == name or (spec.generate and folder.startswith(f"{name}-"))
        )
        counts = spec.counts
        entries.append(
            Entry(
                name,
                spec.title,
                spec.labelled,
                (counts.train_rows, counts.entities, counts.predicates),
                spec.generate is not None,
                here,
            )
        )
    return entries
