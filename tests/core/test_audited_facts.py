"""The list of audited facts, and the file of facts to label."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, rankdata, spearmanr

from kgcore.answer.sink import sink
from kgcore.config import AuditConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError
from kgcore.wings.audit.likelihood import AuditedFacts, Ratios, RowScores, likelihood_ratios, score_rows
from kgcore.wings.audit.plan import KEPT, AuditPlan, plan_audit
from kgcore.wings.audit.sample import Strata, read_labelled, to_label
from tests.core.calibrated_models import trained_on

NAMES = ["subject", "predicate", "object"]


def few_facts(graph: KnowledgeGraph) -> AuditedFacts:
    """Return four facts of two folds, one fact that every model has seen, and a planted error."""
    triples = np.array([(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 1), (5, 1, 1), (1, 0, 3)])
    graph = replace(graph, train=Split(triples[:5], np.ones(5)))
    plan = AuditPlan(graph, triples, np.array([0, 0, 1, 1, KEPT, 0]))
    seen, unseen = np.array([3.0, 1, 2, 7, 9, 0]), np.array([5.0, 6, 7, 8, np.nan, 0])
    scores = RowScores(seen, unseen, np.array([0.0, 2, 0, 1, 3, -1]), unseen)
    ratio = np.array([1.0, 8, 12, 8, 0, 15])
    return AuditedFacts(plan, scores, Ratios(ratio, ratio / 2, np.r_[ratio[:4], np.inf, np.inf]))


def test_the_list_starts_with_the_least_probable_fact(small_graph: KnowledgeGraph) -> None:
    facts = few_facts(small_graph)
    table = facts.table(error_rate=0.1).to_pandas()
    rows = (table["subject"] + table["object"]).tolist()
    # Facts 1 and 3 have the same ratio: fact 3 has the lower place by the models that have seen it.
    assert rows == ["e2e3", "e3e1", "e1e2", "e0e1", "e5e1"]
    np.testing.assert_allclose(table["probability"], [0, 0.2, 0.2, 0.9, 1])  # 1 - w ratio, at least 0
    np.testing.assert_allclose(table["high"], [0.4, 0.6, 0.6, 0.95, 1])
    np.testing.assert_allclose(table["low"], [0, 0.2, 0.2, 0.9, 0])
    np.testing.assert_allclose(table["expected_wrong"], [1, 1.8, 2.6, 2.7, 2.7])
    assert table["fold"].tolist()[:4] == [2, 2, 1, 1]
    assert table["seen_score"].tolist() == [2, 7, 1, 3, 9]
    assert table["unseen_score"].tolist()[:4] == [7, 8, 6, 5]
    assert table[["fold", "unseen_score"]].isna().all(axis=1).tolist() == [False] * 4 + [True]


def test_the_probabilities_depend_on_the_share_of_wrong_facts(small_graph: KnowledgeGraph) -> None:
    facts = few_facts(small_graph)
    np.testing.assert_allclose(facts.wrong(0.01), [0.01, 0.08, 0.12, 0.08, 0])
    assert facts.table(error_rate=0.0)["low"].to_pylist() == [1.0] * 5
    assert facts.largest_share().value == 1  # one planted error says nothing


def test_scores_are_divided_by_who_has_seen_the_row(small_graph: KnowledgeGraph) -> None:
    plan = plan_audit(small_graph, AuditConfig(folds=2))
    plan = replace(plan, fold=np.r_[KEPT, plan.fold[1:]])
    models = [trained_on(plan.without_fold(i), seed=i) for i in range(2)]
    found, scores = score_rows(plan, models), np.array([model.score(plan.triples) for model in models])
    rows = np.arange(1, len(plan.triples))
    np.testing.assert_array_equal(found.unseen[1:], scores[plan.fold[1:], rows])
    np.testing.assert_array_equal(found.seen[1:], scores[1 - plan.fold[1:], rows])
    assert found.seen[0] == pytest.approx(scores[:, 0].mean())
    assert np.isnan(found.unseen[0])
    assert np.isnan(found.unseen_place[0])
    own = np.flatnonzero((plan.triples[:, 1] == 1) & (plan.fold == 0))  # places: logit of r / (N + 1), by predicate
    for values, model in ((found.unseen_place, 0), (found.seen_place, 1)):
        ranks = rankdata(scores[model][plan.triples[:, 1] == 1])
        of = dict(zip(np.flatnonzero(plan.triples[:, 1] == 1), np.log(ranks / (len(ranks) + 1 - ranks)), strict=True))
        np.testing.assert_allclose(values[own], [of[row] for row in own])


@pytest.mark.parametrize("seen_by_all", [False, True])
def test_ratios_are_learned_from_planted_errors(small_graph: KnowledgeGraph, seen_by_all: bool) -> None:
    """Places are normal: around 1 for right facts, and around -1 for errors, so that the true ratio is known."""
    rng, n, m, w = np.random.default_rng(0), 20_000, 1_500, 0.1
    wrong = np.r_[rng.random(n) < w, np.ones(m, dtype=bool)]
    place = rng.normal(np.where(wrong, -1.0, 1.0))
    triples = np.stack([rng.integers(0, 9, n + m), rng.integers(0, 9, n + m), rng.integers(0, 9, n + m)], axis=1)
    graph = replace(small_graph, predicates=list("abcdefghi"), train=Split(triples[:n], np.ones(n)))
    unseen = np.full(n + m, np.nan) if seen_by_all else rng.normal(size=n + m)  # says nothing
    unseen[0] = np.nan
    scores = RowScores(place, unseen, place, unseen)
    found = likelihood_ratios(AuditPlan(graph, triples, np.zeros(n + m, dtype=np.int64)), scores, seed=0)
    truth = norm.pdf(place, -1) / ((1 - w) * norm.pdf(place, 1) + w * norm.pdf(place, -1))
    assert spearmanr(found.value, truth).statistic > 0.93
    for middle in (-2, -1, 0, 1):
        own = (abs(place - middle) < 0.5) & ~wrong
        assert found.value[own].mean() == pytest.approx(truth[own].mean(), rel=0.3)
    assert ((found.low <= truth) & (truth <= found.high)).mean() > 0.85  # it covers the ratio of the classifier's score
    facts = AuditedFacts(AuditPlan(graph, triples, np.zeros(n + m, dtype=np.int64)), scores, found)
    first = facts.table(w)["expected_wrong"].to_numpy()[[999, 2999]]
    order = np.argsort(-found.value[:n], kind="stable")
    np.testing.assert_allclose(first, [wrong[order[:1000]].sum(), wrong[order[:3000]].sum()], rtol=0.06)


def test_a_graph_of_few_facts_is_not_audited(small_graph: KnowledgeGraph) -> None:
    with pytest.raises(InputError, match=r"4 facts .* and 1 planted errors: an audit needs at least 5 of each"):
        likelihood_ratios(few_facts(small_graph).plan, few_facts(small_graph).scores, seed=0)


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
