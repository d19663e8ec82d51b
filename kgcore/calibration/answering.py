"""Which calibrator answers if the user names none: the choice between the score alone and evidence, by validation."""

from collections.abc import Mapping, Sequence

import numpy as np

from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.fit import CANDIDATES, GROUND_TRUTH
from kgcore.calibration.sample import CalibrationSample
from kgcore.combiners.unlabelled import unlabelled_brier
from kgcore.combiners.unlike import unlike
from kgcore.mixture.samples import MixtureData
from kgcore.registries import CALIBRATORS

FIGURE = "held_out_brier_"  # start of the names of the figures, before the name of the calibrator
UNLIKE = "unlike_positives_"  # the share of true candidates that cannot be like the positives: see `unlike`
MUCH_UNLIKE = 0.05  # such a share from this one on is reported


def labelled_figures(
    fitted: Sequence[tuple[BoundCalibrator, CalibrationSample]], folds: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the cross-fitted Brier score of each calibrator on labelled validation triples.

    fitted  calibrators, and the samples that they were fitted on. That of a combiner has log-odds of combiners that had
            not seen the triple
    folds   parts of the rows: a calibrator that is fitted to the others predicts each
    """
    labels = fitted[0][1].labels
    parts = np.empty(len(labels), dtype=np.int64)
    parts[np.lexsort((rng.random(len(labels)), labels))] = np.arange(len(labels)) % folds
    return {FIGURE + bound.shown_name: _brier(bound, sample, parts) for bound, sample in fitted}


def _brier(bound: BoundCalibrator, sample: CalibrationSample, parts: np.ndarray) -> float:
    q = np.empty(len(parts))
    for part in np.unique(parts):
        own = parts == part
        made = CALIBRATORS.get(bound.name)().fit_sample(sample.part(~own))
        q[own] = made.calibrate_of(sample.scores[own], None if sample.predicates is None else sample.predicates[own])
    return float(np.average((q - sample.labels) ** 2, weights=sample.weights))


def unlabelled_figures(fitted: Sequence[tuple[BoundCalibrator, MixtureData]]) -> dict[str, float]:
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


def in_order(fitted: Sequence[BoundCalibrator], figures: Mapping[str, Mapping[str, float]]) -> list[BoundCalibrator]:
    """Return the calibrators in the order in which they answer: of each kind of negatives, the first one does.

    figures  kind of negatives -> the figures of its calibrators

    A calibrator that sees evidence comes first if its figure is the lowest of its kind. Otherwise the order stays.
    """
    briers = {kind: _figures(own, FIGURE) for kind, own in figures.items() if own}
    leading = {f"{kind}.{min(own, key=lambda name: own[name])}" for kind, own in briers.items()}
    return sorted(fitted, key=lambda bound: bound.combined is None or bound.label not in leading)


def answering_notes(audits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return what validation says about evidence, in sentences.

    audits  kind of negatives -> figures, among them those of this module
    """
    notes = []
    ways = {GROUND_TRUTH: "cross-fitted on the labelled validation triples", CANDIDATES: "estimated without labels"}
    for kind, how in ways.items():
        own = _figures(audits.get(kind, {}), FIGURE)
        if len(own) > 1:
            best = min(own, key=lambda name: own[name])
            texts = ", ".join(f"{name} {value:.4f}" for name, value in sorted(own.items(), key=lambda item: item[1]))
            words = kind.replace("_", " ")
            notes.append(f"Brier scores of the calibrators on {words}, {how}: {texts}. {best} has the lowest.")
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
