"""What validation says about the calibrators: cross-fitting, the audit of their samples, and which of them answers.

Folds are random parts of rows: what is fitted to the others gives each of them its probability. If the user names no
calibrator, the best one of the first kind of negatives answers: see `answering_kinds`.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Ints, Probabilities, Scores, Weights, draw_folds, same_length
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import BASELINE, CANDIDATES, GROUND_TRUTH, SYNTHETIC
from kgcore.calibrate.sample import CalibrationSample, base_rate_weights
from kgcore.errors import FitError, KgcalWarning, MismatchError
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import CORRUPTION, LABELLED, ScoreTable

if TYPE_CHECKING:
    from kgcore.calibrate.base import Calibrator

FIGURE = "held_out_brier_"  # start of the names of the figures, before the name of the calibrator
# starts of the names of other figures of labelled triples: see kgcore/combiners/few_labels.py
RIVAL, RIVAL_ERROR = "synthetic_brier_", "synthetic_error_"
FIT_ERROR = "fit_error_"  # how far the finite validation lets probabilities be off: see `fit_errors`
MUCH_ERROR = 0.02  # an error from this one on is reported
REPLICATES = 30  # of `fit_errors`
MOST_GROUPS = 2_000  # from more groups, the error is small, and the fits take long
UNLIKE = (
    "unlike_positives_"  # share of the true candidates that cannot be like the positives: kgcore/mixture/goodness.py
)
MUCH_UNLIKE = 0.05  # such a share from this one on is reported
ORDER = (BASELINE, CANDIDATES, GROUND_TRUTH, SYNTHETIC)  # of the kinds of negatives among the models of a run
ANSWERING = (GROUND_TRUTH, CANDIDATES, SYNTHETIC)  # see `answering_kinds`
MOST_ROWS = 500_000  # of a larger sample, as many rows are cross-fitted
HIGH = 0.75  # a probability above it counts as high
MOST_THIN = 0.5  # if a larger share of the high probabilities of positives is thin, a report has a note
POSITIVES, THIN, NEGATIVES = "high_positives", "thin_positives", "high_negatives"


def row_groups(table: ScoreTable, source: Ints, weighted: bool, cold: int | None = None) -> dict[str, Ints]:
    """Return, for each kind of negatives, the group number (n,) of each row of its sample. A group stays in one fold.

    source  (c,) for each validation corruption of the table that was not searched: the index, from 0, of the validation
            positive that it was made from
    cold    column of the cold entities in triples, 0 or 2, if valid was drawn by them: all rows of an entity, and the
            corruptions of its positives, are one group. None: valid was not drawn by entities

    In the synthetic sample, a positive and its corruptions are one group, and each searched row is a group. If the
    sample is weighted, it has no positives of relations without corruptions. In the ground-truth sample, each triple is
    a group. With confidences, a triple has two rows there (`soft_sample`), and the synthetic sample has no triple with
    the confidence 0.

    Raises MismatchError if `source` does not fit the table.
    """
    positives, drawn = np.flatnonzero(table.rows("valid", LABELLED, 1)), table.rows("valid", CORRUPTION)
    if len(source) != drawn.sum() or (len(source) and not 0 <= source.min() <= source.max() < len(positives)):
        raise MismatchError(
            f"{len(source):,} corruptions have a source, but the table has {int(drawn.sum()):,} corruptions of "
            f"{len(positives):,} positives: the sources and the table must come from one corrupt run"
        )
    of_positives = np.arange(len(positives)) if cold is None else table.triples[positives, cold]
    group = len(positives) + np.arange(len(table)) if cold is None else table.triples[:, cold].copy()
    group[drawn] = of_positives[source]
    corruptions, used = table.corruptions(), np.ones(len(positives), dtype=bool)
    truth = table.truth[table.rows("valid", LABELLED)]
    labelled = np.arange(len(truth)) if cold is None else table.triples[table.rows("valid", LABELLED), cold]
    if weighted:
        used = np.isin(table.triples[positives, 1], table.triples[corruptions, 1])
    if table.soft("valid"):
        used &= table.truth[positives] > 0
        labelled = np.r_[labelled[truth > 0], labelled[truth < 1]]
    return {"synthetic": np.r_[of_positives[used], group[corruptions]], "ground_truth": labelled}


def cross_fitted(calibrator: "type[Calibrator]", sample: CalibrationSample, fold: Ints) -> Probabilities:
    """Return a probability for each row of a sample (n,), from a calibrator fitted on all folds but the row's own.

    fold  (n,) the fold number of each row

    Raises FitError if the rows outside one fold all have the same label, or if a fit does not converge.
    """
    q = np.full(same_length(scores=sample.scores, fold=fold), np.nan)
    for held, asked, others in held_folds(sample, fold):
        q[held] = calibrator().fit_sample(others).calibrate_of(*asked)
    return q


def held_folds(
    sample: CalibrationSample, fold: Ints, base_rate: float | None = None
) -> Iterator[tuple[Bools, tuple[Scores, Ints | None], CalibrationSample]]:
    """Yield, for each fold, the mask (n,) of its rows, their scores and predicates, and the rows of all other folds.

    fold       (n,) the fold number of each row
    base_rate  share of positives, in (0, 1), that the other rows are weighted to; None: their weights stay
    """
    for number in np.unique(fold):
        held = fold == number
        others = sample.part(~held)
        if base_rate is not None:
            others = replace(others, weights=base_rate_weights(others.labels, base_rate, counts=others.weights))
        yield held, (sample.scores[held], None if sample.predicates is None else sample.predicates[held]), others


def score_audit(sample: CalibrationSample, soft: bool = False) -> dict[str, float]:
    """Return the overlap and the effective size of a sample, by name.

    soft  whether the labels are soft (`soft_sample`). Then every row is a positive and a negative, and the overlap is
          weighted

    overlap                P(f(t-) > f(t+)) + P(f(t-) = f(t+)) / 2 = 1 - AUROC, in [0, 1], for the score f of a random
                           negative t- and a random positive t+. Rows count by their `counts`, not by their weights.
                           0: the model scores every positive above every negative. 0.5: the model cannot separate
                           them. If synthetic negatives overlap with the positives far less than labelled negatives do,
                           then synthetic negatives are easier than real mistakes, and the probabilities fitted on them
                           are too confident.
    effective_sample_size  (sum w)^2 / sum w^2 (Kish 1965): the number of equally weighted rows that would carry the
                           same information
    """
    weights, rows = sample.weights, np.ones(len(sample.labels)) if sample.counts is None else sample.counts
    overlap = _overlap(sample, weights if soft else rows)
    return {"overlap": overlap, "effective_sample_size": float(weights.sum() ** 2 / (weights**2).sum())}


def _overlap(sample: CalibrationSample, weights: Weights) -> float:
    """Return the overlap of `score_audit`, where positives and negatives are drawn in proportion to weights (n,)."""
    _, place = np.unique(sample.scores, return_inverse=True)
    positive, negative = (np.bincount(place, np.where(sample.labels == label, weights, 0.0)) for label in (1, 0))
    below = np.cumsum(positive) - positive / 2
    return float(negative @ below / (positive.sum() * negative.sum()))


def thin_figures(bound: Calibrated, sample: CalibrationSample) -> dict[str, float]:
    """Return the numbers of rows of a calibration sample that have a high probability, by name.

    bound   a calibrator, at its own base rate, which may be another than that of the sample
    sample  the sample that it was fitted on

    POSITIVES  positives among them
    THIN       those of these positives whose 95 % confidence interval reaches to 1/2 or below
    NEGATIVES  negatives among them; if rows have counts, the sum of these

    The names end with the name of the calibrator.
    """
    predicates = sample.predicates
    q = bound.predict(sample.scores, bound.model, predicates)
    true, false = ((q > HIGH) & (sample.labels == label) for label in (1, 0))
    low, _ = bound.interval(sample.scores[true], q[true], None if predicates is None else predicates[true])
    negatives = int(false.sum()) if sample.counts is None else round(float(sample.counts[false].sum()))
    numbers = {POSITIVES: int(true.sum()), THIN: int(np.sum(low <= 0.5)), NEGATIVES: negatives}
    return {f"{key}.{bound.name}": float(number) for key, number in numbers.items()}


def thin_notes(audits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a note about the calibrators whose sample is too small for high probabilities, if there are any.

    audits  kind of negatives -> the results of `thin_figures` of the calibrators on them; other keys are ignored

    A sample is too small if more than half of the validation positives with a high probability are thin. The number of
    negatives with a high probability does not decide it: if a model separates well, even a large sample has hardly any
    of them.
    """
    thin = []
    for negatives, figures in sorted(audits.items()):
        for name in (key.removeprefix(f"{POSITIVES}.") for key in figures if key.startswith(f"{POSITIVES}.")):
            positives, reach, false = (int(figures[f"{key}.{name}"]) for key in (POSITIVES, THIN, NEGATIVES))
            if reach > MOST_THIN * positives:
                thin.append(f"{negatives}.{name} ({reach:,} of {positives:,}; {false:,} negative{'s' * (false != 1)})")
    if not thin:
        return []
    return [
        f"The calibration sample is too small for probabilities above {HIGH:g} at this base rate. Most validation "
        "positives with such a probability have a 95 % confidence interval that reaches below 0.5: "
        f"{', '.join(thin)}. Read the intervals of the predictions, or add validation triples."
    ]


