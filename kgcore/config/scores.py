"""The settings of the calibration of scores from any scorer."""

from dataclasses import dataclass

from kgcore.config.base import Config, setting
from kgcore.config.calibrate import SCORE_CALIBRATORS, CalibrateConfig
from kgcore.registries import CALIBRATORS

SCALES = ("any", "probability")


@dataclass(frozen=True, kw_only=True)
class ScoresConfig(Config):
    """The columns of a file of scores, and how calibrators are fitted to them and measured."""

    score: str = setting("score", "column with the scores; a higher score must be more plausible")
    label: str = setting("label", "column with the labels: 1 or true; 0, -1 or false")
    weight: str = setting("", "column with the weights of the rows, 0 or above; empty: all rows have the same weight")
    relation: str = setting("", "column with the relations, for results and calibration by relation; empty: none")
    split: str = setting(
        "",
        "column with the splits: calibrators are fitted on valid and measured on test; rows of train are left out. "
        "Empty: calibrators are fitted on all rows, and measured by cross-fitting",
    )
    scorer: str = setting("", "name of the scorer, to which the calibrators belong; empty: the name of its column")
    scale: str = setting(
        "any",
        "what the scores are: any numbers, or probabilities, of which the log-odds are calibrated",
        choices=SCALES,
    )
    calibrators: tuple[str, ...] = setting(SCORE_CALIBRATORS, "calibrators to fit", choices=CALIBRATORS)
    base_rate: float | None = setting(
        CalibrateConfig.base_rate,
        "base rate: share of true rows among those that you will ask about. If you do not state it, it is the share "
        "among the labelled rows",
        gt=0,
        lt=1,
    )
    folds: int = setting(10, "number of folds of cross-fitting, if there are no test rows", ge=2, le=100)
    most_measured: int = setting(
        1_000_000, "in cross-fitting, measure whole folds until there are about this many rows", ge=1000
    )
    fold_seed: int = setting(0, "seed of the folds", ge=0)

    @property
    def named(self) -> str:
        """The name of the scorer: the given one, or the name of the column with its scores."""
        return self.scorer or self.score
