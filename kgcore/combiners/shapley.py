"""Contributions of the features to a sum of decision trees."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints
from kgcore.combiners.trees import Trees

NUMBERS_AT_ONCE = 2**21  # of a block: bounds the memory


@dataclass(frozen=True)
class _Paths:
    """The leaves of all trees, each with the features that its path tests.

    features  (l, k) the features of a path; d + 1 where the path has fewer than k features
    shares    (l, k) product, over the splits on the feature, of the share of rows that follow the path; 1 if unused
    follows   (l, k, codes) whether a row with this code of the feature follows all these splits; True if unused
    values    (l,) the values of the leaves
    """

    features: Ints
    shares: Floats
    follows: Bools
    values: Floats


@dataclass(frozen=True)
class Shapley:
    """Shapley values of a sum of trees, with the path-dependent expectation of TreeSHAP.

    A game pays v(S) = sum over trees of the expected leaf value of a row of which only the features S are known: at a
    split on another feature the expectation follows both sides, by their covers (Lundberg, Erion & Lee 2018, algorithm
    1). A leaf with value w, whose path tests the features 1 to k, pays w prod_{j in S} o_j prod_{j not in S} z_j, with
    o_j = 1 if the row follows the path's splits on j, else 0, and z_j the share of rows that follow them. So feature j
    receives

        w (o_j - z_j) integral_0^1 prod_{i != j} (t o_i + (1 - t) z_i) dt,

    because integral t^a (1 - t)^b dt = a! b! / (a + b + 1)!, the weight of a set of a features among a + b + 1. The
    integrand is a polynomial of degree k - 1: Gauss-Legendre quadrature with ceil(k / 2) points is exact (Yu et al.,
    Linear TreeSHAP, NeurIPS 2022, use the same polynomials).
    """

    trees: Trees

    def contributions(self, values: npt.NDArray[np.float32], categories: Ints) -> tuple[float, Floats]:
        """Return the expected sum over the rows of the covers, and the contributions (n, d + 1).

        The last column is that of the category. Constant and contributions of a row add up to its sum.
        """
        paths, d = self._paths, self.trees.num_features
        found = np.zeros((len(values), d + 1))
        num, most = paths.features.shape
        constant = self.trees.start + math.fsum(paths.values * paths.shares.prod(axis=1))
        if not most:
            return constant, found
        points, weights = np.polynomial.legendre.leggauss((most + 1) // 2)
        codes = np.vstack([self.trees.codes(values, categories), np.zeros((1, len(values)), dtype=np.int64)])
        block = max(1, NUMBERS_AT_ONCE // (num * most))
        flat, width = paths.follows.ravel(), paths.follows.shape[2]
        slots = np.arange(num * most).reshape(num, most) * width
        for first in range(0, len(values), block):
            rows = codes[:, first : first + block]
            follows = flat[slots + rows[paths.features].transpose(2, 0, 1)]
            integral = np.zeros(follows.shape)
            for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
                factors = point * follows + (1 - point) * paths.shares
                integral += weight * factors.prod(axis=2, keepdims=True) / factors
            terms = paths.values[:, None] * (follows - paths.shares) * integral
            for row, own in enumerate(terms):
                found[first + row] = np.bincount(paths.features.ravel(), own.ravel(), d + 2)[: d + 1]
        return constant, found

    @cached_property
    def _paths(self) -> _Paths:
        trees, shape = self.trees, self.trees.shape
        left = [None if split is None else trees.goes_left(split) for split in trees.splits]
        width = max((len(own) for own in left if own is not None), default=1)
        above: list[dict[int, tuple[float, Bools]]] = [{} for _ in trees.splits]
        for node, split in enumerate(trees.splits):
            own = left[node]
            if split is None or own is None:
                continue
            for child, follows in ((node + 1, own), (int(shape.right[node]), ~own)):
                share, before = above[node].get(split.feature, (1.0, np.ones(len(own), dtype=bool)))
                share *= float(trees.covers[child] / trees.covers[node])
                above[child] = above[node] | {split.feature: (share, before & follows)}
            above[node] = {}
        leaves = [above[node] for node in shape.leaf_nodes]
        most = max((len(path) for path in leaves), default=0)
        features = np.full((len(leaves), most), trees.num_features + 1, dtype=np.int64)
        shares = np.ones((len(leaves), most))
        table = np.ones((len(leaves), most, width), dtype=bool)
        for number, path in enumerate(leaves):
            for place, (feature, (share, follows)) in enumerate(path.items()):
                features[number, place], shares[number, place] = feature, share
                table[number, place, : len(follows)] = follows
        return _Paths(features, shares, table, trees.values[shape.leaf_nodes])
