"""The connected part of a graph on which a race is held."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.data.neighbourhood import neighbourhood


def ring(entities: int, reach: int, rng: np.random.Generator, parts: int = 1) -> KnowledgeGraph:
    """Make a graph whose entities are in `parts` rings, each linked to the next `reach` of its ring.

    A tenth of the links is in valid; as many false triples are labelled.
    """
    numbers = np.arange(entities)
    size = entities // parts
    links = [np.stack([numbers, np.full(entities, step % 3), numbers // size * size + (numbers + step) % size], axis=1)
             for step in range(1, reach + 1)]  # fmt: skip
    triples = rng.permutation(np.concatenate(links))
    cut = len(triples) // 10
    false = triples[:cut].copy()
    false[:, 1] = 3
    valid = Split(np.concatenate([triples[:cut], false]), np.r_[np.ones(cut), np.zeros(cut)])
    train = Split(triples[cut:], np.ones(len(triples) - cut), rng.random(len(triples) - cut))
    names = [f"e{number}" for number in range(entities)]
    none = Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0))
    return KnowledgeGraph("ring", names, list("abcd"), train, valid, none, other_facts=false[::2])


def degree(graph: KnowledgeGraph) -> float:
    return 2 * len(graph.train) / len(graph.entities)


def named(graph: KnowledgeGraph, triples: np.ndarray) -> set[tuple[str, str, str]]:
    return set(graph.names_of(triples).itertuples(index=False, name=None))


@pytest.mark.parametrize("parts", [1, 40, 400])
@pytest.mark.parametrize("most", [300, 3000])
def test_a_part_has_all_facts_among_its_entities(rng: np.random.Generator, most: int, parts: int) -> None:
    graph = ring(4000, 6, rng, parts)
    part = neighbourhood(graph, most, rng)
    assert 0.9 * most < len(part.train) <= most
    inside = set(part.entities)
    for split in ("train", "valid"):
        whole, own = getattr(graph, split), getattr(part, split)
        for label in (0, 1):
            wanted = {t for t in named(graph, whole.triples[whole.labels == label]) if {t[0], t[2]} <= inside}
            assert named(part, own.triples[own.labels == label]) == wanted
    confidence = dict(zip(map(tuple, graph.train.triples.tolist()), graph.train.confidences.tolist(), strict=True))
    place = {name: number for number, name in enumerate(graph.entities)}
    for (s, p, o), own in zip(part.train.triples.tolist(), part.train.confidences.tolist(), strict=True):
        assert confidence[place[part.entities[s]], p, place[part.entities[o]]] == own
    assert named(part, part.other_facts) == {t for t in named(graph, graph.other_facts) if {t[0], t[2]} <= inside}
    assert set(part.train.triples[:, [0, 2]].ravel().tolist()) == set(range(len(part.entities)))
    assert (np.diff([place[name] for name in part.entities]) > 0).all()


def test_a_part_is_nearly_as_dense_as_the_graph(rng: np.random.Generator) -> None:
    graph = ring(50_000, 10, rng)
    few = replace(graph, valid=graph.valid.part(np.arange(20)))
    part = neighbourhood(few, 20_000, rng)
    assert degree(part) > 0.8 * degree(graph)
    random = rng.choice(50_000, len(part.entities), replace=False)
    triples = graph.train.triples
    among_random = np.isin(triples[:, 0], random) & np.isin(triples[:, 2], random)
    assert 2 * among_random.sum() / len(random) < 0.2 * degree(graph)


def test_a_part_has_validation_triples_however_few_there_are(rng: np.random.Generator) -> None:
    graph = ring(50_000, 10, rng)
    few = replace(graph, valid=graph.valid.part(np.arange(300)))
    assert len(neighbourhood(few, 20_000, rng).valid) > 200
    none = neighbourhood(replace(graph, valid=graph.test), 20_000, rng)
    assert len(none.valid) == 0
    assert len(none.train) > 15_000


def test_a_small_graph_is_its_own_part_and_equal_seeds_give_equal_parts(rng: np.random.Generator) -> None:
    graph = ring(300, 4, rng)
    assert neighbourhood(graph, len(graph.train), rng) is graph
    one, again, other = (neighbourhood(graph, 200, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert one.fingerprint() == again.fingerprint() != other.fingerprint()


def test_a_hub_does_not_put_out_the_fire(rng: np.random.Generator) -> None:
    graph = ring(20_000, 4, rng)
    hub = np.stack([np.arange(1, 20_000), np.full(19_999, 3), np.zeros(19_999, dtype=np.int64)], axis=1)
    triples = np.concatenate([graph.train.triples, hub])
    starred = replace(graph, train=Split(triples, np.ones(len(triples))), valid=graph.valid.part(np.arange(20)))
    part = neighbourhood(starred, 10_000, rng)
    links = part.train.triples[part.train.triples[:, 1] != 3]
    assert 2 * len(links) / len(part.entities) > 0.5 * degree(graph)
