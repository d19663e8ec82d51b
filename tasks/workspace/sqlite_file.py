"""Creation of a SQLite file in one step: it has a temporary name until it is complete, then its own name."""

import glob
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

COMPANIONS = ("-journal", "-wal", "-shm")  # suffixes of the files that SQLite adds to an open database


@contextmanager
def new_sqlite_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`. After the block, the file with this name gets the name `path`.

    If the block raises an error, the temporary file is removed and `path` is not created. If another program creates
    `path` during the block, that file is kept. Temporary files of processes that have ended are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_files(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        _merge_write_ahead_log(partial)
        _give_name(partial, path)
    finally:
        _remove(partial)


def remove_partial_files(path: Path) -> None:
    """Remove temporary files of `path` that belong to processes that have ended."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial*"):
        process = partial.name.removeprefix(f".{path.name}.").partition(".")[0]
        if not (process.isdecimal() and psutil.pid_exists(int(process))):
            partial.unlink(missing_ok=True)


def _merge_write_ahead_log(partial: Path) -> None:
    """Write the content of the write-ahead log into the file, and flush the file to the disk."""
    with closing(sqlite3.connect(partial)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with partial.open("rb+") as file:
        os.fsync(file.fileno())


def _give_name(partial: Path, path: Path) -> None:
    if not path.exists():  # SQLite would apply the journal of a deleted database to the new one
        for companion in COMPANIONS:
            Path(f"{path}{companion}").unlink(missing_ok=True)
    try:
        os.link(partial, path)  # fails if the name exists, unlike a rename
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            partial.rename(path)


def _remove(partial: Path) -> None:
    for companion in ("", *COMPANIONS):
        Path(f"{partial}{companion}").unlink(missing_ok=True)
