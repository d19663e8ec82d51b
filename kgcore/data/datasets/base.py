"""The declaration of a data set: its source, its files, and their expected counts."""

import hashlib
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice
from os.path import commonpath, expanduser
from pathlib import Path

from kgcore.config import PrepareConfig
from kgcore.config.base import RANDOM
from kgcore.data.formats.base import COLUMNS, endings, first_of, format_name, format_of, open_packed, stem_of
from kgcore.data.formats.columns import known_columns
from kgcore.errors import InputError, KgcalWarning
from kgcore.registries import DATASETS, LAYOUTS

# The names of a split's file, without endings. The first one has priority.
NAMES = {
    "train": ("train", "training"),
    "valid": ("valid", "dev", "validation", "val"),
    "test": ("test", "testing"),
}
PACKING = re.compile(r"(\.(xz|zip|7z|lz4|rar|z|gz|bz2|zst|zstd|tar))+$", re.IGNORECASE)  # also packing that is not read
# names of files without triples, such as relation2text
NO_TRIPLES = re.compile(r"readme|licen[sc]e|(entity|entities|relations?|predicates?)(2.*)?|.+2(id|text|name).*")
TABLES = {".xlsx", ".xls", ".ods", ".graphml", ".gexf"}  # endings of files that may have triples, and are not read
NODES, EDGES = "nodes", "edges"  # words in the names of KGX files
DEEPEST, MOST_PATHS = 3, 10_000  # folders inside a folder that are searched for files, and what they may have
MOST_JOINED = 2  # files that an example names
NEGATIVES = "_negatives"  # ends the role of a file of false triples
# words in its name, beside that of the split
NEGATIVE = {"negative", "negatives", "neg", "negs"}
# words that say so if another file has the same name but for such words
FALSE = {"false", "fake", "wrong", "incorrect", "corrupted", "corruption", "corruptions", "perturbed", "decoy", "tn"}
FALSE |= {"decoys", "fp", "untrue", "rejected", "nontrue", "nonedges", "nonlinks", "noninteractions", "nonfacts"}
TRUE = {"true", "positive", "positives", "pos", "tp", "edges", "links", "interactions", "facts"}
NON = re.compile(r"(?<![a-z])(?:no|non|not)[^a-z]+(?=(?:true|edges|links|interactions|facts)(?![a-z]))")
SORTS = {"hard", "easy", "random", "sampled", "sample", "samples", "triples"}  # of negatives
LINKS = {"edges", "links", "relationships", "triples"}  # words in the names of files that have no nodes
# names of the files of one table, as Spark, Dask and BigQuery write them
PARTS = re.compile(r"part[-.](r-)?\d+.*|(.*-)?0{6}\d{6}\..*")


