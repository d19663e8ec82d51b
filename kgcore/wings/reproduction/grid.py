"""The pipeline runs that the paper's tables and plots need."""

from dataclasses import dataclass, replace
from itertools import product

from kgcore.config import CalibrateConfig, CorruptConfig, PipelineConfigs, PrepareConfig
from kgcore.config.presets import CORRUPTIONS, MODELS, PRESETS
from kgcore.config.presets import preset as training
from kgcore.errors import InputError

LOSSES = ("self_adversarial", "pairwise", "nll", "multiclass_nll")
UNLABELLED = ("fb15k-237", "wn18rr")
LABELLED = ("wn11", "fb13", "yago39k")  # data sets with labelled negatives
SIZES_OF_UNLABELLED = {"fb15k-237": (30, 350), "wn18rr": (20, 200)}  # eta and k of the published models
ETAS = (1, 5, 10, 20, 50, 100)
SIZES = (10, 25, 50, 100, 200, 500)
TABLES = ("results", "losses", "classification", "base-rate", "sensitivity", "ranks", "thresholds", "reliability")


@dataclass(frozen=True)
class Cell:
    """One run of the pipeline. Its model and loss have the names in the paper.

    varied  the setting that the sensitivity study varies, eta or k; else ''
    eta, k  the values in the paper. A preset may replace a value that is not varied
    seed    seed of training, and of the corruptions in calibration
    """

    dataset: str
    model: str
    loss: str
    preset: str
    base_rate: float = 0.5
    varied: str = ""
    eta: int = 20
    k: int = 100
    seed: int = 0

    @property
    def configs(self) -> PipelineConfigs:
        """Return the settings of every stage for this run."""
        train = training(self.preset, self.dataset, self.model, self.loss).replace(seed=self.seed)
        if self.varied:
            train = train.replace(training_eta=self.eta, k=self.k)
            train = train.replace(epochs=500) if self.preset == "paper" else train
        # As in the paper, but corruptions that are known facts are removed
        corrupt = CorruptConfig(calibration_strategy={"uniform": 1.0}, calibration_sides="both", calibration_eta="20")
        if self.preset != "paper" and self.dataset in LABELLED:  # elsewhere, corruptions are also the test negatives
            corrupt = CORRUPTIONS[self.dataset]
        calibrators = ("platt", "isotonic")
        return PipelineConfigs(
            prepare=PrepareConfig(dataset=self.dataset),
            train=train,
            corrupt=corrupt.replace(calibration_seed=self.seed),
            calibrate=CalibrateConfig(calibrators=calibrators, base_rate=self.base_rate),
        ).at_base_rate()

    def __str__(self) -> str:
        varied = f" {self.varied}={getattr(self, self.varied)}" if self.varied else ""
        rate = f" alpha={self.base_rate:g}" if self.base_rate != 0.5 else ""
        seed = f" seed={self.seed}" if self.seed else ""
        return f"{self.dataset} {self.model} {self.loss}{varied}{rate} {self.preset}{seed}"


def cells(table: str, datasets: tuple[str, ...], preset: str) -> list[Cell]:
    """Return the runs that a table needs for the given data sets. An empty tuple means all data sets of the table."""
    labelled = [name for name in LABELLED if name in (datasets or LABELLED)]
    unlabelled = [name for name in UNLABELLED if name in (datasets or UNLABELLED)]
    if table in ("results", "classification"):
        return [Cell(data, model, LOSSES[0], preset) for data in labelled for model in MODELS]
    if table == "losses":
        return [Cell(data, model, loss, preset) for data in labelled for model in MODELS for loss in LOSSES]
    if table == "ranks":
        sizes = [(data, *SIZES_OF_UNLABELLED[data]) for data in unlabelled]
        return cells("results", datasets, preset) + [
            Cell(data, model, "multiclass_nll", preset, eta=eta, k=k) for data, eta, k in sizes for model in MODELS
        ]
    if table == "base-rate":
        if not unlabelled:
            return []
        return [
            replace(cell, base_rate=rate)
            for cell in cells("ranks", tuple(unlabelled), preset)
            if cell.model == "complex"
            for rate in [round(0.05 * step, 2) for step in range(1, 20)]
        ]
    if table == "sensitivity":
        etas = [Cell(data, "transe", LOSSES[0], preset, varied="eta", eta=eta) for data in labelled for eta in ETAS]
        return etas + [Cell(data, "transe", LOSSES[0], preset, varied="k", k=k) for data in labelled for k in SIZES]
    if table == "thresholds":
        return [Cell(data, "transe", LOSSES[0], preset) for data in labelled]
    return [Cell(data, "transe", loss, preset) for data in labelled for loss in LOSSES]  # reliability


def grid(
    tables: tuple[str, ...], datasets: tuple[str, ...], presets: tuple[str, ...], seeds: tuple[int, ...] = (0,)
) -> dict[str, list[Cell]]:
    """Return table -> its runs, for each preset and seed. A table without runs on these data sets is left out.

    tables, datasets  `all` among the tables, and no data set, mean every one

    Raises InputError if a name is unknown, or if no table has a run.
    """
    for table in tables:
        if table not in ("all", *TABLES):
            raise InputError(f"unknown table {table!r}: the known ones are {', '.join(('all', *TABLES))}")
    for preset in presets:
        if preset not in PRESETS:
            raise InputError(f"unknown preset {preset!r}: the known ones are {', '.join(PRESETS)}")
    for name in datasets:
        if name not in LABELLED + UNLABELLED:
            raise InputError(
                f"the paper has no data set {name!r}: the known ones are {', '.join(LABELLED + UNLABELLED)}"
            )
    wanted = TABLES if "all" in tables else tuple(dict.fromkeys(tables))
    chosen = {
        table: [
            replace(cell, seed=seed)
            for preset, seed in product(dict.fromkeys(presets), dict.fromkeys(seeds))
            for cell in cells(table, datasets, preset)
        ]
        for table in wanted
    }
    empty = [table for table, runs in chosen.items() if not runs]
    if len(empty) == len(chosen):
        raise InputError(
            f"{' and '.join(empty)} covers no run on {', '.join(datasets)}: choose another table or data set"
        )
    return {table: runs for table, runs in chosen.items() if runs}