HeldOut = tuple[Bools, dict[str, Probabilities | None]]


def held_out(
    fitted: Sequence[tuple[Calibrated, CalibrationSample]], groups: Ints, folds: int, rng: np.random.Generator
) -> HeldOut:
    """Return the cross-fitted probabilities of each calibrator on the validation rows of one kind of negatives.

    fitted  calibrators, and the samples (n rows) that they were fitted on. That of a combiner has log-odds of combiners
            that had not seen the triple
    groups  (n,) the group of each row: see `row_groups`. A group stays in one fold
    folds   parts of the rows: a calibrator that is fitted to the others predicts each. Fewer, if fewer groups have a
            label

    Return a mask (n,) of the m rows that are used, and the name of each calibrator with its probabilities (m,); None if
    fewer than two groups have a label, or if a fit to a part fails.
    """
    rows = _some(groups, rng)
    labels, groups = fitted[0][1].labels[rows], groups[rows]
    folds = min(folds, *(len(np.unique(groups[labels == label])) for label in (0, 1)))
    probabilities: dict[str, Probabilities | None] = {bound.shown_name: None for bound, _ in fitted}
    if folds < 2:
        return rows, probabilities
    parts = draw_folds(groups, labels, folds, rng)
    for bound, sample in fitted:
        own = sample if rows.all() else sample.part(rows)
        with suppress(FitError), warnings.catch_warnings():
            warnings.simplefilter("ignore", KgcalWarning)  # the fit to all rows has warned
            q = np.empty(len(labels))
            for held, asked, others in held_folds(own, parts):
                q[held] = CALIBRATORS.get(bound.name)().fit_sample(others).calibrate_of(*asked)
            probabilities[bound.shown_name] = q
    return rows, probabilities


