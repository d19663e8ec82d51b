"""Mirrors of data sets whose specification names no archive."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from kgcore.data.datasets.base import DatasetSpec, SplitFile
from kgcore.data.datasets.fetch import fetch
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
    with pytest.raises(InputError, match=r"does not exist: KGCAL_MIRROR must be a folder or a URL$"):
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
