"""What a calibration of scores made: the best calibrator, how good it is, and the answers to rows without labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgcore.report.scores import ScoresSummary


@dataclass(frozen=True, kw_only=True)
class AppliedScores:
    """The summary of the answers to a file of scores.

    rows      number of rows
    expected  expected number of true ones among them: the sum of their probabilities
    output    the file with the answers
    examples  the first rows, column -> value
    """

    rows: int
    expected: float
    output: str
    examples: Sequence[Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class ScoresResult:
    """The result of `calibrate-scores`.

    scorer      name of the scorer
    model       URI of the calibrator that answers: the one with the best Brier score, or the one that the user named
    label       its label, such as `ground_truth.beta`
    base_rate   its base rate
    base_rate_text
                the base rate and where it comes from: `0.494, estimated`
    summary     how good the calibrators are; None if none was fitted
    applied     the answers; None if there was nothing to answer
    report      path of the report; '' without a fit
    promotion   whether the calibrator became the champion, and why, in a sentence; '' if nobody asked
    run         id of the MLflow run
    """

    scorer: str
    model: str
    label: str
    base_rate: float
    base_rate_text: str
    summary: ScoresSummary | None
    applied: AppliedScores | None
    report: str = ""
    promotion: str = ""
    run: str
