"""What every question to a calibrated model has in common: who answers and how, and who answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from kgcore.calibrated import CalibratedModel
from kgcore.prediction.sink import check_ending
from tasks.jobs.calibrated_model import Ask, FoundModel, find_calibrated_model
from tasks.workspace.resources import find_device

MOST_EXAMPLES = 20  # rows that a summary keeps for the terminal and the Prefect UI


@dataclass(frozen=True)
class Request:
    """Who answers a question, and how.

    ask        which model answers
    output     file for the answer; '': no file
    base_rate  share of true triples that the probabilities assume, in (0, 1); None: the calibrator's
    device     auto, cpu, cuda or cuda:N
    """

    ask: Ask = Ask()
    output: str = ""
    base_rate: float | None = None
    device: str = "auto"

    def check_table(self) -> None:
        """Raise InputError if the output is no .parquet, .csv or .tsv file."""
        if self.output:
            check_ending(Path(self.output))


class Who(TypedDict):
    """The fields of `Answered` that are known before the answer."""

    dataset: str
    model: str
    calibrator: str
    base_rate: float | None
    base_rate_text: str
    output: str


@dataclass(frozen=True)
class Answering:
    """The model that answers a request.

    found   the model, as it is stored
    model   the model on the device and at the base rate of the request
    output  file for the answer; '': no file
    device  auto, cpu, cuda or cuda:N
    stated  whether the base rate of the question is known; if not, there are no probabilities
    """

    found: FoundModel
    model: CalibratedModel
    output: str
    device: str = "auto"
    stated: bool = True

    @property
    def params(self) -> dict[str, object]:
        """Return who answers, as parameters of an MLflow run."""
        return {name: value for name, value in self.answered.items() if name != "dataset"}

    @property
    def answered(self) -> Who:
        """Return the fields of `Answered`, without the run."""
        return {
            "dataset": self.found.dataset,
            "model": self.found.uri,
            "calibrator": self.model.label,
            "base_rate": self.model.calibrator.base_rate if self.stated else None,
            "base_rate_text": str(self.model.calibrator.rate) if self.stated else "not stated",
            "output": self.output,
        }


def answering(request: Request) -> Answering:
    """Find the model of a request. Raises InputError if there is no such model, base rate or device."""
    found = find_calibrated_model(request.ask)
    model = found.model if request.base_rate is None else found.model.at(request.base_rate)
    trained = model.trained.to(find_device(request.device))
    return Answering(found, replace(model, trained=trained), request.output, request.device)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Who answered a question.

    dataset     name of the data set of the model
    model       URI of the calibrator or the ensemble
    calibrator  its label, such as `synthetic.isotonic`
    base_rate   share of true triples that the probabilities assume; None: there are no probabilities
    base_rate_text
                the base rate and where it comes from: `0.494, estimated`
    output      the file with the answer; '' if none was written
    run         id of the MLflow run
    """

    dataset: str
    model: str
    calibrator: str
    base_rate: float | None
    base_rate_text: str
    output: str
    run: str

    @property
    def model_text(self) -> str:
        """Return the model and the base rate as a line."""
        return f"model: {self.model} ({self.calibrator}), base rate {self.base_rate_text}"


@dataclass(frozen=True, kw_only=True)
class AnsweredTable(Answered):
    """The summary of a table of triples with their answers.

    rows      number of triples
    expected  expected number of true ones among them: the sum of their probabilities; None: it is not known
    interval  95 % interval of their number; None: it is not known
    examples  the first triples, one dictionary per row: column -> value
    """

    rows: int
    expected: float | None
    interval: tuple[float, float] | None
    examples: Sequence[Mapping[str, object]]

    @property
    def expected_text(self) -> str:
        """Return the expected number with its interval, in words; '' if it is not known."""
        if self.expected is None:
            return ""
        low, high = self.interval or (None, None)
        interval = "" if low is None else f" (95 % interval: {low:,.0f} to {high:,.0f})"
        return f"{self.expected:,.1f} expected to be true{interval}"


def triple_text(row: Mapping[str, Any]) -> str:
    """Return the triple of a row as text."""
    return f"{row['subject']} {row['predicate']} {row['object']}"


def probability_texts(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the probability of a row and its interval as texts; '' for what it does not have."""
    interval = "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"
    return "" if row["probability"] is None else f"{row['probability']:.4f}", interval
