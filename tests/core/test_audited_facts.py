"""The list of audited facts, and the file of facts to label."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kgcore.audit.facts import REFERENCE, AuditedFacts, FoldScores, audited, score_fold
from kgcore.audit.folds import KEPT, fact_folds
from kgcore.audit.labels import read_labelled, to_label
from kgcore.audit.sample import Strata
from kgcore.calibration.shift import shift
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, Split
from kgcore.prediction.sink import sink
from tests.core.calibrated_models import calibrated

NAMES = ["subject", "predicate", "object"]


def few_facts(graph: KnowledgeGraph) -> AuditedFacts:
    """Return five facts of one predicate, in two folds, and one fact without an answer of each kind."""
    triples = np.array([(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 1), (1, 1, 2), (5, 0, 1), (1, 0, 3)])
    graph = replace(graph, train=Split(triples, np.ones(len(triples))))
    q = np.array([0.5, 0.2, 0.5, 0.2, 0.9])
    no_limits = np.full(3, np.nan)
    parts = (
        FoldScores(np.array([0, 1, 4]), np.array([3.0, 1.0, 9.0]), q[[0, 1, 4]], q[[0, 1, 4]] / 2, q[[0, 1, 4]]),
        FoldScores(np.array([3, 2, 6]), np.array([-7.0, -8.0, -9.0]), np.r_[q[[3, 2]], np.nan], no_limits, no_limits),
    )
    return audited(graph, np.array([0, 0, 1, 1, 0, KEPT, 1]), parts)


def test_the_list_starts_with_the_least_probable_fact(small_graph: KnowledgeGraph) -> None:
    facts = few_facts(small_graph)
    table = facts.table(error_rate=0.5).to_pandas()
    rows = (table["subject"] + table["object"]).tolist()
    # Facts 1 and 3 have equal probabilities: in its fold, fact 1 is the first of 2, and fact 3 the last of 3. Facts 0
    # and 2 have equal probabilities, too: fact 0 is the last of 2, and fact 2 the second of 3.
    assert rows == ["e1e2", "e3e1", "e2e3", "e0e1", "e1e2", "e1e3", "e5e1"]
    assert table["probability"].tolist()[:5] == [0.2, 0.2, 0.5, 0.5, 0.9]
    np.testing.assert_allclose(table["expected_wrong"][:5], [0.8, 1.6, 2.1, 2.6, 2.7])
    assert table["fold"].tolist()[:6] == [1, 2, 2, 1, 1, 2]
    assert table["reason"][5] == "too little calibration data for the predicate"
    assert table["reason"][6] == "the only fact of its subject"
    assert table["reason"][:5].isna().all()
    assert table[["probability", "low", "high", "expected_wrong"]][5:].isna().all().all()
    assert table["score"].notna().tolist() == [True] * 6 + [False]
    assert table["low"].notna().tolist() == [True, False, False, True, True, False, False]


def test_the_probabilities_are_those_of_stored_facts(small_graph: KnowledgeGraph) -> None:
    facts = few_facts(small_graph)
    table = facts.table(error_rate=0.05).to_pandas()
    np.testing.assert_allclose(table["probability"][:5], shift(np.array([0.2, 0.2, 0.5, 0.5, 0.9]), 0.5, 0.95))
    np.testing.assert_allclose(facts.wrong(0.05)[[0, 4]], 1 - shift(np.array([0.5, 0.9]), 0.5, 0.95))
    assert np.isnan(facts.wrong(0.05)[5:]).all()
    assert facts.table(error_rate=0.0)["probability"].to_pylist()[0] > 0.99999


def test_a_fold_is_scored_by_its_model_and_calibrator(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    model = calibrated(small_graph, "per_relation")
    bound, trained = model.calibrator, model.trained
    assert bound.support is not None
    bound = replace(bound, support=replace(bound.support, rows={**bound.support.rows, 2: (50, 3)}))
    rows = np.flatnonzero(fact_folds(small_graph, 3, rng) == 1)
    triples = small_graph.train.triples[rows]
    found = score_fold(replace(model, calibrator=bound), triples, rows, at_least=4)
    few = triples[:, 1] == 2
    np.testing.assert_array_equal(found.scores, trained.score(triples))
    q = bound.predict(found.scores, trained.fingerprint(), triples[:, 1])
    np.testing.assert_allclose(found.probability[~few], shift(q, bound.base_rate, REFERENCE)[~few])
    assert np.isnan(found.probability[few]).all()
    assert (found.low[~few] <= found.probability[~few]).all()
    assert (found.probability[~few] <= found.high[~few]).all()


def drawn(graph: KnowledgeGraph, path: Path) -> Strata:
    of = np.arange(600) % 3 // 2  # 400 and 200 facts
    strata = Strata(of, np.bincount(of), np.array([0.1, 0.3]))
    with sink(path) as write:
        write(to_label(graph, strata, np.array([5, 0, 1, 2])))
    return strata


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet"])
def test_the_labels_come_back(small_graph: KnowledgeGraph, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"label.{ending}"
    strata = drawn(small_graph, path)
    frame = pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path, sep="\t" if ending == "tsv" else ",")
    assert frame[NAMES].equals(small_graph.names_of(small_graph.train.triples[[5, 0, 1, 2]]).astype(frame.dtypes[:3]))
    frame["label"] = ["-1", "1", "", "1"]
    if ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    found = read_labelled(path, small_graph)
    assert found.strata.tolist() == [1, 0, 1]
    assert found.counts.tolist() == strata.counts.tolist()
    assert found.wrong.tolist() == [True, False, False]
    assert found.unlabelled == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="label"), "has no column label: use the file that `kgcal audit --sample` wrote"),
        (lambda f: f.assign(label="yes"), "row 2: the label is 'yes': it must be 1, -1 or empty"),
        (lambda f: f.assign(object="nobody"), "row 2: this is no training fact of small"),
        (lambda f: pd.concat([f, f.head(1)]), "row 6: this fact is there twice"),
        (lambda f: f.tail(1), "the strata have 200 facts, and the graph has 600 training facts"),
        (lambda f: f.assign(stratum_facts=7), "the strata have 14 facts, and the graph has 600 training facts"),
        (lambda f: f.assign(stratum="a"), "the columns stratum and stratum_facts must be whole numbers"),
    ],
)
def test_a_damaged_file_of_labels_is_refused(
    small_graph: KnowledgeGraph, tmp_path: Path, change: object, message: str
) -> None:
    path = tmp_path / "label.csv"
    drawn(small_graph, path)
    assert callable(change)
    change(pd.read_csv(path)).to_csv(path, index=False)
    with pytest.raises(InputError, match=message):
        read_labelled(path, small_graph)