@dataclass(frozen=True)
class SplitFile:
    """A file in the folder of a data set, and the md5 sums that it may have. A file without md5 sums is not checked."""

    path: str
    md5: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExpectedCounts:
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
    layout    registered name of the layout of files of ids: see kgcore/data/formats
    others    names of the other files of a user's folder that may have triples, and are not read
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
    counts: ExpectedCounts = ExpectedCounts()
    as_published: bool = False
    layout: str = ""
    others: tuple[str, ...] = ()

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

    name  a registered name, a folder, a file, or several files separated by commas. If a folder has the same name as a
          registered data set, the registered one is returned

    In a folder, and among several files, the splits are known by the files' names. If no name tells a split, all files
    together are one graph.

    Raises InputError if the name is unknown, if a folder or file does not exist or has an unknown ending, if a folder
    lacks one of the files, or if the split of a file is not clear.
    """
    whole, parts = _path(name), [name_part.strip() for name_part in name.split(",") if name_part.strip()]
    if not parts:
        raise InputError(
            f"the data set {name!r} has no name: name a folder, files, or one of {', '.join(DATASETS.names())}"
        )
    paths = [whole] if whole.exists() else [_path(name_part) for name_part in parts]
    missing = next((name_part for name_part, path in zip(parts, paths, strict=False) if not path.exists()), None)
    if name in DATASETS.names() and whole.is_dir():
        warnings.warn(f"{name} is a registered data set: for the folder, give ./{name}", KgcalWarning, stacklevel=2)
    if name in DATASETS.names() or (missing and not any(path.exists() for path in paths) and not _is_path(name, parts)):
        return DATASETS.get(name)
    if missing:
        kind = "file" if format_name(Path(missing)) else "folder"
        known = f": a data set is a folder or one of {', '.join(DATASETS.names())}, or one or more files"
        raise InputError(f"the {kind} {missing} does not exist{'' if any(p.exists() for p in paths) else known}")
    if whole.is_dir():
        return _in_folder(whole)
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path} is a folder: name one folder alone, or files")
        format_of(path)
    paths = _without_nodes([path.parent.resolve() / path.name for path in paths])  # the name of a link tells its split
    if len(paths) == 1:
        [path] = paths
        return _of_user(stem_of(path), f"the file {whole}", path.parent, {"train": path.name})
    folder = Path(commonpath([path.parent for path in paths]))
    return _of_user(folder.name, f"{len(paths)} files in {folder}", folder, _by_split(folder, paths))


def _path(name: str) -> Path:
    """Return a path. If no file can have the name, because it is too long or has a zero byte, that of no file."""
    path = Path(expanduser(name))  # a ~ whose user is unknown stays, where Path.expanduser raises an error
    try:
        path.exists()
    except (OSError, ValueError):
        return Path(f"{name[:40]!r}...")
    return path


def used_settings(config: PrepareConfig) -> PrepareConfig:
    """Return the settings with the name of the data set for its path, and without those that it does not use.

    Raises InputError if the data set cannot have a given setting, and as `find_dataset` does.
    """
    spec, used = find_dataset(config.dataset), PrepareConfig()
    if config.given_confidence and not spec.folder:
        raise InputError(
            f"confidence is {config.confidence!r}, but the data set {spec.name} has no confidences: leave out "
            "`confidence`, or give a folder or files of your own"
        )
    if config.split_rule.kind != RANDOM and not spec.drawn:
        raise InputError(
            f"split is {config.split!r}, but the data set {spec.name} has splits: leave out `split`, or give its "
            "triples as one file"
        )
    names = ["size", "graph_seed"] if spec.generate else []
    names += ["columns", "confidence"] if spec.folder else []
    names += ["split", "valid_share", "test_share", "split_seed"] if spec.drawn else []
    return used.replace(dataset=spec.name, **{name: getattr(config, name) for name in names})


def _is_path(name: str, parts: Sequence[str]) -> bool:
    """Return whether a name is spelt like a path: it has a slash, or the ending of a format."""
    return "/" in name or any(format_name(Path(name_part)) for name_part in parts)


def _of_user(name: str, title: str, folder: Path, files: Mapping[str, str], layout: str = "") -> DatasetSpec:
    """Return a user's own data set. Several files of one split have the roles train, train+2, train+3, and so on."""
    summed = {role: SplitFile(path, (md5_of(folder / path),)) for role, path in files.items()}
    return DatasetSpec(name, title, summed, None, folder=folder, layout=layout)


def _in_folder(folder: Path) -> DatasetSpec:
    spec = _known_by_names(folder)
    used = {file.path for file in spec.files.values()}
    others = [path.name for path in folder.iterdir() if path.name not in used and _has_bytes(path)]
    others += [f"{path.parent.name}/{path.name}" for path in folder.glob("[!.]*/*") if _has_bytes(path)]
    if spec.layout:  # most of its other files have no triples
        return replace(spec, others=tuple(name for name in sorted(others) if NEGATIVE & {*_words(Path(name))}))
    return replace(spec, others=tuple(filter(_may_have_triples, sorted(others))))


