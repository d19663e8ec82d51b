"""The result of an audit, and the sentences that describe it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kgcore.audit.sample import wilson
from kgcore.audit.share import Share

ESTIMATED, LABELLED, STATED = "estimated", "labelled", "stated"  # where a share of wrong facts comes from
FIRST = tuple(digit * 10**power for power in range(1, 8) for digit in (1, 3))  # lengths of the first part of the list
MOST_EXAMPLES = 20  # facts that a result keeps for the terminal and the Prefect UI


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    dataset     name of the data set
    facts       number of its training facts
    calibrator  label of the calibrators of the folds; '' if only labels were evaluated
    share       share of wrong facts that the probabilities assume, with its 95 % interval
    origin      where it comes from: ESTIMATED from the probabilities, LABELLED or STATED
    labels      number of labels that it comes from
    simple      width of the interval from as many labels of a simple random sample, for the same share (Wilson, 1927)
    answered    number of facts with a probability
    expected    N -> expected number of wrong facts among the first N of the list
    reasons     why facts have no answer -> their number
    examples    the first facts of the list, one dictionary per row: column -> value
    sampled     number of facts that were drawn to be labelled
    output      the file that was written; '': none
    run         id of the MLflow run
    """

    dataset: str
    facts: int
    calibrator: str
    share: Share
    origin: str
    labels: int
    simple: float
    answered: int
    expected: Mapping[int, float]
    reasons: Mapping[str, int]
    examples: Sequence[Mapping[str, object]]
    sampled: int = 0
    output: str = ""
    run: str = ""

    def sentences(self) -> list[str]:
        """Return what the audit found, one sentence each."""
        share, percent = self.share, f"{100 * self.share.value:.2f} %"
        interval = f"95 % interval {100 * share.low:.2f} to {100 * share.high:.2f} %"
        if self.origin == STATED:
            found = [f"{percent} of the facts are stated to be wrong."]
        elif self.origin == ESTIMATED:
            found = [
                f"{percent} of the facts are estimated to be wrong ({interval}), if validation has no wrong facts and "
                "wrong facts are like the negatives of calibration."
            ]
            if share.value == 0:
                found.append(
                    "The training facts score at least as well as the validation facts, so the estimate is of no use: "
                    "label facts (--sample, then --labels), or state --error-rate."
                )
        else:
            width = 100 * (share.high - share.low)
            found = [
                f"By {self.labels} labels, {percent} of the {self.facts:,} facts are wrong ({interval}; the width is "
                f"{width:.2f}, and {100 * self.simple:.2f} for a simple random sample)."
            ]
        found += [
            f"Of the first {first:,} facts, {wrong:,.1f} are expected to be wrong."
            for first, wrong in self.expected.items()
        ]
        return found

    def metrics(self) -> dict[str, float]:
        """Return the numbers that MLflow logs."""
        found = {"facts": self.facts, "answered": self.answered, "labels": self.labels, "sampled": self.sampled}
        share = {"error_rate": self.share.value, "error_rate.low": self.share.low, "error_rate.high": self.share.high}
        expected = {f"expected_wrong.first_{first}": wrong for first, wrong in self.expected.items()}
        without = {f"no_answer.{reason.replace(' ', '_')}": number for reason, number in self.reasons.items()}
        return {name: float(value) for name, value in (found | share | expected | without).items()}


def audit_result(
    dataset: str, facts: int, calibrator: str, share: Share, origin: str, labels: int, listed: pa.Table | None
) -> AuditResult:
    """Return the result of an audit, with the counts of its list.

    listed  the table of `AuditedFacts.table`; None: only labels were evaluated

    The other parameters are the fields of `AuditResult`.
    """
    simple = 0.0
    if labels:
        compared = wilson(share.value * labels, labels)
        simple = compared.high - compared.low
    if listed is None:
        return AuditResult(dataset, facts, calibrator, share, origin, labels, simple, 0, {}, {}, ())
    answered = len(listed) - listed["probability"].null_count
    wrong = listed["expected_wrong"].to_numpy()
    return AuditResult(
        dataset=dataset,
        facts=facts,
        calibrator=calibrator,
        share=share,
        origin=origin,
        labels=labels,
        simple=simple,
        answered=answered,
        expected={first: float(wrong[first - 1]) for first in FIRST if first <= answered},
        reasons={one["values"]: one["counts"] for one in pc.value_counts(listed["reason"].drop_null()).to_pylist()},
        examples=listed.slice(0, MOST_EXAMPLES).to_pylist(),
    )
