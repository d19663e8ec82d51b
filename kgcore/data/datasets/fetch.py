"""Download the files of a data set, copy them from a mirror, or generate them; then verify the checksums."""

import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from os.path import expanduser
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlparse

import requests
from filelock import FileLock
from urllib3.exceptions import HTTPError

from kgcore.data.datasets.base import DatasetSpec, md5_of
from kgcore.errors import NO_SPACE, InputError, first_line, masked, raise_faults

WHERE = "as KGCAL_MIRROR, or in Python as `mirror`"  # a mirror is given
TRIES = 4
ABSENT = (403, 404, 410)  # the answers of a server that lacks a file: a further try is in vain
MOST_BYTES = 2**30  # of a download, and of a file in an archive
PATIENCE, LEAST_SPEED = 60.0, 2**10  # seconds, and bytes a second: slower downloads end after this time


class DownloadProgress(Protocol):
    """A progress bar with a part of tqdm's interface."""

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
    progress: Callable[[str], DownloadProgress] | None = None,
) -> Path:
    """Return the folder with the verified files of a data set. Download and unpack, or generate, missing files.

    root      the folder of all data sets; a lock in it makes concurrent calls safe
    mirror    folder, or file:// or http(s):// URL, that has the archive or the files. It replaces the public host
    size      number of people in a generated data set
    seed      seed of a generated data set
    progress  function that makes a progress bar with a given title

    The folder gets its name when it is complete, so that it never has only a part of the files. Raises InputError if
    the archive or a file cannot be obtained, if an archive is damaged or contains a path outside its folder, or if a
    checksum differs; OSError if the disk is full.
    """
    if spec.folder is not None:
        return spec.folder
    name = spec.name if spec.generate is None else f"{spec.name}-{size}-{seed}"
    target = root / name
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f"{name}.lock"):
        for leftover in root.glob(f".{name}-*"):  # left by a process that was killed
            shutil.rmtree(leftover)
        if spec.generate is None and target.is_dir() and not _problems(spec, target):
            return target
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}-") as work:
            files = Path(work) / "files"
            files.mkdir()
            if spec.generate is not None:
                spec.generate(files, size, seed)
            else:
                try:
                    came_from = _collect(spec, mirror, Path(work), files, progress)
                    raise_faults([f"{came_from[path]}: {problem}" for path, problem in _problems(spec, files).items()])
                except InputError as error:
                    if isinstance(full := error.__cause__, OSError) and full.errno in NO_SPACE:
                        raise full from None
                    raise InputError(masked(str(error))) from error
            if target.exists():
                shutil.rmtree(target)
            files.rename(target)
    return target


def _problems(spec: DatasetSpec, folder: Path) -> dict[str, str]:
    """Return path -> problem, for every file that is missing or has a wrong checksum."""
    problems = {}
    for file in spec.files.values():
        path = folder / file.path
        if not path.is_file():
            problems[file.path] = f"{file.path} is missing"
        elif file.md5 and (digest := md5_of(path)) not in file.md5:
            problems[file.path] = f"{file.path} has md5 {digest}: it must be {' or '.join(file.md5)}"
    return problems


class _AbsentError(InputError):
    """The mirror or the public host answers, but does not have the file."""


def _collect(
    spec: DatasetSpec, mirror: str | None, work: Path, files: Path, progress: Callable[[str], DownloadProgress] | None
) -> dict[str, Path | str]:
    """Copy the data set's files into the folder `files`, one by one or from an archive. Return path -> its source."""
    place = _place(mirror, _archives(spec)) if mirror else str(spec.url)
    came_from: dict[str, Path | str] = {}
    wanted = [file.path for file in spec.files.values()]
    for path in wanted if spec.plain else ():
        try:
            obtained = _obtain(path, _inside(place, path), files, progress)
        except _AbsentError:
            if mirror is None:
                raise
            continue
        if obtained != files / path:
            (files / path).parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(obtained, files / path)
            except OSError as error:
                raise InputError(f"{obtained} cannot be read: {error.strerror}") from error
        came_from[path] = place
    missing = [path for path in wanted if path not in came_from]
    if missing:
        archive, source = _obtain_archive(spec, mirror, place, missing, work, progress)
        _unpack(archive, source, missing, files)
        came_from |= dict.fromkeys(missing, source)
    return came_from


def _obtain_archive(
    spec: DatasetSpec,
    mirror: str | None,
    place: Path | str,
    missing: list[str],
    work: Path,
    progress: Callable[[str], DownloadProgress] | None,
) -> tuple[Path, Path | str]:
    """Return the first archive that the mirror has, or the public one, and its source. `missing`: what it must have."""
    archives = _archives(spec)
    if mirror is None:
        return _obtain(archives[0], place, work, progress), place
    for name in archives:
        source = _inside(place, name)
        try:
            return _obtain(name, source, work, progress), source
        except _AbsentError:
            if not spec.plain and not isinstance(place, Path):
                raise
    either = " or ".join(archives)
    more = len(missing) - 1
    others = f" and {more} other file{'s' if more > 1 else ''}" if more else ""
    plain = f"{missing[0]}{others}{', nor ' if archives else ''}" if spec.plain else ""
    raise InputError(f"the mirror {mirror} has no {plain}{either}, which {spec.name} needs")


