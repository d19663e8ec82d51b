"""The folder of a sentence encoder, which a user has on disk: is it there, and which one is it?"""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from kgcore.datasets.base import md5_of
from kgcore.errors import InputError

PACKAGE = "sentence_transformers"


def check_encoder(folder: Path) -> None:
    """Raise InputError if the folder has no files, or if the package that reads them is missing."""
    if not _files(folder):
        raise InputError(f"name_encoder {folder} is no folder with a model of sentence-transformers")
    try:
        known = find_spec(PACKAGE) is not None
    except ValueError:  # a module without a file
        known = True
    if not known:
        raise InputError(
            "a sentence encoder needs the package sentence-transformers, and its folder: pip install 'kgcal[encoder]'"
        )


def encoder_identity(folder: Path) -> str:
    """Return a hash of the files in the folder, their paths in it included."""
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(f"{path.relative_to(folder).as_posix()} {md5_of(path)}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
