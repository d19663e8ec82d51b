"""User errors: a message of one sentence, exit code 2, and no incomplete files."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tasks.workspace.settings import is_kept
from tests.pipeline.command import Kgcal
from tests.pipeline.refusals import refused, written


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
        (("run", "--dataset", "wn12"), "unknown data set 'wn12': the known ones are"),
        (("run", "--model", "transx"), "unknown model 'transx': the known ones are"),
        (("run", "--loss", "hinge"), "unknown loss 'hinge': the known ones are"),
        (("run", "--base-rate", "0"), "base_rate is 0: it must be above 0 and below 1"),
        (("run", "--base-rate", "1"), "base_rate is 1: it must"),
        (("run", "--base-rate", "1.5"), "base_rate is 1.5"),
        (
            ("promote", "--dataset", "family", "--base-rate", "1e-320"),
            "base_rate is 1e-320: it must be above 0 and below",
        ),
        (("audit", "--error-rate", "1e-320"), "error_rate is 1e-320: it must be above 0 and below 1 by 1e-12 or more"),
        (("run", "--training-eta", "0"), "training_eta is 0: it must be at least 1"),
        (("run", "--k", "0"), "k is 0: it must be at least 1"),
        (("run", "--model-options", "norm"), "--model-options 'norm': it must be NAME=VALUE, such as norm=2"),
        (
            ("run", "--model-options", "norm=two"),
            "--model-options 'norm=two': the value of norm must be a number, true or",
        ),
        (("run", "--model-options", "norm=true"), "the option norm of TransE is true: it must be a number"),
        (("run", "--model-options", "norm=1,norm=2"), "--model-options has norm twice: give every name once"),
        (("run", "--model-options", "nrom=1"), "TransE has no option 'nrom': its options are norm"),
        (("run", "--preset", "fast"), "unknown preset 'fast': the known ones are auto, default, best, paper, none"),
        (
            ("run", "--preset", "best", "--model", "rotate"),
            "the preset best has no settings for rotate with self_advers",
        ),
        (("run", "--json", "/no/such/folder/out.json"), "there is no folder /no/such/folder"),
        (("predict", "pyproject.toml", "--json", "./pyproject.toml"), "the command names this file twice"),
        (("predict", "x", "-o", "no.tsv", "--json", "no.tsv"), "the command names this file twice: write to another"),
        (("run", "--k", "9" * 30), f"k is {'9' * 30}: it must be at most 9223372036854775807"),
        (("run", "--json", "/tmp"), "--json /tmp: a file cannot be written there"),
        (("run", "--calibrators", "platt", "--calibrators", "platt"), "it needs at least one entry and no entry twice"),
        (("run", "--calibrators", "platt, platt"), "it needs at least one entry and no entry twice"),
        (("run", "--training-strategy", "typed=0.5,uniform"), "--training-strategy 'uniform': it must be NAME=SHARE"),
        (
            ("run", "--training-strategy", "typed=yes"),
            "--training-strategy 'typed=yes': the value of typed",
        ),
        (
            ("watch", "--dataset", "family", "--labels", "nope.tsv"),
            "nope.tsv cannot be read: No such file or directory",
        ),
        (("run", "--device", "tpu"), "there is no device 'tpu'"),
        (("run", "--k", "many"), "Invalid value for '--k'"),
        (("run", "--dataset", "wn11"), "the mirror /no/such/mirror does not exist"),
        (("calibrate", "--scores", "abc"), "the run 'abc' does not exist"),
        (("calibrate",), "`latest` needs a finished pipeline run, and the store has none"),
        (("compare",), "there is no finished evaluation in sqlite:///"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(kgcal: Kgcal, arguments: tuple[str, ...], message: str) -> None:
    kgcal.environment["KGCAL_MIRROR"] = "/no/such/mirror"
    before = written(kgcal)
    refused(kgcal, message, *arguments)
    assert written(kgcal) == before


def test_every_file_that_a_run_leaves_in_the_home_is_kept(kgcal: Kgcal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kgcal("prepare").returncode == 0
    home = Path(kgcal.environment["KGCAL_HOME"])
    monkeypatch.setenv("KGCAL_HOME", str(home))
    assert [path.name for path in home.resolve().rglob("*") if not is_kept(path)] == []
    assert not is_kept(home.resolve())
    assert not is_kept(home.resolve() / "answers.tsv")


@pytest.mark.parametrize("name", ["mlflow.db", "store.lock", "artifacts/out.tsv", "locks/new"])
@pytest.mark.parametrize("option", ["--json", "--output"])
def test_a_result_never_takes_the_place_of_a_file_of_the_store(kgcal: Kgcal, name: str, option: str) -> None:
    kgcal("compare")  # makes the store
    target = Path(kgcal.environment["KGCAL_HOME"]) / name
    target.parent.mkdir(exist_ok=True)
    before = written(kgcal)
    refused(kgcal, f"{option} {target}: kgcal keeps its own files there", "predict", "a", "r", "b", option, str(target))
    assert written(kgcal) == before


def test_options_that_would_have_no_effect_are_refused(kgcal: Kgcal) -> None:
    refused(kgcal, "--json is -: name a file, or /dev/stdout for the terminal", "predict", "a", "r", "b", "--json", "-")
    refused(kgcal, "per is subject, and top is not given", "predict", "--predicate", "r", "--per", "subject")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"train": "a\tb\n"}, "train.txt, line 1: 2 tab-separated columns: it must have 3"),
        ({"valid": "a\tr\tb\tmaybe\n"}, "valid.txt, line 1: label is 'maybe': it must be 1 or -1"),
        ({"test": ""}, "test.txt is empty"),
    ],
)
def test_bad_files_are_reported_with_file_and_line(
    tmp_path: Path, kgcal: Kgcal, texts: dict[str, str], message: str
) -> None:
    before = written(kgcal)
    refused(kgcal, message, "prepare", "--dataset", folder(tmp_path / "mine", **texts))
    assert written(kgcal) == before


def not_utf8(place: Path) -> None:
    with zipfile.ZipFile(place / "wordnet11.zip", "w") as zipped:
        for name in ("train", "dev", "test"):
            zipped.writestr(f"wordnet11/{name}.txt", b"\xff\n")


def truncated(place: Path) -> None:
    not_utf8(place)
    whole = (place / "wordnet11.zip").read_bytes()
    (place / "wordnet11.zip").write_bytes(whole[:100])


def climbing(place: Path) -> None:
    not_utf8(place)
    with zipfile.ZipFile(place / "wordnet11.zip", "a") as zipped:
        zipped.writestr("../x", "outside")


def encrypted(place: Path) -> None:
    not_utf8(place)
    data = bytearray((place / "wordnet11.zip").read_bytes())
    for signature, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := data.find(signature, at + 1)) >= 0:
            data[at + flag] |= 1
    (place / "wordnet11.zip").write_bytes(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (not_utf8, "wordnet11/train.txt has md5"),
        (truncated, "damaged or incomplete"),
        (climbing, "a path outside its folder"),
        (encrypted, "damaged or incomplete"),
        (lambda place: None, "has no wordnet11.zip, which wn11 needs"),
    ],
)
def test_bad_archives_are_refused(tmp_path: Path, kgcal: Kgcal, make: Callable[[Path], None], message: str) -> None:
    mirror = tmp_path / "a mirror #1 %20"
    mirror.mkdir()
    make(mirror)
    kgcal.environment["KGCAL_MIRROR"] = str(mirror)
    before = written(kgcal)
    refused(kgcal, message, "run", "--dataset", "wn11")
    assert written(kgcal) == before
    assert not list(tmp_path.rglob("x"))


def test_a_mirror_without_the_training_file_is_reported(tmp_path: Path, kgcal: Kgcal) -> None:
    with zipfile.ZipFile(tmp_path / "yago39k-heldout-only.zip", "w") as zipped:
        zipped.writestr("YAGO39K/Train/instance2id.txt", "1\na\t0\n")
        zipped.writestr("YAGO39K/Train/relation2id.txt", "1\nr\t0\n")
    kgcal.environment["KGCAL_MIRROR"] = str(tmp_path)
    before = written(kgcal)
    refused(kgcal, "yago39k-heldout-only.zip has no YAGO39K/Train/triple2id.txt", "run", "--dataset", "yago39k")
    assert written(kgcal) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MLFLOW_TRACKING_URI", "file:mlruns", "the MLflow store file:mlruns cannot be opened"),
        ("MLFLOW_TRACKING_URI", "sqlite:////dev/null/x.db", "cannot be opened"),
        ("MLFLOW_TRACKING_URI", "http://[::1", "the MLflow store http://[::1 cannot be opened"),
        ("PREFECT_API_URL", "http://127.0.0.1:9/api", "the Prefect server http://127.0.0.1:9/api does not answer"),
        ("KGCAL_HOME", "/dev/null/home", "KGCAL_HOME /dev/null/home cannot be written to"),
    ],
)
def test_missing_servers_and_places_are_reported(tmp_path: Path, name: str, value: str, message: str) -> None:
    refused(Kgcal(tmp_path, **{name: value}), message, "run")


def test_a_deleted_experiment_is_reported(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    assert kgcal("prepare", "--size", "300").returncode == 0
    client = MlflowClient(tracking_uri=f"sqlite:///{kgcal.home}/mlflow.db")
    [experiment] = [e.experiment_id for e in client.search_experiments() if e.name == "kgcal"]
    client.delete_experiment(experiment)
    refused(kgcal, "the MLflow experiment kgcal is deleted", "run")
