"""The run of a prediction: it writes answers to a file, counts them, and logs what was asked and what came out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.config import PredictConfig
from kgcore.prediction.answers import Answers
from kgcore.prediction.few_false import P_VALUE, SELECTED
from kgcore.prediction.sink import check_ending, sink
from tasks.jobs.calibrated_model import Ask, FoundModel, find_calibrated_model
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.resources import find_device

MOST_EXAMPLES = 20  # answers that a summary keeps for the terminal and the Prefect UI


@dataclass(frozen=True)
class Request:
    """Who answers a prediction, and how.

    ask        which model answers
    output     .parquet, .csv or .tsv file for the answers; '': no file
    base_rate  share of true triples that the probabilities assume, in (0, 1); None: the calibrator's
    device     auto, cpu, cuda or cuda:N
    config     the decisions
    """

    ask: Ask = Ask()
    output: str = ""
    base_rate: float | None = None
    device: str = "auto"
    config: PredictConfig = PredictConfig()


@dataclass(frozen=True)
class Prediction:
    """The summary of a prediction.

    dataset     name of the data set of the model
    model       URI of the calibrator
    calibrator  its label, such as `synthetic.isotonic`
    base_rate   share of true triples that the probabilities assume
    threshold   a triple with a probability above it counts as true
    rows        number of candidates
    answered    number of candidates with a probability
    accepted    number of candidates that count as true
    known       number of candidates that are known facts
    selected    number of selected candidates: at most the share `fdr` of them is false, in expectation
    tested      number of candidates among which they were selected; 0: nothing was selected
    fdr         level of the selection; 0: none
    expected    expected number of true triples among the answered ones: the sum of their probabilities
    reasons     why candidates have no answer -> their number
    output      the file with the answers; '' if none was written
    examples    the first answers, one dictionary per row: column -> value
    run         id of the MLflow run
    """

    dataset: str
    model: str
    calibrator: str
    base_rate: float
    threshold: float
    rows: int
    answered: int
    accepted: int
    known: int
    selected: int
    tested: int
    fdr: float
    expected: float
    reasons: Mapping[str, int]
    output: str
    examples: Sequence[Mapping[str, object]]
    run: str


@dataclass(frozen=True)
class Answering:
    """The model that answers a request.

    found    the model, as it is stored
    answers  the model on its device and at the base rate of the request, with the decisions
    """

    found: FoundModel
    answers: Answers


def answering(request: Request) -> Answering:
    """Find the model of a request.

    Raises InputError if there is no such model, if the base rate or the device does not exist, or if the ending of the
    output file is unknown.
    """
    if request.output:
        check_ending(Path(request.output))
    found, config = find_calibrated_model(request.ask), request.config
    model = found.model if request.base_rate is None else found.model.at(request.base_rate)
    model = replace(model, trained=model.trained.to(find_device(request.device)))
    return Answering(found, Answers(model, config.decides_at, config.at_least))


def run_prediction(
    request: Request, by: Answering, asked: Mapping[str, object], tables: Iterator[pa.Table]
) -> Prediction:
    """Write the answers to the output file, and log the prediction as an MLflow run of stage `predict`.

    asked   the question, as parameters of the run
    tables  the answers, block by block

    Raises InputError if the output file cannot be written. If an error ends the answers, no output file is left behind.
    """
    store, found, config = open_store(), by.found, request.config
    with (
        _output(request.output) as write,
        store.open_run(f"predict {found.dataset}", RunTags(stage="predict", dataset=found.dataset)) as run_id,
    ):
        base_rate = by.answers.model.calibrator.base_rate
        model = {"model": found.uri, "calibrator": found.label, "base_rate": base_rate, "output": request.output}
        store.log_params(run_id, {**asdict(config), **model, "threshold": config.decides_at, **asked})
        tally = _Tally()
        for table in tables:
            write(table)
            tally.add(table)
        summary = tally.summary(by, request, run_id)
        store.log_metrics(run_id, _metrics(summary), model_id=found.model_id)
        store.log_json(run_id, asdict(summary), "prediction.json")
    return summary


@contextmanager
def _output(output: str) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that writes a table to the output file, or does nothing if there is no file."""
    if not output:
        yield lambda table: None
        return
    with sink(Path(output)) as write:
        yield write


class _Tally:
    """Counts answers, block by block."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.expected = 0.0
        self.examples: list[dict[str, object]] = []

    def add(self, table: pa.Table) -> None:
        """Count the answers of a table."""
        self.counts["rows"] += len(table)
        self.counts["answered"] += len(table) - table["probability"].null_count
        for name, column in (("accepted", "decision"), ("known", "known"), ("selected", SELECTED)):
            if column in table.column_names:
                self.counts[name] += pc.sum(table[column]).as_py() or 0
        if P_VALUE in table.column_names:
            self.counts["tested"] += len(table) - table[P_VALUE].null_count
        self.expected += float(np.nansum(table["probability"].to_numpy()))
        for entry in pc.value_counts(table["reason"].drop_null()).to_pylist():
            self.reasons[entry["values"]] += entry["counts"]
        if len(self.examples) < MOST_EXAMPLES:
            self.examples += table.slice(0, MOST_EXAMPLES - len(self.examples)).to_pylist()

    def summary(self, by: Answering, request: Request, run: str) -> Prediction:
        """Return the summary of all tables."""
        found, answers = by.found, by.answers
        return Prediction(
            dataset=found.dataset,
            model=found.uri,
            calibrator=found.label,
            base_rate=answers.model.calibrator.base_rate,
            threshold=answers.threshold,
            rows=self.counts["rows"],
            answered=self.counts["answered"],
            accepted=self.counts["accepted"],
            known=self.counts["known"],
            selected=self.counts["selected"],
            tested=self.counts["tested"],
            fdr=request.config.fdr,
            expected=self.expected,
            reasons=dict(self.reasons),
            output=request.output,
            examples=self.examples,
            run=run,
        )


def _metrics(summary: Prediction) -> dict[str, float]:
    names = ("rows", "answered", "accepted", "known", "expected", *(("selected", "tested") if summary.fdr else ()))
    counts = {name: float(getattr(summary, name)) for name in names}
    return counts | {f"no_answer.{reason.replace(' ', '_')}": float(n) for reason, n in summary.reasons.items()}
