"""Make the tables of docs/explanation/discovery.md: the share of false facts in the lists of `--fdr`, on known truth.

    python docs/scripts/fdr.py 100 2        # graphs, processes

Each of the graphs is a generated genealogy with a model of its own. Every triple is known to be true or false. The
share of a list without facts is 0. The questions are those of `kgcal discover`; the test triples are a file of
candidates for `kgcal predict`, half of them false.
"""

import sys
from multiprocessing import get_context

import numpy as np
import torch

from kgcore.answer.answers import Answers, Negatives, Selection, mark
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.discovery import Discovery
from kgcore.answer.domains import Domains
from kgcore.answer.question import Question
from kgcore.base_rate import BaseRate
from kgcore.calibrate.calibrated import Terms
from kgcore.calibrate.fit import Basis
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.config import CorruptConfig, TrainConfig
from kgcore.data.datasets.family import PREDICATES, generate
from kgcore.data.graph import KnowledgeGraph, Split, TripleIndex
from kgcore.embed.corruptions.base import Mixture
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.embed.training.loop import train

PEOPLE = 2000
SETTINGS = {"model": "complex", "loss": "multiclass_nll", "k": 50, "epochs": 40, "batch_size": 512}
SETTINGS |= {"learning_rate": 0.03, "lp_weight": 0.01, "lp_power": 3.0}
LEVELS = (0.1, 0.2)
QUESTIONS = ("the whole graph", "parent_of", "spouse_of", "sibling_of", "cousin_of", "born_in", "lives_in", "works_for")
FILES = {"ground_truth": "test triples, by labelled negatives", "synthetic": "test triples, by corruptions"}
CASES = [(name, level) for name in (*QUESTIONS, *FILES.values()) for level in LEVELS]


def world(seed: int) -> tuple[KnowledgeGraph, TripleIndex]:
    """Return a genealogy and an index of all its facts, also of those in no split."""
    [county] = generate(PEOPLE, seed)

    def split(name: str) -> Split:
        positives = county.of(name)
        negatives = county.negatives.get(name, positives[:0])
        labels = np.r_[np.ones(len(positives)), np.zeros(len(negatives))]
        return Split(np.concatenate([positives, negatives]), labels)

    graph = KnowledgeGraph(
        "family", county.entities.tolist(), list(PREDICATES), split("train"), split("valid"), split("test")
    )
    return graph, graph.index(county.facts)


def discovery_of(graph: KnowledgeGraph, seed: int) -> Discovery:
    """Train and calibrate a model of the graph."""
    trained = train(graph, TrainConfig(**SETTINGS, seed=seed), torch.device("cpu")).model
    valid = graph.valid
    sample = ground_truth_sample(trained.score(valid.triples), valid.labels, valid.triples[:, 1])
    basis = Basis(sample, Terms(negatives="ground_truth", rate=BaseRate(0.5), dataset=graph.fingerprint()))
    bound = basis.bind("platt", Platt().fit_sample(sample), trained.fingerprint())
    return Discovery(CalibratedModel(trained, bound, graph), Domains(graph), 5)


def lists(seed: int) -> list[tuple[int, int]]:
    """Return the length and the number of false facts of each list, for one graph."""
    torch.set_num_threads(1)
    graph, truth = world(seed)
    discovery, made = discovery_of(graph, seed), []
    for name, level in [(name, level) for name in QUESTIONS for level in LEVELS]:
        question = Question(predicate=PREDICATES.index(name) if name in PREDICATES else None)
        found, _, _ = discovery.with_few_false(question, level, np.random.default_rng(seed))
        made.append((len(found), int((~truth.contains(found)).sum())))
    answers = Answers(discovery.model, 0.5, 0)
    for negatives in samples(discovery.model, seed).values():
        selection = Selection(Negatives.of(negatives), answers)
        table = selection.add(answers.table(answers.named(graph.test.triples)))
        for level in LEVELS:
            selected = mark(table, selection.limit(level))["selected"].to_numpy(zero_copy_only=False) == 1
            made.append((int(selected.sum()), int((graph.test.labels[selected] == 0).sum())))
    return made


def samples(model: CalibratedModel, seed: int) -> dict[str, CalibrationSample]:
    """Return the calibration samples of a model with typed and uniform corruptions, in the order of FILES."""
    graph, config, score = model.graph, CorruptConfig(), model.trained.score
    strategy, rng = Mixture(graph, {"typed": 0.9, "uniform": 0.1}), np.random.default_rng(seed)
    made = corrupt_held_out(
        graph, config.eta(len(graph.valid.positives)), strategy, rng, config.calibration_sides, True
    )["valid"].triples
    valid, positives = graph.valid, graph.valid.positives
    by = (positives[:, 1], made[:, 1])
    labelled = ground_truth_sample(score(valid.triples), valid.labels, valid.triples[:, 1])
    return {
        "ground_truth": labelled,
        "synthetic": synthetic_sample(score(positives), score(made), 0.5, predicates=by),
    }


def main(graphs: int, processes: int) -> None:
    """Print the table."""
    with get_context("spawn").Pool(processes) as pool:
        made = np.array(list(pool.imap(lists, range(graphs))))  # (graphs, cases, 2)
    print("| question | `--fdr` | mean share of false facts | two standard errors | lists with facts | mean length |")
    print("|---|---|---|---|---|---|")
    for (name, level), own in zip(CASES, made.transpose(1, 0, 2), strict=True):
        length, false = own.T
        share = false / np.maximum(length, 1)
        error = 2 * share.std(ddof=1) / np.sqrt(graphs)
        filled = (length > 0).mean()
        print(f"| {name} | {level} | {share.mean():.3f} | {error:.3f} | {filled:.0%} | {length.mean():.1f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
