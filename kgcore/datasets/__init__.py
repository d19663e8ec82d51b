"""Data sets, one declarative file each, and the way from a public host to a `KnowledgeGraph`:

fetch.py (download or mirror, checksums) -> read.py (text) -> schema.py (validation) -> prepare.py (numbers, counts)
"""

from typing import TYPE_CHECKING

from kgcore.registry import Registry

if TYPE_CHECKING:
    from kgcore.datasets.base import DatasetSpec

DATASETS: "Registry[DatasetSpec]" = Registry(
    "dataset",
    "kgcore.datasets",
    helpers=("base", "fetch", "genealogy", "labels", "prepare", "read", "schema"),
    separator="-",
)