def held_out_figures(
    fitted: Sequence[tuple[Calibrated, CalibrationSample]],
    rows: Bools,
    probabilities: Mapping[str, Probabilities | None],
) -> dict[str, float]:
    """Return the Brier score of each calibrator that has probabilities, from the arguments and output of `held_out`."""
    figures = {}
    for bound, sample in fitted:
        if (q := probabilities[bound.shown_name]) is not None:
            used = sample.part(rows)
            figures[FIGURE + bound.shown_name] = float(np.average((q - used.labels) ** 2, weights=used.weights))
    return figures


def fit_errors(
    fitted: Sequence[tuple[Calibrated, CalibrationSample]], groups: Ints, rng: np.random.Generator
) -> dict[str, float]:
    """Return how far the probabilities of each calibrator are off because validation has so few groups, in [0, 1].

    fitted  calibrators, and the samples that they were fitted on
    groups  (n,) the group of each row, such as a cold entity: see `row_groups`

    The calibrator is fitted again to groups that are drawn with replacement, REPLICATES times. The figure is the root
    mean square, over rows and replicates, of the difference to its probabilities (the cluster bootstrap: Davison &
    Hinkley 1997, section 3.8). Rows of a group are right or wrong together, so their number says little about it. A
    calibrator whose fit to a replicate fails has no figure. Empty if there are more than MOST_GROUPS.
    """
    distinct, place = np.unique(groups, return_inverse=True)
    if len(distinct) > MOST_GROUPS:
        return {}
    drawn = [
        np.bincount(rng.integers(0, len(distinct), len(distinct)), minlength=len(distinct)) for _ in range(REPLICATES)
    ]
    figures = {}
    for bound, sample in fitted:
        q, squares = bound.calibrator.calibrate_of(sample.scores, sample.predicates), []
        with suppress(FitError), warnings.catch_warnings():
            warnings.simplefilter("ignore", KgcalWarning)
            for times in drawn:
                again = CALIBRATORS.get(bound.name)().fit_sample(sample.repeated(times[place]))
                off = again.calibrate_of(sample.scores, sample.predicates) - q
                squares.append(float(np.average(off**2, weights=sample.weights)))
            figures[FIT_ERROR + bound.shown_name] = float(np.sqrt(np.mean(squares)))
    return figures


