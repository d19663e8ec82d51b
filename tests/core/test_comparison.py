"""The comparison of the paper with our results: the grid, the table of values, the findings, the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from kgcore.config.presets import MODELS, PRESETS
from kgcore.measure.evaluation.groups import RelationReliability
from kgcore.measure.evaluation.predictions import UNCALIBRATED_RAW
from kgcore.measure.metrics.classification import RelationDecisions, ThresholdResult
from kgcore.measure.report.results import MetricsRow, Results
from kgcore.measure.report.summary import PipelineSummary, RelationSummary
from kgcore.wings.reproduction.compare import COLUMNS, read_paper, side_by_side
from kgcore.wings.reproduction.grid import Cell, cells, grid
from kgcore.wings.reproduction.page import averaged, comparison_page, findings, sweep_figures, worse_than_paper

FOUR = list(MODELS)
LABELS = [f"{negatives}.{name}" for negatives in ("ground_truth", "synthetic") for name in ("platt", "isotonic")]


def summary(brier: float, mrr: float = 0.1) -> PipelineSummary:
    """Return the summary of a pipeline: `isotonic` has this Brier score, `uncalibrated` 0.4."""

    def row(negatives: str, calibrator: str, value: float) -> MetricsRow:
        metrics = {"brier": value, "log_loss": 2 * value, "ece": value / 10, "accuracy": 1 - value}
        return MetricsRow(negatives, calibrator, metrics)

    rule = ThresholdResult(threshold=-1.5, accuracy=0.75)
    reliable = RelationReliability(0, 9, 0.5, 0.3, 0.7, {})
    rows = [row("", "uncalibrated", 0.4), row("", "base_rate", 0.25)]
    for negatives, more in (("ground_truth", 0.0), ("synthetic", 0.001)):
        rows += [row(negatives, "platt", brier + 0.01 + more), row(negatives, "isotonic", brier + more)]
    return PipelineSummary(
        results=Results(tuple(rows)),
        accuracy_per_relation={"learned": 0.8, "median": 0.7},
        ranks={"mr": 100.0, "mrr": mrr, "hits_at_10": 0.2},
        relations=(RelationSummary("_has_part", RelationDecisions(0, 9, rule, rule), reliable),),
        dataset="wn11",
        model="transe",
        loss="nll",
        seed=0,
        runs={},
        seconds={},
        reused=(),
        pipeline=f"run of {brier:.2f}",
    )


@pytest.fixture
def frame() -> pd.DataFrame:
    chosen = grid(("results", "losses", "ranks", "thresholds", "sensitivity"), ("wn11",), ("default",))
    every = dict.fromkeys(cell for group in chosen.values() for cell in group)
    return side_by_side(chosen, {cell: summary(0.05 + 0.01 * i, 0.3 - 0.005 * i) for i, cell in enumerate(every)})


@pytest.mark.parametrize("name", PRESETS)
def test_every_cell_of_the_grid_has_valid_settings(name: str) -> None:
    for cell in {cell for group in grid(("all",), (), (name,)).values() for cell in group}:
        train = cell.configs.train
        assert cell.configs.prepare.dataset == cell.dataset
        assert train.loss == cell.loss
        if cell.varied:
            assert (train.training_eta, train.k) == (cell.eta, cell.k)
        assert cell.configs.calibrate.base_rate == cell.base_rate


def test_a_row_has_the_value_of_the_paper_and_ours(frame: pd.DataFrame) -> None:
    assert list(frame.columns) == COLUMNS
    row = frame.query(
        "table == 'results' and model == 'transe' and negatives == 'synthetic' and calibrator == 'isotonic'"
    ).set_index("metric")
    assert row.loc["brier", "paper"] == 0.08739721341529823
    assert row.loc["brier", "ours"] == pytest.approx(0.051)
    assert row.loc["brier", "run_id"] == "run of 0.05"
    ranks = frame.query("table == 'ranks' and model == 'transe'").set_index("metric")
    assert ranks.loc["mrr", "paper"] == pytest.approx(0.1551, abs=1e-4)
    published = frame["table"].isin(["results", "losses", "ranks"])
    assert frame.loc[published, "paper"].notna().all()
    sweep = frame.query("table == 'sensitivity' and varied == 'k' and k == 10 and calibrator == 'platt'")
    assert sweep.query("negatives == 'ground_truth' and metric == 'brier'")["paper"].item() == 0.21633584644920525
    of_relations = frame[frame["relation"] != ""]
    assert len(of_relations) == 4
    assert of_relations["paper"].isna().all()  # the paper's accuracies are over all relations
    thresholds = frame.query("table == 'thresholds' and metric == 'threshold'")
    assert set(thresholds["relation"]) == {"_has_part"}


def test_a_cell_that_failed_leaves_empty_rows() -> None:
    chosen = {"results": cells("results", ("wn11",), "default")}
    good = chosen["results"][0]
    frame = side_by_side(chosen, {good: summary(0.1)})
    assert frame.loc[frame["model"] == good.model, "ours"].notna().all()
    assert frame.loc[frame["model"] != good.model, "ours"].isna().all()
    assert frame["paper"].notna().all()
    page = comparison_page("t", frame, {}, {"wn11 hole": "no <disk>"}, [], [])
    assert "wn11 hole: no &lt;disk&gt;" in page
    assert "failed" in page


def test_the_base_rate_table_has_every_published_figure() -> None:
    chosen = {"base-rate": cells("base-rate", ("wn18rr",), "default")}
    frame = side_by_side(chosen, {cell: summary(0.1) for cell in chosen["base-rate"]})
    assert len(frame) == 19 * 2 * 4
    assert frame["paper"].notna().all()
    baseline = frame.query("calibrator == 'base_rate' and metric == 'brier'")
    np.testing.assert_allclose(baseline["paper"], baseline["base_rate"] * (1 - baseline["base_rate"]), atol=1e-3)


def test_findings_have_the_right_numbers(frame: pd.DataFrame) -> None:
    sentences = " ".join(findings(frame))
    calibrated = frame[frame["metric"].isin(["brier", "log_loss"]) & (frame["negatives"] != "none")]
    calibrated = calibrated[calibrated["table"] != "results"].drop_duplicates(  # every row of results is also in losses
        ["dataset", "model", "loss", "negatives", "calibrator", "metric", "varied", "eta", "k"]
    )
    difference = calibrated["ours"] - calibrated["paper"]
    assert f"Of {len(calibrated)} calibrated" in sentences
    assert f"{(difference <= 0.01).mean():.1%} exceed the paper's by at most 0.01" in sentences
    assert len(worse_than_paper(frame)) == (difference > 0.01).sum()
    assert "higher by 0.0010 on average" in sentences
    assert "Isotonic regression is no worse than Platt scaling: in 100.0%" in sentences
    assert "Spearman's correlation of MRR with the isotonic Brier score is -1.00" in sentences
    paper = read_paper().query("study == 'main' and dataset == 'wn11' and model in @FOUR").set_index(["model", "loss"])
    brier = paper[(paper.metric == "brier") & (paper.calibrator == "isotonic")].groupby(level=[0, 1])["value"].min()
    theirs = spearmanr(paper[paper.metric == "mrr"]["value"].reindex(brier.index), brier).statistic
    assert f"In the paper's own results it is {theirs:+.2f} over all 16 runs" in sentences


def test_the_page_has_every_table_and_figure(frame: pd.DataFrame) -> None:
    figures = sweep_figures(frame)
    assert len(figures) == 4  # Brier score and log loss over eta and k
    page = comparison_page("Side by side", frame, figures, {}, ["a note"], ["a finding"])
    for text in (
        "a finding",
        "TransE",
        "multiclass NLL",
        "paper 0.0874",
        "a note",
        "_has_part",
        "Filtered ranks",
        "<svg",
    ):
        assert text in page


def test_calibration_corrupts_as_the_paper_or_as_kgcal_does() -> None:
    chosen = grid(("thresholds", "base-rate"), ("fb13", "wn18rr"), ("default", "paper"))
    strategies = {
        (cell.dataset, cell.preset): cell.configs.corrupt.calibration_strategy for cell in chosen["thresholds"]
    }
    assert strategies == {("fb13", "default"): {"typed": 0.9, "uniform": 0.1}, ("fb13", "paper"): {"uniform": 1.0}}
    assert all(cell.configs.corrupt.calibration_strategy == {"uniform": 1.0} for cell in chosen["base-rate"])


def test_presets_stand_beside_each_other_and_seeds_are_averaged() -> None:
    chosen = grid(("results",), ("wn11",), ("default", "paper"), (0, 1, 2))
    assert len(chosen["results"]) == 4 * 2 * 3
    trained = {cell.configs.train.seed for cell in chosen["results"]}
    corrupted = {cell.configs.corrupt.calibration_seed for cell in chosen["results"]}
    assert trained == corrupted == {0, 1, 2}
    better = {"default": 0.05, "paper": 0.08}
    frame = side_by_side(chosen, {c: summary(better[c.preset] + 0.01 * c.seed) for c in chosen["results"]})
    means = averaged(frame).query("model == 'hole' and negatives == 'ground_truth' and calibrator == 'isotonic'")
    brier = means[means["metric"] == "brier"].set_index("preset")
    assert brier["ours"].to_dict() == pytest.approx({"default": 0.06, "paper": 0.09})
    assert brier["error"].to_numpy() == pytest.approx(0.01 / np.sqrt(3))
    page = comparison_page("t", frame, {}, {}, [], [])
    assert "0.0600 ± 0.0058" in page
    assert "0.0900 ± 0.0058" in page
    sentences = findings(frame)
    for preset in better:
        assert sum(sentence.endswith(f"(preset {preset})") for sentence in sentences) == 4


def test_findings_about_thresholds_base_rates_and_sizes() -> None:
    chosen = grid(("classification", "base-rate", "sensitivity"), ("wn11", "wn18rr"), ("default",))
    every = dict.fromkeys(cell for group in chosen.values() for cell in group)
    made = {cell: summary(0.1 + (0.001 * cell.k if cell.varied == "k" else 0)) for cell in every}
    sentences = " ".join(findings(side_by_side(chosen, made)))
    assert "minus that of learned thresholds is +0.1000 on average, minus that of medians +0.2000 (4 runs)" in sentences
    assert "at 38 of 38 (base rate, calibrator, data set)" in sentences  # the baseline of the summary is 0.25
    assert "k 10 to 500 on wn11: 0.110 to 0.600, the paper 0.214 to 0.084" in sentences


def test_one_cell_serves_every_table_that_needs_it() -> None:
    chosen = grid(("results", "classification", "losses", "ranks", "reliability"), ("wn11", "fb13"), ("default",))
    distinct = {cell for group in chosen.values() for cell in group}
    assert len(distinct) == 2 * 4 * 4
    assert str(Cell("wn11", "transe", "nll", "default", varied="k", k=10)) == "wn11 transe nll k=10 default"


def test_the_papers_uncalibrated_values_stand_beside_the_sigmoid_of_the_raw_score() -> None:
    [cell] = [one for one in cells("results", ("wn11",), "default") if one.model == "transe"]
    normalised = summary(0.08)
    raw = replace(normalised.results.rows[0], calibrator=UNCALIBRATED_RAW, metrics={"brier": 0.44, "log_loss": 1.9})
    both = replace(normalised, results=Results((raw, *normalised.results.rows)))
    for made, expected in ((normalised, 0.4), (both, 0.44)):
        frame = side_by_side({"results": [cell]}, {cell: made})
        [row] = frame.query("calibrator == 'uncalibrated' and metric == 'brier'").to_dict("records")
        assert row["ours"] == expected
        assert row["paper"] == pytest.approx(0.443, abs=0.001)
