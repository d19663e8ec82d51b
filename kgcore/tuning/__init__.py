"""The search for training settings: what is searched (space.py), by which figure (held_out.py, objective.py), and how
(search.py). It never sees the test split."""

from typing import Literal

METRICS: dict[str, Literal["minimize", "maximize"]] = {
    "brier": "minimize",
    "log_loss": "minimize",
    "accuracy": "maximize",
    "mrr": "maximize",
}
SEARCHED = ("learning_rate", "regulariser", "epochs", "negatives", "sides", "k", "eta")  # unless others are named
SEARCHABLE = (*SEARCHED, "dropout", "initial_scale", "inverse_relations", "cohort_weight")
FEWEST_EPOCHS = 4  # so that a trial is looked at three times on its way
