"""Few labelled negatives: they calibrate combiners of corruptions, and show how good calibrators of corruptions are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kgcore.arrays import Ints, Scores
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import GROUND_TRUTH, SYNTHETIC, Basis, bind
from kgcore.calibrate.sample import CalibrationSample, shift
from kgcore.calibrate.support import Support, rows_of
from kgcore.calibrate.validation import FIGURE, RIVAL, RIVAL_ERROR, HeldOut, held_out_figures
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import LABELLED, ScoreTable, TableEvidence

RECALIBRATOR = (
    "per_relation"  # of a combiner's log-odds: relations differ in how like their mistakes are to corruptions
)
Fitted = Sequence[tuple[Calibrated, CalibrationSample]]  # calibrators, and the samples that they were fitted to


def fitted_to_labels(
    fitted: Fitted, evidence: TableEvidence, table: ScoreTable, basis: Basis, weighted: bool
) -> Fitted:
    """Return combiners that were fitted to corruptions, with calibrators that are fitted to their log-odds of labels.

    fitted    the output of `fit_combiners` for the positives and the corruptions
    basis     the labelled triples of valid: see `calibration_bases`
    weighted  see `ScoreTable.positives`

    The log-odds of a positive are those of combiners that had not seen it. No combiner has seen a labelled negative.
    The confidence limits are those of all labelled triples together: a predicate has too few for limits of its own, and
    most of its map is that of all. Raises FitError if a fit does not converge.
    """
    labelled, seen, again = table.rows("valid", LABELLED), table.positives(weighted), []
    for bound, sample in fitted:
        assert bound.combined is not None
        log_odds = np.zeros(len(table))
        log_odds[labelled] = bound.combined.scores(evidence.at(labelled), table.triples[labelled, 1])
        log_odds[seen] = sample.scores[sample.labels == 1]
        held_out = basis.scored(log_odds[labelled])
        recalibrator = CALIBRATORS.get(RECALIBRATOR)().fit_sample(held_out.sample)
        support = Support.fit(held_out.sample, by_predicate=False)
        again.append((bind(basis.terms, RECALIBRATOR, recalibrator, bound.combined, support), held_out.sample))
    return again


def beside_corruptions(fitted: Sequence[Calibrated], sample: CalibrationSample) -> list[Calibrated]:
    """Return the calibrators. The corruptions of a sample count beside the few labels of some: see `Support.fewest`.

    A predicate without labelled negatives then has answers, by the map of all predicates.
    """
    corruptions = {predicate: negatives for predicate, (_, negatives) in rows_of(sample).items()}
    return [
        replace(bound, support=replace(bound.support, corruptions=corruptions))
        if bound.negatives == GROUND_TRUTH and bound.support
        else bound
        for bound in fitted
    ]


def compared(
    fitted: Fitted, held: Mapping[str, HeldOut], table: ScoreTable, evidence: TableEvidence | None
) -> dict[str, float]:
    """Compare calibrators of corruptions with the best of labelled triples, on the labelled triples of valid.

    fitted    all of both
    held      kind of negatives -> the output of `held_out` for them
    evidence  None: no calibrator sees any

    The probabilities of the positives are cross-fitted, and so are those of calibrators of labels. No corruption is
    labelled. The figures of each calibrator of corruptions:

    RIVAL        its Brier score on the labelled triples, if its probabilities are shifted to their base rate b
    RIVAL_ERROR  the standard error of its difference to the lowest one of calibrators of labels: (1 - b) s / sqrt(n),
                 for the standard deviation s of the difference of the squared probabilities of the n labelled
                 negatives. The positives are so many more that their error hardly counts. Missing without such a one
    """
    of_labels, others = ([pair for pair in fitted if pair[0].negatives == kind] for kind in (GROUND_TRUTH, SYNTHETIC))
    base_rate, figures = of_labels[0][1].base_rate, dict[str, float]()
    own_rows, of_own = held[GROUND_TRUTH]
    is_used = own_rows & (of_labels[0][1].labels == 0)
    negatives = np.flatnonzero(table.rows("valid", LABELLED))[is_used]
    own = held_out_figures(of_labels, own_rows, of_own)
    q_of_best = of_own.get(min(own, key=lambda each: own[each], default="").removeprefix(FIGURE))
    best = None if q_of_best is None else q_of_best[is_used[own_rows]]
    rows, probabilities = held[SYNTHETIC]
    counts = None if table.weights is None else table.weights[negatives]
    for bound, sample in others:
        if (q := probabilities[bound.shown_name]) is None:
            continue
        used = sample.part(rows)
        true = shift(q[used.labels == 1], bound.base_rate, base_rate)
        scores = _scores(bound, table, evidence, negatives)
        false = bound.calibrator.calibrate_of(scores, table.triples[negatives, 1])
        squares = shift(false, bound.base_rate, base_rate) ** 2
        lost = base_rate * np.average((1 - true) ** 2, weights=used.weights[used.labels == 1])
        figures[RIVAL + bound.shown_name] = float(lost + (1 - base_rate) * np.average(squares, weights=counts))
        if best is not None:
            error = (1 - base_rate) * np.std(squares - best**2) / np.sqrt(len(negatives))
            figures[RIVAL_ERROR + bound.shown_name] = float(error)
    return figures


def _scores(bound: Calibrated, table: ScoreTable, evidence: TableEvidence | None, rows: Ints) -> Scores:
    """Return what the calibrator maps to probabilities, for rows (m,) of the table: their scores or their log-odds."""
    if bound.combined is None or evidence is None:
        return table.scores[rows]
    mask = np.zeros(len(table), dtype=bool)
    mask[rows] = True
    return bound.combined.scores(evidence.at(mask), table.triples[rows, 1])
