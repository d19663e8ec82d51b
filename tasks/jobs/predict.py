"""Predicts candidate triples with a calibrated model, and logs what was asked and what came out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.config import PredictConfig
from kgcore.errors import InputError
from kgcore.prediction.answers import Answers, table_of
from kgcore.prediction.candidates import COLUMNS, Block, check_readable, read_candidates
from kgcore.prediction.sink import check_ending, sink
from tasks.jobs.calibrated_model import Ask, FoundModel, find_calibrated_model
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device

MOST_EXAMPLES = 20  # answers that a summary keeps for the terminal and the Prefect UI


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
    expected: float
    reasons: Mapping[str, int]
    output: str
    examples: Sequence[Mapping[str, object]]
    run: str


def predict_candidates(
    candidates: Sequence[str], output: str, ask: Ask, base_rate: float | None, device: str, config: PredictConfig
) -> Prediction:
    """Answer the triples of a file, or one triple.

    candidates  a file (see `read_candidates`), or subject, predicate and object
    output      .parquet, .csv or .tsv file for the answers; '': no file
    ask         which model answers
    base_rate   share of true triples that the probabilities assume, in (0, 1); None: the calibrator's
    device      auto, cpu, cuda or cuda:N

    Raises InputError if there is no such model, if a file cannot be read or written, or if the base rate is out of
    range. Then no output file is left behind.
    """
    blocks = _blocks(candidates)
    if output:
        check_ending(Path(output))
    found = find_calibrated_model(ask)
    with _output(output) as write:
        calibrator = found.model.calibrator if base_rate is None else found.model.calibrator.at(base_rate)
        trained = found.model.trained.to(find_device(device))
        model = replace(found.model, trained=trained, calibrator=calibrator)
        answers = Answers(model, config.decides_at, config.at_least)
        store = open_store()
        with store.open_run(f"predict {found.dataset}", RunTags(stage="predict", dataset=found.dataset)) as run_id:
            asked = {
                "model": found.uri,
                "calibrator": found.label,
                "base_rate": calibrator.base_rate,
                "candidates": Path(candidates[0]).name if len(candidates) == 1 else " ".join(candidates),
                "output": output,
            }
            store.log_params(run_id, asdict(config) | asked | {"threshold": config.decides_at})
            tally = _Tally()
            for table in _answered(answers, blocks):
                write(table)
                tally.add(table)
            summary = tally.summary(found, answers, output, run_id)
            store.log_metrics(run_id, _metrics(summary), model_id=found.model_id)
            store.log_json(run_id, asdict(summary), "prediction.json")
    return summary


def _blocks(candidates: Sequence[str]) -> Iterator[Block]:
    if len(candidates) == 1:
        check_readable(Path(candidates[0]))
        return read_candidates(Path(candidates[0]))
    if len(candidates) == len(COLUMNS):
        return iter([Block(table_of([candidates]), 1.0)])
    raise InputError(f"{len(candidates)} candidates are given: give a file, or a subject, a predicate and an object")


@contextmanager
def _output(output: str) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that writes a table to the output file, or does nothing if there is no file."""
    if not output:
        yield lambda table: None
        return
    with sink(Path(output)) as write:
        yield write


def _answered(answers: Answers, blocks: Iterator[Block]) -> Iterator[pa.Table]:
    """Answer block after block, with a progress bar in percent of the candidates."""
    with progress_bar("predict", 100) as move:
        rows = 0
        for block in blocks:
            table = answers.table(block.names)
            rows += len(table)
            yield table
            move(int(100 * block.done), f"{rows:,} triples")


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
        for name, column in (("accepted", "decision"), ("known", "known")):
            self.counts[name] += pc.sum(table[column]).as_py() or 0
        self.expected += float(np.nansum(table["probability"].to_numpy()))
        for entry in pc.value_counts(table["reason"].drop_null()).to_pylist():
            self.reasons[entry["values"]] += entry["counts"]
        if len(self.examples) < MOST_EXAMPLES:
            self.examples += table.slice(0, MOST_EXAMPLES - len(self.examples)).to_pylist()

    def summary(self, found: FoundModel, answers: Answers, output: str, run: str) -> Prediction:
        """Return the summary of all tables."""
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
            expected=self.expected,
            reasons=dict(self.reasons),
            output=output,
            examples=self.examples,
            run=run,
        )


def _metrics(summary: Prediction) -> dict[str, float]:
    counts = {name: float(getattr(summary, name)) for name in ("rows", "answered", "accepted", "known", "expected")}
    return counts | {f"no_answer.{reason.replace(' ', '_')}": float(n) for reason, n in summary.reasons.items()}
