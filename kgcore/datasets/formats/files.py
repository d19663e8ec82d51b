"""Open files, unpack compressed ones, and find the format of a file by the ending of its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from kgcore.datasets.formats.base import Block, Format, TriplesFile
from kgcore.errors import InputError
from kgcore.registries import FORMATS

PACKED = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
COMMON = (".tsv", ".txt", ".csv", ".parquet")  # messages name these endings first


def endings() -> list[str]:
    """Return the endings of all formats. The common ones are first."""
    every = sorted(ending for name in FORMATS.names() for ending in FORMATS.get(name).endings)
    return sorted(every, key=lambda ending: COMMON.index(ending) if ending in COMMON else len(COMMON))


def stem_of(path: Path) -> str:
    """Return the name of a file without the endings of compression and format: `mine` for `mine.nt.gz`."""
    inner = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return inner.stem


def format_name(path: Path) -> str | None:
    """Return the registered name of a file's format, or None for an unknown ending."""
    packed = path.suffix.lower() in PACKED
    ending = (path.with_suffix("") if packed else path).suffix.lower()
    for name in FORMATS.names():
        candidate = FORMATS.get(name)
        if ending in candidate.endings and (candidate.packed or not packed):
            return name
    return None


def format_of(path: Path) -> Format:
    """Return the format of a file. Raises InputError for an unknown ending."""
    name = format_name(path)
    if name is None:
        raise InputError(
            f"{path} is of an unknown kind: its name must end in {', '.join(endings())}; .gz or .zst may follow, but "
            "not after .parquet"
        )
    return FORMATS.get(name)


def check_readable(path: Path) -> None:
    """Raise InputError if a file is of an unknown kind or cannot be opened."""
    format_of(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def read_blocks(source: TriplesFile) -> Iterator[Block]:
    """Yield the blocks of a file in any format. Raises InputError for a file that cannot be read."""
    try:
        yield from format_of(source.path).read(source)
    except OSError as error:
        kind = PACKED.get(source.path.suffix.lower())
        if kind and not error.strerror:
            raise InputError(
                f"{source.path} is damaged, incomplete or not {kind} ({error}): compress it anew"
            ) from error
        raise InputError(f"{source.path} cannot be read: {error.strerror or error}") from error


@contextmanager
def open_packed(path: Path) -> Iterator[tuple[Any, IO[bytes]]]:
    """Open a file that may be compressed. Yield a stream of its unpacked bytes, and the file itself.

    The position of the file tells how much has been read. Raises OSError if the file cannot be opened.
    """
    with path.open("rb") as file:
        kind = PACKED.get(path.suffix.lower())
        if kind is None:
            yield file, file
        else:
            with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), kind) as stream:
                yield stream, file
