"""What a typed handle to logged files is; artifacts.py lists all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Artifact(Generic[T]):
    """A file or folder that a stage's run logs.

    stage  the stage whose runs have it
    path   its path among the run's artifacts
    read   makes the object from the file or folder
    write  writes the object to a path; None for a part of another artifact, which is written with the whole
    """

    stage: str
    path: str
    read: Callable[[Path], T]
    write: Callable[[Path, T], None] | None = None


def save(folder: Path, artifact: Artifact[T], value: T) -> None:
    """Write an artifact to its path in a folder."""
    if artifact.write is None:
        raise ValueError(f"{artifact.path} of {artifact.stage} is written with another artifact")
    artifact.write(folder / artifact.path, value)


@dataclass(frozen=True)
class ModelFiles(Generic[T]):
    """The files of the LoggedModels that a stage's run makes.

    stage  the stage whose runs have them
    read   makes the object from the folder of files
    write  writes the object into a folder
    """

    stage: str
    read: Callable[[Path], T]
    write: Callable[[Path, T], None]


@dataclass(frozen=True)
class LoggedModel:
    """A LoggedModel as it was read from the store.

    run_id       the run that made it
    params       what models are compared by
    label        of a calibrator or ensemble: its label, `synthetic.isotonic`
    base_model   of a calibrator: the LoggedModel of the embedding model it belongs to
    fingerprint  of an embedding model: the fingerprint of its numbers
    """

    model_id: str
    name: str
    run_id: str | None
    params: dict[str, str]
    label: str
    base_model: str
    fingerprint: str
