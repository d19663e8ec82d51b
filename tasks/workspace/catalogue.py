"""The registered data sets, and which of them are in the folder KGCAL_HOME."""

from typing import TYPE_CHECKING

from kgcore.registries import DATASETS
from tasks.workspace.settings import home

if TYPE_CHECKING:  # pandas takes half a second to load
    from kgcore.datasets.base import DatasetSpec


def catalogue() -> "list[tuple[DatasetSpec, tuple[str, ...]]]":
    """Return every registered data set, with the names of its folders in KGCAL_HOME; (): not downloaded or generated.

    Reads folder names, downloads nothing.
    """
    entries = []
    for name in DATASETS.names():
        spec = DATASETS.get(name)
        folders = sorted(folder.name for folder in (home() / "datasets").glob(f"{name}*") if folder.is_dir())
        here = (folder for folder in folders if folder == name or (spec.generate and folder.startswith(f"{name}-")))
        entries.append((spec, tuple(here)))
    return entries
