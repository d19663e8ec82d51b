"""The Prefect flow that estimates the base rate of candidates."""

from flows.flow import flow
from flows.job import Argument, job, publish
from flows.parameters import Device
from kgcore.config import BaseRateConfig
from kgcore.measure.report.result import Result
from tasks.jobs.base_rate import estimate_base_rate
from tasks.jobs.find_model import Ask
from tasks.jobs.request import Request


@job(shown={"candidates": Argument("FILE")}, kind="question")
@flow(name="base-rate", flow_run_name="base rate of {candidates}")
def base_rate(
    candidates: str,
    output: str = "",
    dataset: str = "",
    model: str = "",
    calibrator: str = "",
    device: Device = "auto",
    config: BaseRateConfig = BaseRateConfig(),
) -> Result:
    """Estimate which share of candidates is true, overall and by relation, with 95 % intervals.

    Candidates without labels are compared with the scores of validation positives and of corruptions. Labels of
    candidates that were drawn at random give an exact interval. A file may have both; then both count.

    Without --model the champion of the data set scores the candidates. Without a champion, the newest finished run
    does.

    Args:
        candidates: file of triples, in any format; a fourth column, or a column named label, has 1 (true)
            or -1 (false) for a random sample of them, and is empty for the others
        output: file for the estimates (.parquet, .csv, .tsv or .json); if empty, none is written
        dataset: data set whose champion scores; if empty, the data set of the newest run
        model: run id, latest, or model URI that scores instead of the champion; no ensemble
        calibrator: label of one of the calibrators of a run, which names the model
        device: auto, cpu, cuda or cuda:N
        config: what the candidates are compared with
    """
    request = Request(Ask(model, dataset, calibrator), output, device=device)
    return publish(estimate_base_rate(candidates, request, config))
