"""The question that predicts candidate triples with a calibrated model."""

from flows.job import Argument, publish, question
from flows.parameters import THREADS, Device, Runner
from kgcore.config import PairsConfig, PredictConfig
from kgcore.errors import InputError
from kgcore.measure.report.result import Result


@question(shown={"candidates": Argument("[FILE | SUBJECT PREDICATE OBJECT]")})
def predict(
    candidates: list[str] = [],  # noqa: B006 (never changed; Prefect shows it in the form)
    output: str = "",
    subjects: str = "",
    predicate: str = "",
    objects: str = "",
    dataset: str = "",
    model: str = "",
    calibrator: str = "",
    base_rate: float | str | None = None,
    runner: Runner = THREADS,
    device: Device = "auto",
    config: PredictConfig = PredictConfig(),
    pairs: PairsConfig = PairsConfig(),
) -> Result:
    """Give candidate triples a score, a probability with an interval, and a decision.

    The candidates are those of a file, one triple, or with --predicate all pairs of subjects and objects. Without
    --model the champion of the data set answers. Without a champion, the newest finished run answers.

    An entity that training has not seen gets a probability from its name, with a wider interval, if the model can: the
    column `unseen` marks the row. --fdr does not test such rows.

    Args:
        candidates: file of triples, in any format, or one triple: subject, predicate, object
        output: file for the answers (.parquet, .csv or .tsv); if empty, none is written
        subjects: with --predicate: file with one subject per line; if empty, all entities
        predicate: predict all pairs of subjects and objects with this predicate, instead of candidates
        objects: with --predicate: file with one object per line; if empty, all entities
        dataset: data set whose champion answers; if empty, the data set of the newest run
        model: run id, latest, or model URI that answers instead of the champion
        calibrator: label of one of the calibrators of a run, such as synthetic.beta
        base_rate: share of true triples among the candidates, or an interval LOW:HIGH of it; if empty, that of the
            calibrator
        runner: with --top or --above: where pairs are scored (threads, dask, or dask://HOST:PORT)
        device: auto, cpu, cuda or cuda:N
        config: the decisions
        pairs: the selection among pairs
    """
    from tasks.jobs.find_model import Ask
    from tasks.jobs.request import Request, Stated, answered

    request = Request(Ask(model, dataset, calibrator), output, base_rate, device)
    alone = not subjects and not objects and runner == THREADS and pairs == PairsConfig(completeness=pairs.completeness)
    _check(candidates, predicate, pairs, alone)

    def answer() -> Result:
        from tasks.jobs.predict import predict_candidates, predict_pairs  # loads scikit-learn and torch

        if predicate:
            return predict_pairs((subjects, predicate, objects), request, config, pairs, runner)
        return predict_candidates(candidates, request, config, pairs.completeness)

    if len(candidates) != 3:  # in files
        return publish(answer())
    stated = Stated(pairs.completeness, base_rate)
    return publish(answered("predict", request, stated, [candidates, config.as_dict()], answer))


def _check(candidates: list[str], predicate: str, pairs: PairsConfig, alone: bool) -> None:
    """Raise InputError for options that exclude each other. alone: no option for pairs is given but `predicate`."""
    if predicate and candidates:
        raise InputError(f"candidates and --predicate {predicate} are given: give candidates or --predicate")
    if not predicate and not alone:
        raise InputError("subjects, objects, top, per, above, known_facts, runner are for pairs: give --predicate, too")
    if pairs.per != "all" and not pairs.top:
        raise InputError(f"per is {pairs.per}, and top is not given: give --top, or leave out --per")