def _some(groups: Ints, rng: np.random.Generator) -> Bools:
    """Return a mask (n,) of the rows of random groups: of about MOST_ROWS rows, or of all if there are not more."""
    if len(groups) <= MOST_ROWS:
        return np.ones(len(groups), dtype=bool)
    distinct, place = np.unique(groups, return_inverse=True)
    return (rng.random(len(distinct)) < MOST_ROWS / len(groups))[place]


def in_order(fitted: Sequence[Calibrated], figures: Mapping[str, Mapping[str, float]]) -> list[Calibrated]:
    """Return the calibrators by kind of negatives, in the order of ORDER. Of each kind, the first one answers.

    figures  kind of negatives -> the figures of its calibrators

    Of each kind, the lowest figure comes first, and calibrators without a figure come last.
    """
    briers = {kind: _figures(figures.get(kind, {}), FIGURE) for kind in ORDER}
    return sorted(
        fitted,
        key=lambda bound: (ORDER.index(bound.negatives), briers[bound.negatives].get(bound.shown_name, np.inf)),
    )


def answering_kinds(audits: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the kinds of negatives: the calibrators of the first one that a run has answer.

    audits  kind of negatives -> figures, among them those of this module

    The labelled ones come first if the best calibrator that is fitted to them has, on them, a Brier score that is lower
    by a standard error than that of the one that answers without them; or if nothing is compared. Otherwise, last.
    """
    own, without, error = _rivals(audits)
    return (CANDIDATES, SYNTHETIC, GROUND_TRUTH) if without < own + error else ANSWERING


def _rivals(audits: Mapping[str, Mapping[str, float]]) -> tuple[float, float, float]:
    """Return the two Brier scores that `answering_kinds` compares, infinite without them, and the error."""
    labelled, synthetic = audits.get(GROUND_TRUTH, {}), _figures(audits.get(SYNTHETIC, {}), FIGURE)
    name, own = min(synthetic, key=lambda each: synthetic[each], default=""), _figures(labelled, FIGURE).values()
    return min(own, default=np.inf), labelled.get(RIVAL + name, np.inf), labelled.get(RIVAL_ERROR + name, 0.0)


def few_labels_note(audits: Mapping[str, Mapping[str, float]]) -> str:
    """Return the sentence that says why no calibrator of labels answers; '' if one does, or without labels."""
    own, without, error = _rivals(audits)
    if without >= own + error:
        return ""
    among = f"{own:.4f} (standard error of the difference: {error:.4f})" if np.isfinite(own) else "unknown"
    return (
        "Too few triples are labelled false: on the labelled triples, the Brier score of the calibrator that is fitted "
        f"to corruptions is {without:.4f}, and that of the best one that is fitted to them {among}. So no calibrator "
        "of labels answers."
    )


def answering_label(
    fitted: Sequence[Calibrated], audits: Mapping[str, Mapping[str, float]] = MappingProxyType({})
) -> str:
    """Return the label of the calibrator that answers, given all of a run in order; '' if only baselines are there.

    audits  see `answering_kinds`
    """
    for kind in answering_kinds(audits):
        for bound in fitted:
            if bound.negatives == kind:
                return bound.label
    return ""


def answers_because(figures: Mapping[str, float]) -> str:
    """Return which calibrator of a kind of negatives answers, and why; '' if there is no comparison.

    figures  the figures of the calibrators of this kind
    """
    best, *others = sorted(_figures(figures, FIGURE).items(), key=lambda item: item[1]) or [("", 0.0)]
    if not others:
        return ""
    (name, brier), (following, next_brier) = best, others[0]
    return (
        f"The calibrator {_words(name)} answers: the best of {1 + len(others)} on validation (Brier score {brier:.4f}; "
        f"next: {_words(following)}, {next_brier:.4f})."
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def answering_notes(audits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return which calibrator answers, and what validation says about all of them, in sentences.

    audits  kind of negatives -> figures, among them those of this module
    """
    first = next((kind for kind in answering_kinds(audits) if kind in audits), "")
    notes = list(filter(None, (few_labels_note(audits), answers_because(audits.get(first, {})))))
    ways = {
        GROUND_TRUTH: "cross-fitted on the labelled validation triples",
        CANDIDATES: "estimated without labels",
        SYNTHETIC: "cross-fitted on the validation triples and their corruptions",
    }
    for kind, how in ways.items():
        own = _figures(audits.get(kind, {}), FIGURE)
        if len(own) > 1:
            texts = ", ".join(f"{name} {value:.4f}" for name, value in sorted(own.items(), key=lambda item: item[1]))
            words = "synthetic negatives" if kind == SYNTHETIC else _words(kind)
            notes.append(f"Brier scores of the calibrators on {words}, {how}: {texts}.")
        for name, error in _figures(audits.get(kind, {}), FIT_ERROR).items():
            if error >= MUCH_ERROR and kind == first and name == min(own, key=lambda each: own[each], default=name):
                notes.append(
                    f"The probabilities of {_words(name)} are off by about {error:.2f} because validation has so few "
                    "entities: so much do they change if its entities are drawn again. Hold out more of them."
                )
        for name, share in _figures(audits.get(kind, {}), UNLIKE).items():
            if share >= MUCH_UNLIKE:
                notes.append(
                    f"{name}: at least {share:.0%} of the true candidates differ from the validation positives, if the "
                    "base rate is right. Without labels, this calibrator is then wrong about them: label some "
                    "candidates, or check the base rate."
                )
    return notes


def cautions(audits: Mapping[str, Mapping[str, float]], answers: str) -> list[str]:
    """Return those notes about the calibrator that answers that change a decision.

    audits   as in `answering_notes`
    answers  its label
    """
    kind, _, name = answers.rpartition(".")
    wanted = {FIT_ERROR + name, UNLIKE + name, *(f"{key}.{name}" for key in (POSITIVES, THIN, NEGATIVES))}
    figures = {kind: {key: value for key, value in audits.get(kind, {}).items() if key in wanted}}
    return answering_notes(figures) + thin_notes(figures)


def _figures(figures: Mapping[str, float], start: str) -> dict[str, float]:
    """Return calibrator -> its figure with this start of its name."""
    return {name.removeprefix(start): value for name, value in figures.items() if name.startswith(start)}
