"""From a public archive, a mirror or a generator to verified files in a folder."""

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

import pooch
import requests
from filelock import FileLock

from kgcore.datasets.base import DatasetSpec, md5_of
from kgcore.errors import InputError, refuse


class Progress(Protocol):
    """What a download reports to; tqdm's interface, which pooch expects."""

    total: int

    def update(self, n: int) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


def fetch(
    spec: DatasetSpec,
    root: Path,
    mirror: str | None = None,
    size: int = 0,
    seed: int = 0,
    progress: Callable[[str], Progress] | None = None,
) -> Path:
    """The folder that holds the data set's files, verified; downloaded, unpacked or generated when it is not there.

    root      where data sets are kept; a lock there lets two runs meet without harm
    mirror    a folder, file:// or http(s):// URL to take the archive from instead of its public host
    size      people, and `seed`, of a generated data set
    progress  makes a progress bar for a title

    The files appear at once and whole, by renaming a folder. Raises InputError when the archive cannot be had, is
    damaged, holds a path outside itself, or a checksum differs.
    """
    if spec.folder is not None:
        return spec.folder
    name = spec.name if spec.generate is None else f"{spec.name}-{size}-{seed}"
    target = root / name
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f"{name}.lock"):
        for left in root.glob(f".{name}-*"):  # by a process that was killed
            shutil.rmtree(left)
        if spec.generate is None and target.is_dir() and not _wrong(spec, target):
            return target
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}-") as work:
            files = Path(work) / "files"
            files.mkdir()
            if spec.generate is not None:
                spec.generate(files, size, seed)
            else:
                archive = _obtain(spec, mirror, Path(work), progress)
                _unpack(archive, [file.path for file in spec.files.values()], files)
                refuse([f"{archive}: {problem}" for problem in _wrong(spec, files)])
            if target.exists():
                shutil.rmtree(target)
            files.rename(target)
    return target


def _wrong(spec: DatasetSpec, folder: Path) -> list[str]:
    """What is missing or different in the folder."""
    problems = []
    for file in spec.files.values():
        path = folder / file.path
        if not path.is_file():
            problems.append(f"{file.path} is missing")
        elif file.md5 and (found := md5_of(path)) not in file.md5:
            problems.append(f"{file.path} has md5 {found}, expected {' or '.join(file.md5)}")
    return problems


def _obtain(spec: DatasetSpec, mirror: str | None, work: Path, progress: Callable[[str], Progress] | None) -> Path:
    """The archive's path: in the mirror folder itself, or downloaded into `work`."""
    archive = spec.archive or f"{spec.name}.zip"
    parsed = urlparse(mirror or "")
    if mirror and (parsed.scheme in ("", "file") or Path(mirror).is_dir()):
        folder = Path(unquote(parsed.path) if parsed.scheme == "file" else mirror).expanduser()
        if not folder.is_dir():
            raise InputError(f"the mirror {mirror} is not there: KGCAL_MIRROR must be a folder or a URL with {archive}")
        if not (folder / archive).is_file():
            raise InputError(f"the mirror {mirror} has no {archive}, which {spec.name} needs")
        return folder / archive
    if mirror and parsed.scheme not in ("http", "https"):
        raise InputError(f"the mirror {mirror} is not a folder, a file:// or an http(s):// URL")
    url = f"{mirror.rstrip('/')}/{archive}" if mirror else spec.url
    pup = pooch.create(work, base_url="", registry={archive: None}, urls={archive: url}, retry_if_failed=3)
    bar: Any = progress(f"download {archive}") if progress else False
    try:
        pup.fetch(archive, downloader=pooch.HTTPDownloader(progressbar=bar, timeout=30))
    except (requests.RequestException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{archive} could not be downloaded from {url} ({reason}): try again, or set KGCAL_MIRROR to a folder or "
            "URL that has it"
        ) from error
    finally:
        if bar:
            bar.close()
    return work / archive


def _unpack(archive: Path, members: list[str], target: Path) -> None:
    """Extract the members, and nothing else, into the target."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                inside = (target / name).resolve()
                if not inside.is_relative_to(target.resolve()):
                    raise InputError(f"{archive.name} holds {name!r}, a path outside its folder: it was not unpacked")
            for member in members:
                if member not in zipped.namelist():
                    raise InputError(f"{archive.name} has no {member}")
                zipped.extract(member, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        raise InputError(
            f"{archive} cannot be unpacked, it is damaged or incomplete ({error}): fetch it again"
        ) from error
