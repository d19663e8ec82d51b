"""A model and a combiner as one scorer: the score of a triple is the log-odds that the combiner gives its evidence."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from kgcore.arrays import Floats, Scores, Triples
from kgcore.combiners.combined import Combined
from kgcore.evidence.base import Source
from kgcore.evidence.table import Evidence, Features
from kgcore.graph import KnowledgeGraph
from kgcore.models.pointwise import PointwiseScorer

if TYPE_CHECKING:
    import torch

    from kgcore.models.trained import TrainedModel


@dataclass(frozen=True)
class CombinedModel(PointwiseScorer):
    """The score of a triple is the log-odds that a combiner gives its evidence.

    The first score takes longer, because it prepares the tables of the evidence, which are kept.

    combined  the fitted combiner
    trained   the model whose scores are among the evidence
    graph     the graph whose training facts are the evidence
    others    the further models whose scores are among the evidence, in the order of `combined.others`: see
              `Source.of_models`
    """

    combined: Combined
    trained: "TrainedModel"
    graph: KnowledgeGraph
    others: "tuple[TrainedModel, ...]" = ()

    @property
    def sizes(self) -> tuple[int, int]:
        return self.trained.sizes

    def score(self, triples: Triples) -> Scores:
        return self.combined.scores(self.evidence(triples), triples[:, 1])

    def evidence(self, triples: Triples) -> Evidence:
        """Return the evidence of triples (n, 3)."""
        return self._features.evidence(triples)

    def fingerprint(self) -> str:
        return self._fingerprint

    def to(self, device: "torch.device") -> Self:
        others = tuple(other.to(device) for other in self.others)
        return replace(self, trained=self.trained.to(device), others=others)

    def cosines(self, entity: int) -> Floats:
        return self.trained.cosines(entity)

    @cached_property
    def _features(self) -> Features:
        groups = self.combined.groups
        return Features.of(Source.of_models(self.graph, self.trained, self.others, groups), groups)

    @cached_property
    def _fingerprint(self) -> str:
        return self.combined.fingerprint()