def _archives(spec: DatasetSpec) -> tuple[str, ...]:
    """Return the possible names of the archive in a mirror: `archives`, or the last part of the public URL."""
    if spec.archives or spec.plain:
        return spec.archives
    name = unquote(urlparse(spec.url or "").path).rpartition("/")[2]
    if not name:
        raise InputError(
            f"the data set {spec.name} does not say where its files are: its DatasetSpec needs `archives`, a `url` "
            "that ends with the name of an archive, `plain`, `generate` or `folder`"
        )
    return (name,)


def _place(mirror: str, archives: Sequence[str]) -> Path | str:
    """Return the mirror as a folder or an http(s) URL. `archives`: names for the message."""
    try:
        parsed = urlparse(mirror)
    except ValueError as error:
        raise InputError(
            f"the mirror is {mirror}, which is not an address ({error}): give a folder or a URL, {WHERE}"
        ) from error
    if parsed.scheme in ("", "file") or Path(mirror).is_dir():
        folder = Path(expanduser(unquote(parsed.path) if parsed.scheme == "file" else mirror))
        if not folder.is_dir():
            with_archive = f" that has {archives[0]}" if archives else ""
            raise InputError(f"the mirror {mirror} does not exist: give a folder or a URL{with_archive}, {WHERE}")
        return folder
    if parsed.scheme not in ("http", "https"):
        raise InputError(f"the mirror is {mirror}: give a folder, or a file:// or http(s):// URL, {WHERE}")
    return mirror


def _inside(place: Path | str, name: str) -> Path | str:
    return place / name if isinstance(place, Path) else f"{place.rstrip('/')}/{name}"


def _obtain(name: str, source: Path | str, into: Path, progress: Callable[[str], DownloadProgress] | None) -> Path:
    """Return the path of the file in a mirror folder, or download it from the URL into the folder `into`."""
    if isinstance(source, Path):
        if not source.is_file():
            raise _AbsentError(f"{source} does not exist")
        return source
    bar = progress(f"download {name}") if progress else None
    try:
        for left in reversed(range(TRIES)):
            try:
                _download(str(source), into / name, bar)
                return into / name
            except (OSError, HTTPError, ValueError) as error:  # those of requests are OSErrors
                status = getattr(getattr(error, "response", None), "status_code", 0)
                in_vain = status in ABSENT or isinstance(error, ValueError) or getattr(error, "errno", 0) in NO_SPACE
                if left and not in_vain:
                    time.sleep(1)
                    continue
                raise (_AbsentError if status in ABSENT else InputError)(
                    f"{name} could not be downloaded from {source} ({first_line(error)}): try again, or "
                    f"give a folder or URL that has it, {WHERE}"
                ) from error
    finally:
        if bar is not None:
            bar.close()
    raise AssertionError("the last try returns or raises")


def _download(url: str, path: Path, bar: DownloadProgress | None) -> None:
    """Write what a URL has to a file. Raises OSError or HTTPError, also if it has too much or comes too slowly."""
    start, count = time.monotonic(), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with requests.get(url, stream=True, timeout=30) as answer, path.open("wb") as file:
        answer.raise_for_status()
        if bar is not None:
            bar.reset()
            bar.total = int(answer.headers.get("content-length", 0))
        while part := answer.raw.read1(2**16, decode_content=True):  # does not wait for 64 KiB, unlike `iter_content`
            count, seconds = count + len(part), time.monotonic() - start
            if count > MOST_BYTES:
                raise OSError(f"it has more than {MOST_BYTES / 2**30:g} GiB")
            if seconds > PATIENCE and count < LEAST_SPEED * seconds:
                raise OSError(f"only {count:,} bytes came in {seconds:.0f} s")
            file.write(part)
            if bar is not None:
                bar.update(len(part))


def _unpack(archive: Path, source: Path | str, members: list[str], target: Path) -> None:
    """Extract only the files `members` into the folder `target`. No path of the archive may leave this folder."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            sizes = {member.filename: member.file_size for member in zipped.infolist()}
            for name in sizes:
                if ".." in name.split("/") or name.startswith("/"):
                    raise InputError(f"{source} contains {name!r}, a path outside its folder: use another copy")
            for member in members:
                if member not in sizes:
                    raise InputError(f"{source} has no {member}: use a complete copy")
                if sizes[member] > MOST_BYTES:
                    raise InputError(
                        f"{source}: {member} has {sizes[member]:,} bytes: it must have at most {MOST_BYTES:,}"
                    )
                zipped.extract(member, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        raise InputError(f"{source} is damaged or incomplete ({error}): download it again") from error
