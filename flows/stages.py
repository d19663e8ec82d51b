"""Every stage as a flow of its own: re-triggered from the run ids of its upstream stages, or from `latest`."""

from prefect import flow

from kgcore.config import (
    CalibrateConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    PrepareConfig,
    RankConfig,
    ReportConfig,
    ScoreConfig,
    TrainConfig,
)
from tasks.calibrate import calibrate_scores
from tasks.classify import classify_triples
from tasks.corrupt import corrupt_triples
from tasks.evaluate import evaluate_predictions
from tasks.pipeline import LATEST, resolve
from tasks.prepare import prepare_data
from tasks.rank import rank_triples
from tasks.report import write_report
from tasks.score import score_triples
from tasks.stage import Context
from tasks.train import train_model


@flow(name="prepare", flow_run_name="prepare {config.dataset}")
def prepare(config: PrepareConfig = PrepareConfig(), force: bool = False) -> str:
    """Fetch, verify, validate and number a data set; returns the MLflow run id, as every stage does."""
    return prepare_data(config, Context(force=force)).run_id


@flow(name="train", flow_run_name="train {config.model} {config.loss} on {data}")
def train(data: str = LATEST, config: TrainConfig = TrainConfig(), force: bool = False, device: str = "auto") -> str:
    """Train the embeddings on the graph of a prepare run."""
    return train_model(resolve("prepare", data), config, Context(force=force, device=device)).run_id


@flow(name="corrupt", flow_run_name="corrupt {data}, {config.strategy}")
def corrupt(data: str = LATEST, config: CorruptConfig = CorruptConfig(), force: bool = False) -> str:
    """Make synthetic negatives for the graph of a prepare run."""
    return corrupt_triples(resolve("prepare", data), config, Context(force=force)).run_id


@flow(name="score", flow_run_name="score by {model}")
def score(model: str = LATEST, corruptions: str = LATEST, force: bool = False, device: str = "auto") -> str:
    """Score the held-out triples and the corruptions of a corrupt run with the model of a train run."""
    upstream = (resolve("train", model), resolve("corrupt", corruptions))
    return score_triples(*upstream, ScoreConfig(), Context(force=force, device=device)).run_id


@flow(name="calibrate", flow_run_name="calibrate {scores} to {config.base_rate}")
def calibrate(scores: str = LATEST, config: CalibrateConfig = CalibrateConfig(), force: bool = False) -> str:
    """Fit calibrators on the scores of a score run."""
    return calibrate_scores(resolve("score", scores), config, Context(force=force)).run_id


@flow(name="classify", flow_run_name="classify by {calibrators}")
def classify(calibrators: str = LATEST, config: ClassifyConfig = ClassifyConfig(), force: bool = False) -> str:
    """Decide the test triples with the calibrators of a calibrate run."""
    return classify_triples(resolve("calibrate", calibrators), config, Context(force=force)).run_id


@flow(name="rank", flow_run_name="rank by {model}")
def rank(model: str = LATEST, force: bool = False, device: str = "auto") -> str:
    """Rank the test positives with the model of a train run."""
    return rank_triples(resolve("train", model), RankConfig(), Context(force=force, device=device)).run_id


@flow(name="evaluate", flow_run_name="evaluate {predictions}")
def evaluate(
    predictions: str = LATEST, ranks: str = LATEST, config: EvaluateConfig = EvaluateConfig(), force: bool = False
) -> str:
    """Measure the predictions of a classify run, beside the ranks of a rank run."""
    upstream = (resolve("classify", predictions), resolve("rank", ranks))
    return evaluate_predictions(*upstream, config, Context(force=force)).run_id


@flow(name="report", flow_run_name="report {evaluation}")
def report(evaluation: str = LATEST, force: bool = False) -> str:
    """Write the report of an evaluate run."""
    return write_report(resolve("evaluate", evaluation), ReportConfig(), Context(force=force)).run_id


STAGE_FLOWS = (prepare, train, corrupt, score, calibrate, classify, rank, evaluate, report)
