"""Make the tables of docs/explanation/names.md: what names add, and accuracy on all test rows, with unseen entities.

    python docs/scripts/unseen_names.py wn11 fb13 > table.md         # seeds 0, 1, 2
    python docs/scripts/unseen_names.py wn11:0                       # one seed

Each combination of evidence is given to gradient boosting, which is fitted on the validation labels, or on validation
positives and their corruptions. It is measured on the labelled test split. The rows with entities that training lacks
are answered by kgcore/combiners/unseen.py; `width` is the mean width of their 95 % intervals.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matched import trained_model
from sklearn.ensemble import HistGradientBoostingClassifier

from kgcore.arrays import Floats, Labels, Probabilities, Triples
from kgcore.calibrate.calibrated import UnseenProbabilities
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.unseen import UnseenAnswers
from kgcore.config import CorruptConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.datasets.read import UnseenRows, read_files, unseen_rows
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.scores.table import Evidence
from tasks.workspace.settings import ensure_home, mirror

NAMES = ("name_roles", "name_pairs", "name_likeness", "name_embeddings")
GRAPH = ("degrees", "types", "neighbours", "paths", "rules")
SETS = {
    "score": ("score",),
    **{f"score, {name}": ("score", name) for name in NAMES},
    "score, names": ("score", *NAMES),
    "score, graph": ("score", "cohorts", *GRAPH),
    "score, graph, names": ("score", "cohorts", *GRAPH, *NAMES),
    "names": NAMES,
    "graph, names": (*GRAPH, *NAMES),
}
STRATEGIES = ("typed", "uniform")  # typed: the side that the cardinality suggests; uniform: the object
ETA = 5


@dataclass(frozen=True)
class Rows:
    """Triples with labels and evidence."""

    triples: Triples
    labels: Labels
    evidence: Evidence

    def table(self, names: Sequence[str]) -> Floats:
        """Return the chosen features and the predicate (n, d + 1)."""
        chosen = [name in names for name in self.evidence.names]
        return np.c_[self.evidence.values[:, chosen], self.triples[:, 1]]


def rows_of(split: Split, features: Features) -> Rows:
    """Return the triples of a split with their evidence."""
    return Rows(split.triples, split.labels, features.evidence(split.triples))


def boost(table: Floats, labels: Labels, weights: Floats | None = None) -> list[HistGradientBoostingClassifier]:
    """Fit gradient boosting with two seeds. The last column is the predicate."""
    options = {"max_iter": 150, "learning_rate": 0.06, "l2_regularization": 1.0, "max_features": 0.5}
    kinds = [table.shape[1] - 1] if table[:, -1].max() < 255 else None
    known = np.where(np.isnan(table).all(axis=0), 0.0, table)  # boosting refuses a column without a number
    seeds = [HistGradientBoostingClassifier(random_state=k, categorical_features=kinds, **options) for k in (0, 1)]
    return [one.fit(known, labels, sample_weight=weights) for one in seeds]


def probabilities(boosted: list[HistGradientBoostingClassifier], table: Floats) -> Probabilities:
    """Return the mean probability (n,)."""
    q: Probabilities = np.mean([one.predict_proba(table)[:, 1] for one in boosted], axis=0)
    return q


def measured(q: Probabilities, labels: Labels) -> str:
    """Return Brier score, log loss and accuracy as cells."""
    loss = -np.log(np.where(labels == 1, q, 1 - q).clip(1e-12)).mean()
    return f"{np.mean((q - labels) ** 2):.4f} / {loss:.3f} / {np.mean((q > 0.5) == labels):.4f}"


def features_of(source: Source, unseen: UnseenRows) -> Features:
    """Prepare all evidence that the tables use."""
    return Features.of(source, ["score", "cohorts", *GRAPH, *NAMES]).extended(unseen.names)


def sampled(graph: KnowledgeGraph, model: TrainedModel, features: Features, strategy: str) -> tuple[Rows, Floats]:
    """Return the validation positives and their corruptions, and weights for a base rate of a half."""
    drawing = Mixture(graph, {strategy: 1.0})
    drawing.see(model)
    positives, shares = graph.valid.positives, subject_shares(graph, CorruptConfig().calibration_sides)
    if strategy == "uniform":
        shares = np.zeros(len(graph.predicates))
    made = corrupt(positives, ETA, drawing, np.random.default_rng(0), shares, graph.known).triples
    triples = np.concatenate([positives, made])
    labels = np.r_[np.ones(len(positives)), np.zeros(len(made))]
    weights = np.where(labels == 1, len(made) / len(positives), 1.0)
    return Rows(triples, labels, features.evidence(triples)), weights


def answers_of(
    origin: tuple[str, str], features: Features, groups: Sequence[str], known: Split, unseen: UnseenRows
) -> UnseenProbabilities:
    """Return the answers about the test rows with unseen entities, from some groups of evidence."""
    chosen = Features({name: features.groups[name] for name in groups}, features.entities)
    rng, labelled = np.random.default_rng(0), (known, unseen.splits["valid"])
    fitted = UnseenAnswers.fit(*origin, "boosted_trees", BoostedTrees(), chosen, *labelled, rng)
    asked = unseen.splits["test"].triples
    return fitted.answers(asked, chosen.evidence(asked))


def tables(name: str, seed: int) -> None:
    """Print the rows of one data set and seed."""
    spec = find_dataset(name)
    folder = fetch(spec, ensure_home() / "datasets", mirror())
    graph = prepare(spec, folder).graph
    unseen = unseen_rows(read_files(spec, folder), graph)
    model = trained_model(graph, name, seed)
    features = features_of(Source(graph, model), unseen)
    valid, test = (rows_of(part, features) for part in (graph.valid, graph.test))
    origin = model.fingerprint(), graph.fingerprint()
    drawn = [sampled(graph, model, features, strategy) for strategy in STRATEGIES]
    for title, groups in SETS.items():
        names = [feature for group in groups for feature in features.groups[group].names]
        asked = test.table(names)
        q = probabilities(boost(valid.table(names), valid.labels), asked)
        cells = [measured(q, test.labels)]
        fits = [boost(rows.table(names), rows.labels, weights) for rows, weights in drawn]
        cells += [measured(probabilities(boosted, asked), test.labels) for boosted in fits]
        if len(labels := unseen.splits["test"].labels):
            own = answers_of(origin, features, groups, graph.valid, unseen)
            cells += [measured(own.probabilities, labels), f"{np.mean(own.high - own.low):.2f}"]
            cells += [measured(np.r_[q, own.probabilities], np.r_[test.labels, labels])]
        print(f"| {name}:{seed} | {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("| data, seed | evidence | labels | typed | uniform, objects | unseen | width | all rows |")
    print("|---|---|---|---|---|---|---|---|")
    for argument in sys.argv[1:]:
        data, _, chosen = argument.partition(":")
        for number in [int(chosen)] if chosen else (0, 1, 2):
            tables(data, number)
