"""What a data set is: a declaration of where it comes from and what has to be in it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kgcore.errors import InputError
from kgcore.registries import DATASETS


@dataclass(frozen=True)
class SplitFile:
    """A file inside a data set's folder, and the md5 sums it may have (none: not checked)."""

    path: str
    md5: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counts:
    """What a data set must hold once it is read; None = not checked.

    train_rows, train_distinct  lines of the training file, and distinct ones
    entities                    distinct entities of the training file, or of all files with `entities_in_all`
    predicates                  distinct predicates of the training file
    """

    train_rows: int | None = None
    train_distinct: int | None = None
    entities: int | None = None
    entities_in_all: bool = False
    predicates: int | None = None


@dataclass(frozen=True)
class DatasetSpec:
    """A data set.

    name      what a user types
    title     one line for a reader
    files     train, valid, test: tab-separated subject, predicate, object, and where `labelled` a 4th column 1 / -1
              in valid and test, or files of their own, valid_negatives and test_negatives; with entities and
              predicates, which list names and ids, the triples are ids: subject, object, predicate
    url       the public archive (zip), or, where `plain`, the public folder that the files' paths start from
    archives  the names that the archive may have in a mirror, tried in this order; a mirror of a `plain` data set
              may also hold the files themselves
    generate  instead of a url: writes the files into a folder, given a size and a seed
    folder    instead of both: where a user's own files stand
    """

    name: str
    title: str
    files: dict[str, SplitFile]
    labelled: bool
    url: str | None = None
    archives: tuple[str, ...] = ()
    plain: bool = False
    generate: Callable[[Path, int, int], None] | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)
    counts: Counts = Counts()

    def identity(self) -> str:
        """What the data is, for a cache key: sources and checksums, never paths."""
        return repr((self.name, self.files, self.labelled, self.counts))


def md5_of(path: Path) -> str:
    """The file's md5 in hex: the public check sums are md5; here it guards against accidents, not attacks."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def find_dataset(name: str) -> DatasetSpec:
    """The data set of that name, or the one that stands in that folder. Raises InputError where there is neither.

    A folder holds train.txt, valid.txt (or dev.txt) and test.txt; the held-out files have a 4th column or not.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if "/" in name:
            raise InputError(
                f"there is no folder {name}: a dataset is a folder or one of {', '.join(DATASETS.names())}"
            )
        return DATASETS.get(name)
    if name in DATASETS.names():
        return DATASETS.get(name)
    files = {}
    for split, candidates in (("train", ("train.txt",)), ("valid", ("valid.txt", "dev.txt")), ("test", ("test.txt",))):
        found = [candidate for candidate in candidates if (folder / candidate).is_file()]
        if not found:
            raise InputError(f"{folder} has no {' or '.join(candidates)}: a dataset folder needs train, valid and test")
        files[split] = SplitFile(found[0], (md5_of(folder / found[0]),))
    with (folder / files["valid"].path).open("rb") as file:
        labelled = file.readline().count(b"\t") == 3
    return DatasetSpec(folder.resolve().name, f"the files in {folder}", files, labelled, folder=folder.resolve())