def _has_bytes(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _may_have_triples(name: str) -> bool:
    """Return whether a file may have triples by its name, also if it is packed in a way that is not read."""
    inner = Path(PACKING.sub("", name))
    known = NODES in _words(inner) or NO_TRIPLES.fullmatch(inner.stem.lower()) is not None
    may_have = format_name(inner) is not None or inner.suffix.lower() in TABLES
    return inner.name[0] != "." and may_have and not known


def _known_by_names(folder: Path) -> DatasetSpec:
    name, title = folder.resolve().name, f"the files in {folder}"
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name[0] != "." and format_name(path)]
    splits = _exact(folder, files)
    if len(splits) < len(NAMES):  # other names may tell more
        for layout in LAYOUTS.names():
            files_of_layout = LAYOUTS.get(layout).find(folder)
            if files_of_layout is not None and ("train" not in splits or "valid" in files_of_layout):
                return _of_user(name, title, folder.resolve(), _complete(folder, files_of_layout), layout)
        if "train" not in splits or (len(splits) == 1 and {*map(_split, files)} >= {"valid", "test"}):
            return _of_user(name, title, folder.resolve(), _complete(folder, _by_words(folder, files)))
    negatives = [path for path in files if (_split(path) or "").endswith(NEGATIVES)]
    used = [*(folder / path for path in splits.values()), *negatives]
    return _of_user(name, title, folder.resolve(), _complete(folder, _by_split(folder, used)))


def _complete(folder: Path, files: Mapping[str, str]) -> Mapping[str, str]:
    """Return the files. Raises InputError if train is missing, or a split that the other files need."""
    held_out = files.keys() & {split + kind for split in ("valid", "test") for kind in ("", NEGATIVES)}
    for split, names in NAMES.items():
        if split not in files and (split == "train" or held_out):
            if not files and (mend := _instead(folder)):
                raise InputError(f"{folder} has no train.txt, valid.txt and test.txt: {mend}")
            wanted = " or ".join(f"{name}.txt" for name in names[:2] if name != "training" and name != "testing")
            raise InputError(
                f"{folder} has no {wanted}: a data set needs train, valid and test, each with the ending "
                f"{', '.join(endings())}, or a single file, which is then split"
            )
    return files


def _instead(folder: Path) -> str:
    """Return what a folder without files of splits has in their place, and how to read it; empty if it has nothing."""
    paths = islice(chain.from_iterable(folder.glob(f"{'*/' * depth}[!.]*") for depth in range(DEEPEST + 1)), MOST_PATHS)
    names = sorted(path.relative_to(folder).as_posix() for path in paths if path.is_file())
    known = [name for name in names if format_name(Path(name))]
    if "train.del" in names:
        files = "copy train.del as train.tsv, and so on: the ids are then names"
        return f"its .del files have the ids of LibKGE: give the text files of which LibKGE made them, or {files}"
    if of_folders := [name for name in known if "/" in name and _split(Path(Path(name).parent.name))]:
        first = Path(of_folders[0])
        new = f"{first.parent.name}{first.name.removeprefix(stem_of(first))}"
        return f"its folders have {first_of('file', of_folders)}: copy each into {folder}, such as {first} as {new}"
    edges = [name for name in known if _may_have_triples(name)]
    headers = {name: places for name in edges if "header" in _words(Path(name)) and (places := _places(folder / name))}
    for header, places in headers.items():
        return (
            f"{header} has the names of columns alone: name the files of edges without it, with commas or tabs between "
            f"the values, and their columns: --dataset {_joined(folder, set(edges) - set(headers))} --columns {places}"
        )
    what = f"it has {first_of('file', edges)}, and no name tells a split"
    how = (
        f"if they are one graph, each with subject, predicate and object, name them: --dataset {_joined(folder, edges)}"
    )
    return f"{what}: {how}" if len(edges) > 1 else ""


def _joined(folder: Path, names: Collection[str]) -> str:
    return ",".join(str(folder / name) for name in sorted(names)[:MOST_JOINED]) + ",..." * (len(names) > MOST_JOINED)


def _places(path: Path) -> str:
    """Return the places, from 1, of subject, predicate and object among the names of columns; empty: it has none."""
    with suppress(OSError, UnicodeDecodeError), open_packed(path) as (stream, _):
        line = stream.read(2**12).decode("utf-8-sig").partition("\n")[0]
        found = known_columns(re.split(r"[;,|\t]", line.strip())) or {}
        return ",".join(str(found[part] + 1) for part in COLUMNS if part in found)
    return ""


