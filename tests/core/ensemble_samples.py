"""Members, labels and score tables shared by the tests of ensembles."""

import numpy as np

from kgcore.base_rate import BaseRate
from kgcore.calibrate.calibrated import Calibrated
from kgcore.config import CalibrateConfig, CorruptConfig, EnsembleConfig
from kgcore.scores.table import CORRUPTION, LABELLED, ScoreTable
from kgcore.wings.ensembles.fit import fit_ensembles


def member_tables(
    evidence: np.ndarray, labels: np.ndarray, seed: int = 0, eta: int = 3
) -> tuple[list[ScoreTable], np.ndarray]:
    """Return the score tables of m members, and the positive that each corruption was made from.

    The scores are the evidence (n, m) on labelled triples; the first half of these triples is valid, the second test.
    Each validation positive has `eta` corruptions, which are scored like negatives.
    """
    rng, (n, m) = np.random.default_rng(seed), evidence.shape
    half = n // 2
    positives = int(labels[:half].sum())
    source = np.repeat(np.arange(positives), eta)
    negatives = evidence[:half][labels[:half] == 0]
    corrupted = negatives[rng.integers(0, len(negatives), len(source))]
    scores = np.concatenate([evidence, corrupted])
    split = np.r_[np.repeat("valid", half), np.repeat("test", n - half), np.repeat("valid", len(source))]
    origin = np.r_[np.repeat(LABELLED, n), np.repeat(CORRUPTION, len(source))]
    triples = np.arange(3 * len(scores)).reshape(-1, 3)
    triples[:, 1] = 0
    every = np.r_[labels, np.zeros(len(source))]
    return [ScoreTable(triples, every, scores[:, j], split, origin, f"model {j}", "graph") for j in range(m)], source


def independent_members(n: int = 6000, m: int = 3, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return the evidence (n, m) of members with independent errors, and the labels (n,)."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.5).astype(float)
    return (2 * labels - 1)[:, None] + 1.5 * rng.normal(size=(n, m)), labels


def fit_pools(
    made: list[ScoreTable],
    source: np.ndarray,
    base_rate: float = 0.5,
    limits: tuple[float, float] | None = None,
    **config,
) -> list[Calibrated]:
    """Fit ensembles to these tables, with folds from seed 0."""
    calibrate = CalibrateConfig().at(BaseRate(base_rate, *(limits or (None, None))))
    return fit_ensembles(made, source, CorruptConfig(), calibrate, EnsembleConfig(**config), np.random.default_rng(0))
