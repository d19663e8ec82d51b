"""Where things are, from the environment: the only place that reads it."""

import os
import re
import tempfile
from pathlib import Path

from kgcore.errors import InputError


def home() -> Path:
    """KGCAL_HOME: holds mlflow.db, artifacts, datasets, checkpoints and reports. Default: .kgcal in the checkout, or in
    the user's home where kgcal was installed without one."""
    if value := os.environ.get("KGCAL_HOME"):
        return Path(value).expanduser().resolve()
    checkout = Path(__file__).resolve().parents[2]
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.home()) / ".kgcal"


def own_uri() -> str:
    """The SQLite file in the home."""
    return f"sqlite:///{home() / 'mlflow.db'}"


def tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, or the SQLite file in the home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or own_uri()


def mlflow_server() -> str | None:
    """The address of the MLflow server that MLFLOW_TRACKING_URI names, if it names one."""
    uri = tracking_uri()
    return uri.removesuffix("/") if uri.startswith(("http://", "https://")) else None


def prefect_database() -> str:
    """PREFECT_API_DATABASE_CONNECTION_URL, or its newer name: the database of the Prefect server of `kgcal up`;
    '' for one in the home."""
    names = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    return next((value for name in names if (value := os.environ.get(name))), "")


def experiment_name() -> str:
    """MLFLOW_EXPERIMENT_NAME, or kgcal."""
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or "kgcal"


def project_run_id() -> str | None:
    """MLFLOW_RUN_ID: the run that `mlflow run` opened for this process."""
    return os.environ.get("MLFLOW_RUN_ID") or None


def mirror() -> str | None:
    """KGCAL_MIRROR: a folder or URL to take archives from instead of their public hosts."""
    return os.environ.get("KGCAL_MIRROR") or None


def checkpoint_seconds() -> float:
    """KGCAL_CHECKPOINT_SECONDS: how often training may write a checkpoint; 10 by default."""
    text = os.environ.get("KGCAL_CHECKPOINT_SECONDS", "10")
    try:
        return float(text)
    except ValueError:
        raise InputError(f"KGCAL_CHECKPOINT_SECONDS is {text!r}: a number of seconds is needed") from None


def named_artifacts() -> str | None:
    """KGCAL_ARTIFACTS as a URI: a folder, or whatever MLflow can write to, such as s3://bucket/path."""
    value = os.environ.get("KGCAL_ARTIFACTS")
    if not value:
        return None
    return value.rstrip("/") if ":" in value else Path(value).expanduser().resolve().as_uri()


def artifact_place() -> str:
    """Where artifacts go unless a server that is not ours decides it: KGCAL_ARTIFACTS, or artifacts in the home."""
    return named_artifacts() or (home() / "artifacts").as_uri()


def masked(text: str) -> str:
    """The text with *** for the password of every address in it: what may be printed of an address, or of an error that
    may quote one."""
    text = re.sub(r"(://[^:/?#@\s]*:)(?:\S*|[^/\n]*)@", r"\1***@", text)
    return re.sub(r"([?&][a-z_]*password=)[^&\s]*", r"\1***", text, flags=re.IGNORECASE)


def ensure_home() -> Path:
    """The home, made if need be. Raises InputError when it cannot be written to."""
    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise InputError(f"KGCAL_HOME {folder} cannot be written to: {error.strerror}") from error
