"""A fitted combiner, stored with the evidence and the model that it was fitted to."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Self

from kgcore.arrays import Floats, Ints, Scores
from kgcore.combiners.base import Combiner
from kgcore.errors import MismatchError
from kgcore.evidence.table import Evidence, Grid
from kgcore.registries import COMBINERS


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
