"""Mirrors of data sets: those whose specification names no archive, and hostile ones."""

import hashlib
import http.server
import re
import resource
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

import kgcore.data.datasets.fetch as download
from kgcore.data.datasets.base import DatasetSpec, SplitFile
from kgcore.data.datasets.fetch import fetch
from kgcore.data.formats import text
from kgcore.data.formats.base import read_candidates
from kgcore.errors import InputError

TEXTS = {"train.txt": "a\tr\tb\nb\tr\tc\n", "valid.txt": "a\tr\tc\n", "test.txt": "c\tr\ta\n"}


def spec(plain: bool, url: str | None) -> DatasetSpec:
    files = {
        name.removesuffix(".txt"): SplitFile(name, (hashlib.md5(text.encode()).hexdigest(),))
        for name, text in TEXTS.items()
    }
    return DatasetSpec("mine", "a data set of the test", files, labelled=False, url=url, plain=plain)


def write_mirror(folder: Path, archive: str = "") -> Path:
    """Write the files one by one, or into an archive."""
    folder.mkdir()
    if archive:
        with zipfile.ZipFile(folder / archive, "w") as zipped:
            for name, text in TEXTS.items():
                zipped.writestr(name, text)
    else:
        for name, text in TEXTS.items():
            (folder / name).write_text(text)
    return folder


def check(folder: Path) -> None:
    assert {path.name: path.read_text() for path in folder.iterdir()} == TEXTS


def test_plain_files_need_no_archive_name(tmp_path: Path) -> None:
    mirror = write_mirror(tmp_path / "mirror")
    check(fetch(spec(plain=True, url="http://127.0.0.1:1/"), tmp_path / "root", str(mirror)))


@pytest.mark.parametrize("missing", [["test.txt"], ["valid.txt", "test.txt"]])
def test_missing_plain_files_are_named(tmp_path: Path, missing: list[str]) -> None:
    mirror = write_mirror(tmp_path / "mirror")
    for name in missing:
        (mirror / name).unlink()
    others = " and 1 other file" if len(missing) == 2 else ""
    with pytest.raises(InputError) as error:
        fetch(spec(plain=True, url="http://127.0.0.1:1/"), tmp_path / "root", str(mirror))
    assert str(error.value) == f"the mirror {mirror} has no {missing[0]}{others}, which mine needs"


def test_a_missing_mirror_is_reported_without_an_archive_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist: give a folder or a URL, as KGCAL_MIRROR"):
        fetch(spec(plain=True, url="http://127.0.0.1:1/"), tmp_path / "root", str(tmp_path / "none"))


