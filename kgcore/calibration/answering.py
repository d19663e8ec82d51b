"""Which calibrator answers if the user names none: the best of its kind of negatives, by validation."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from kgcore.arrays import Bools, Ints
from kgcore.calibration.calibrated import Calibrated
from kgcore.calibration.fit import CANDIDATES, GROUND_TRUTH, SYNTHETIC
from kgcore.calibration.folds import cross_fitted
from kgcore.calibration.sample import CalibrationSample
from kgcore.combiners.unlabelled import unlabelled_brier, unlike
from kgcore.errors import FitError, KgcalWarning
from kgcore.folds import draw_folds
from kgcore.mixture.samples import MixtureData
from kgcore.registries import CALIBRATORS

FIGURE = "held_out_brier_"  # start of the names of the figures, before the name of the calibrator
FIT_ERROR = "fit_error_"  # how far the finite validation lets probabilities be off: see `fit_errors`
MUCH_ERROR = 0.02  # an error from this one on is reported
REPLICATES = 30  # of `fit_errors`
MOST_GROUPS = 2_000  # from more groups, the error is small, and the fits take long
UNLIKE = "unlike_positives_"  # the share of true candidates that cannot be like the positives: see `unlike`
MUCH_UNLIKE = 0.05  # such a share from this one on is reported
ANSWERING = (GROUND_TRUTH, CANDIDATES, SYNTHETIC)  # the calibrators of the first kind that a run has answer
MOST_ROWS = 500_000  # of a larger sample, as many rows are cross-fitted


def held_out_figures(
    fitted: Sequence[tuple[Calibrated, CalibrationSample]], groups: Ints, folds: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the cross-fitted Brier score of each calibrator on the validation rows of one kind of negatives.

    fitted  calibrators, and the samples that they were fitted on. That of a combiner has log-odds of combiners that had
            not seen the triple
    groups  (n,) the group of each row: see `row_groups`. A group stays in one fold
    folds   parts of the rows: a calibrator that is fitted to the others predicts each. Fewer, if fewer groups have a
            label

    Empty if fewer than two groups have a label. A calibrator whose fit to a part fails has no figure.
    """
    rows = _some(groups, rng)
    labels, groups = fitted[0][1].labels[rows], groups[rows]
    folds = min(folds, *(len(np.unique(groups[labels == label])) for label in (0, 1)))
    if folds < 2:
        return {}
    parts, figures = draw_folds(groups, labels, folds, rng), {}
    for bound, sample in fitted:
        own = sample if rows.all() else sample.part(rows)
        with suppress(FitError), warnings.catch_warnings():
            warnings.simplefilter("ignore", KgcalWarning)  # the fit to all rows has warned
            q = cross_fitted(CALIBRATORS.get(bound.name), own, parts)
            figures[FIGURE + bound.shown_name] = float(np.average((q - labels) ** 2, weights=own.weights))
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
    chosen: Bools = (rng.random(len(distinct)) < MOST_ROWS / len(groups))[place]
    return chosen


def unlabelled_figures(fitted: Sequence[tuple[Calibrated, MixtureData]]) -> dict[str, float]:
    """Return the Brier score of each calibrator for candidates, estimated without labels: see `unlabelled_brier`.

    fitted  calibrators, and the samples of the mixtures that they were fitted to

    The estimate is too low if true candidates are unlike the positives. So what they cost at least is added, and their
    share is a figure of its own: see `unlike`. Evidence that only tells positives from candidates is not chosen then.
    """
    found = {}
    for bound, data in fitted:
        both = [bound.predict(own.scores, bound.model, own.predicates) for own in (data.positives, data.candidates)]
        others = unlike(both[0], both[1], bound.base_rate)
        found[FIGURE + bound.shown_name] = unlabelled_brier(both[0], both[1], bound.base_rate) + others.cost
        found[UNLIKE + bound.shown_name] = others.share
    return found


def in_order(fitted: Sequence[Calibrated], figures: Mapping[str, Mapping[str, float]]) -> list[Calibrated]:
    """Return the calibrators in the order in which they answer: of each kind of negatives, the first one does.

    figures  kind of negatives -> the figures of its calibrators

    Of each kind, the lowest figure comes first, and calibrators without a figure come last.
    """
    kinds = list(dict.fromkeys(bound.negatives for bound in fitted))
    briers = {kind: _figures(figures.get(kind, {}), FIGURE) for kind in kinds}
    return sorted(
        fitted,
        key=lambda bound: (kinds.index(bound.negatives), briers[bound.negatives].get(bound.shown_name, np.inf)),
    )


def answering(fitted: Sequence[Calibrated]) -> str:
    """Return the label of the calibrator that answers, given all of a run in order; '' if only baselines are there."""
    for kind in ANSWERING:
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
    first = next((kind for kind in ANSWERING if kind in audits), "")
    notes = [said] if (said := answers_because(audits.get(first, {}))) else []
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


def _figures(figures: Mapping[str, float], start: str) -> dict[str, float]:
    """Return calibrator -> its figure with this start of its name."""
    return {name.removeprefix(start): value for name, value in figures.items() if name.startswith(start)}
