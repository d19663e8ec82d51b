"""Calibration of scores from any scorer: oracles by hand, orders and formats of the file, weights, scorers."""

import re
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kgcore.arrays import draw_folds
from kgcore.calibrate import validation as folds
from kgcore.calibrate.fit import labelled_sample
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.calibrate.support import Support
from kgcore.config import EvaluateConfig, ScoresConfig
from kgcore.errors import InputError, MismatchError
from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.measure.report.results import Results
from kgcore.measure.report.scores import RowCounts, ScoresSummary
from kgcore.registries import CALIBRATORS
from kgcore.storage import tables
from kgcore.wings.external.calibrator import ScoreCalibrator
from kgcore.wings.external.fit import fit_and_measure, fit_scores, folds_of, of_other_folds, of_test_rows, usable
from kgcore.wings.external.rows import ScoreFile, joined, read_scores, stored_rows
from kgcore.wings.external.tables import TableBlock, log_odds
from tests.core.scored_rows import config_of, read, rows_of, table_of_scores, written

EVERY = tuple(CALIBRATORS.names())


@pytest.mark.parametrize("base_rate", [None, 0.02])
def test_calibrators_equal_those_that_are_fitted_by_hand(
    tmp_path: Path, rng: np.random.Generator, base_rate: float | None
) -> None:
    table = table_of_scores(rng)
    settings = {"calibrators": EVERY, "base_rate": base_rate, "relation": "r"}
    fitted = fit_scores(read(tmp_path, table, **settings).table, config := config_of(**settings))
    names = sorted(set(table["r"].to_pylist()))
    f, y = table["f"].to_numpy(), table["y"].to_numpy().astype(float)
    relations = np.array([names.index(name) for name in table["r"].to_pylist()])
    sample = ground_truth_sample(f, y, relations, base_rate)
    asked = np.linspace(-3, 5, 90)
    of = np.arange(90) % 3
    assert [one.bound.name for one in fitted] == ["uncalibrated", "base_rate", *EVERY]
    for one in fitted[2:]:
        by_hand = CALIBRATORS.get(one.bound.name)().fit_sample(sample)
        q, low, high = one.calibrate(asked, of)
        assert q == pytest.approx(by_hand.calibrate_of(asked, of), abs=1e-9), one.bound.name
        ends = Support.fit(sample, by_hand.by_predicate).limits(asked, of)
        assert low == pytest.approx(np.minimum(ends[0], q), abs=1e-9)
        assert high == pytest.approx(np.maximum(ends[1], q), abs=1e-9)
        assert one.bound.base_rate == pytest.approx(base_rate or y.mean())
        assert one.bound.rate.origin == ("stated" if base_rate else "estimated")
    assert fitted[0].calibrate(asked, of)[0] == pytest.approx(1 / (1 + np.exp(-asked)))
    assert config.named == "f"


def test_cross_fitting_is_that_of_ensembles(tmp_path: Path, rng: np.random.Generator) -> None:
    rows, config = read(tmp_path, table_of_scores(rng)).table, config_of(folds=4)
    found = of_other_folds(rows, config)
    fold = draw_folds(np.arange(len(rows)), rows.labels, 4, np.random.default_rng(0))
    order = np.argsort(fold, kind="stable")
    assert (found.labels == rows.labels[order]).all()
    for name in usable(config):
        expected = folds.cross_fitted(CALIBRATORS.get(name), labelled_sample(rows), fold)
        assert found.probabilities[f"ground_truth.{name}"] == pytest.approx(expected[order], abs=1e-9)


def test_a_calibrator_by_relation_needs_relations_if_it_is_named() -> None:
    assert usable(config_of()) == ("smoothed_isotonic", "beta")
    assert usable(config_of(relation="r")) == config_of().calibrators
    assert usable(config_of(relation="r", calibrators=("per_relation",))) == ("per_relation",)
    for named in (("per_relation",), ("beta", "per_relation")):
        with pytest.raises(InputError, match="per_relation needs relations: name their column with --relation, or"):
            usable(config_of(calibrators=named))


