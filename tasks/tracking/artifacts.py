"""Typed handles to logged files: their types, and the handle of every artifact that several files read or write.

One stage writes an artifact with `run.save(GRAPH, graph)`, and a later stage reads it with `run.load(GRAPH)`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kgcore.combiners.ablation import Ablation
from kgcore.measure.report.ensemble_summary import EnsembleSummary
from kgcore.measure.report.race import Race
from kgcore.measure.report.summary import PipelineSummary, Summary
from kgcore.registries import STORED
from kgcore.storage import folders, tables
from tasks.tracking.connection import Patience
from tasks.tracking.record import CALIBRATE_SCORES
from tasks.workspace.resources import input_error
from tasks.workspace.settings import temporary_folder

if TYPE_CHECKING:
    from mlflow.entities import FileInfo

    from kgcore.answer.population.survey import Survey
    from kgcore.combiners.unseen import UnseenAnswers
    from kgcore.evidence.twins import UnknownTwins
    from kgcore.mixture.matched import Matched
    from kgcore.mixture.samples import MixtureData
    from kgcore.wings.external.calibrator import ScoreCalibrator

# Files that MLflow writes beside MLmodel, and that loading does not need. A run does not record them: MLflow cuts the
# text of a tag at 8,000 characters, and a run may have dozens of calibrators.
BESIDE_MLMODEL = {
    "conda.yaml",
    "input_example.json",
    "python_env.yaml",
    "requirements.txt",
    "serving_input_example.json",
}
T = TypeVar("T")
S = TypeVar("S", Ablation, Summary, PipelineSummary, EnsembleSummary, Race)


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


def _json(stage: str, path: str) -> Artifact[Any]:
    return Artifact(stage, path, folders.read_json, folders.write_json)


def _typed_json(stage: str, path: str, kind: type[S]) -> Artifact[S]:
    def read(file: Path) -> S:
        return kind.from_json(folders.read_json(file))

    def write(file: Path, value: S) -> None:
        folders.write_json(file, value.to_json())

    return Artifact(stage, path, read, write)


def _stored_json(stage: str, path: str, name: str) -> Artifact[Any]:
    """Return the handle of an object whose class has this name in STORED, and is imported when it is read."""
    return Artifact(
        stage,
        path,
        lambda file: STORED.get(name).from_json(folders.read_json(file)),
        lambda file, value: folders.write_json(file, value.to_json()),
    )


def _stored_table(stage: str, path: str, name: str) -> Artifact[Any]:
    return Artifact(
        stage,
        path,
        lambda file: STORED.get(name).from_table(*tables.read_table(file)),
        lambda file, value: tables.write_table(file, *value.to_table()),
    )


def _text(stage: str, path: str) -> Artifact[str]:
    def write(file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")

    return Artifact(stage, path, lambda file: file.read_text(encoding="utf-8"), write)


GRAPH = Artifact("prepare", "graph", folders.read_graph, folders.write_graph)
GRAPH_WITHOUT_TEST = Artifact("prepare", "graph", partial(folders.read_graph, test=False))
ENTITIES = Artifact("prepare", "graph/entities.parquet", folders.read_names)
PREDICATES = Artifact("prepare", "graph/predicates.parquet", folders.read_names)
COUNTS: Artifact[dict[str, int]] = _json("prepare", "counts.json")
UNSEEN = Artifact("prepare", "unseen.parquet", tables.read_unseen, tables.write_unseen)
DATA_REPORT = _text("prepare", "data.html")
RACE = _typed_json("choose", "race.json", Race)
RACE_TABLE = Artifact("choose", "race.csv", tables.read_trials, tables.write_trials)
CHOSEN: Artifact[dict[str, Any]] = _json("choose", "chosen.json")
EMBEDDINGS = ModelFiles("train", folders.read_model, folders.write_model)
MIXTURE: "Artifact[MixtureData]" = _stored_table("match", "scores.parquet", "mixture")
MIXTURE_TRIPLES = Artifact("match", "triples.parquet", tables.read_triples, tables.write_triples)
MATCHED: "Artifact[Matched]" = _stored_json("match", "mixture.json", "candidates")
LABELLED = Artifact("match", "labelled.parquet", tables.read_triples, tables.write_triples)
CORRUPTIONS = Artifact("corrupt", "corruptions.parquet", tables.read_corruptions, tables.write_corruptions)
CORRUPTION_AUDIT: Artifact[dict[str, dict[str, float]]] = _json("corrupt", "audit.json")
SCORES = Artifact("score", "scores.parquet", tables.read_scores, tables.write_scores)
EVIDENCE = Artifact("evidence", "evidence.parquet", tables.read_evidence, tables.write_evidence)
TWINS: "Artifact[UnknownTwins]" = _stored_table("evidence", "twins.parquet", "twins")
TWIN_EVIDENCE = Artifact("evidence", "twin_evidence.parquet", tables.read_evidence, tables.write_evidence)
CANDIDATE_EVIDENCE = Artifact("evidence", "candidates.parquet", tables.read_evidence, tables.write_evidence)
UNSEEN_ANSWERS: "Artifact[UnseenAnswers]" = _stored_json("evidence", "unseen_answers.json", "unseen")
UNSEEN_TEST = Artifact("evidence", "unseen_test.parquet", tables.read_answers, tables.write_answers)
CALIBRATOR = ModelFiles("calibrate", folders.read_calibrator, folders.write_calibrator, folders.CALIBRATOR_FILE)
COMBINED_MIXTURE: "Artifact[MixtureData]" = _stored_table("calibrate", "combined_mixture.parquet", "mixture")
HELD_OUT_LOG_ODDS = Artifact("calibrate", "held_out_log_odds.parquet", tables.read_log_odds, tables.write_log_odds)
ABLATION = _typed_json("calibrate", "ablation.json", Ablation)
COMPLETENESS = _text("calibrate", "completeness.tsv")
CALIBRATION_AUDIT: Artifact[dict[str, dict[str, float]]] = _json("calibrate", "audit.json")
PREDICTIONS = Artifact("classify", "predictions.parquet", tables.read_predictions, tables.write_predictions)
RANKS = Artifact("rank", "ranks.parquet", tables.read_ranks, tables.write_ranks)
RANK_METRICS: Artifact[dict[str, float]] = _json("rank", "ranks.json")
MEASURED = Artifact("evaluate", "measured.json", folders.read_measured, folders.write_measured)
SUMMARY = _typed_json("evaluate", "summary.json", Summary)
REPORT = _text("report", "report.html")
SCORE_CALIBRATOR: "ModelFiles[ScoreCalibrator]" = ModelFiles(
    CALIBRATE_SCORES,
    lambda folder: STORED.get("score_calibrator").read(folder),
    lambda folder, calibrator: calibrator.write(folder),
    "score_calibrator.json",
)
SCORE_ROWS = Artifact(CALIBRATE_SCORES, "rows.parquet", tables.read_scores, tables.write_scores)
ENSEMBLE_PREDICTIONS = Artifact("ensemble", "predictions.parquet", tables.read_predictions, tables.write_predictions)
ENSEMBLE_MEASURED = Artifact("ensemble", "measured.json", folders.read_measured, folders.write_measured)
ENSEMBLE_SUMMARY = _typed_json("ensemble", "summary.json", EnsembleSummary)
DISAGREEMENT = Artifact("ensemble", "disagreement.parquet", tables.read_disagreement, tables.write_disagreement)

ANSWER: Artifact[dict[str, Any]] = _json("discover", "answer.json")  # and of `predict` with one triple
DIFFERENCE: Artifact[dict[str, float]] = _json("comparison", "difference.json")
SURVEY: "Artifact[Survey]" = Artifact(
    "survey", "survey", lambda folder: STORED.get("survey").read(folder), lambda folder, survey: survey.write(folder)
)
MANIFEST: Artifact[dict[str, str]] = _json("pipeline", "manifest.json")
PIPELINE_SUMMARY = _typed_json("pipeline", "summary.json", PipelineSummary)
BEST_SETTINGS: Artifact[dict[str, Any]] = _json("tune", "best.json")
TRIALS = Artifact("tune", "trials.csv", tables.read_trials, tables.write_trials)


class StoredFiles:
    """The files at an address of the artifact storage.

    address  function that returns the address
    patience  how requests to the store are made
    what     names the files in messages
    """

    def __init__(self, address: Callable[[], str], patience: Patience, what: str) -> None:
        self._address, self._patience, self._what = address, patience, what

    @cached_property
    def _repository(self) -> Any:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        return get_artifact_repository(self._address(), tracking_uri=self._patience.uri)

    def copy(self, path: str, target: Path) -> None:
        """Copy a file or folder into a folder, or everything if the path is ''. Raises InputError if it is missing."""
        with input_error(f"{self._what} cannot be read"):
            self._patience(lambda: self._repository.download_artifacts(path, dst_path=str(target)))

    def read(self, path: str, read: Callable[[Path], T]) -> T:
        """Copy as `copy` into a temporary folder, and return what `read` reads there.

        Raises InputError if a file is missing or damaged.
        """
        with temporary_folder() as folder:
            self.copy(path, folder)
            with folders.reading(self._what):
                return read(folder)

    def add(self, folder: Path) -> None:
        """Add the files of a folder. Raises InputError if they cannot be written."""
        with input_error(f"{self._what} cannot be written"):
            for path in (path for path in folder.rglob("*") if path.is_file()):
                parent = path.parent.relative_to(folder).as_posix()
                self._patience(partial(self._repository.log_artifact, str(path), None if parent == "." else parent))

    def add_written(self, write: Callable[[Path], object]) -> None:
        """Add the files that a function writes into an empty folder. Raises InputError as `add`."""
        with temporary_folder() as folder:
            write(folder)
            self.add(folder)

    def sizes(self) -> dict[str, int]:
        """Return path -> size in bytes of every file."""
        return dict(self._walk())

    def _walk(self, path: str | None = None) -> Iterator[tuple[str, int]]:
        entries: list[FileInfo] = self._patience(lambda: self._repository.list_artifacts(path))
        for entry in entries:
            if entry.is_dir:
                yield from self._walk(entry.path)
            else:
                yield entry.path, entry.file_size or 0
