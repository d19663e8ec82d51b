"""Time the search of all pairs by a model that sees evidence: by tiles, and pair by pair.

    python benchmarks/pairs.py --dataset wn11 --pairs 1000000

Boosted trees are fitted to the evidence of training facts and of corruptions. The pairs are those of subjects and
objects of the predicate with the most pairs, as many of one as of the other. The search keeps one pair in 600. Times
are seconds of processor time, ratios of one run. The lists must be equal.
"""

import argparse
import time
from unittest.mock import patch

import numpy as np
from cases import graph_of, random_model

from kgcore.answer.pairs import PairSearch, best_pairs, search_pairs
from kgcore.combiners.base import Combined, CombinedModel, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.config.calibrate import EvidenceConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, corrupt
from kgcore.embed.models.scorer import PointwiseScorer
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features

GROUPS, FACTS, TREES, SHARE = EvidenceConfig().evidence, 10_000, 110, 600


def model_of(graph: KnowledgeGraph, trained: TrainedModel) -> CombinedModel:
    """Return a model whose boosted trees see all groups of evidence."""
    rng, mixture = np.random.default_rng(0), Mixture(graph, {"typed": 0.5, "uniform": 0.5})
    facts = rng.choice(graph.train.positives, min(FACTS, len(graph.train)), replace=False)
    false = corrupt(facts, 1, mixture, rng, np.full(len(graph.predicates), 0.5), graph.known).triples
    triples, labels = np.concatenate([facts, false]), np.repeat([1.0, 0.0], [len(facts), len(false)])
    features = Features.of(Source(graph, trained), GROUPS)
    evidence = features.evidence(triples)
    sample = EvidenceSample(evidence.names, evidence.values, labels, np.ones(len(labels)), triples[:, 1])
    trees = BoostedTrees(trees=TREES).fit(sample, rng)
    return CombinedModel(Combined("boosted_trees", GROUPS, features.names, "", trees, "boosted_trees"), trained, graph)


def search_of(graph: KnowledgeGraph, pairs: int) -> PairSearch:
    """Return a search of so many pairs, or of all pairs, of the predicate that has the most."""
    rng, facts = np.random.default_rng(0), graph.train.positives
    sides_of = [[np.unique(facts[facts[:, 1] == p, column]) for column in (0, 2)] for p in range(len(graph.predicates))]
    predicate = int(np.argmax([len(subjects) * len(objects) for subjects, objects in sides_of]))
    subjects, objects = (
        rng.choice(side, min(int(pairs**0.5), len(side)), replace=False) for side in sides_of[predicate]
    )
    top = max(1, len(subjects) * len(objects) // SHARE)
    return PairSearch(subjects, objects, predicate, top, leave_out=graph.all_known, reflexive=False)


def found(model: CombinedModel, search: PairSearch) -> tuple[np.ndarray, float]:
    """Return the list, and the seconds of processor time that it took."""
    start = time.process_time()
    triples = best_pairs(model, search, search_pairs(model, search, search.subjects))
    return triples, time.process_time() - start


def main() -> None:
    """Print the times of both ways, and their ratio."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dataset", default="wn11")
    parser.add_argument("--size", type=int, default=3000, help="people, if the data set is generated")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    options = parser.parse_args()
    options.norm, options.k, options.device = None, 100, "cpu"
    graph = graph_of(options)
    model, search = model_of(graph, random_model("transe", options, graph)), search_of(graph, options.pairs)
    small = PairSearch(search.subjects[:20], search.objects[:20], search.predicate, 1)
    found(model, small)  # makes the tables of evidence, and compiles the loops
    tiles, by_tiles = found(model, search)
    with patch.object(CombinedModel, "tiles", PointwiseScorer.tiles):
        every, one_by_one = found(model, search)
    pairs = len(search.subjects) * len(search.objects)
    same = "equal lists" if np.array_equal(tiles, every) else "THE LISTS DIFFER"
    print(
        f"{options.dataset}, {pairs:,} pairs, the best {search.top:,}; seconds a million pairs: by tiles "
        f"{by_tiles / pairs * 1e6:.2f}, pair by pair {one_by_one / pairs * 1e6:.2f}; ratio "
        f"{one_by_one / by_tiles:.1f}; {same}"
    )


if __name__ == "__main__":
    main()
