"""The typed handle of every artifact.

One stage writes an artifact with `run.save(GRAPH, graph)`, and a later stage reads it with `run.load(GRAPH)`. The
modules that read and write artifacts are loaded with the first artifact of their kind.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kgcore import storage
from kgcore.combiners.ablation import Ablation
from kgcore.report.ensemble_summary import EnsembleSummary
from kgcore.report.summary import PipelineSummary, Summary
from kgcore.tuning.race_result import Race
from tasks.tracking.handles import Artifact, ModelFiles
from tasks.tracking.labels import CALIBRATE_SCORES

if TYPE_CHECKING:
    import pandas as pd

    from kgcore.arrays import Floats, Scores, Triples
    from kgcore.calibration.calibrated import Calibrated
    from kgcore.calibration.matched import Matched
    from kgcore.calibration.unseen_answers import UnseenAnswers, UnseenProbabilities
    from kgcore.corruptions.base import Corruptions
    from kgcore.datasets.unseen import UnseenRows
    from kgcore.evaluation.evaluate import Measured
    from kgcore.evaluation.predictions import Predictions
    from kgcore.evidence.table import TableEvidence
    from kgcore.external.calibrator import ScoreCalibrator
    from kgcore.graph import KnowledgeGraph
    from kgcore.mixture.samples import MixtureData
    from kgcore.models.trained import TrainedModel
    from kgcore.monitoring.exam import Exam
    from kgcore.population.survey import Survey
    from kgcore.score_table import ScoreTable

S = TypeVar("S", Ablation, Summary, PipelineSummary, EnsembleSummary, Race)


def _later(function: str) -> Callable[..., Any]:
    """Return a function that calls a function of kgcore.storage, whose module is loaded with the first call."""

    def call(*arguments: Any) -> Any:
        return getattr(storage, function)(*arguments)

    return call


def _read_graph_without_test(path: Path) -> "KnowledgeGraph":
    return storage.read_graph(path, test=False)


def _json(stage: str, path: str) -> "Artifact[Any]":
    return Artifact(stage, path, storage.read_json, storage.write_json)


def _typed_json(stage: str, path: str, kind: type[S]) -> Artifact[S]:
    def read(file: Path) -> S:
        return kind.from_json(storage.read_json(file))

    def write(file: Path, value: S) -> None:
        storage.write_json(file, value.to_json())

    return Artifact(stage, path, read, write)


def _write_ranks(path: Path, ranked: "tuple[Triples, Floats]") -> None:
    storage.write_ranks(path, *ranked)


def _write_disagreement(path: Path, found: "tuple[Triples, dict[str, Floats]]") -> None:
    storage.write_disagreement(path, *found)


def _read_exam(path: Path) -> "Exam":
    from kgcore.monitoring.exam import read_exam

    return read_exam(path)


def _write_exam(path: Path, exam: "Exam") -> None:
    from kgcore.monitoring.exam import write_exam

    write_exam(path, exam)


def _read_survey(folder: Path) -> "Survey":
    from kgcore.population.survey import read_survey

    return read_survey(folder)


def _write_survey(folder: Path, survey: "Survey") -> None:
    from kgcore.population.survey import write_survey

    write_survey(folder, survey)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


GRAPH: "Artifact[KnowledgeGraph]" = Artifact("prepare", "graph", _later("read_graph"), _later("write_graph"))
GRAPH_WITHOUT_TEST: "Artifact[KnowledgeGraph]" = Artifact("prepare", "graph", _read_graph_without_test)
ENTITIES: Artifact[list[str]] = Artifact("prepare", "graph/entities.parquet", _later("read_names"))
PREDICATES: Artifact[list[str]] = Artifact("prepare", "graph/predicates.parquet", _later("read_names"))
COUNTS: Artifact[dict[str, int]] = _json("prepare", "counts.json")
UNSEEN: "Artifact[UnseenRows]" = Artifact("prepare", "unseen.parquet", _later("read_unseen"), _later("write_unseen"))
RACE: Artifact[Race] = _typed_json("choose", "race.json", Race)
RACE_TABLE: "Artifact[pd.DataFrame]" = Artifact("choose", "race.csv", _later("read_trials"), _later("write_trials"))
CHOSEN: Artifact[dict[str, Any]] = _json("choose", "chosen.json")
DATA_REPORT: Artifact[str] = Artifact("prepare", "data.html", _read_text, _write_text)
EMBEDDINGS: "ModelFiles[TrainedModel]" = ModelFiles("train", _later("read_model"), _later("write_model"))
MIXTURE: "Artifact[MixtureData]" = Artifact("match", "scores.parquet", _later("read_mixture"), _later("write_mixture"))
MIXTURE_TRIPLES: "Artifact[Triples]" = Artifact(
    "match", "triples.parquet", _later("read_triples"), _later("write_triples")
)
MATCHED: "Artifact[Matched]" = Artifact("match", "mixture.json", _later("read_matched"), _later("write_matched"))
LABELLED: "Artifact[Triples]" = Artifact("match", "labelled.parquet", _later("read_triples"), _later("write_triples"))
CORRUPTIONS: "Artifact[dict[str, Corruptions]]" = Artifact(
    "corrupt", "corruptions.parquet", _later("read_corruptions"), _later("write_corruptions")
)
CORRUPTION_AUDIT: Artifact[dict[str, dict[str, float]]] = _json("corrupt", "audit.json")
SCORES: "Artifact[ScoreTable]" = Artifact("score", "scores.parquet", _later("read_scores"), _later("write_scores"))
EVIDENCE: "Artifact[TableEvidence]" = Artifact(
    "evidence", "evidence.parquet", _later("read_evidence"), _later("write_evidence")
)
UNSEEN_ANSWERS: "Artifact[UnseenAnswers]" = Artifact(
    "evidence", "unseen_answers.json", _later("read_unseen_answers"), _later("write_unseen_answers")
)
UNSEEN_TEST: "Artifact[UnseenProbabilities]" = Artifact(
    "evidence", "unseen_test.parquet", _later("read_answers"), _later("write_answers")
)
CALIBRATOR: "ModelFiles[Calibrated]" = ModelFiles(
    "calibrate", _later("read_calibrator"), _later("write_calibrator"), storage.CALIBRATOR_FILE
)
CANDIDATE_EVIDENCE: "Artifact[TableEvidence]" = Artifact(
    "evidence", "candidates.parquet", _later("read_evidence"), _later("write_evidence")
)
COMBINED_MIXTURE: "Artifact[MixtureData]" = Artifact(
    "calibrate", "combined_mixture.parquet", _later("read_mixture"), _later("write_mixture")
)
HELD_OUT_LOG_ODDS: "Artifact[Mapping[str, Scores]]" = Artifact(
    "calibrate", "held_out_log_odds.parquet", _later("read_log_odds"), _later("write_log_odds")
)
ABLATION: Artifact[Ablation] = _typed_json("calibrate", "ablation.json", Ablation)
COMPLETENESS: Artifact[str] = Artifact("calibrate", "completeness.tsv", _read_text, _write_text)
CALIBRATION_AUDIT: Artifact[dict[str, dict[str, float]]] = _json("calibrate", "audit.json")
PREDICTIONS: "Artifact[Predictions]" = Artifact(
    "classify", "predictions.parquet", _later("read_predictions"), _later("write_predictions")
)
RANKS: "Artifact[tuple[Triples, Floats]]" = Artifact("rank", "ranks.parquet", _later("read_ranks"), _write_ranks)
RANK_METRICS: Artifact[dict[str, float]] = _json("rank", "ranks.json")
MEASURED: "Artifact[dict[str, Measured]]" = Artifact(
    "evaluate", "measured.json", _later("read_measured"), _later("write_measured")
)
SUMMARY: Artifact[Summary] = _typed_json("evaluate", "summary.json", Summary)
REPORT: Artifact[str] = Artifact("report", "report.html", _read_text, _write_text)

SCORE_CALIBRATOR: "ModelFiles[ScoreCalibrator]" = ModelFiles(
    CALIBRATE_SCORES, _later("read_score_calibrator"), _later("write_score_calibrator"), storage.SCORE_CALIBRATOR_FILE
)
SCORE_ROWS: "Artifact[ScoreTable]" = Artifact(
    CALIBRATE_SCORES, "rows.parquet", _later("read_scores"), _later("write_scores")
)
ENSEMBLE_PREDICTIONS: "Artifact[Predictions]" = Artifact(
    "ensemble", "predictions.parquet", _later("read_predictions"), _later("write_predictions")
)
ENSEMBLE_MEASURED: "Artifact[dict[str, Measured]]" = Artifact(
    "ensemble", "measured.json", _later("read_measured"), _later("write_measured")
)
ENSEMBLE_SUMMARY: Artifact[EnsembleSummary] = _typed_json("ensemble", "summary.json", EnsembleSummary)
DISAGREEMENT: "Artifact[tuple[Triples, dict[str, Floats]]]" = Artifact(
    "ensemble", "disagreement.parquet", _later("read_disagreement"), _write_disagreement
)

DIFFERENCE: Artifact[dict[str, float]] = _json("comparison", "difference.json")
SURVEY: "Artifact[Survey]" = Artifact("survey", "survey", _read_survey, _write_survey)
EXAM: "Artifact[Exam]" = Artifact("exam", "exam.parquet", _read_exam, _write_exam)
MANIFEST: Artifact[dict[str, str]] = _json("pipeline", "manifest.json")
PIPELINE_SUMMARY: Artifact[PipelineSummary] = _typed_json("pipeline", "summary.json", PipelineSummary)
BEST_SETTINGS: Artifact[dict[str, Any]] = _json("tune", "best.json")
TRIALS: "Artifact[pd.DataFrame]" = Artifact("tune", "trials.csv", _later("read_trials"), _later("write_trials"))
