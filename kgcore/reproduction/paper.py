"""The authors' unrounded results, published with the paper's code. paper.csv has one value per row."""

from importlib.resources import files
from typing import ClassVar

import pandas as pd
import pandera.pandas as pa
from pandera.typing import DataFrame, Series

STUDIES = ("main", "base_rate", "eta", "k")
DATASETS = ("wn11", "fb13", "yago39k", "fb15k-237", "wn18rr")
MODELS = ("transe", "distmult", "complex", "hole", "convkb")
LOSSES = ("self_adversarial", "pairwise", "nll", "multiclass_nll")
NEGATIVES = ("ground_truth", "synthetic", "none")
CALIBRATORS = ("platt", "platt_exact", "isotonic", "uncalibrated", "base_rate", "per_relation")
PUBLISHED_METRICS = ("brier", "log_loss", "ece", "accuracy", "mr", "mrr", "hits_at_10")
NOT_HELD_OUT = "not held out"


class PaperSchema(pa.DataFrameModel):
    """A table with one published value per row. All columns except `value` and `note` together identify a row.

    study       main: the study of every model and loss; base_rate, eta, k: the study that varies this setting
    dataset     name in kgcore.datasets
    model       name in kgcore.models; convkb only on WN11
    loss        name in kgcore.losses; '' in the base-rate study, because its files do not name the loss
    negatives   negatives that the calibrator is fitted on; none for a baseline and for ranks
    calibrator  platt: the authors' mini-batch fit; platt_exact: their exact sigmoid fit; isotonic;
                uncalibrated: the sigmoid of the score; base_rate: the base rate as the probability of every triple;
                per_relation: a threshold per relation, the median of its validation scores; '' for ranks
    metric      brier, log_loss (nats, clipped at 1e-7), ece (10 bins of equal width), accuracy (with the decision
                threshold 0.5, or with one threshold per relation), and the metrics of the filtered ranks of the test
                positives: mr, mrr, hits_at_10
    base_rate   share of positives that the calibration assumes: 0.05 to 0.95 in the base-rate study, else 0.5
    eta, k      corruptions per positive in training, embedding size
    value       the unrounded value
    note        'not held out' if the published code fitted and measured the calibrator on the same triples, else ''
    """

    study: Series[str] = pa.Field(isin=STUDIES)
    dataset: Series[str] = pa.Field(isin=DATASETS)
    model: Series[str] = pa.Field(isin=MODELS)
    loss: Series[str] = pa.Field(isin=("", *LOSSES))
    negatives: Series[str] = pa.Field(isin=NEGATIVES)
    calibrator: Series[str] = pa.Field(isin=("", *CALIBRATORS))
    metric: Series[str] = pa.Field(isin=PUBLISHED_METRICS)
    base_rate: Series[float] = pa.Field(gt=0, lt=1)
    eta: Series[int] = pa.Field(ge=1)
    k: Series[int] = pa.Field(ge=1)
    value: Series[float] = pa.Field(ge=0)
    note: Series[str] = pa.Field(isin=("", NOT_HELD_OUT))

    class Config:
        strict = True
        ordered = True
        unique: ClassVar[list[str]] = [
            *("study", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate", "eta", "k")
        ]


def read_paper() -> DataFrame[PaperSchema]:
    """Read paper.csv and validate it. The paper's tables and plots show some of its rows."""
    types = {name: "float64" if name in ("base_rate", "value") else "str" for name in PaperSchema.to_schema().columns}
    with files("kgcore.reproduction").joinpath("paper.csv").open(encoding="utf-8") as file:
        frame = pd.read_csv(
            file, dtype=types | {"eta": "int64", "k": "int64"}, keep_default_na=False, float_precision="round_trip"
        )
    return PaperSchema.validate(frame)
