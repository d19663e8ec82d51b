"""Answers about unseen entities that a calibrated model holds: as fitted, to the bit, stored and alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

import kgcore
from kgcore.answer.answers import Answers, table_of
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.explainer import Explainer
from kgcore.answer.explanation import Explanation, UnseenExplanation
from kgcore.base_rate import BaseRate
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.calibrated import UnseenProbabilities as Found
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.unseen import UnseenAnswers
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from tests.core.calibrated_models import calibrated_and_sample, write_calibrated
from tests.core.deer import ENTITIES, UNSEEN

GROUPS = ("score", "degrees", "neighbours", "name_roles", "name_pairs", "name_likeness", "name_embeddings")
NAMES = ["subject", "predicate", "object"]


@pytest.fixture(scope="module")
def asked() -> pd.DataFrame:
    """Return triples with an unseen subject, an unseen object, and both."""
    first = [(name, "eats", ENTITIES[n % 7]) for n, name in enumerate(UNSEEN)]
    both = [(UNSEEN[0], "eats", UNSEEN[1]), (UNSEEN[30], "eats", "entirely_new")]
    return pd.DataFrame([*first, *((o, p, s) for s, p, o in first), *both], columns=NAMES)


@pytest.fixture(scope="module")
def made(asked: pd.DataFrame) -> tuple[CalibratedModel, Found]:
    """Return a model with packed answers, and the answers to `asked` as the stage evidence computes them."""
    train = Split(np.array([[i, 0, i % 5] for i in range(30)]), np.ones(30))
    rows = np.array([[i, 0, i % 5] for i in (*range(30, 60), *range(90, 120))])
    valid = Split(rows, (rows[:, 0] < 60).astype(float))
    graph = KnowledgeGraph("deer", ENTITIES, ["eats"], train, valid, valid)
    model, _ = calibrated_and_sample(graph, "platt")
    features = Features.of(Source(graph, model.trained), GROUPS).extended([*UNSEEN, "entirely_new"])
    few = np.array([[len(ENTITIES) + i, 0, i % 5] for i in range(52)])
    unseen = Split(few, (few[:, 0] < len(ENTITIES) + 26).astype(float))
    prints, combiner = (model.calibrator.model, model.calibrator.dataset), BoostedTrees(trees=20, fewest=5)
    rng = np.random.default_rng(0)
    fitted = UnseenAnswers.fit(*prints, "boosted_trees", combiner, features, valid, unseen, rng)
    numbers = {name: n for n, name in enumerate([*ENTITIES, *UNSEEN, "entirely_new"])}
    triples = np.array([[numbers[s], 0, numbers[o]] for s, _, o in asked.to_numpy()])
    packed = replace(model, calibrator=replace(model.calibrator, unseen=fitted))
    return packed, fitted.answers(triples, features.evidence(triples))


def table(model: CalibratedModel, asked: pd.DataFrame, base_rate: float | None = None) -> pd.DataFrame:
    answers = Answers(model, 0.5, 0).under(base_rate, 0.5, 0)
    found: pd.DataFrame = answers.table(table_of(asked.to_numpy().tolist())).to_pandas()
    return found


def check_equal(found: pd.DataFrame, expected: Found) -> None:
    np.testing.assert_array_equal(found["probability"], expected.probabilities)
    np.testing.assert_array_equal(found["low"], expected.low)
    np.testing.assert_array_equal(found["high"], expected.high)


def test_packed_answers_are_the_fitted_ones_to_the_bit(
    made: tuple[CalibratedModel, Found], asked: pd.DataFrame, tmp_path: Path
) -> None:
    model, expected = made
    found = table(model, asked)
    check_equal(found, expected)
    assert found["unseen"].tolist() == ["subject"] * 52 + ["object"] * 52 + ["subject and object"] * 2
    assert found["score"].isna().all()
    assert found["reason"].isna().all()
    assert not found["known"].any()
    for i in (0, 30, 60, 105):  # alone, and with other new names
        assert table(model, asked[i : i + 1])["probability"].item() == expected.probabilities[i]
    write_calibrated(tmp_path, model)
    check_equal(kgcore.load(tmp_path).predict(asked, at_least=0), expected)


def test_rows_of_known_entities_are_answered_as_before(
    made: tuple[CalibratedModel, Found], asked: pd.DataFrame
) -> None:
    model, expected = made
    known = pd.DataFrame([(ENTITIES[40], "eats", ENTITIES[1]), (ENTITIES[99], "eats", ENTITIES[2])], columns=NAMES)
    without = replace(model, calibrator=replace(model.calibrator, unseen=None))
    mixed = table(model, pd.concat([known, asked]))
    pd.testing.assert_frame_equal(mixed[:2], table(without, known), check_dtype=False)
    check_equal(mixed[2:], expected)
    assert table(without, asked)["reason"].tolist() == (
        ["unknown subject"] * 52 + ["unknown object"] * 52 + ["unknown subject and object"] * 2
    )


def test_an_unknown_predicate_or_an_empty_name_has_no_answer(made: tuple[CalibratedModel, Found]) -> None:
    rows = pd.DataFrame([("new", "drinks", ENTITIES[0]), ("", "eats", ENTITIES[0])], columns=NAMES)
    found = table(made[0], rows)
    assert found["reason"].tolist() == ["unknown subject and predicate", "unknown subject"]
    assert found["unseen"].isna().all()
    assert found["probability"].isna().all()


@pytest.mark.parametrize("base_rate", [0.001, 0.2, 0.9])
def test_another_base_rate_moves_the_log_odds_by_one_constant(
    made: tuple[CalibratedModel, Found], asked: pd.DataFrame, base_rate: float
) -> None:
    model, expected = made
    moved, own = table(model, asked, base_rate), model.calibrator.base_rate
    for column, before in (("probability", expected.probabilities), ("low", expected.low), ("high", expected.high)):
        inside = (before > 1e-6) & (before < 1 - 1e-6)
        change = logit(moved[column].to_numpy()[inside]) - logit(before[inside])
        np.testing.assert_allclose(change, logit(base_rate) - logit(own), rtol=1e-8)
    back = model.at(base_rate).at(own)
    check_equal(table(back, asked), expected)


def test_an_interval_of_the_base_rate_widens_the_intervals(
    made: tuple[CalibratedModel, Found], asked: pd.DataFrame
) -> None:
    model, _ = made
    one, wide = (model.under(model.calibrator.at(rate)) for rate in (BaseRate(0.3), BaseRate(0.3, 0.2, 0.4)))
    narrow, found = table(one, asked), table(wide, asked)
    np.testing.assert_array_equal(found["probability"], narrow["probability"])
    assert (found["low"] <= narrow["low"]).all()
    assert (found["high"] >= narrow["high"]).all()
    assert ((found["high"] - found["low"]) > (narrow["high"] - narrow["low"])).any()


def test_a_predicate_with_too_few_calibration_triples_has_no_answer(
    made: tuple[CalibratedModel, Found], asked: pd.DataFrame
) -> None:
    found = Answers(made[0], 0.5, 31).table(table_of(asked.to_numpy().tolist())).to_pandas()
    assert set(found["reason"]) == {"too little calibration data for the predicate"}
    assert found["unseen"].isna().all()


def test_the_answers_are_stored_with_their_calibrator(made: tuple[CalibratedModel, Found]) -> None:
    bound = made[0].calibrator
    read = Calibrated.from_json(json.loads(json.dumps(bound.to_json())))
    assert read.unseen is not None
    assert bound.unseen is not None
    assert read.unseen.to_json() == bound.unseen.to_json()


def test_the_explanation_adds_up_to_the_probability_of_predict(
    made: tuple[CalibratedModel, Found], asked: pd.DataFrame
) -> None:
    model, expected = made
    explainer = Explainer(model)
    for row in (0, 30, 60, 105):
        found = explainer.about(*asked.iloc[row])
        assert isinstance(found, UnseenExplanation)
        assert found.probability == expected.probabilities[row]
        assert (found.low, found.high) == (expected.low[row], expected.high[row])
        assert found.probability is not None
        np.testing.assert_allclose(sum(part.log_odds for part in found.contributions), logit(found.probability))
        assert found.unseen == ("subject", "object", "subject and object")[(row > 51) + (row > 103)]
    first = explainer.about(*asked.iloc[0])
    assert isinstance(first, UnseenExplanation)
    assert [(name.name, name.shared, name.new) for name in first.names] == [("deer_xa", ("deer",), ("xa",))]
    assert "Of the name deer_xa, other entities have the words deer." in first.sentences
    assert isinstance(explainer.about(ENTITIES[40], "eats", ENTITIES[1]), Explanation)
    with pytest.raises(InputError, match=r"has no entity 'new'.* and no predicate 'drinks'"):
        explainer.about("new", "drinks", ENTITIES[1])
    without = replace(model, calibrator=replace(model.calibrator, unseen=None))
    with pytest.raises(InputError, match=r"no entity 'new'.*has no answers about entities that training has not seen"):
        Explainer(without).about("new", "eats", ENTITIES[1])
