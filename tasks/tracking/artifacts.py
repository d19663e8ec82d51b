"""The typed handle of every artifact.

One stage writes an artifact with `run.save(GRAPH, graph)`, and a later stage reads it with `run.load(GRAPH)`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

from kgcore import storage
from kgcore.arrays import Floats, Scores, Triples
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.matched import Matched
from kgcore.calibration.unseen_answers import Answers, UnseenAnswers
from kgcore.combiners.ablation import Ablation
from kgcore.corruptions.base import Corruptions
from kgcore.datasets.unseen import Unseen
from kgcore.ensembles.ensemble import Ensemble
from kgcore.evaluation.evaluate import Measured
from kgcore.evaluation.predictions import Predictions
from kgcore.evidence.table import TableEvidence
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.rows import ScoreRows
from kgcore.graph import KnowledgeGraph
from kgcore.mixture.samples import MixtureData
from kgcore.monitoring.exam import Exam
from kgcore.monitoring.exam_file import read_exam, write_exam
from kgcore.report.ensemble_summary import EnsembleSummary
from kgcore.report.summary import PipelineSummary, Summary
from kgcore.score_table import ScoreTable
from kgcore.tuning.race_result import Race
from tasks.tracking.handles import Artifact, ModelFiles
from tasks.tracking.labels import CALIBRATE_SCORES

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel

S = TypeVar("S", Ablation, Summary, PipelineSummary, EnsembleSummary, Race)


def _read_graph_without_test(path: Path) -> KnowledgeGraph:
    return storage.read_graph(path, test=False)


def _write_ensemble(folder: Path, logged: tuple[list[str], Ensemble]) -> None:
    models, ensemble = logged
    storage.write_ensemble(folder, ensemble, models)


def _json(stage: str, path: str) -> "Artifact[Any]":
    return Artifact(stage, path, storage.read_json, storage.write_json)


def _typed_json(stage: str, path: str, kind: type[S]) -> Artifact[S]:
    def read(file: Path) -> S:
        return kind.from_json(storage.read_json(file))

    def write(file: Path, value: S) -> None:
        storage.write_json(file, value.to_json())

    return Artifact(stage, path, read, write)


def _write_ranks(path: Path, ranked: tuple[Triples, Floats]) -> None:
    storage.write_ranks(path, *ranked)


def _write_disagreement(path: Path, found: tuple[Triples, dict[str, Floats]]) -> None:
    storage.write_disagreement(path, *found)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


GRAPH: Artifact[KnowledgeGraph] = Artifact("prepare", "graph", storage.read_graph, storage.write_graph)
GRAPH_WITHOUT_TEST: Artifact[KnowledgeGraph] = Artifact("prepare", "graph", _read_graph_without_test)
ENTITIES: Artifact[list[str]] = Artifact("prepare", "graph/entities.parquet", storage.read_names)
PREDICATES: Artifact[list[str]] = Artifact("prepare", "graph/predicates.parquet", storage.read_names)
COUNTS: Artifact[dict[str, int]] = _json("prepare", "counts.json")
UNSEEN: Artifact[Unseen] = Artifact("prepare", "unseen.parquet", storage.read_unseen, storage.write_unseen)
RACE: Artifact[Race] = _typed_json("choose", "race.json", Race)
RACE_TABLE: Artifact[pd.DataFrame] = Artifact("choose", "race.csv", storage.read_trials, storage.write_trials)
CHOSEN: Artifact[dict[str, Any]] = _json("choose", "chosen.json")
DATA_REPORT: Artifact[str] = Artifact("prepare", "data.html", _read_text, _write_text)
EMBEDDINGS: "ModelFiles[TrainedModel]" = ModelFiles("train", storage.read_model, storage.write_model)
MIXTURE: Artifact[MixtureData] = Artifact("match", "scores.parquet", storage.read_mixture, storage.write_mixture)
MIXTURE_TRIPLES: Artifact[Triples] = Artifact("match", "triples.parquet", storage.read_triples, storage.write_triples)
MATCHED: Artifact[Matched] = Artifact("match", "mixture.json", storage.read_matched, storage.write_matched)
LABELLED: Artifact[Triples] = Artifact("match", "labelled.parquet", storage.read_triples, storage.write_triples)
CORRUPTIONS: Artifact[dict[str, Corruptions]] = Artifact(
    "corrupt", "corruptions.parquet", storage.read_corruptions, storage.write_corruptions
)
CORRUPTION_AUDIT: Artifact[dict[str, dict[str, float]]] = _json("corrupt", "audit.json")
SCORES: Artifact[ScoreTable] = Artifact("score", "scores.parquet", storage.read_scores, storage.write_scores)
EVIDENCE: Artifact[TableEvidence] = Artifact(
    "evidence", "evidence.parquet", storage.read_evidence, storage.write_evidence
)
UNSEEN_ANSWERS: Artifact[UnseenAnswers] = Artifact(
    "evidence", "unseen_answers.json", storage.read_unseen_answers, storage.write_unseen_answers
)
UNSEEN_TEST: Artifact[Answers] = Artifact(
    "evidence", "unseen_test.parquet", storage.read_answers, storage.write_answers
)
CALIBRATOR: ModelFiles[BoundCalibrator] = ModelFiles(
    "calibrate", storage.read_calibrator, storage.write_calibrator, storage.CALIBRATOR_FILE
)
CANDIDATE_EVIDENCE: Artifact[TableEvidence] = Artifact(
    "evidence", "candidates.parquet", storage.read_evidence, storage.write_evidence
)
COMBINED_MIXTURE: Artifact[MixtureData] = Artifact(
    "calibrate", "combined_mixture.parquet", storage.read_mixture, storage.write_mixture
)
HELD_OUT_LOG_ODDS: Artifact[Mapping[str, Scores]] = Artifact(
    "calibrate", "held_out_log_odds.parquet", storage.read_log_odds, storage.write_log_odds
)
ABLATION: Artifact[Ablation] = _typed_json("calibrate", "ablation.json", Ablation)
CALIBRATION_AUDIT: Artifact[dict[str, dict[str, float]]] = _json("calibrate", "audit.json")
PREDICTIONS: Artifact[Predictions] = Artifact(
    "classify", "predictions.parquet", storage.read_predictions, storage.write_predictions
)
RANKS: Artifact[tuple[Triples, Floats]] = Artifact("rank", "ranks.parquet", storage.read_ranks, _write_ranks)
RANK_METRICS: Artifact[dict[str, float]] = _json("rank", "ranks.json")
MEASURED: Artifact[dict[str, Measured]] = Artifact(
    "evaluate", "measured.json", storage.read_measured, storage.write_measured
)
SUMMARY: Artifact[Summary] = _typed_json("evaluate", "summary.json", Summary)
REPORT: Artifact[str] = Artifact("report", "report.html", _read_text, _write_text)

SCORE_CALIBRATOR: ModelFiles[ScoreCalibrator] = ModelFiles(
    CALIBRATE_SCORES, storage.read_score_calibrator, storage.write_score_calibrator, storage.SCORE_CALIBRATOR_FILE
)
SCORE_ROWS: Artifact[ScoreRows] = Artifact(
    CALIBRATE_SCORES, "rows.parquet", storage.read_score_rows, storage.write_score_rows
)
ENSEMBLE: ModelFiles[tuple[list[str], Ensemble]] = ModelFiles(
    "ensemble", storage.read_ensemble, _write_ensemble, storage.ENSEMBLE_FILE
)
ENSEMBLE_PREDICTIONS: Artifact[Predictions] = Artifact(
    "ensemble", "predictions.parquet", storage.read_predictions, storage.write_predictions
)
ENSEMBLE_MEASURED: Artifact[dict[str, Measured]] = Artifact(
    "ensemble", "measured.json", storage.read_measured, storage.write_measured
)
ENSEMBLE_SUMMARY: Artifact[EnsembleSummary] = _typed_json("ensemble", "summary.json", EnsembleSummary)
DISAGREEMENT: Artifact[tuple[Triples, dict[str, Floats]]] = Artifact(
    "ensemble", "disagreement.parquet", storage.read_disagreement, _write_disagreement
)

EXAM: Artifact[Exam] = Artifact("exam", "exam.parquet", read_exam, write_exam)
MANIFEST: Artifact[dict[str, str]] = _json("pipeline", "manifest.json")
PIPELINE_SUMMARY: Artifact[PipelineSummary] = _typed_json("pipeline", "summary.json", PipelineSummary)
BEST_SETTINGS: Artifact[dict[str, Any]] = _json("tune", "best.json")
TRIALS: Artifact[pd.DataFrame] = Artifact("tune", "trials.csv", storage.read_trials, storage.write_trials)
