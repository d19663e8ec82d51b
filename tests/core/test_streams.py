"""The streams of random numbers: where each is seeded, that no two are equal, and that none moves another."""

import ast
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.registries import STRATEGIES
from tests.core.judged import FAST, predictions
from tests.core.samples import calibrated

ROOT = Path(__file__).parents[2]
# A setting whose name says that it is a seed, alone or with the number of its stream; a constant; a child of a seed.
SEEDED = r"(\w+\.)?(\w+_)?seed|\[[\w.()]+_seed, \d+\]|\[seed, before\]|SEED|0|child"


def seeds() -> list[tuple[str, str]]:
    """Return (file, seed) for each generator that the product makes."""
    paths = sorted(path for folder in ("kgcore", "tasks", "flows") for path in (ROOT / folder).rglob("*.py"))
    return [
        (path.relative_to(ROOT).as_posix(), ", ".join(map(ast.unparse, node.args)))
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".default_rng", ".SeedSequence"))
    ]


def test_every_generator_has_a_seed_with_a_name() -> None:
    made = seeds()
    assert len(made) > 30
    assert [(path, seed) for path, seed in made if not re.fullmatch(SEEDED, seed)] == []


def test_no_two_streams_of_a_seed_have_one_number() -> None:
    """A stream is a seed alone, or [seed, number]: 0 is no number, because NumPy takes [seed, 0] for seed."""
    named = [re.fullmatch(r"\[.*?(\w+_seed), (\d+)\]", seed) for _, seed in seeds()]
    streams = [(found[1], int(found[2])) for found in named if found]
    assert sorted(streams) == [("calibration_seed", 1), ("calibration_seed", 2), ("race_seed", 1)]
    assert np.random.default_rng(5).random() == np.random.default_rng([5, 0]).random()
    drawn = [
        tuple(np.random.default_rng(seed).integers(2**62, size=4)) for s in range(20) for seed in (s, [s, 1], [s, 2])
    ]
    assert len({number for draw in drawn for number in draw}) == 4 * len(drawn)


@pytest.mark.parametrize("most", [100, 1000])
def test_a_further_calibrator_moves_no_interval(
    most: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgcore.measure.evaluation.evaluate.MOST_RESAMPLED", most)  # groups of rows, and rows
    q, y = calibrated(rng, 500)
    alone, beside = (evaluate(predictions(given, y), FAST) for given in ({"one": q}, {"another": 1 - q, "one": q}))
    assert beside["one"].intervals == alone["one"].intervals


def test_the_corruptions_of_test_move_none_of_valid(small_graph: KnowledgeGraph) -> None:
    def drawn(graph: KnowledgeGraph) -> dict[str, np.ndarray]:
        made = corrupt_held_out(graph, 5, STRATEGIES.get("uniform")(graph), np.random.default_rng(0), "both", True)
        return {split: corruptions.triples for split, corruptions in made.items()}

    labelled = drawn(small_graph)
    positives = replace(small_graph, test=small_graph.test.part(small_graph.test.labels == 1))
    without_labels = drawn(positives)
    assert (set(labelled), set(without_labels)) == ({"valid"}, {"valid", "test"})
    np.testing.assert_array_equal(labelled["valid"], without_labels["valid"])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_further_child_of_a_seed_moves_none_before_it(count: int) -> None:
    """Counties of the family graph and queries of a search have a child of the seed each."""
    children, more = (np.random.default_rng(3).spawn(number) for number in (count, count + 1))
    draws = [[child.random() for child in spawned] for spawned in (children, more)]
    assert draws[0] == draws[1][:count]
    assert all(one != other for one, other in pairwise(draws[1]))
