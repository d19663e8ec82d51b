"""The question that explains the probability of a triple."""

from flows.job import Argument, publish, question
from flows.parameters import Device
from kgcore.config import ExplainConfig
from kgcore.measure.report.result import Result


@question(shown={"triple": Argument("SUBJECT PREDICATE OBJECT")}, run_name="explain {triple}")
def explain(
    triple: list[str],
    output: str = "",
    dataset: str = "",
    model: str = "",
    calibrator: str = "",
    base_rate: float | str | None = None,
    device: Device = "auto",
    config: ExplainConfig = ExplainConfig(),
) -> Result:
    """Explain the probability of a triple by calibration data, other base rates, alternatives and near known facts.

    For an entity that training has not seen, the explanation says what its name adds, if the model has answers for it.

    Without --model the champion of the data set answers. Without a champion, the newest finished run answers.

    Args:
        triple: subject, predicate, object
        output: file for the explanation, a page with a picture (.html) or data (.json); if empty, none is written
        dataset: data set whose champion answers; if empty, the data set of the newest run
        model: run id, latest, or model URI that answers instead of the champion
        calibrator: label of one of the calibrators of a run, such as synthetic.beta
        base_rate: share of true triples that the probabilities assume, or an interval LOW:HIGH of it; if empty, that
            of the calibrator
        device: auto, cpu, cuda or cuda:N
        config: how much the explanation shows
    """
    from tasks.jobs.explain import explain_triple
    from tasks.jobs.find_model import Ask
    from tasks.jobs.request import Request

    request = Request(Ask(model, dataset, calibrator), output, base_rate, device)
    return publish(explain_triple(triple, request, config))
