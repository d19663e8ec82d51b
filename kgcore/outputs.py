"""Files that results are written to: they appear complete or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def place_of(path: Path) -> Path:
    """Return the full path of the file that a path names, through links; for a link to itself, that of the link."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path of a hidden file beside the target, which gets the name of the target at the end of the block.

    If the block raises an error, the hidden file is removed, and an earlier file at the path stays as it was. Of a
    link, the target is the file that it names. What is no file, such as a pipe or /dev/stdout, is yielded itself.
    """
    if path.exists() and not path.is_file():
        try:
            yield path
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        return
    target = place_of(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
