"""The abstract class of combiners, which turn the evidence of a triple into log-odds; a stored one; one as a scorer."""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats, Ints, Labels, Scores, Triples, Weights, draw_folds
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.scorer import Bounds, PointwiseScorer
from kgcore.errors import FitError, MismatchError
from kgcore.evidence.base import Source, Tile
from kgcore.evidence.table import Features, Grid
from kgcore.registries import COMBINERS, STORED
from kgcore.scores.table import Evidence
from kgcore.workers import in_order

if TYPE_CHECKING:
    import torch

    from kgcore.embed.models.trained import TrainedModel

OBJECTS_AT_ONCE, PAIRS_AT_ONCE = 512, 2**18  # of a tile
FEWEST = 8  # subjects, and objects, from which tiles save time


@dataclass(frozen=True)
class EvidenceSample:
    """The rows that a combiner is fitted on.

    names       (d) names of the features
    values      (n, d) features; NaN: not known
    labels      (n,) 1 = true, 0 = false
    weights     (n,) positive, with mean 1
    predicates  (n,) position of each predicate in the graph's vocabulary
    groups      (n,) rows of one group stay together when a sample is divided, such as a positive and its corruptions;
                None: each row is a group
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.float32]
    labels: Labels
    weights: Weights
    predicates: Ints
    groups: Ints | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> "EvidenceSample":
        """Return the rows that a mask or positions choose, with weights of mean 1."""
        weights = self.weights[rows] / self.weights[rows].mean()
        groups = None if self.groups is None else self.groups[rows]
        return EvidenceSample(self.names, self.values[rows], self.labels[rows], weights, self.predicates[rows], groups)

    def folds(self, count: int, rng: np.random.Generator) -> Ints:
        """Return the fold (n,) of each row, whose groups stay together: see `draw_folds`."""
        groups = np.arange(len(self)) if self.groups is None else self.groups
        return draw_folds(groups, self.labels, count, rng)

    @property
    def prior(self) -> float:
        """Return the log-odds of the share of positives, by weight."""
        positives = float(self.weights[self.labels == 1].sum())
        return math.log(positives / (float(self.weights.sum()) - positives))

    def balanced(self) -> "EvidenceSample":
        """Return the sample in which positives and negatives have the same sum of weights.

        Raises FitError if all labels are equal.
        """
        positive = self.labels == 1
        sums = float(self.weights[positive].sum()), float(self.weights[~positive].sum())
        if min(sums) <= 0:
            found = "positives" if sums[0] > 0 else "negatives"
            raise FitError(f"the sample has {found} only: a combiner needs positives and negatives")
        half = len(self) / 2
        return replace(self, weights=self.weights * np.where(positive, half / sums[0], half / sums[1]))


class Combiner(ABC):
    """Turns the evidence of a triple into log-odds, which are non-decreasing in the feature `score`.

    Constructor arguments are settings of the fit; each has a default. A fitted combiner is plain data: `parameters`
    returns it as JSON values, and `from_parameters` builds it again.
    """

    def fit(self, sample: EvidenceSample, rng: np.random.Generator) -> Self:
        """Fit the combiner, and return it. Raises FitError if the fit does not converge."""
        raise NotImplementedError(f"{type(self).__name__} is made of fitted combiners")

    def tuned(self) -> Self:
        """Return an unfitted combiner with the settings that this fit chose: its fit does not choose them again."""
        raise NotImplementedError(f"{type(self).__name__} is made of fitted combiners")

    @abstractmethod
    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        """Return the log-odds (n,) of evidence (n, d) with the columns of the fit, and predicates (n,).

        A row has the same log-odds, to the last bit, whichever rows are computed with it.
        """

    @abstractmethod
    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        """Divide log-odds among the features. Return the constant, and the contributions (n, d + 1).

        The last column is the predicate's. The constant and the contributions of a row add up to its log-odds.
        """

    @abstractmethod
    def bounds(self, grid: Grid) -> tuple[Floats, Floats]:
        """Return bounds (n, m) of the log-odds of the pairs of a tile that are not special, faster than `log_odds`.

        A pair has bounds that are equal to its log-odds, to the last bit, if its features are known exactly.
        """

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the fitted combiner as JSON values."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Build the fitted combiner from the result of `parameters`."""


