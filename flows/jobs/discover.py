"""The question that discovers missing facts with a calibrated model."""

from flows.job import publish, question
from flows.parameters import THREADS, Device, Runner
from kgcore.config import DiscoverConfig
from kgcore.measure.report.result import Result


@question(run_name="discover {subject} {predicate} {object}")
def discover(
    subject: str = "",
    predicate: str = "",
    object: str = "",  # noqa: A002 (the name of the option)
    output: str = "",
    dataset: str = "",
    model: str = "",
    calibrator: str = "",
    base_rate: float | str | None = None,
    runner: Runner = THREADS,
    device: Device = "auto",
    config: DiscoverConfig = DiscoverConfig(),
) -> Result:
    """List the most probable missing facts. Known facts are left out.

    Give a subject and a predicate, a predicate and an object, one of them, or nothing for the whole graph. With --fdr,
    at most that share of the list is false, in expectation. With --coverage, the list is an answer set that contains
    the true answer of a query with that probability; without a subject and an object, the answer sets of each predicate
    are measured on the test split. Without --model the champion of the data set answers. Without a
    champion, the newest finished run answers.

    Args:
        subject: subject of the missing facts; if empty, any
        predicate: predicate of the missing facts; if empty, any
        object: object of the missing facts; if empty, any
        output: file for the list (.parquet, .csv or .tsv); if empty, none is written
        dataset: data set whose champion answers; if empty, the data set of the newest run
        model: run id, latest, or model URI that answers instead of the champion
        calibrator: label of one of the calibrators of a run, such as synthetic.beta
        base_rate: share of true ones among the missing facts, or an interval LOW:HIGH of it; if empty, not stated
        runner: where the parts of the list are made (threads, dask, or dask://HOST:PORT)
        device: auto, cpu, cuda or cuda:N
        config: the list
    """
    from tasks.jobs.find_model import Ask
    from tasks.jobs.request import Request, Stated, answered

    request, names = Request(Ask(model, dataset, calibrator), output, device=device), (subject, predicate, object)
    stated = Stated(config.completeness, base_rate)

    def answer() -> Result:
        from tasks.jobs.discover import discover_facts  # loads scikit-learn and torch

        return discover_facts(names, stated, request, config, runner)

    return publish(answered("discover", request, stated, [names, config.as_dict()], answer))
