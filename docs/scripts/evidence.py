"""Make the tables of docs/explanation/evidence.md: what each group of evidence adds, and which groups betray a sampler.

    python docs/scripts/evidence.py wn11 fb13 > tables.md

TransE is trained with the settings of the default preset. Gradient boosting (scikit-learn's, monotone in the score, the
predicate as a category) is fitted on the labels of valid, or on the positives of valid and as many corruptions. Then it
is measured on the labels of test, and on the positives of test and as many corruptions. Figures are means of three
seeds of the classifier. Corruptions are filtered by train and valid and weighed for a base rate of 1/2.
The second table says how well each group alone tells corruptions from labelled mistakes.
"""

import sys

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from kgcore.config import CorruptConfig, PipelineConfigs, PrepareConfig
from kgcore.config.presets import resolve
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.registries import EVIDENCE
from tasks.workspace.settings import ensure_home, mirror

STRATEGIES = {  # name -> shares of the strategies, sides
    "uniform": ({"uniform": 1.0}, "both"),
    "uniform, objects": ({"uniform": 1.0}, "object"),
    "typed": ({"typed": 1.0}, "bernoulli"),
    "relational": ({"relational": 1.0}, "bernoulli"),
    "default": (CorruptConfig().calibration_strategy, CorruptConfig().calibration_sides),
}
MODEL = ("score", "cohorts")
GRAPH = ("degrees", "types", "neighbours", "paths", "rules", "constants")
NAMES = ("name_roles", "name_pairs", "name_likeness", "name_embeddings")
GROUPS = (*GRAPH, *NAMES)
ROWS = {
    "score": ("score",),
    "score, cohorts": MODEL,
    **{f"score, cohorts, {name}": (*MODEL, name) for name in GROUPS},
    "score, cohorts, paths, rules, constants": (*MODEL, "paths", "rules", "constants"),
    "score, cohorts, names": (*MODEL, *NAMES),
    "all but names": (*MODEL, *GRAPH),
    "all": (*MODEL, *GROUPS),
    "all but score, cohorts and names": GRAPH,
}
SEEDS = range(3)

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # evidence (n, d), predicates (n,), labels (n,)
Samples = tuple[Rows, Rows]  # of valid, of test


def trained(graph: KnowledgeGraph, name: str) -> TrainedModel:
    """Train TransE with the settings of the default preset."""
    config = resolve("default", PipelineConfigs(prepare=PrepareConfig(dataset=name))).configs.train
    return train(graph, config.replace(seed=0), torch.device("cpu")).model


def corrupted(graph: KnowledgeGraph, model: TrainedModel, split: Split, strategy: str) -> Split:
    """Return the positives of a split and as many corruptions, labelled."""
    parts, sides = STRATEGIES[strategy]
    drawing = Mixture(graph, parts)
    drawing.see(model)
    rng = np.random.default_rng(7)
    made = corrupt(split.positives, 1, drawing, rng, subject_shares(graph, sides), graph.known).triples
    labels = np.r_[np.ones(len(split.positives)), np.zeros(len(made))]
    return Split(np.concatenate([split.positives, made]), labels)


def samples(graph: KnowledgeGraph, model: TrainedModel) -> tuple[list[str], dict[str, Samples]]:
    """Return the names of the features; then kind of negatives -> rows of valid and of test."""
    features = Features.of(Source(graph, model), (*MODEL, *GROUPS))

    def rows(split: Split) -> Rows:
        return features.evidence(split.triples).values, split.triples[:, 1], split.labels

    made = {"labels": (rows(graph.valid), rows(graph.test))}
    for strategy in STRATEGIES:
        valid, test = (rows(corrupted(graph, model, part, strategy)) for part in (graph.valid, graph.test))
        made[strategy] = valid, test
    return list(features.names), made


def fitted(rows: Rows, columns: list[int], scores: list[int], seed: int) -> HistGradientBoostingClassifier:
    """Fit the classifier on these columns of the evidence and, if there is more than the score, on the predicate."""
    values, predicates, labels = rows
    alone = columns == scores
    table = values[:, columns] if alone else np.column_stack([values[:, columns], predicates])
    classifier = HistGradientBoostingClassifier(
        max_iter=150,
        learning_rate=0.1,
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


def line(names: list[str], made: dict[str, Samples], groups: tuple[str, ...]) -> str:
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


def betrayed(names: list[str], made: dict[str, Samples], group: str) -> str:
    """Return, for each strategy, how well a group alone tells corruptions from labelled mistakes: AUC on test."""
    columns = [names.index(feature) for feature in EVIDENCE.get(group).names]
    cells = []
    for strategy in STRATEGIES:
        sides = []
        for split in (0, 1):
            parts = [made[kind][split] for kind in ("labels", strategy)]
            wrong = [values[labels == 0][:, columns] for values, _, labels in parts]
            sides.append((np.concatenate(wrong), np.repeat([0, 1], [len(part) for part in wrong])))
        classifier = HistGradientBoostingClassifier(max_leaf_nodes=15, early_stopping=False, random_state=0)
        classifier.fit(*sides[0])
        cells.append(f"{roc_auc_score(sides[1][1], classifier.predict_proba(sides[1][0])[:, 1]):.2f}")
    return " | ".join(cells)


def main(datasets: list[str]) -> None:
    """Print a table for each data set."""
    torch.set_num_threads(1)
    for name in datasets:
        spec = find_dataset(name)
        graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 0, 0)).graph
        names, made = samples(graph, trained(graph, name))
        print(
            f"\n{name}\n\n| evidence | labels | "
            + " | ".join(STRATEGIES)
            + " |\n"
            + "|---" * (2 + len(STRATEGIES))
            + "|"
        )
        for title, groups in ROWS.items():
            print(f"| {title} | {line(names, made, groups)} |", flush=True)
        print("\n| group | " + " | ".join(STRATEGIES) + " |\n" + "|---" * (1 + len(STRATEGIES)) + "|")
        for group in (*MODEL, *GROUPS):
            print(f"| {group} | {betrayed(names, made, group)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
