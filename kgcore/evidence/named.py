"""The evidence of triples with entities that training lacks, which come with their names."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Triples
from kgcore.evidence.base import Source
from kgcore.evidence.table import Evidence, Features
from kgcore.evidence.words import words_of
from kgcore.registries import EVIDENCE


@dataclass(frozen=True)
class NamedEvidence:
    """The evidence of triples with unseen entities. The first use takes longer: it makes tables that are kept.

    Only groups with `sees_unseen` are prepared. The features of all other groups are NaN for these triples, so that the
    result is that of `Features.evidence`, to the bit.

    source    graph and model
    groups    registered names of the groups
    features  names (d) of their features, in the order of the groups
    """

    source: Source
    groups: tuple[str, ...]
    features: tuple[str, ...]

    def of(self, triples: Triples, names: Sequence[str]) -> Evidence:
        """Return the evidence of triples (n, 3), each with an entity that training lacks.

        names  names of these entities: names[i] has the id E + i, for E entities of train
        """
        found = self._tables.extended(names).evidence(triples)
        values = np.full((len(triples), len(self.features)), np.nan, dtype=np.float32)
        places = {name: place for place, name in enumerate(self.features)}
        values[:, [places[name] for name in found.names]] = found.values
        return Evidence(self.features, values)

    @cached_property
    def shared_words(self) -> frozenset[str]:
        """The words that the names of at least two entities of training have."""
        counts = Counter(word for name in self.source.graph.entities for word in set(words_of(name)))
        return frozenset(word for word, count in counts.items() if count > 1)

    @cached_property
    def _tables(self) -> Features:
        return Features.of(self.source, [name for name in self.groups if EVIDENCE.get(name).sees_unseen])
