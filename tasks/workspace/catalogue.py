"""The registered data sets, and which of them are already in the folder KGCAL_HOME."""

from dataclasses import dataclass

from kgcore.registries import DATASETS
from tasks.workspace.settings import home


@dataclass(frozen=True)
class Entry:
    """A registered data set.

    name       its name in the registry
    title      one line that describes it to users
    labelled   whether valid and test have labelled negatives
    counts     numbers of training triples, entities and predicates; None: not known in advance
    generated  whether kgcal generates it, in the size that the user chooses
    here       names of its folders in KGCAL_HOME; empty: not downloaded or generated yet
    """

    name: str
    title: str
    labelled: bool
    counts: tuple[int | None, int | None, int | None]
    generated: bool
    here: tuple[str, ...]


def catalogue() -> list[Entry]:
    """Return an entry for every registered data set. Reads folder names, downloads nothing."""
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
                bool(spec.labelled),
                (counts.train_rows, counts.entities, counts.predicates),
                spec.generate is not None,
                here,
            )
        )
    return entries
