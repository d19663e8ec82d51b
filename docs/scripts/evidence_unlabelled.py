"""Make the table of "Evidence without labels" in docs/explanation/evidence.md.

    python docs/scripts/evidence_unlabelled.py wn11 fb13 codex-s > table.md

TransE is trained with the settings of the default preset. Calibrators and boosted trees are fitted to the positives of
valid and ETA corruptions of each, drawn as in calibration, at the base rate 1/2. The labels of test measure them. The
last column is the cross-fitted Brier score on these corruptions.
"""

import sys
from dataclasses import replace

import numpy as np
import torch
from evidence import trained

from kgcore.arrays import draw_folds
from kgcore.calibrate.sample import CalibrationSample, synthetic_sample
from kgcore.calibrate.validation import cross_fitted
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.fit import cross_fit
from kgcore.config import CorruptConfig, EvidenceConfig
from kgcore.config.calibrate import OF_PAIRS
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.measure.metrics.proper import brier
from kgcore.registries import CALIBRATORS, EVIDENCE
from tasks.workspace.settings import ensure_home, mirror

ETA, FOLDS = 10, 3
ALL = EvidenceConfig().evidence
GROUPS = {"evidence of pairs": [name for name in ALL if name in OF_PAIRS], "all evidence": ALL}


def row(graph: KnowledgeGraph, model: TrainedModel) -> str:
    """Return the cells of a graph."""
    config, rng, facts = CorruptConfig(), np.random.default_rng(0), graph.valid.positives
    strategy, sides = Mixture(graph, config.calibration_strategy), subject_shares(graph, config.calibration_sides)
    made = corrupt(facts, ETA, strategy, rng, sides, graph.known)
    used = np.isin(facts[:, 1], made.triples[:, 1])
    triples = np.concatenate([facts[used], made.triples])
    groups, count = np.r_[np.flatnonzero(used), made.source], int(used.sum())
    features = Features.of(Source(graph, model), ALL)
    fitted, asked = features.evidence(triples).values, features.evidence(graph.test.triples).values
    score, predicates = features.names.index("score"), triples[:, 1]
    scores = fitted[:, score].astype(np.float64)
    by_label = predicates[:count], predicates[count:]
    sample = synthetic_sample(scores[:count], scores[count:], 0.5, predicates=by_label)
    folds = draw_folds(groups, sample.labels, FOLDS, np.random.default_rng(0))

    def on_test(name: str, own: CalibrationSample, of_test: np.ndarray) -> str:
        q = CALIBRATORS.get(name)().fit_sample(own).calibrate_of(of_test, graph.test.triples[:, 1])
        return f"{brier(q, graph.test.labels):.4f}"

    cells = [
        on_test(name, sample, asked[:, score].astype(np.float64)) for name in ("per_relation", "smoothed_isotonic")
    ]
    for chosen in GROUPS.values():
        names = [name for group in chosen for name in EVIDENCE.get(group).own(features.names)]
        columns = [features.names.index(name) for name in names]
        weights = sample.weights / sample.weights.mean()
        seen = EvidenceSample(tuple(names), fitted[:, columns], sample.labels, weights, predicates, groups)
        combiner, _, log_odds = cross_fit("boosted_trees", BoostedTrees(), seen, np.random.default_rng(0), FOLDS)
        own = replace(sample, scores=log_odds)
        cells.append(on_test("beta", own, combiner.log_odds(asked[:, columns], graph.test.triples[:, 1])))
        within = cross_fitted(CALIBRATORS.get("beta"), own, folds)
        cells.append(f"{brier(within, sample.labels, sample.weights):.4f}")
    return " | ".join(cells)


def main(datasets: list[str]) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print("| | per_relation | smoothed_isotonic | " + " | ".join(f"{name} | on corruptions" for name in GROUPS) + " |")
    print("|---" * 7 + "|")
    for name in datasets:
        spec = find_dataset(name)
        graph = prepare(spec, fetch(spec, ensure_home() / "datasets", mirror(), 0, 0)).graph
        print(f"| {name} | {row(graph, trained(graph, name))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
