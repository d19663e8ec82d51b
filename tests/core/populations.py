"""Small populations, and simulated surveys whose truth is known."""

from dataclasses import replace

import numpy as np
from scipy.special import expit

from kgcore.answer.population.draw import DrawnCandidates
from kgcore.answer.population.survey import Survey
from kgcore.arrays import Floats, Triples
from kgcore.combiners.base import Combined, EvidenceSample
from kgcore.combiners.joined import Folded
from kgcore.config import EvidenceConfig
from kgcore.data.graph import KnowledgeGraph, Split

GROUPS = tuple(name for name in EvidenceConfig().evidence if not name.startswith("name_"))


def graph_with_types(seed: int, entities: int = 120, predicates: int = 3, facts: int = 2_500) -> KnowledgeGraph:
    """A graph whose facts link entities of near places on a circle, with a random tenth in valid and in test."""
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.integers(entities, size=facts), rng.integers(predicates, size=facts)], axis=1)
    near = np.rint(rng.normal(3, 2.5, facts)).astype(np.int64)
    triples = np.unique(np.column_stack([drawn, (drawn[:, 0] + near) % entities]), axis=0)
    triples = rng.permutation(triples[triples[:, 0] != triples[:, 2]])
    tenth = len(triples) // 10
    parts = triples[2 * tenth :], triples[:tenth], triples[tenth : 2 * tenth]
    train, valid, test = (Split(part, np.ones(len(part))) for part in parts)
    names = [f"e{i}" for i in range(entities)], [f"p{i}" for i in range(predicates)]
    return KnowledgeGraph("circle", *names, train, valid, test)


def graph_with_labels() -> KnowledgeGraph:
    """A graph as above, whose validation split has labelled negatives, too."""
    graph, rng = graph_with_types(5), np.random.default_rng(5)
    true = graph.valid.positives
    false = np.column_stack([true[:, :2], rng.integers(len(graph.entities), size=len(true))])
    false = np.unique(false[~graph.all_known.contains(false)], axis=0)
    labels = np.r_[np.ones(len(true)), np.zeros(len(false))]
    return replace(graph, valid=Split(np.concatenate([true, false]), labels))


def evidence_sample(rng: np.random.Generator, n: int) -> EvidenceSample:
    """Return rows of two features, of which the first is a score, and of the predicates 0 and 2."""
    values = rng.normal(size=(n, 2)).astype(np.float32)
    predicates = rng.choice([0, 2], n)
    labels = (rng.random(n) < expit(values.sum(axis=1) + predicates)).astype(np.float64)
    return EvidenceSample(("score", "degree"), values, labels, np.ones(n), predicates)


def simulated_survey(seed: int, true: int, facts: int, candidates: int = 30_000) -> tuple[Survey, Floats, Triples]:
    """Return a survey of two predicates, the probability of each candidate, and whether it is true.

    A candidate has the probability expit(a z + b): a is 1.5, so that log-odds have the wrong scale, and b gives the
    number `true` of true candidates. The facts are further draws from the true candidates' distribution.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, candidates)
    low, high = -60.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(1.5 * z + middle).sum() < true else (low, middle)
    q = expit(1.5 * z + low)
    predicates = rng.integers(2, size=candidates)
    triples = np.stack([np.arange(candidates), predicates, np.zeros(candidates, dtype=np.int64)], axis=1)
    drawn = DrawnCandidates(triples, np.ones(candidates), np.ones(candidates, dtype=bool), {0: -np.inf, 1: -np.inf})
    rows = rng.choice(candidates, facts, p=q / q.sum())
    combined = Combined("boosted_trees", ("fold",), ("fold",), "m", Folded("boosted_trees"), "folded")
    of_facts = z[rows] + rng.normal(0, 1e-6, facts)
    survey = Survey(drawn, z, triples[rows], of_facts, np.ones(facts, dtype=bool), combined, np.zeros(candidates))
    return survey, q, rng.random(candidates) < q


def sampled_below_the_top(seed: int, true: int, facts: int) -> tuple[Survey, Floats, Floats]:
    """Return a survey of 200,000 candidates, the probability of each drawn one, and whether it is true.

    The 5,000 candidates with the highest scores are drawn in full. Each of the others is drawn with the probability
    1/100. Evidence and score are correlated, so that most true candidates are in the top, but many are not.
    """
    made, q, is_true = simulated_survey(seed, true, facts, candidates=200_000)
    rng = np.random.default_rng(seed + 1)
    scores = made.log_odds + rng.normal(0, 2, len(made.log_odds))
    limit = float(np.sort(scores)[-5_000])
    in_top = scores >= limit
    kept = in_top | (rng.random(len(scores)) < 0.01)
    weights = np.where(in_top, 1.0, (~in_top).sum() / max((kept & ~in_top).sum(), 1))
    drawn = DrawnCandidates(made.drawn.triples[kept], weights[kept], in_top[kept], {0: limit, 1: limit})
    facts_in_top = scores[made.facts[:, 0]] >= limit
    combined = replace(made.combined, combiner=Folded("boosted_trees", step=2.0))  # log-odds have the step already
    made = replace(made, log_odds=made.log_odds[kept], twin_shares=made.twin_shares[kept])
    survey = replace(made, drawn=drawn, facts_in_top=facts_in_top, combined=combined)
    return survey, q[kept], is_true[kept]
