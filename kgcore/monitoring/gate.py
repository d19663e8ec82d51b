"""The gate: it tests whether a challenger may replace the champion."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, Weights, same_length
from kgcore.config import GateConfig
from kgcore.metrics.bootstrap import Estimate, bootstrap
from kgcore.metrics.proper import brier
from kgcore.metrics.reliability import ece


@dataclass(frozen=True)
class Verdict:
    """The comparison of a challenger and the champion on the same triples.

    brier    Brier score of the champion minus that of the challenger. If it is above 0, the challenger is better.
    ece      calibration error of the challenger minus that of the champion. If it is above 0, the challenger is worse.
             None if there is no champion.
    triples  number of triples
    """

    brier: Estimate
    ece: Estimate | None
    triples: int

    @property
    def better(self) -> bool:
        """Return whether the challenger's Brier score is significantly lower: the interval of `brier` is above 0."""
        return self.brier.low > 0

    @property
    def worse_calibrated(self) -> bool:
        """Return whether its calibration error is significantly higher: the interval of `ece` is above 0."""
        return self.ece is not None and self.ece.low > 0

    @property
    def passed(self) -> bool:
        """Return whether the challenger may become the champion: it is better and not worse calibrated."""
        return self.better and not self.worse_calibrated

    def reason(self) -> str:
        """Return the comparison as a clause: `on 2,000 triples its Brier score is significantly lower (...)`."""
        better, worse = "" if self.better else "not ", "" if self.worse_calibrated else "not "
        text = f"on {self.triples:,} triples its Brier score is {better}significantly lower (gain {self.brier})"
        if self.ece is None:
            return text
        return f"{text} and its calibration error is {worse}significantly higher (increase {self.ece})"


def gate(
    challenger: Probabilities,
    champion: Probabilities | None,
    labels: Labels,
    weights: Weights,
    config: GateConfig,
    candidates: int = 1,
) -> Verdict:
    """Compare two calibrated models on the same n triples.

    challenger  (n,) probabilities in [0, 1]
    champion    (n,) probabilities in [0, 1]. If None, there is no champion, and the challenger is compared with a
                constant probability, the share of positives. Then only Brier scores are compared, because this
                constant has a calibration error of 0 without being useful
    labels      (n,) 0/1
    weights     (n,) positive
    candidates  number of models among which the challenger is the best. The interval of the Brier difference has the
                level 1 - (1 - level) / candidates (Bonferroni). So a model that is the best only by chance is unlikely
                to pass

    Both intervals come from a paired bootstrap over triples. Raises InputError for arrays of different lengths and for
    values out of range.
    """
    q, y, w = challenger, labels, weights
    r = np.full(len(q), np.average(y, weights=w)) if champion is None else champion
    rng, n = np.random.default_rng(config.gate_seed), same_length(challenger=q, champion=r, labels=y, weights=w)
    strict = 1 - (1 - config.level) / candidates

    def gain(i: Ints) -> float:
        return brier(r[i], y[i], w[i]) - brier(q[i], y[i], w[i])

    def loss(i: Ints) -> float:
        return ece(q[i], y[i], w[i]) - ece(r[i], y[i], w[i])

    better = bootstrap(gain, n, rng, strict, config.replicates)
    worse = None if champion is None else bootstrap(loss, n, rng, config.level, config.replicates)
    return Verdict(better, worse, n)
