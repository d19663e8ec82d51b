"""The published values of the paper: complete, correct and without duplicates."""

from itertools import product

import pandas as pd
import pytest

from kgcore.registries import DATASETS, LOSSES, MODELS
from kgcore.wings.reproduction import compare as paper
from kgcore.wings.reproduction.compare import PaperSchema, read_paper

FITS = list(product(("ground_truth", "synthetic"), ("platt", "platt_exact", "isotonic")))
LABELLED = {
    *((negatives, calibrator, metric) for negatives, calibrator in FITS for metric in ("brier", "log_loss", "ece")),
    *((negatives, calibrator, "accuracy") for negatives, calibrator in FITS),
    *(("none", "uncalibrated", metric) for metric in ("brier", "log_loss", "ece", "accuracy")),
    ("none", "per_relation", "accuracy"),
    *(("none", "", metric) for metric in ("mr", "mrr", "hits_at_10")),
}
UNLABELLED = {
    *(row for row in LABELLED if row[0] != "ground_truth" and row[2] != "accuracy"),
    ("none", "base_rate", "brier"),
    ("none", "base_rate", "log_loss"),
}
KEY = ["dataset", "model", "loss", "base_rate", "eta", "k"]
RATES = [float(f"0.{i:02d}") for i in range(5, 100, 5)]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return read_paper()


def value(frame: pd.DataFrame, **wanted: object) -> float:
    for name, this in wanted.items():
        frame = frame[frame[name] == this]
    assert len(frame) == 1
    return float(frame["value"].iloc[0])


def test_the_schema_accepts_the_figures_and_refuses_a_repeated_one(frame: pd.DataFrame) -> None:
    PaperSchema.validate(frame)
    assert not frame.isna().to_numpy().any()
    with pytest.raises(Exception, match="not unique"):
        PaperSchema.validate(pd.concat([frame, frame.iloc[:1]], ignore_index=True))
    with pytest.raises(Exception, match="isin"):
        PaperSchema.validate(frame.replace({"model": {"convkb": "transx"}}))


def test_names_are_registered(frame: pd.DataFrame) -> None:
    assert set(paper.DATASETS) <= set(DATASETS.names())
    assert set(paper.MODELS) - {"convkb"} <= set(MODELS.names())
    assert set(paper.LOSSES) <= set(LOSSES.names())
    for column, names in (("study", paper.STUDIES), ("dataset", paper.DATASETS), ("model", paper.MODELS)):
        assert set(frame[column]) == set(names)
    for column, names in (("negatives", paper.NEGATIVES), ("metric", paper.PUBLISHED_METRICS)):
        assert set(frame[column]) == set(names)
    assert set(frame["calibrator"]) == {"", *paper.CALIBRATORS}


@pytest.mark.parametrize(
    ("study", "cells", "figures"),
    [
        (
            "main",
            {
                *product(("wn11", "fb13", "yago39k"), ("transe", "distmult", "complex", "hole"), paper.LOSSES),
                *product(("wn11",), ("convkb",), paper.LOSSES),
            },
            LABELLED,
        ),
        ("base_rate", {*product(("fb15k-237", "wn18rr"), ("complex",), ("",))}, UNLABELLED),
        ("eta", {*product(("wn11", "fb13", "yago39k"), ("transe",), ("self_adversarial",))}, LABELLED),
        ("k", {*product(("wn11", "fb13", "yago39k"), ("transe",), ("self_adversarial",))}, LABELLED),
    ],
)
def test_every_combination_is_published(frame: pd.DataFrame, study: str, cells: set, figures: set) -> None:
    size = {"fb15k-237": (30, 350), "wn18rr": (20, 200)}
    rows = frame[frame["study"] == study]
    varied = {"base_rate": RATES, "eta": [1, 5, 10, 20, 50, 100], "k": [10, 25, 50, 100, 200, 500]}.get(study, [None])
    expected = set()
    for (dataset, model, loss), this in product(cells, varied):
        eta, k = size.get(dataset, (20, 100))
        rate, eta, k = (
            this if name == study else usual for name, usual in (("base_rate", 0.5), ("eta", eta), ("k", k))
        )
        expected |= {(dataset, model, loss, rate, eta, k, *figure) for figure in figures}
    found = list(rows[[*KEY, "negatives", "calibrator", "metric"]].itertuples(index=False, name=None))
    assert set(found) == expected
    assert len(found) == len(expected)