@STORED.register("combiner")
@dataclass(frozen=True)
class Combined:
    """A fitted combiner, stored with its evidence and its model, so that a wrong use is an error.

    name      name of the combiner in the settings and in labels
    groups    registered names of the groups of evidence, in the order of their features
    features  names of the features (d)
    model     fingerprint of the model whose scores are among the evidence
    combiner  the fitted combiner
    kind      its registered name: `name`, or stack for a weighted sum of combiners of this name
    others    fingerprints of the further models whose scores are among the evidence
    """

    name: str
    groups: tuple[str, ...]
    features: tuple[str, ...]
    model: str
    combiner: Combiner
    kind: str
    others: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """Return the fingerprints of all models whose scores are among the evidence."""
        return (self.model, *self.others)

    def scores(self, evidence: Evidence, predicates: Ints) -> Scores:
        """Return the log-odds (n,) of triples, from their evidence and their predicates (n,).

        Raises MismatchError if the evidence has other features than those of the fit.
        """
        self._check(evidence.names)
        return self.combiner.log_odds(evidence.values, predicates)

    def contributions(self, evidence: Evidence, predicates: Ints) -> tuple[float, Floats]:
        """Divide the log-odds among the features: see `Combiner.contributions`. Raises MismatchError as `scores`."""
        self._check(evidence.names)
        return self.combiner.contributions(evidence.values, predicates)

    def bounds(self, grid: Grid) -> tuple[Floats, Floats]:
        """Return bounds (n, m) of the log-odds of a tile: see `Combiner.bounds`. Raises MismatchError as `scores`."""
        self._check(grid.features.names)
        return self.combiner.bounds(grid)

    def _check(self, names: tuple[str, ...]) -> None:
        if names != self.features:
            raise MismatchError(
                f"the combiner {self.name} was fitted to the evidence {', '.join(self.features)}, but it is given "
                f"{', '.join(names)}: make the evidence with the same groups"
            )

    def scorer(self, models: "Sequence[TrainedModel]", graph: KnowledgeGraph) -> "CombinedModel":
        """Return what gives triples their log-odds, with its models in the order of `models`."""
        return CombinedModel(self, models[0], graph, tuple(models[1:]))

    def fingerprint(self) -> str:
        """Return the sha256 of everything that the log-odds of a triple depend on, beside the graph."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the combiner as plain JSON values, which hold no executable code."""
        return {
            "scorer": "combiner",
            "name": self.name,
            "kind": self.kind,
            "groups": list(self.groups),
            "features": list(self.features),
            "model": self.model,
            "others": list(self.others),
            "parameters": self.combiner.parameters(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`. Raises InputError for an unknown combiner."""
        combiner = COMBINERS.get(data["kind"]).from_parameters(data["parameters"])
        features, groups, others = (tuple(data[name]) for name in ("features", "groups", "others"))
        return cls(data["name"], groups, features, data["model"], combiner, data["kind"], others)


@dataclass(frozen=True)
class CombinedModel(PointwiseScorer):
    """The score of a triple is the log-odds that a combiner gives its evidence.

    The first score of a triple that is not in `judged` takes longer: it prepares the tables of the evidence, which are
    kept.

    combined  the fitted combiner
    trained   the model whose scores are among the evidence
    graph     the graph whose training facts are the evidence
    others    the further models whose scores are among the evidence, in the order of `combined.others`
    judged    triples (m, 3) and the log-odds (m,) that the combiner has given them before; None: none are stored
    """

    combined: Combined
    trained: "TrainedModel"
    graph: KnowledgeGraph
    others: "tuple[TrainedModel, ...]" = ()
    judged: tuple[Triples, Floats] | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        return self.trained.sizes

    @property
    def embedding_models(self) -> "tuple[TrainedModel, ...]":
        return (self.trained, *self.others)

    def score(self, triples: Triples) -> Scores:
        if self.judged is not None and len(triples):
            keys, log_odds = self._judged
            asked = self.graph.all_known.keys(triples)
            places = np.searchsorted(keys, asked)
            if places.max() < len(keys) and (keys[places] == asked).all():
                return log_odds[places]
        return self.combined.scores(self.evidence(triples), triples[:, 1])

    def evidence(self, triples: Triples) -> Evidence:
        """Return the evidence of triples (n, 3)."""
        return self._features.evidence(triples)

    def tiles(self, subjects: Ints, predicate: int, objects: Ints) -> Iterator[Bounds]:
        """Bound scores as `Scorer.tiles` does: from the features that a tile shares.

        Memory: some tiles of PAIRS_AT_ONCE pairs, one more than there are threads.
        """
        if min(len(subjects), len(objects)) < FEWEST:
            yield from super().tiles(subjects, predicate, objects)
            return
        import torch

        width = min(len(objects), OBJECTS_AT_ONCE)
        blocks = [
            (slice(top, top + PAIRS_AT_ONCE // width), slice(left, left + width))
            for left in range(0, len(objects), width)
            for top in range(0, len(subjects), PAIRS_AT_ONCE // width)
        ]
        tiles = (Tile(subjects[rows], predicate, objects[columns], self._source.facts) for rows, columns in blocks)
        bounds_of_tiles = in_order(self._bounds, tiles, torch.get_num_threads())
        for (rows, columns), bounds in zip(blocks, bounds_of_tiles, strict=True):
            yield rows, columns, *bounds

    def _bounds(self, tile: Tile) -> tuple[Floats, Floats]:
        """Return bounds (n, m) of the scores of a tile. Those of special pairs are exact."""
        low, high = self.combined.bounds(Grid(self._features, tile))
        low[tile.special] = high[tile.special] = self.score(tile.at(tile.special))
        return low, high

    def fingerprint(self) -> str:
        return self._fingerprint

    def to(self, device: "torch.device") -> Self:
        others = tuple(other.to(device) for other in self.others)
        return replace(self, trained=self.trained.to(device), others=others)

    def cosines(self, entity: int) -> Floats:
        return self.trained.cosines(entity)

    @cached_property
    def _source(self) -> Source:
        return Source(self.graph, self.trained, self.others)

    @cached_property
    def _judged(self) -> tuple[Ints, Floats]:
        """The sorted keys of the judged triples, and their log-odds."""
        assert self.judged is not None
        triples, log_odds = self.judged
        keys = self.graph.all_known.keys(triples)
        order = np.argsort(keys, kind="stable")
        return keys[order], log_odds[order]

    @cached_property
    def _features(self) -> Features:
        return Features.of(self._source, self.combined.groups)

    @cached_property
    def _fingerprint(self) -> str:
        return self.combined.fingerprint()
