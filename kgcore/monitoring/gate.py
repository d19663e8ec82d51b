"""The gate between a challenger and the champion: when a calibrated model may take the place of another."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints, Labels, Probabilities, Weights, same_length
from kgcore.config import GateConfig
from kgcore.metrics.bootstrap import Estimate, bootstrap
from kgcore.metrics.proper import brier
from kgcore.metrics.reliability import ece


@dataclass(frozen=True)
class Verdict:
    """What the gate found on the triples that both have judged.

    brier      champion's Brier score minus the challenger's: above 0, the challenger is better
    ece        challenger's calibration error minus the champion's: above 0, the challenger is worse; None where there
               is no champion
    triples    how many they were
    """

    brier: Estimate
    ece: Estimate | None
    triples: int

    @property
    def better(self) -> bool:
        """Whether the challenger's Brier score is better beyond its interval."""
        return self.brier.low > 0

    @property
    def worse_calibrated(self) -> bool:
        """Whether the challenger's calibration error is worse beyond its interval."""
        return self.ece is not None and self.ece.low > 0

    @property
    def passed(self) -> bool:
        """Whether the challenger is to be the champion."""
        return self.better and not self.worse_calibrated

    def reason(self) -> str:
        """A sentence for people."""
        better = "better" if self.better else "not better"
        said = f"on {self.triples:,} triples its Brier score is {better} beyond the interval (lower by {self.brier})"
        if self.ece is None:
            return said
        return f"{said}, its calibration error {'' if self.worse_calibrated else 'not '}worse (higher by {self.ece})"


def gate(
    challenger: Probabilities,
    champion: Probabilities | None,
    labels: Labels,
    weights: Weights,
    config: GateConfig,
    candidates: int = 1,
) -> Verdict:
    """Compare two calibrated models on the same triples, arrays (n,).

    champion    None where there is none: the share of positives then stands for it in the Brier score, and calibration
                is not compared, as a constant's error is 0 and worth nothing
    candidates  how many models the challenger is the best of: the interval of the Brier difference has the level
                1 - (1 - level) / candidates (Bonferroni), so that the best of many is not taken for better by luck

    Both intervals are paired bootstraps over triples. Raises InputError for values out of range.
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