@pytest.mark.parametrize(("most", "measured"), [(1000, 1000), (2500, 2500), (9000, 5000)])
def test_whole_folds_are_measured_up_to_a_limit(rng: np.random.Generator, most: int, measured: int) -> None:
    rows = rows_of(rng.normal(size=5000), rng.random(5000) < 0.5)
    config = config_of(most_measured=most, calibrators=("platt",))
    assert len(of_other_folds(rows, config).labels) == pytest.approx(measured, abs=2)
    few = rows_of(np.arange(5), [0, 1, 0, 1, 0])
    assert folds_of(few, config) == (2, 2)


@pytest.mark.parametrize("name", ["s.csv", "s.tsv", "s.parquet"])
def test_order_and_format_of_the_file_do_not_matter(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    table, settings = table_of_scores(rng), {"weight": "w", "relation": "r", "base_rate": 0.1, "folds": 3}
    config = config_of(**settings, calibrators=("smoothed_isotonic", "per_relation"))
    first = read(tmp_path, table, **settings).table
    other = read(tmp_path, table.take(rng.permutation(len(table))), name, **settings).table
    assert other.dataset == first.dataset
    assert [one.to_json() for one in fit_scores(other, config)] == [one.to_json() for one in fit_scores(first, config)]
    q, again = of_other_folds(first, config).probabilities, of_other_folds(other, config).probabilities
    assert all((again[label] == q[label]).all() for label in q)


def test_rows_without_weights_are_in_the_order_of_rows_with_them(rng: np.random.Generator) -> None:
    scores, positive = rng.integers(-3, 3, 400) / 2, rng.integers(0, 2, 400)
    plain, weighted = (rows_of(scores, positive, weights) for weights in (None, np.ones(400)))
    assert (plain.scores == weighted.scores).all()
    assert (plain.labels == weighted.labels).all()


def test_a_weight_of_two_is_a_row_that_occurs_twice(tmp_path: Path, rng: np.random.Generator) -> None:
    table = table_of_scores(rng)
    table = table.set_column(3, "w", pa.array(rng.integers(0, 3, len(table))))
    twice = table.take(np.repeat(np.arange(len(table)), table["w"].to_numpy()))
    config = config_of(calibrators=("isotonic",))
    weighted = read(tmp_path, table, weight="w", base_rate=0.2)
    assert weighted.of_weight == (table["w"].to_numpy() == 0).sum()
    asked = np.linspace(-3, 5, 50)
    files = weighted, read(tmp_path, twice, base_rate=0.2)
    found = [fit_scores(file.table, config)[-1].calibrate(asked, None)[0] for file in files]
    assert found[0] == pytest.approx(found[1])


def test_limits_of_weighted_rows_cover_the_weighted_share() -> None:
    """The share of true rows at a score is 0.5; the weights of high scores are ten times those of low ones."""
    rng, outside = np.random.default_rng(3), 0
    for seed in range(60):
        f, y = rng.uniform(size=2000), rng.random(2000) < 0.5
        rows = rows_of(f, y, np.where(y == 1, 1.0 + 9 * f, 10.0))  # weighted, the share is (1 + 9 f) / (11 + 9 f)
        one = fit_scores(rows, config_of(fold_seed=seed, calibrators=("smoothed_isotonic",)))[-1]
        _, low, high = one.calibrate(np.array([0.5]), None)
        outside += not low[0] <= 5.5 / 15.5 <= high[0]
    assert outside <= 6


def test_test_rows_are_measured_and_train_rows_are_left_out(tmp_path: Path, rng: np.random.Generator) -> None:
    table = table_of_scores(rng)
    splits = rng.choice(["train", "Validation", "test"], len(table))
    file = read(tmp_path, table.append_column("s", pa.array(splits)), split="s")
    assert file.of_train == (splits == "train").sum()
    assert file.table.rows("valid").sum() == (splits == "Validation").sum()
    calibrators = fit_scores(file.table, config_of())
    found = of_test_rows(file.table, calibrators)
    assert sorted(found.scores) == sorted(table["f"].to_numpy()[splits == "test"])
    assert (found.probabilities["ground_truth.beta"] == calibrators[-1].calibrate(found.scores, None)[0]).all()


def test_probabilities_are_calibrated_as_log_odds(tmp_path: Path, rng: np.random.Generator) -> None:
    y = (rng.random(4000) < 0.5).astype(int)
    q = 1 / (1 + np.exp(-3 * (rng.normal(size=4000) + y - 0.5)))  # three times too far from 0 in log-odds
    file = read(tmp_path, pa.table({"f": q, "y": y}), scale="probability")
    config = config_of(scale="probability", calibrators=("platt",))
    uncalibrated, _, platt = fit_scores(file.table, config)
    assert uncalibrated.calibrate(log_odds(q), None)[0] == pytest.approx(q.clip(1e-7, 1 - 1e-7))
    assert platt.bound.calibrator.parameters()["a"] == pytest.approx(1 / 3, rel=0.15)
    with pytest.raises(InputError, match=r"line 2: the score in the column f is '1\.5': it must be in \[0, 1\]"):
        read(tmp_path, pa.table({"f": [1.5, 0.5], "y": [1, 0]}), scale="probability")


def test_answers_keep_the_columns_and_do_not_depend_on_blocks(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of_scores(rng)
    rows = read(tmp_path, table, relation="r").table
    config = config_of(relation="r", calibrators=("per_relation",))
    calibrator = ScoreCalibrator.from_json(fit_scores(rows, config)[-1].to_json())
    path = written(tmp_path, "a.csv", table.select(["f", "r"]))

    def answered() -> pa.Table:
        return pa.concat_tables(answers for answers, _ in calibrator.answer_file(path, "f", "r"))

    whole = answered()
    monkeypatch.setattr("kgcore.data.formats.text.BLOCK_BYTES", 500)
    assert answered().combine_chunks() == whole.combine_chunks()
    assert whole.column_names == ["f", "r", "probability", "low", "high"]
    low, q, high = (whole[name].to_numpy() for name in ("low", "probability", "high"))
    assert ((low <= q) & (q <= high)).all()
    unknown = TableBlock("u", pa.table({"f": [0.5], "r": ["never seen"]}))
    shared = calibrator.bound.calibrator.calibrate(np.array([0.5]))
    assert calibrator.answer(unknown, "f", "r")["probability"].to_numpy() == pytest.approx(shared)
    with pytest.raises(InputError, match="has a map for each relation: name their column with --relation"):
        next(calibrator.answer_file(path, "f", ""))


def test_stored_rows_represent_all_rows(tmp_path: Path, rng: np.random.Generator) -> None:
    rows = read(tmp_path, table_of_scores(rng), weight="w", relation="r").table
    tables.write_scores(tmp_path / "rows.parquet", stored_rows(rows))
    again = tables.read_scores(tmp_path / "rows.parquet")
    assert joined([again], None).dataset == again.dataset == rows.dataset
    assert again.relations == rows.relations
    few = stored_rows(rows, 100)
    assert len(few) == 100
    levels = np.linspace(0, 1, 20)
    assert np.quantile(few.scores, levels) == pytest.approx(np.quantile(rows.scores, levels), abs=0.2)


def test_scores_that_run_the_other_way_are_said(tmp_path: Path, rng: np.random.Generator) -> None:
    table = table_of_scores(rng)
    negated = table.set_column(1, "f", pa.array(-table["f"].to_numpy()))
    for rows, said in ((table, False), (negated, True)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            held_out = of_other_folds(read(tmp_path, rows).table, config_of(calibrators=("platt",)))
        assert not found
        results = Results.of(evaluate(held_out, EvaluateConfig(bootstrap_replicates=50)))
        counts = RowCounts(true=1, false=1, measured=600, folds=10, of_train=0, of_weight=0)
        summary = ScoresSummary(scorer="f", results=results, relations={}, counts=counts, base_rate=0.3, stated=True)
        assert ("rank true rows below false ones" in summary.notes[0]) == said


def hints_of(file: ScoreFile, config: ScoresConfig) -> list[str]:
    found = fit_and_measure(
        file, config, EvaluateConfig(bootstrap_replicates=50), lambda *_: nullcontext(lambda done: None)
    )
    return [f"{found.summary.hints}", found.summary.results.table().markdown()]


def test_scores_that_may_be_probabilities_are_told(tmp_path: Path, rng: np.random.Generator) -> None:
    table = table_of_scores(rng)
    q = table.set_column(1, "f", pa.array(1 / (1 + np.exp(-table["f"].to_numpy()))))
    for rows, scale, told in ((q, "any", True), (q, "probability", False), (table, "any", False)):
        config = config_of(calibrators=("platt",), scale=scale)
        assert ("give --scale probability" in hints_of(read(tmp_path, rows, scale=scale), config)[0]) == told


@pytest.mark.parametrize(("name", "told"), [("platt", True), ("beta", False)])
def test_a_mean_far_from_the_base_rate_is_told_and_small_figures_have_digits(
    tmp_path: Path, rng: np.random.Generator, name: str, told: bool
) -> None:
    config = config_of(calibrators=(name,), base_rate=1e-6)
    hints, table = hints_of(read(tmp_path, table_of_scores(rng), base_rate=1e-6), config)
    assert (f"The mean probability of ground truth {name} is 0.00" in hints) == told
    assert re.search(rf"ground truth \| {name} \| \d(\.\d)?e-0[567] ", table)


def test_two_scorers_cannot_be_mixed(tmp_path: Path, rng: np.random.Generator) -> None:
    one, *_ = fit_scores(read(tmp_path, table_of_scores(rng)).table, config_of(scorer="miner"))
    one.check_scorer("miner")
    with pytest.raises(MismatchError, match="belongs to the scorer 'miner', but the scores are of 'f'"):
        one.check_scorer("f")


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("", {}, r"s\.csv is empty: it must have the columns f, y"),
        ("f,y\n", {}, r"s\.csv has no rows after its header"),
        ("g,y\n1,1\n", {}, r"s\.csv has no column f: its columns are g, y; name another one with --score"),
        ("f,y\n1,1\n", {"weight": "w"}, r"has no column w: its columns are f, y; name another one with --weight"),
        ("f,y\n1,1\n2,yes\n", {}, r"line 3: the label in the column y is 'yes': it must be 1, 0, -1, true or false"),
        ("f,y\n1,1\n2,\n", {}, r"line 3: the label in the column y is empty"),
        ("f,y\n1,1\nhigh,0\n", {}, r"line 3: the score in the column f is 'high': it must be a finite number"),
        ("f,y\n1,1\n,0\n", {}, r"line 3: the score in the column f is empty: it must be a finite number"),
        ("f,y\n1,1\nnan,0\n", {}, r"line 3: the score in the column f is 'nan': it must be a finite number"),
        ("f,y\n1,1\ninf,0\n", {}, r"line 3: the score in the column f is 'inf': it must be a finite number"),
        ("f,y\n1,1\n2,0,5\n", {}, r"line 3: 3 columns: it must have 2"),
        ("f,y,w\n1,1,-2\n", {"weight": "w"}, r"line 2: the weight in the column w is '-2': .* number of at least 0"),
        (
            "f,y\n1,1\n2,1\n",
            {},
            r"s\.csv has 2 true and 0 false rows with a weight above 0: calibrators need at least 2",
        ),
        ("f,y,s\n1,1,new\n", {"split": "s"}, r"line 2: the split in the column s is 'new': it must be train, valid"),
        ("f,y,s\n1,1,test\n", {"split": "s"}, r"has 0 true and 0 false rows of the split valid"),
        ("f,f,y\n1,1,1\n", {}, r"s\.csv has the column f twice"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(
    tmp_path: Path, text: str, settings: dict[str, object], message: str
) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_scores(tmp_path / "s.csv", config_of(**settings))


def test_labels_may_have_every_spelling(tmp_path: Path) -> None:
    texts = ["1", "True", "true", "0", "-1", "FALSE", " 1 "]
    (tmp_path / "s.csv").write_text("f,y\n" + "".join(f" {n},{text}\n" for n, text in enumerate(texts)))
    assert read_scores(tmp_path / "s.csv", config_of()).table.labels.tolist() == [1, 1, 1, 0, 0, 0, 1]
    for labels in ([True, False, True, False], [1.0, -1.0, 1.0, 0.0]):
        table = pa.table({"f": [1, 2, 3, 4], "y": labels})
        assert read(tmp_path, table, "s.parquet").table.labels.tolist() == [1, 0, 1, 0]
    missing = pa.table({"f": [1.0, None], "y": [1, 0]})
    with pytest.raises(InputError, match=r"s\.parquet, row 2: the score in the column f is empty"):
        read(tmp_path, missing, "s.parquet")
    rounded = pa.table({"f": [2**53 + 1, 2**53, 1, 2], "y": [1, 0, 1, 0]})
    with pytest.raises(InputError, match=r"s\.parquet, row 1: the score in the column f is 9007199254740993: it must"):
        read(tmp_path, rounded, "s.parquet")
