"""The training facts with their probabilities, from the least probable fact."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kgcore.arrays import Bools, Floats, Probabilities
from kgcore.audit.folds import KEPT
from kgcore.audit.likelihood import Ratios
from kgcore.audit.plan import AuditPlan
from kgcore.audit.row_scores import RowScores
from kgcore.audit.share import Share, largest_share


@dataclass(frozen=True)
class AuditedFacts:
    """All training facts of a graph, with the evidence for and against them.

    plan    its rows are the training facts and the planted errors
    scores  the scores of the rows
    ratios  their likelihood ratios
    """

    plan: AuditPlan
    scores: RowScores
    ratios: Ratios

    def largest_share(self) -> Share:
        """Return the largest share of wrong facts that the scores allow: see `largest_share`."""
        return largest_share(self.ratios.value, self.plan.planted)

    def wrong(self, error_rate: float) -> Probabilities:
        """Return the probability that each fact is wrong (n,), if the share `error_rate` of all facts is wrong."""
        return self._wrong(error_rate, self.ratios.value)

    def table(self, error_rate: float) -> pa.Table:
        """Return the facts as a table, from the least probable one.

        error_rate  share of wrong facts that the probabilities assume, in [0, 1]

        subject, predicate, object  names
        fold             the fold whose model has not seen the fact, from 1; missing if every model has seen it
        seen_score       mean score f(s, p, o) by the models that have seen the fact
        unseen_score     score by the model that has not; missing if every model has seen it
        probability      that the fact is true
        low, high        95 % confidence interval of the probability
        expected_wrong   expected number of wrong facts from the first row to this one: the sum of 1 - probability

        Facts of equal probability are sorted by their `seen_place`, the lowest first.
        """
        order = np.lexsort([self._of_facts(self.scores.seen_place), -self._of_facts(self.ratios.value)])
        high, value, low = (
            1 - self._wrong(error_rate, ratios)[order]
            for ratios in (self.ratios.low, self.ratios.value, self.ratios.high)
        )
        fold = self.plan.fold[order]
        kept: Bools = fold == KEPT
        columns = {
            "fold": pa.array(fold + 1, mask=kept),
            "seen_score": pa.array(self.scores.seen[order]),
            "unseen_score": pa.array(self.scores.unseen[order], mask=kept),
            "probability": pa.array(value),
            "low": pa.array(low),
            "high": pa.array(high),
            "expected_wrong": pa.array(np.cumsum(1 - value)),
        }
        table = pa.Table.from_pandas(self.plan.graph.names_of(self.plan.triples[order]), preserve_index=False)
        for name, column in columns.items():
            table = table.append_column(name, column)
        return table

    def _of_facts(self, values: Floats) -> Floats:
        facts: Floats = values[: self.plan.facts]
        return facts

    def _wrong(self, error_rate: float, ratios: Floats) -> Probabilities:
        """Return min(1, error_rate x ratio) of the facts (n,)."""
        found: Probabilities = np.zeros(self.plan.facts)
        if error_rate > 0:
            found = np.minimum(error_rate * self._of_facts(ratios), 1.0)
        return found
