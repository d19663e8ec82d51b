"""Artifacts outside the home: in a bucket of an S3 server, in a folder, and in places that cannot be used."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.workspace.services import answers
from tests.pipeline.command import Kgcal, all_runs
from tests.ports import free_port

SMALL = ["--dataset", "family", "--size", "300", "--k", "8", "--epochs", "2"]
KEYS = {"AWS_ACCESS_KEY_ID": "kgcal", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Start an S3 server and return its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + 30
            while not answers(f"http://127.0.0.1:{port}/"):
                assert server.poll() is None, "the S3 server ended"
                assert time.monotonic() < end, "the S3 server does not answer"
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@pytest.fixture
def bucket(s3: str) -> Iterator[str]:
    """Create a bucket and return its name."""
    client = bucket_client(s3)
    client.create_bucket(Bucket="team")
    yield "team"
    for entry in client.list_objects_v2(Bucket="team").get("Contents", []):
        client.delete_object(Bucket="team", Key=entry["Key"])
    client.delete_bucket(Bucket="team")


def bucket_client(s3: str):
    """Return a client of the S3 server."""
    import boto3

    names = {"aws_access_key_id": "kgcal", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=s3, **names)


def at(folder: Path, s3: str, place: str, **environment: str) -> Kgcal:
    """Return a `kgcal` that stores its artifacts at a place of the S3 server."""
    return Kgcal(folder, MLFLOW_S3_ENDPOINT_URL=s3, KGCAL_ARTIFACTS=place, **(KEYS | environment))


@pytest.mark.long
def test_a_pipeline_keeps_its_artifacts_in_a_bucket_and_re_uses_them(tmp_path: Path, s3: str, bucket: str) -> None:
    kgcal = at(tmp_path, s3, f"s3://{bucket}/kgcal/")
    first = kgcal.results(*SMALL)
    objects = {entry["Key"] for entry in bucket_client(s3).list_objects_v2(Bucket=bucket)["Contents"]}
    assert all(key.startswith("kgcal/") for key in objects)
    assert f"kgcal/{first['runs']['report']}/artifacts/report.html" in objects
    assert any(key.startswith("kgcal/models/m-") and key.endswith(".safetensors") for key in objects)
    assert not list((kgcal.home / "artifacts").rglob("*"))

    assert kgcal.results(*SMALL)["runs"] == first["runs"]
    lost = next(key for key in objects if key.startswith(f"kgcal/{first['runs']['score']}/"))
    bucket_client(s3).delete_object(Bucket=bucket, Key=lost)
    again = kgcal.results(*SMALL)["runs"]
    assert again["train"] == first["runs"]["train"]
    assert again["score"] != first["runs"]["score"]  # an artifact that the bucket has lost is made again


def test_artifacts_go_to_a_folder_that_is_named_and_an_experiment_keeps_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "shared disk"
    kgcal = Kgcal(tmp_path, KGCAL_ARTIFACTS=str(folder))
    assert kgcal("prepare", "--size", "300").returncode == 0
    [run] = all_runs(kgcal)
    assert list((folder / run.info.run_id / "artifacts").iterdir())

    del kgcal.environment["KGCAL_ARTIFACTS"]
    assert "re-used" in kgcal("prepare", "--size", "300").stderr
    kgcal.environment["KGCAL_ARTIFACTS"] = str(tmp_path / "elsewhere")
    done = kgcal("prepare", "--size", "300")
    assert done.returncode == 2
    assert f"the MLflow experiment kgcal keeps its artifacts in {folder.as_uri()}, but KGCAL_ARTIFACTS" in done.stderr
    kgcal.environment["MLFLOW_EXPERIMENT_NAME"] = "other"
    assert kgcal("prepare", "--size", "400").returncode == 0
    assert list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "s3://nobody/here",
            "artifacts cannot be kept in s3://nobody/here: Failed to list artifacts",
        ),
        ("floppy://a", "artifacts cannot be kept in floppy://a: Could not find a registered artifact repository"),
    ],
)
def test_an_unusable_place_is_reported_before_any_run_is_opened(
    tmp_path: Path, s3: str, place: str, message: str
) -> None:
    kgcal = at(tmp_path, s3, place)
    done = kgcal("run", *SMALL)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert all_runs(kgcal) == []


def test_a_bucket_that_has_gone_is_reported(tmp_path: Path, s3: str, bucket: str) -> None:
    kgcal = at(tmp_path, s3, f"s3://{bucket}")
    assert kgcal("prepare", "--size", "300").returncode == 0
    kgcal.environment["MLFLOW_S3_ENDPOINT_URL"] = f"http://127.0.0.1:{free_port()}"
    done = kgcal("prepare", "--size", "300")
    assert done.returncode == 2
    assert f"artifacts cannot be kept in s3://{bucket}: Could not connect to the endpoint URL" in done.stderr
    assert "Traceback" not in done.stderr
