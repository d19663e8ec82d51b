"""The results of a calibration of scores: their JSON, the sentences that a report shows with them, and the page."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kgcore.measure.evaluation.groups import RelationReliability
from kgcore.measure.metrics.reliability import Reliability
from kgcore.measure.report.data import svg
from kgcore.measure.report.page import render
from kgcore.measure.report.result import Brief
from kgcore.measure.report.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """The numbers of rows of a calibration of scores.

    true, false  labelled rows that the calibrators are fitted on
    measured     rows that they are measured on
    folds        folds that were measured; 0: the rows are those of the split test
    of_train     rows of the split train, which are left out
    of_weight    rows of weight 0, which are left out
    """

    true: int
    false: int
    measured: int
    folds: int
    of_train: int
    of_weight: int


@dataclass(frozen=True, kw_only=True)
class ScoresSummary:
    """The results of a calibration of scores.

    scorer     name of the scorer
    results    metrics and intervals of every calibrator
    relations  name of a relation -> its reliability; none if the rows have no relations
    counts     numbers of rows
    base_rate  base rate of the calibrators
    stated     whether the user stated it; else it is the share of true rows
    unfitted   default calibrators that need relations, of rows without relations
    hints      sentences about scores and fits that are not what they seem
    brief      what a reader needs first about the best calibrator
    """

    scorer: str
    results: Results
    relations: Mapping[str, RelationReliability]
    counts: RowCounts
    base_rate: float
    stated: bool
    unfitted: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    brief: Brief = Brief("")

    @property
    def cautions(self) -> list[str]:
        """Return those of the notes that change a decision."""
        return [*self._wrong_way(), *self.hints]

    @property
    def notes(self) -> list[str]:
        """Return the sentences that a report shows with the results."""
        counts = self.counts
        fitted = f"Fitted to {counts.true:,} true and {counts.false:,} false rows of the scorer {self.scorer}."
        by_test = f"Measured on the {counts.measured:,} rows of the split test."
        by_fold = f"Measured on {counts.measured:,} rows, with calibrators that were fitted to the others."
        by_folds = (
            f"Measured by cross-fitting on {counts.measured:,} rows ({counts.folds} folds): each probability is from a "
            "calibrator that was fitted without the fold of the row."
        )
        cross_fitted = f"{by_fold if counts.folds == 1 else by_folds} The stored calibrators are fitted to all rows."
        share = counts.true / (counts.true + counts.false)
        stated = f"Weighted to the stated base rate of {self.base_rate:g}; the share of true rows is {share:.4g}."
        estimated = (
            f"The base rate is {self.base_rate:.4g}, the share of true rows in the file. If another share of the rows "
            "that you will ask about is true, the probabilities are wrong: state the share with --base-rate."
        )
        left_out = {"of the split train": counts.of_train, "of weight 0": counts.of_weight}
        return [
            *self.cautions,
            fitted,
            cross_fitted if counts.folds else by_test,
            stated if self.stated else estimated,
            *(f"Left out: the calibrator {name}, which needs --relation." for name in self.unfitted),
            *(f"Left out: {n:,} rows {which}." for which, n in left_out.items() if n),
        ]

    def _wrong_way(self) -> list[str]:
        """Return a sentence if the scores rank true rows below false ones, beyond chance."""
        raw = self.results.row("", "uncalibrated")
        if "auroc" not in raw.intervals or raw.intervals["auroc"][1] >= 0.5:
            return []
        return [
            f"The scores rank true rows below false ones (AUROC {raw.metrics['auroc']:.2f}): a higher score must be "
            "more plausible. Negate the scores, or check the labels."
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON."""
        return self.results.to_json() | {
            "scorer": self.scorer,
            "relations": [
                {"name": name, "reliability": asdict(reliability)} for name, reliability in self.relations.items()
            ],
            "counts": asdict(self.counts),
            "base_rate": self.base_rate,
            "stated": self.stated,
            "notes": self.notes,
        }


def scores_page(
    summary: ScoresSummary,
    figures: "Mapping[str, Figure]",
    settings: Mapping[str, Mapping[str, object]],
    runs: Mapping[str, str],
    curves: Mapping[str, Reliability],
) -> str:
    """Return the report of a calibration of scores as HTML. The arguments are those of `page`."""
    best = summary.results.best_fitted()
    measured = "Probabilities on rows of other folds" if summary.counts.folds else "Probabilities on the test split"
    return render(
        "scores.html.j2",
        f"Calibrated probabilities of the scorer {summary.scorer}",
        summary.results,
        settings,
        curves,
        best.label if best else "",
        summary=summary,
        brief=summary.brief,
        what="rows",
        measured=measured,
        relations=[{"name": name, "reliability": reliability} for name, reliability in summary.relations.items()],
        figures={name: svg(figure) for name, figure in figures.items()},
        counts=asdict(summary.counts),
        runs=runs,
    )
