"""A user's mistakes: one sentence, exit code 2, nothing half-written."""

from pathlib import Path

import pytest

from tests.pipeline.conftest import Kgcal


@pytest.fixture(scope="module")
def kgcal(tmp_path_factory: pytest.TempPathFactory) -> Kgcal:
    return Kgcal(tmp_path_factory.mktemp("mistakes"))


def folder(place: Path, **texts: str) -> str:
    place.mkdir()
    whole = {"train": "a\tr\tb\nb\tr\tc\n", "valid": "a\tr\tc\t1\nc\tr\ta\t-1\n", "test": "b\tr\ta\t1\nc\tr\tb\t-1\n"}
    for name, text in (whole | texts).items():
        (place / f"{name}.txt").write_text(text)
    return str(place)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--dataset", "wn12"), "there is no dataset 'wn12': known are"),
        (("run", "--model", "transx"), "there is no model 'transx': known are"),
        (("run", "--loss", "hinge"), "there is no loss 'hinge': known are"),
        (("run", "--base-rate", "0"), "base_rate is 0.0: it must be above 0 and below 1"),
        (("run", "--base-rate", "1"), "base_rate is 1.0"),
        (("run", "--base-rate", "1.5"), "base_rate is 1.5"),
        (("run", "--eta", "0"), "eta is 0: it must be at least 1"),
        (("run", "--k", "0"), "k is 0: it must be at least 1"),
        (("run", "--model-options", "norm"), "--model-options 'norm': NAME=NUMBER is needed"),
        (("run", "--model-options", "nrom=1"), "TransE has no option 'nrom': it has norm"),
        (("run", "--json", "/no/such/folder/out.json"), "there is no folder /no/such/folder"),
        (("run", "--device", "tpu"), "there is no device 'tpu'"),
        (("run", "--k", "many"), "Invalid value for '--k'"),
        (("run", "--dataset", "wn11"), "the mirror /no/such/mirror is not there"),
        (("calibrate", "--scores", "abc"), "there is no MLflow run 'abc'"),
        (("calibrate",), "there is no finished pipeline run to take the latest from"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(kgcal: Kgcal, arguments: tuple[str, ...], message: str) -> None:
    kgcal.environment["KGCAL_MIRROR"] = "/no/such/mirror"
    done = kgcal(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert len(said) == (0 if "Invalid value" in message else 1)
    assert not list(kgcal.home.glob("artifacts/*/*/artifacts/*"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"train": "a\tb\n"}, "train.txt, line 1: 2 tab-separated columns, 3 are needed"),
        ({"valid": "a\tr\tb\tmaybe\n"}, "valid.txt, line 1: label is 'maybe', it must be 1 or -1"),
        ({"test": ""}, "test.txt is empty"),
    ],
)
def test_bad_files_are_told_with_file_and_line(
    tmp_path: Path, kgcal: Kgcal, texts: dict[str, str], message: str
) -> None:
    done = kgcal("prepare", "--dataset", folder(tmp_path / "mine", **texts))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(kgcal.home.glob("artifacts/*/*/artifacts/*"))