def test_only_yago39k_is_not_held_out(frame: pd.DataFrame) -> None:
    assert ((frame["note"] == paper.NOT_HELD_OUT) == (frame["dataset"] == "yago39k")).all()
    # isotonic regression has no calibration error on the triples that it was fitted on
    fitted = frame[
        (frame["calibrator"] == "isotonic") & (frame["negatives"] == "ground_truth") & (frame["metric"] == "ece")
    ]
    assert (fitted.loc[fitted["dataset"] == "yago39k", "value"] < 1e-12).all()
    assert (fitted.loc[fitted["dataset"] != "yago39k", "value"] > 1e-4).all()


MAIN = {"study": "main", "model": "transe", "loss": "self_adversarial"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (
            {**MAIN, "dataset": "wn11", "negatives": "ground_truth", "calibrator": "isotonic", "metric": "brier"},
            0.08729741016542457,
        ),
        (
            {**MAIN, "dataset": "wn11", "negatives": "synthetic", "calibrator": "isotonic", "metric": "brier"},
            0.08739721341529823,
        ),
        (
            {**MAIN, "dataset": "wn11", "negatives": "synthetic", "calibrator": "platt", "metric": "brier"},
            0.09112267084951825,
        ),
        (
            {**MAIN, "dataset": "wn11", "negatives": "synthetic", "calibrator": "platt_exact", "metric": "brier"},
            0.08983692134969219,
        ),
        ({**MAIN, "dataset": "wn11", "calibrator": "uncalibrated", "metric": "log_loss"}, 1.9592568123587728),
        ({**MAIN, "dataset": "wn11", "calibrator": "per_relation", "metric": "accuracy"}, 0.88206637572313),
        ({**MAIN, "dataset": "wn11", "metric": "mr"}, 2288.6169379765092),
        # the third row of FB13, the fourth of YAGO39K, the last of ConvKB
        (
            {
                **MAIN,
                "dataset": "fb13",
                "loss": "nll",
                "negatives": "ground_truth",
                "calibrator": "platt",
                "metric": "accuracy",
            },
            0.6782614191808528,
        ),
        ({**MAIN, "dataset": "yago39k", "loss": "multiclass_nll", "metric": "hits_at_10"}, 0.5900205205745761),
        (
            {
                **MAIN,
                "dataset": "wn11",
                "model": "convkb",
                "loss": "multiclass_nll",
                "negatives": "synthetic",
                "calibrator": "isotonic",
                "metric": "log_loss",
            },
            0.584907392030465,
        ),
        (
            {
                "study": "base_rate",
                "dataset": "fb15k-237",
                "base_rate": 0.5,
                "calibrator": "isotonic",
                "metric": "brier",
            },
            0.054967349335739935,
        ),
        (
            {"study": "base_rate", "dataset": "wn18rr", "base_rate": 0.95, "calibrator": "platt", "metric": "ece"},
            0.009627712230074914,
        ),
        (
            {
                "study": "base_rate",
                "dataset": "wn18rr",
                "base_rate": 0.95,
                "calibrator": "base_rate",
                "metric": "brier",
            },
            0.047251381215469616,
        ),
        ({"study": "eta", "dataset": "fb13", "eta": 50, "metric": "mrr"}, 0.2976591028420503),
        (
            {
                "study": "k",
                "dataset": "wn11",
                "k": 500,
                "negatives": "synthetic",
                "calibrator": "isotonic",
                "metric": "brier",
            },
            0.08400581986182232,
        ),
    ],
)
def test_figures_equal_the_published_ones(frame: pd.DataFrame, wanted: dict[str, object], expected: float) -> None:
    assert value(frame, **wanted) == expected


def test_the_brier_score_of_the_base_rate_is_its_variance(frame: pd.DataFrame) -> None:
    """It is alpha (1 - alpha) up to rounding of a test set to whole triples. So the rates are in the right order."""
    rows = frame[(frame["calibrator"] == "base_rate") & (frame["metric"] == "brier")]
    assert (rows["value"] - rows["base_rate"] * (1 - rows["base_rate"])).abs().max() < 3e-4
    off = (rows["value"] - rows["base_rate"] * (1 - rows["base_rate"])).abs()
    for dataset in ("fb15k-237", "wn18rr"):  # a high rate has few negatives, so its rounding is the largest
        low, high = (off[(rows["dataset"] == dataset) & (rows["base_rate"] == rate)].item() for rate in (0.05, 0.95))
        assert low < 1e-12 < 1e-5 < high
