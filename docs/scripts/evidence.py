"""Make the tables of docs/explanation/evidence.md: what each group of evidence adds, and which groups betray a sampler.

    python docs/scripts/evidence.py wn11 fb13 > tables.md

TransE is trained with the settings of the default preset. Gradient boosting (scikit-learn's, monotone in the score, the
predicate as a category) is fitted on the labels of valid, or on the positives of valid and as many corruptions. Then it
is measured on the labels of test, and on the positives of test and as many corruptions. Figures are means of three
seeds of the classifier. Corruptions are filtered by train and valid and weighed for a base rate of 1/2; half of them
replace the subject.
"""

import sys
from dataclasses import replace

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from kgcore.config.given import PipelineGiven, PrepareGiven
from kgcore.config.presets import resolve
from kgcore.corruptions.base import corrupt
from kgcore.corruptions.mixture import Mixture
from kgcore.datasets.base import find_dataset
from kgcore.datasets.fetch import fetch
from kgcore.datasets.prepare import prepare
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.graph import KnowledgeGraph, Split
from kgcore.models.trained import TrainedModel
from kgcore.registries import EVIDENCE
from kgcore.training.loop import train
from tasks.workspace.settings import ensure_home, mirror

STRATEGIES = ("uniform", "typed", "relational")
MODEL = ("score", "cohorts")
GROUPS = ("degrees", "types", "neighbours", "paths", "rules", "constants")
ROWS = {
    "score": ("score",),
    "score, cohorts": MODEL,
    **{f"score, cohorts, {name}": (*MODEL, name) for name in GROUPS},
    "score, cohorts, paths, rules, constants": (*MODEL, "paths", "rules", "constants"),
    "all": (*MODEL, *GROUPS),
    "all but score and cohorts": GROUPS,
}
SEEDS = range(3)

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # evidence (n, d), predicates (n,), labels (n,)


def trained(graph: KnowledgeGraph, name: str) -> TrainedModel:
    """Train TransE with the settings of the default preset."""
    config = resolve("default", PipelineGiven(prepare=PrepareGiven(dataset=name))).configs.train
    return train(graph, replace(config, seed=0), torch.device("cpu")).model


def corrupted(graph: KnowledgeGraph, split: Split, strategy: str, seed: int) -> Split:
    """Return the positives of a split and as many corruptions, labelled."""
    drawing, rng = Mixture(graph, {strategy: 1.0}), np.random.default_rng(seed)
    shares = np.full(len(graph.predicates), 0.5)
    made = corrupt(split.positives, 1, drawing, rng, shares, graph.known).triples
    labels = np.r_[np.ones(len(split.positives)), np.zeros(len(made))]
    return Split(np.concatenate([split.positives, made]), labels)


def samples(graph: KnowledgeGraph, model: TrainedModel) -> tuple[list[str], dict[str, tuple[Rows, Rows]]]:
    """Return the names of the features; then kind of negatives -> rows of valid and of test."""
    features = Features.of(Source(graph, model), EVIDENCE.names())

    def rows(split: Split) -> Rows:
        return features.evidence(split.triples).values, split.triples[:, 1], split.labels

    made = {"labels": (rows(graph.valid), rows(graph.test))}
    for strategy in STRATEGIES:
        made[strategy] = tuple(rows(corrupted(graph, part, strategy, 7)) for part in (graph.valid, graph.test))
    return list(features.names), made


def fitted(rows: Rows, columns: list[int], scores: list[int], seed: int) -> HistGradientBoostingClassifier:
    """Fit the classifier on these columns of the evidence and, if there is more than the score, on the predicate."""
    values, predicates, labels = rows
    alone = columns == scores
    table = values[:, columns] if alone else np.column_stack([values[:, columns], predicates])
    classifier = HistGradientBoostingClassifier(
        max_iter=300,
        learning_rate=0.05,
        max_leaf_nodes=15,
        min_samples_leaf=30,
        l2_regularization=5.0,
        max_features=0.5,
        early_stopping=False,
        monotonic_cst=[*(int(column in scores) for column in columns), *([] if alone else [0])],
        categorical_features=[*(False for _ in columns), *([] if alone else [True])],
        random_state=seed,
    )
    weights = np.where(labels == 1, 0.5 / labels.mean(), 0.5 / (1 - labels.mean()))
    return classifier.fit(table, labels, sample_weight=weights)


def measured(classifier: HistGradientBoostingClassifier, rows: Rows, columns: list[int]) -> np.ndarray:
    """Return Brier score, log loss and accuracy (3,) on these rows."""
    values, predicates, y = rows
    wide = classifier.n_features_in_ > len(columns)
    table = np.column_stack([values[:, columns], predicates]) if wide else values[:, columns]
    q = classifier.predict_proba(table)[:, 1].clip(1e-7, 1 - 1e-7)
    losses = -(y * np.log(q) + (1 - y) * np.log1p(-q))
    return np.array([((q - y) ** 2).mean(), losses.mean(), ((q > 0.5) == y).mean()])


def line(names: list[str], made: dict[str, tuple[Rows, Rows]], groups: tuple[str, ...]) -> str:
    """Return the figures of a set of groups as a row of the table."""
    wanted = [feature for group in groups for feature in EVIDENCE.get(group).names]
    columns, scores = [names.index(feature) for feature in wanted], [names.index("score")]
    cells = []
    for kind, (valid, test) in made.items():
        fits = [fitted(valid, columns, scores, seed) for seed in SEEDS]
        brier, loss, accuracy = np.mean([measured(fit, made["labels"][1], columns) for fit in fits], axis=0)
        if kind == "labels":
            cells.append(f"{brier:.4f} / {loss:.3f} / {accuracy:.3f}")
        else:
            own = np.mean([measured(fit, test, columns)[0] for fit in fits])
            cells.append(f"{own:.4f} → {brier:.4f}")
    return " | ".join(cells)


def main(datasets: list[str]) -> None:
    """Print a table for each data set."""
    torch.set_num_threads(1)
    for name in datasets:
        spec = find_dataset(name)
        graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 0, 0)).graph
        names, made = samples(graph, trained(graph, name))
        print(f"\n{name}\n\n| evidence | labels | " + " | ".join(STRATEGIES) + " |\n" + "|---" * 5 + "|")
        for title, groups in ROWS.items():
            print(f"| {title} | {line(names, made, groups)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
