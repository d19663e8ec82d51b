"""Triples that a sample has not: the variance of a comparison of two models if the challenger is not better.

At a low base rate, the few negatives with a high probability decide which model is better, and often none of them is in
the sample. Then a variance that is computed from the sample is far too small. In a sample at a low natural base rate,
the same is true for the positives.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights

_LEAST = 1e-12


@dataclass(frozen=True)
class Unseen:
    """The triples that are expected if the challenger is not better.

    The variance of a sum of w_i f(x_i, y_i) over the triples is that of the two labels together,
    sum_i v_i0 f(x_i, 0)^2 + sum_i v_i1 f(x_i, 1)^2, less the squares of the means if the weights fix the base rate.

    masses  (2, n) the numbers v_i0 and v_i1
    own     (2,) sum of the squared weights of the triples with label 0 and with label 1
    fixed   whether the weights fix the base rate
    """

    masses: Floats
    own: Floats
    fixed: bool

    @classmethod
    def of(
        cls, challenger: Probabilities, champion: Probabilities, labels: Labels, weights: Weights, fixed: bool
    ) -> "Unseen":
        """Return the expected triples from the probabilities q and r, labels and weights, all (n,).

        Where the share of positives is p = (q + r) / 2, both models have the same expected squared error. Where it is
        on the champion's side of p, triples that count against the challenger are still more frequent.

        If the weights fix the base rate, positives and negatives are two samples. Positives with a high probability are
        in the sample even if negatives are not. A positive of weight w stands for negatives like it of weight
        w (1 - p) / p, and a negative for positives of weight w p / (1 - p). Times the mean weight of a triple of that
        label, sum w^2 / sum w, this is v. If the weights do not fix it, a triple has the label 1 with probability p, so
        v_i1 = w_i^2 p.
        """
        p = ((challenger + champion) / 2).clip(_LEAST, 1 - _LEAST)
        shares = np.stack([1 - p, p])
        has = np.stack([labels == 0, labels == 1])
        own = (has * weights**2).sum(axis=1)
        if not fixed:
            return cls(weights**2 * shares, own, fixed)
        sums = (has * weights).sum(axis=1)
        mean = own / np.where(sums > 0, sums, 1)
        return cls(~has * weights * shares / (1 - shares) * mean[:, None], own, fixed)

    def variance(self, label: int, values: Floats) -> float:
        """Return the part of the variance that is due to a label. `values` (n,) are f(x_i, label)."""
        second, first = float(self.masses[label] @ values**2), float(self.masses[label] @ values)
        if not self.fixed or self.own[label] == 0:
            return second
        return max(0.0, second - first**2 / float(self.own[label]))

    def covariance(self, values: tuple[Floats, Floats]) -> Floats:
        """Return the second moments (k, k) of k sums. `values` are f(x_i, 0) and f(x_i, 1), both (n, k)."""
        both: Floats = sum((v * mass[:, None]).T @ v for v, mass in zip(values, self.masses, strict=True))
        return both
