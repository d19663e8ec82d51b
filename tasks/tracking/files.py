"""The files of a run or of a LoggedModel in MLflow's artifact storage."""

import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError

from kgcore.errors import InputError, KgcalError, first_line
from tasks.tracking.places import input_error

if TYPE_CHECKING:
    from mlflow.entities import FileInfo

T = TypeVar("T")
# Files that MLflow writes beside MLmodel, and that loading does not need. A run does not record them: MLflow cuts the
# text of a tag at 8,000 characters, and a run may have dozens of calibrators.
BESIDE_MLMODEL = {
    "conda.yaml",
    "input_example.json",
    "python_env.yaml",
    "requirements.txt",
    "serving_input_example.json",
}


class StoredFiles:
    """The files at an address of the artifact storage.

    address  function that returns the address
    store    address of the MLflow store
    what     names the files in messages
    """

    def __init__(self, address: Callable[[], str], store: str, what: str) -> None:
        self._address, self._store, self._what = address, store, what

    @cached_property
    def _repository(self) -> Any:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        return get_artifact_repository(self._address(), tracking_uri=self._store)

    def copy(self, path: str, target: Path) -> None:
        """Copy a file or folder into a folder, or everything if the path is ''. Raises InputError if it is missing."""
        with input_error(f"{self._what} cannot be read"):
            self._repository.download_artifacts(path, dst_path=str(target))

    def read(self, path: str, read: Callable[[Path], T]) -> T:
        """Copy as `copy` into a temporary folder, and return what `read` reads there.

        Raises InputError if a file is missing or damaged.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.copy(path, Path(folder))
            try:
                return read(Path(folder))
            except KgcalError:
                raise
            except (SafetensorError, OSError, ValueError, KeyError) as error:
                raise InputError(f"{self._what} cannot be read: {first_line(error)}") from error

    def add(self, folder: Path) -> None:
        """Add the files of a folder. Raises InputError if they cannot be written."""
        with input_error(f"{self._what} cannot be written"):
            self._repository.log_artifacts(str(folder))

    def sizes(self) -> dict[str, int]:
        """Return path -> size in bytes of every file."""
        return dict(self._walk())

    def _walk(self, path: str | None = None) -> Iterator[tuple[str, int]]:
        entries: list[FileInfo] = self._repository.list_artifacts(path)
        for entry in entries:
            if entry.is_dir:
                yield from self._walk(entry.path)
            else:
                yield entry.path, entry.file_size or 0