def test_an_archive_has_the_name_that_the_public_url_ends_with(tmp_path: Path) -> None:
    mirror = write_mirror(tmp_path / "mirror", "my data.zip")
    mine = spec(plain=False, url="http://127.0.0.1:1/files/my%20data.zip?download=1")
    check(fetch(mine, tmp_path / "root", str(mirror)))
    (mirror / "my data.zip").unlink()
    with pytest.raises(InputError) as error:
        fetch(mine, tmp_path / "other", str(mirror))
    assert str(error.value) == f"the mirror {mirror} has no my data.zip, which mine needs"


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_data_set_without_any_place_is_refused_in_one_sentence(tmp_path: Path, mirrored: bool) -> None:
    with pytest.raises(InputError, match=r"^the data set mine does not say where its files are: its DatasetSpec needs"):
        fetch(spec(plain=False, url=None), tmp_path / "root", str(tmp_path) if mirrored else None)


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers /drip with a byte each 10 ms, /flood without an end, /half.zip with a damaged archive; else 404."""

    asked: ClassVar = list[str]()  # the paths

    def do_GET(self) -> None:
        self.asked.append(self.path)
        kind = self.path.split("/")[1]
        self.send_response(200 if kind in ("drip", "flood", "half") else 404)
        self.end_headers()
        if kind == "half":
            self.wfile.write(b"PK\3\4half")
        while kind in ("drip", "flood"):
            time.sleep(0.01 if kind == "drip" else 0)
            try:
                self.wfile.write(b"x" * (1 if kind == "drip" else 2**16))
            except OSError:
                return

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(download, "TRIES", 1)
    monkeypatch.setattr(download, "PATIENCE", 0.3)
    monkeypatch.setattr(download, "MOST_BYTES", 2**22)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://user:secret@127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("drip", r"could not be downloaded from http://user:\*\*\*@.*/drip/x.zip \(only \d+ bytes came in 0 s\)"),
        ("flood", r"could not be downloaded from .*/flood/x.zip \(it has more than 0.00390625 GiB\)"),
        ("none", r"could not be downloaded from http://user:\*\*\*@.*/none/x.zip \(404 Client Error"),
        ("half", r"^http://user:\*\*\*@127.0.0.1:\d+/half/x.zip is damaged or incomplete .*: download it again$"),
    ],
)
def test_a_hostile_server_is_left_and_its_password_is_masked(
    tmp_path: Path, hostile: str, path: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    mine = spec(plain=False, url="http://127.0.0.1:1/x.zip")
    with pytest.raises(InputError, match=reason) as error:
        fetch(mine, tmp_path / "root", f"{hostile}/{path}")
    assert "secret" not in str(error.value) + "".join(capfd.readouterr())
    assert [place.name for place in (tmp_path / "root").iterdir()] == ["mine.lock"]


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let this process write at most 64 KiB to a file, as if there were no space for more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("full_disk")
def test_a_download_to_a_full_disk_is_not_tried_again(
    tmp_path: Path, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TRIES", 4)
    Hostile.asked.clear()
    with pytest.raises(OSError, match="File too large"):
        fetch(spec(plain=False, url="http://127.0.0.1:1/x.zip"), tmp_path / "root", f"{hostile}/flood")
    assert Hostile.asked == ["/flood/x.zip"]
    assert [place.name for place in (tmp_path / "root").iterdir()] == ["mine.lock"]


def test_a_full_disk_is_no_fault_of_the_archive_or_of_the_mirror(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    zipped, plain = tmp_path / "zipped", tmp_path / "plain"
    zipped.mkdir()
    plain.mkdir()
    with zipfile.ZipFile(zipped / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in TEXTS:
            archive.writestr(name, "x" * 2**17)
            (plain / name).write_text("x" * 2**17)
    request.getfixturevalue("full_disk")
    for mirror in (zipped, plain):
        with pytest.raises(OSError, match="File too large"):
            fetch(spec(mirror == plain, "http://127.0.0.1:1/x.zip"), tmp_path / "root", str(mirror))


@pytest.mark.parametrize("mirror", ["http://[::1", "http://[x]/", "http://127.0.0.1:port", "http://" + "a" * 300])
def test_an_address_that_cannot_be_parsed_is_named(
    tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", None)  # a second try would begin with it
    with pytest.raises(InputError, match=re.escape(mirror)):
        fetch(spec(plain=False, url="http://127.0.0.1:1/x.zip"), tmp_path / "root", mirror)


def test_a_bomb_is_refused_by_the_size_that_its_archive_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST_BYTES", 2**20)
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    with zipfile.ZipFile(mirror / "x.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in TEXTS:
            zipped.writestr(name, b"\0" * (2**20 + 1))
    monkeypatch.setattr(zipfile.ZipFile, "extract", None)
    with pytest.raises(InputError, match=r"x\.zip: train\.txt has 1,048,577 bytes: it must have at most 1,048,576"):
        fetch(spec(plain=False, url="http://127.0.0.1:1/x.zip"), tmp_path / "root", str(mirror))


def test_text_without_line_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 2**10)
    monkeypatch.setattr(text, "MOST_LINE_BYTES", 2**10)
    (tmp_path / "mine.tsv").write_bytes(b"a\tp\tb\n" + b"x" * 2**20)
    with pytest.raises(InputError, match=r"mine\.tsv has a line of over .* MiB: each line must be one triple"):
        list(read_candidates(tmp_path / "mine.tsv"))
