"""The declaration of a data set: its source, its files, and their expected counts."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from kgcore.datasets.paths import exists, find_files, is_path, missing
from kgcore.errors import InputError
from kgcore.registries import DATASETS


@dataclass(frozen=True)
class SplitFile:
    """A file in the folder of a data set, and the md5 sums that it may have. A file without md5 sums is not checked."""

    path: str
    md5: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counts:
    """The expected counts of a data set. A count of None is not checked.

    train_rows       lines of the training file
    train_distinct   distinct lines of the training file
    entities         distinct entities of the training file, or of all files if `entities_in_all`
    entities_in_all  whether `entities` counts the names of all files
    predicates       distinct predicates of the training file
    """

    train_rows: int | None = None
    train_distinct: int | None = None
    entities: int | None = None
    entities_in_all: bool = False
    predicates: int | None = None


@dataclass(frozen=True)
class DatasetSpec:
    """A data set. Its files come from a `url`, from the function `generate`, or from a user's `folder`.

    name      the name that a user types
    title     a description in one line
    files     role -> file. The files of train, valid and test have triples in any format. The negatives of a `labelled`
              data set are marked by a column of labels in valid and test, or are in files with the roles
              valid_negatives and test_negatives. If there are files with the roles entities and predicates, these map
              names to ids, and triples consist of ids. Without valid and test, these are drawn from train
    labelled  whether valid and test have labelled negatives; None: the files say it
    url       the public archive (zip) or, if `plain`, the public folder that contains the files
    archives  names that the archive may have in a mirror; they are tried in this order. A mirror of a `plain` data set
              may have the single files instead
    plain     whether the public host has single files instead of an archive
    generate  function of a folder, a size and a seed. It writes the files into the folder
    folder    the folder with a user's own files
    counts    the expected counts of the files
    as_published  whether valid and test keep rows that another split has too, so that results can be compared with
              published or earlier ones. False: such rows are left out
    layout    registered name of the layout of files of ids: see kgcore/datasets/formats
    """

    name: str
    title: str
    files: dict[str, SplitFile]
    labelled: bool | None
    url: str | None = None
    archives: tuple[str, ...] = ()
    plain: bool = False
    generate: Callable[[Path, int, int], None] | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)
    counts: Counts = Counts()
    as_published: bool = False
    layout: str = ""

    @property
    def drawn(self) -> bool:
        """Whether valid and test are drawn from the triples of train."""
        return "valid" not in self.files

    def identity(self) -> str:
        """Return text that identifies the data in a cache key: names, checksums and counts, but no folder or URL."""
        return repr((self.name, self.files, self.labelled, self.counts, self.as_published)) + self.layout


def md5_of(path: Path) -> str:
    """Return the md5 sum of a file in hex, to compare it with the published sum. It detects damage, not attacks.

    Raises InputError if the file cannot be read.
    """
    try:
        status = path.stat()
        return _md5_of(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=64)
def _md5_of(path: Path, modified: int, size: int) -> str:
    """Return the md5 sum. The cache reads a file again if its modification time or size differs."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def find_dataset(name: str) -> DatasetSpec:
    """Return the data set with a registered name, or a user's own one.

    name  a registered name, a folder, a file, or several files separated by commas: see `paths.find_files`. If a folder
          has the same name as a registered data set, the registered one is returned

    Raises InputError if the name is unknown, if a folder or file does not exist, or if a folder lacks one of the files.
    """
    if name in DATASETS.names():
        return DATASETS.get(name)
    if not exists(name):
        if is_path(name):
            raise InputError(
                f"{missing(name)} does not exist: a data set is a folder or one of {', '.join(DATASETS.names())}, or "
                "one or more files"
            )
        return DATASETS.get(name)
    found = find_files(name)
    files = {role: SplitFile(path, (md5_of(found.folder / path),)) for role, path in found.files.items()}
    return DatasetSpec(found.name, found.title, files, None, folder=found.folder, layout=found.layout)
