"""Who answers a file: the calibrator if the rows are like its triples, one that is fitted to them, or nobody."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kgcore.answer.answers import NOT_STATED
from kgcore.answer.loaded import LoadedModel
from kgcore.answer.population.lists import _order
from kgcore.answer.population.population import FEWEST_ROWS, unstored
from kgcore.arrays import Triples
from kgcore.data.graph import KnowledgeGraph, Split
from tests.core.calibrated_models import calibrated
from tests.core.populations import graph_with_labels

WHOLE = graph_with_labels()
HIDDEN = WHOLE.test.positives
GRAPH = replace(WHOLE, test=Split(HIDDEN[:0], np.zeros(0)))
ABOUT = "The probabilities are about triples like the labelled ones of validation, at the base rate 0.5"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return LoadedModel(calibrated(GRAPH, epochs=20))


def false_rows(like: Triples, column: int, seed: int = 0) -> Triples:
    """Return triples with another entity in a column, which are no facts."""
    rows = like.copy()
    rows[:, column] = np.random.default_rng(seed).integers(len(GRAPH.entities), size=len(rows))
    rows = np.unique(unstored(WHOLE, rows), axis=0)
    return rows[rows[:, 0] != rows[:, 2]]


def named(graph: KnowledgeGraph, *parts: Triples) -> pd.DataFrame:
    return graph.names_of(np.concatenate(parts))


def test_the_calibrator_answers_rows_that_are_like_its_triples(model: LoadedModel) -> None:
    rows = named(GRAPH, HIDDEN, false_rows(HIDDEN, 2))
    answers = model.predict(rows)
    assert answers["probability"].notna().all()
    assert answers.attrs["about"].startswith(ABOUT)
    assert "; the triples look like these (AUROC 0." in answers.attrs["about"]
    triples, _ = GRAPH.number(rows)
    q = model.calibrated.calibrator.predict(answers["score"], model.calibrated.trained.fingerprint(), triples[:, 1])
    np.testing.assert_array_equal(answers["probability"], q)


@pytest.mark.long
def test_nobody_answers_other_rows_unless_their_base_rate_is_stated(model: LoadedModel) -> None:
    near = [np.column_stack([HIDDEN[:, :2], (HIDDEN[:, 0] + step) % len(GRAPH.entities)]) for step in (8, 9, 10)]
    file = named(GRAPH, HIDDEN[:40], np.unique(unstored(WHOLE, np.concatenate(near)), axis=0))
    refused = model.predict(file)
    assert refused["probability"].isna().all()
    assert refused["score"].notna().all()
    assert set(refused["reason"]) == {NOT_STATED}
    assert refused.attrs["about"].startswith(
        "No probabilities: the triples are unlike the calibration triples (AUROC 0."
    )
    rate = 40 / len(file)
    stated = model.predict(file, base_rate=rate)
    assert stated["probability"].sum() == pytest.approx(40, rel=0.1)
    assert stated["probability"].head(40).mean() > stated["probability"].tail(-40).mean()
    assert f"405 candidates, 40 of them true by the stated base rate {rate:.6g}" in stated.attrs["about"]
    facts = named(GRAPH, GRAPH.valid.positives[:30], np.unique(unstored(WHOLE, np.concatenate(near)), axis=0))
    complete = model.predict(facts, completeness=0.9)
    assert "of them true by the stated completeness 0.9" in complete.attrs["about"]


@pytest.mark.long
@pytest.mark.parametrize("predicate", ["p1", ""])
@pytest.mark.parametrize("count", [10, FEWEST_ROWS + 10])
def test_a_completeness_gives_chosen_rows_their_probabilities_among_the_missing_facts(
    model: LoadedModel, count: int, predicate: str
) -> None:
    rows = model.discover(predicate=predicate, top=5_000, completeness=0.8)
    rows = rows.groupby("predicate").head(count)
    assert (rows["predicate"].nunique() > 1) == (predicate == "")
    answers = model.predict(rows[["subject", "predicate", "object"]], completeness=0.8)
    np.testing.assert_array_equal(answers["probability"], rows["probability"])
    np.testing.assert_array_equal(answers[["low", "high"]], rows[["low", "high"]])
    about = rows.attrs["about"]
    why = "None of the triples is a validation fact" if count >= 50 else "Fewer than 50 triples are new to the graph"
    assert answers.attrs["about"] == (
        f"{why}, so how they were chosen is not used, and their sum is no number of true triples: {about}."
    )


@pytest.mark.parametrize("count", [1, FEWEST_ROWS - 1])
def test_a_few_rows_are_not_compared(model: LoadedModel, count: int) -> None:
    answers = model.predict(named(GRAPH, HIDDEN[:count]))
    assert answers["probability"].notna().all()
    assert answers.attrs["about"].startswith(ABOUT)
    assert ("triples are new to the graph to compare" in answers.attrs["about"]) == (count > 1)


def test_stored_rows_are_not_compared(model: LoadedModel) -> None:
    answers = model.predict(named(GRAPH, GRAPH.valid.positives, HIDDEN[:60]))
    assert "; too few of the " in answers.attrs["about"]
    assert answers["probability"].notna().all()


@pytest.mark.parametrize(
    ("q", "low", "high", "words"),
    [
        (
            [0.977, 0.977, 0.5],
            [0.29, 0.3, 0.4],
            [1.0, 0.99, 0.6],
            "The first 2 answers have the same probability, 98 %",
        ),
        ([0.9, 0.8, 0.5], [0.7, 0.6, 0.4], [0.95, 0.92, 0.6], "The first 2 answers have intervals that contain the"),
        ([0.9, 0.8], [0.85, 0.7], [0.95, 0.9], "The answers stand in the order of their scores, in which"),
        ([0.9, 0.8], [None, None], [None, None], "The answers stand in the order of their scores, in which"),
        ([0.8, 0.8], [None, None], [None, None], "The first 2 answers have the same probability, 80 %: too few"),
        ([None], [None], [None], "The answers stand in the order of their scores."),
    ],
)
def test_answers_that_cannot_be_told_apart_are_counted(q: list, low: list, high: list, words: str) -> None:
    said = _order(pa.table({"probability": pa.array(q, pa.float64()), "low": low, "high": high}))
    assert said.startswith(words)
    if "first 2" in words:
        assert "too few calibration triples have such scores to tell them apart. The answers stand in the order" in said
    if low[0] == 0.29:
        assert "98 % (95 % intervals: 29 % to 100 %): too few" in said
