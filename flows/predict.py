"""The Prefect flow that predicts candidate triples with a calibrated model."""

from flows.deployment.flow import flow
from flows.deployment.parameters import Device
from flows.deployment.publish import publish_prediction
from kgcore.config import PredictConfig
from tasks.jobs.calibrated_model import Ask
from tasks.jobs.predict import Prediction, predict_candidates


@flow(name="predict", flow_run_name="predict {candidates}")
def predict(
    candidates: list[str],
    output: str = "",
    dataset: str = "",
    model: str = "",
    calibrator: str = "",
    base_rate: float | None = None,
    device: Device = "auto",
    config: PredictConfig = PredictConfig(),
) -> Prediction:
    """Give candidate triples a score, a probability with an interval, and a decision.

    Without --model the champion of the data set answers or, if there is none, the newest finished run.

    Args:
        candidates: file of triples (.tsv, .txt, .csv or .parquet), or one triple: subject, predicate, object
        output: file for the answers (.parquet, .csv or .tsv); if empty, none is written
        dataset: data set whose champion answers; if empty, the data set of the newest run
        model: run id, latest, or model URI that answers instead of the champion
        calibrator: label of one of the calibrators of a run, such as synthetic.isotonic
        base_rate: share of true triples that the probabilities assume; if empty, the one of the calibrator
        device: auto, cpu, cuda or cuda:N
        config: the decisions
    """
    ask = Ask(model, dataset, calibrator)
    prediction = predict_candidates(candidates, output, ask, base_rate, device, config)
    publish_prediction(prediction)
    return prediction
