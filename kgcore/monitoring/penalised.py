"""Logistic regression on grouped rows, with a normal prior on the coefficients."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from kgcore.arrays import Floats, Ints
from kgcore.newton import Matrix, minimise


@dataclass(frozen=True)
class Rows:
    """Grouped rows. Each row stands for `count` triples; `positives` of them are true.

    design     (n, m) the columns of the model
    offset     (n,) known part of the log-odds
    count      (n,) number of triples, above 0
    positives  (n,) number of true triples among them
    """

    design: Matrix
    offset: Floats
    count: Floats
    positives: Floats


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    columns     (k,) the columns of the design that the model uses
    values      (k,) their coefficients
    covariance  (k, k) of the coefficients: the inverse of the Hessian
    loss        penalised negative log-likelihood
    """

    columns: Ints
    values: Floats
    covariance: Matrix
    loss: float


def fit(rows: Rows, columns: Ints, precision: Floats) -> Fit:
    """Minimise sum_i [n_i log(1 + exp(z_i)) - s_i z_i] + sum_j precision_j b_j^2 / 2, z = design b + offset.

    columns    (k,) the columns of the design to use
    precision  (m,) 1 / variance of the prior of each column of the design, above 0

    Raises FitError if the fit does not converge.
    """
    design, prior, scale = rows.design[:, columns], precision[columns], float(rows.count.sum())

    def loss(b: Floats) -> float:
        z = design @ b + rows.offset
        return float(rows.count @ np.logaddexp(0, z) - rows.positives @ z + prior @ b**2 / 2) / scale

    def derivatives(b: Floats) -> tuple[Floats, Matrix]:
        q = expit(design @ b + rows.offset)
        gradient = design.T @ (rows.count * q - rows.positives) + prior * b
        hessian = design.T @ (design * (rows.count * q * (1 - q))[:, None]) + np.diag(prior)
        return gradient / scale, hessian / scale

    free = np.zeros(len(columns), dtype=bool)
    values = minimise("the test of drift", loss, derivatives, np.zeros(len(columns)), free)
    covariance: Matrix = np.linalg.inv(derivatives(values)[1] * scale).astype(np.float64)
    return Fit(columns, values, covariance, loss(values) * scale)
