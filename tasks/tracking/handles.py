"""The types of handles to logged files. artifacts.py lists all handles."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Artifact(Generic[T]):
    """A file or folder that a stage's run logs.

    stage  the stage whose runs log it
    path   its path in the run's artifacts
    read   function that reads the object from the file or folder
    write  function that writes the object to a path; None: the file is a part of another artifact, which writes it
    """

    stage: str
    path: str
    read: Callable[[Path], T]
    write: Callable[[Path, T], None] | None = None


def save(folder: Path, artifact: Artifact[T], value: T) -> None:
    """Write an artifact to its path in a folder. Raises ValueError for a part of another artifact."""
    if artifact.write is None:
        raise ValueError(f"{artifact.path} of {artifact.stage} is a part of another artifact: write that one")
    artifact.write(folder / artifact.path, value)


@dataclass(frozen=True)
class ModelFiles(Generic[T]):
    """The files of the LoggedModels that a stage's run logs.

    stage  the stage whose runs log them
    read   function that reads the object from a folder
    write  function that writes the object into a folder
    file   the only file that `read` needs; '': it needs all files
    """

    stage: str
    read: Callable[[Path], T]
    write: Callable[[Path, T], None]
    file: str = ""


@dataclass(frozen=True)
class LoggedModel:
    """A LoggedModel, as read from the store.

    run_id       the run that logged it
    params       parameters by which users compare models
    label        label of a calibrator or ensemble, for example `synthetic.isotonic`; '' for an embedding model
    base_model   id of a calibrator's embedding model; '' for other models
    fingerprint  hash of an embedding model's parameters; '' for other models
    """

    model_id: str
    name: str
    run_id: str | None
    params: dict[str, str]
    label: str
    base_model: str
    fingerprint: str
