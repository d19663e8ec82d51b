"""The result of an audit, and the sentences that describe it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kgcore.metrics.bootstrap import Estimate
from kgcore.metrics.reliability import wilson

ESTIMATED, LABELLED, STATED = "estimated", "labelled", "stated"  # where a share of wrong facts comes from
FIRST = tuple(digit * 10**power for power in range(1, 8) for digit in (1, 3))  # lengths of the first part of the list
MOST_EXAMPLES = 20  # facts that a result keeps for the terminal and the Prefect UI


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    dataset     name of the data set
    facts       number of its training facts
    share       share of wrong facts that the probabilities assume, with its 95 % interval
    origin      where it comes from: ESTIMATED from the planted errors, LABELLED or STATED
    labels      number of labels that it comes from
    simple      width of the interval from as many labels of a simple random sample, for the same share (Wilson, 1927)
    expected    N -> expected number of wrong facts among the first N of the list
    examples    the first facts of the list, one dictionary per row: column -> value
    sampled     number of facts that were drawn to be labelled
    output      the file that was written; '': none
    run         id of the MLflow run
    """

    dataset: str
    facts: int
    share: Estimate
    origin: str
    labels: int
    simple: float
    expected: Mapping[int, float]
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
                f"About {percent} of the facts look like errors, and at most {100 * share.high:.2f} % (with 95 % "
                "confidence), if errors look like the planted ones. Labels show how many are wrong (--sample, then "
                "--labels)."
            ]
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
        found = {"facts": self.facts, "labels": self.labels, "sampled": self.sampled}
        share = {"error_rate": self.share.value, "error_rate.low": self.share.low, "error_rate.high": self.share.high}
        expected = {f"expected_wrong.first_{first}": wrong for first, wrong in self.expected.items()}
        return {name: float(value) for name, value in (found | share | expected).items()}


def audit_result(
    dataset: str, facts: int, share: Estimate, origin: str, labels: int, listed: pa.Table | None
) -> AuditResult:
    """Return the result of an audit, with the counts of its list.

    listed  the table of `AuditedFacts.table`; None: only labels were evaluated

    The other parameters are the fields of `AuditResult`.
    """
    simple = 0.0
    if labels:
        low, high = wilson(np.array([share.value]), np.array([float(labels)]))
        simple = float(high[0] - low[0])
    if listed is None:
        return AuditResult(dataset, facts, share, origin, labels, simple, {}, ())
    wrong = listed["expected_wrong"].to_numpy()
    expected = {first: float(wrong[first - 1]) for first in FIRST if first <= facts}
    examples = listed.slice(0, MOST_EXAMPLES).to_pylist()
    return AuditResult(dataset, facts, share, origin, labels, simple, expected, examples)
