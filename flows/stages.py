"""Every stage as a flow of its own: re-triggered from the run ids of its upstream stages, or from `latest`."""

from flows.deployment.flow import flow
from flows.deployment.parameters import Device, RunId
from flows.deployment.publish import publish_stage
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
from tasks.jobs.pipeline import LATEST, resolve
from tasks.stages.base import Context, StageRef
from tasks.stages.calibrate import calibrate_scores
from tasks.stages.classify import classify_triples
from tasks.stages.corrupt import by_model, corrupt_triples
from tasks.stages.evaluate import evaluate_predictions
from tasks.stages.prepare import prepare_data
from tasks.stages.rank import rank_triples
from tasks.stages.report import write_report
from tasks.stages.score import score_triples
from tasks.stages.train import train_model


def shown(ref: StageRef) -> str:
    """The run id of a stage, which its flow run shows what came of."""
    publish_stage(ref)
    return ref.run_id


@flow(name="prepare", flow_run_name="prepare {config.dataset}")
def prepare(config: PrepareConfig = PrepareConfig(), force: bool = False) -> str:
    """Fetch, verify, validate and number a data set; returns the MLflow run id, as every stage does.

    Args:
        config: which graph
        force: run even where a finished run could be re-used
    """
    return shown(prepare_data(config, Context(force=force)))


@flow(name="train", flow_run_name="train {config.model} {config.loss} on {data}")
def train(
    data: RunId = LATEST, config: TrainConfig = TrainConfig(), force: bool = False, device: Device = "auto"
) -> str:
    """Train the embeddings on the graph of a prepare run.

    Args:
        data: run id of the prepare run, or of a pipeline; latest = the newest finished pipeline
        config: the embedding model and how it is trained
        force: run even where a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    return shown(train_model(resolve("prepare", data), config, Context(force=force, device=device)))


@flow(name="corrupt", flow_run_name="corrupt {data}")
def corrupt(
    data: RunId = LATEST, model: RunId = LATEST, config: CorruptConfig = CorruptConfig(), force: bool = False
) -> str:
    """Make synthetic negatives for the graph of a prepare run.

    Args:
        data: run id of the prepare run, or of a pipeline; latest = the newest finished pipeline
        model: run id of the train run, or of a pipeline, for strategies that draw by a model
        config: the synthetic negatives
        force: run even where a finished run could be re-used
    """
    trained = resolve("train", model) if by_model(config) else None
    return shown(corrupt_triples(resolve("prepare", data), trained, config, Context(force=force)))


@flow(name="score", flow_run_name="score by {model}")
def score(model: RunId = LATEST, corruptions: RunId = LATEST, force: bool = False, device: Device = "auto") -> str:
    """Score the held-out triples and the corruptions of a corrupt run with the model of a train run.

    Args:
        model: run id of the train run, or of a pipeline; latest = the newest finished pipeline
        corruptions: run id of the corrupt run, or of a pipeline; latest = the newest finished pipeline
        force: run even where a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    upstream = (resolve("train", model), resolve("corrupt", corruptions))
    return shown(score_triples(*upstream, ScoreConfig(), Context(force=force, device=device)))


@flow(name="calibrate", flow_run_name="calibrate {scores} to {config.base_rate}")
def calibrate(scores: RunId = LATEST, config: CalibrateConfig = CalibrateConfig(), force: bool = False) -> str:
    """Fit calibrators on the scores of a score run.

    Args:
        scores: run id of the score run, or of a pipeline; latest = the newest finished pipeline
        config: how scores become probabilities
        force: run even where a finished run could be re-used
    """
    return shown(calibrate_scores(resolve("score", scores), config, Context(force=force)))


@flow(name="classify", flow_run_name="classify by {calibrators}")
def classify(calibrators: RunId = LATEST, config: ClassifyConfig = ClassifyConfig(), force: bool = False) -> str:
    """Decide the test triples with the calibrators of a calibrate run.

    Args:
        calibrators: run id of the calibrate run, or of a pipeline; latest = the newest finished pipeline
        config: decisions
        force: run even where a finished run could be re-used
    """
    return shown(classify_triples(resolve("calibrate", calibrators), config, Context(force=force)))


@flow(name="rank", flow_run_name="rank by {model}")
def rank(model: RunId = LATEST, force: bool = False, device: Device = "auto") -> str:
    """Rank the test positives with the model of a train run.

    Args:
        model: run id of the train run, or of a pipeline; latest = the newest finished pipeline
        force: run even where a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    return shown(rank_triples(resolve("train", model), RankConfig(), Context(force=force, device=device)))


@flow(name="evaluate", flow_run_name="evaluate {predictions}")
def evaluate(
    predictions: RunId = LATEST, ranks: RunId = LATEST, config: EvaluateConfig = EvaluateConfig(), force: bool = False
) -> str:
    """Measure the predictions of a classify run, beside the ranks of a rank run.

    Args:
        predictions: run id of the classify run, or of a pipeline; latest = the newest finished pipeline
        ranks: run id of the rank run, or of a pipeline; latest = the newest finished pipeline
        config: how calibration is measured
        force: run even where a finished run could be re-used
    """
    upstream = (resolve("classify", predictions), resolve("rank", ranks))
    return shown(evaluate_predictions(*upstream, config, Context(force=force)))


@flow(name="report", flow_run_name="report {evaluation}")
def report(evaluation: RunId = LATEST, force: bool = False) -> str:
    """Write the report of an evaluate run.

    Args:
        evaluation: run id of the evaluate run, or of a pipeline; latest = the newest finished pipeline
        force: run even where a finished run could be re-used
    """
    return shown(write_report(resolve("evaluate", evaluation), ReportConfig(), Context(force=force)))


STAGE_FLOWS = (prepare, train, corrupt, score, calibrate, classify, rank, evaluate, report)