def _exact(folder: Path, files: Sequence[Path]) -> dict[str, str]:
    """Return split -> file, for files whose names are exactly those of splits. A .txt file has priority."""
    splits: dict[str, str] = {}
    for split, names in NAMES.items():
        for name in names:
            same = [path.name for path in files if stem_of(path).lower() == name]
            if same and split not in splits:
                if len(same) > 1 and f"{name}.txt" not in same:
                    raise InputError(f"{folder} has {' and '.join(same)}: keep one of them, or name the files to read")
                splits[split] = f"{name}.txt" if f"{name}.txt" in same else same[0]
    return splits


def _by_words(folder: Path, files: Sequence[Path]) -> dict[str, str]:
    """Return role -> file, for a folder whose files' names contain the words train, valid and test, or of one table."""
    files = _without_nodes(files)
    edges = [path for path in files if EDGES in _words(path)]
    used = edges or [path for path in files if _split(path)] or files
    used = [path for path in used if path.stat().st_size or not PARTS.fullmatch(path.name)] or used
    is_known = len(used) == 1 or any(map(_split, used)) or all(PARTS.fullmatch(path.name) for path in used)
    return _by_split(folder, used) if used and is_known else {}


def _by_split(folder: Path, paths: Sequence[Path]) -> dict[str, str]:
    """Return role -> path from the folder. If no name tells a split, all files are train."""
    splits = [_split(path) for path in paths]
    if not any(splits):
        denied = [len(paths) > 1 and not NEGATIVE.isdisjoint(_words(path)) for path in paths]
        splits = [f"train{NEGATIVES}" if no else "train" for no in denied]
    both = list(zip(paths, splits, strict=True))
    false = [_is_false(path, split, both) for path, split in both]
    splits = [
        f"{name.removesuffix(NEGATIVES)}{NEGATIVES}" if name and no else name
        for name, no in zip(splits, false, strict=True)
    ]
    files: dict[str, str] = {}
    for split, path in zip(splits, paths, strict=True):
        if split is None:
            raise InputError(f"the name of {path} does not tell its split: it must contain train, valid or test")
        if split == f"train{NEGATIVES}":
            raise InputError(
                f"{path} has negatives by its name: train has true triples only, so leave the file out, or give it the "
                "name valid_negatives or test_negatives; or another one if its triples are true"
            )
        number = sum(role.partition("+")[0] == split for role in files) + 1
        files[split if number == 1 else f"{split}+{number}"] = str(path.relative_to(folder))
    return files if len(paths) == 1 else dict(_complete(folder, files))


def _split(path: Path) -> str | None:
    """Return the role that a word of a file's name tells, such as test; None if no word or several words do.

    With a word of NEGATIVE before or after that of the split, the file has its negatives: test_negatives.
    """
    words = _words(path)
    found = [(split, place) for place, word in enumerate(words) for split, names in NAMES.items() if word in names]
    if len({split for split, _ in found}) != 1:
        return None
    [(split, place), *_] = found
    beside = words[max(0, place - 1) : place] + words[place + 1 : place + 2]
    return f"{split}{NEGATIVES}" if NEGATIVE.intersection(beside) else split


def _is_false(path: Path, split: str | None, others: Sequence[tuple[Path, str | None]]) -> bool:
    """Return whether a file has false triples by its name, beside another file with the same name but for such words.

    A word of NEGATIVE may be anywhere in the name of a split, such as in kg_test_hard_negatives. A word of FALSE may
    have one of TRUE beside it: test_true and test_false, or drug_edges and drug_edges_false_positives.
    """
    words, names = {*_words(path)}, [({*_words(other)}, role) for other, role in others if other != path]
    if words & NEGATIVE and split:
        return any(role == split and words - NEGATIVE - SORTS == name - SORTS for name, role in names)
    return bool(words & FALSE) and any(words - FALSE - TRUE == name - TRUE for name, _ in names)


def _words(path: Path) -> list[str]:
    return re.split(r"[^a-z]+", NON.sub("non", stem_of(path).lower()))


def _without_nodes(paths: Sequence[Path]) -> list[Path]:
    """Return the files that are no KGX files of nodes; all files if there are no others."""
    words = {path: {*_words(path)} for path in paths}
    return [path for path in paths if NODES not in words[path] or LINKS & words[path]] or list(paths)
