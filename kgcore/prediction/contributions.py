"""What each piece of evidence adds to the log-odds of a triple's probability."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from kgcore.arrays import Ints, Triples
from kgcore.calibrated import CalibratedModel
from kgcore.combiners.combined import Combined
from kgcore.combiners.scorer import CombinedModel
from kgcore.evidence.table import Evidence

CONSTANT, PREDICATE, CALIBRATION = "constant", "predicate", "calibration"


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to the log-odds of a probability.

    feature   name of the feature; or constant: what all triples have in common; predicate: the predicate itself;
              calibration: what the calibrator of the log-odds adds
    value     value of the feature; None: it has none, or it is not known for this triple
    log_odds  its exact contribution (Shapley value, see kgcore/combiners)
    """

    feature: str
    value: float | None
    log_odds: float


def contributions_of(model: CalibratedModel, triple: Triples, probability: float) -> tuple[Contribution, ...]:
    """Divide the log-odds of a probability among the features. Their sum is logit(probability).

    model        a calibrated model; if its calibrator sees the score alone, there are no contributions
    triple       (1, 3)
    probability  of the triple, in (0, 1)

    The constant comes first, then the features with the greatest contribution first, then the calibration.
    """
    scorer = model.trained
    if not isinstance(scorer, CombinedModel):
        return ()
    return divided(scorer.combined, scorer.evidence(triple), triple[:, 1], probability)


def divided(combined: Combined, evidence: Evidence, predicate: Ints, probability: float) -> tuple[Contribution, ...]:
    """Divide the log-odds of a probability in (0, 1) among the evidence of its triple: see `contributions_of`.

    evidence, predicate  one row
    """
    constant, [parts] = combined.contributions(evidence, predicate)
    values = [*evidence.values[0].tolist(), np.nan]
    rows = [
        Contribution(name, None if np.isnan(value) else value, part)
        for name, value, part in zip((*evidence.names, PREDICATE), values, parts.tolist(), strict=True)
    ]
    rows.sort(key=lambda row: -abs(row.log_odds))
    rest = float(logit(probability)) - constant - float(parts.sum())
    return (Contribution(CONSTANT, None, constant), *rows, Contribution(CALIBRATION, None, rest))
