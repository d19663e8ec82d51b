"""The findings of a check in sentences, and what to do about them."""

from dataclasses import dataclass

from kgcore.config import WatchConfig
from kgcore.metrics.bootstrap import Estimate

NONE, SHIFT, REFIT, LABEL = "", "shift", "refit", "label"  # the answers to drift
LEAST_MOVE = 0.25  # a move of this size, in log-odds, matters even if the calibration error is small


@dataclass(frozen=True)
class Evidence:
    """What a check has measured about drift.

    triples                number of new triples
    positives              number of them that are labelled true
    expected               number of true triples that the calibrator expects among them
    ece                    calibration error
    shift, slope, misfit   how far the base rate and the map have moved: see `Moves`
    base_rate              base rate of the calibrator
    moved_base_rate        the same, shifted by `shift`
    shift_p, map_p, psi_p  corrected p-values of: the base rate, the map, the scores have not moved
    psi                    population stability index of the scores
    """

    triples: int
    positives: int
    expected: float
    ece: float
    shift: Estimate
    slope: Estimate
    misfit: Estimate
    base_rate: float
    moved_base_rate: Estimate
    shift_p: float
    map_p: float
    psi: float
    psi_p: float


@dataclass(frozen=True)
class Report:
    """The result of a check in sentences.

    findings  one sentence about each kind of drift; empty: no drift was found
    notes     sentences that limit what the check can say
    answer    what to do: `shift` the calibrator to the new base rate, `refit` it with the new labels, `label` a
              random sample; '' = nothing
    """

    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    answer: str = NONE


def report(found: Evidence, config: WatchConfig) -> Report:
    """Decide what has moved.

    * The map has moved if `map_p` is below `config.alpha`: refit the calibrator.
    * Else, the base rate has moved if `shift_p` is below `config.alpha`: shift the calibrator.
    * The scores have moved if `psi_p` is below `config.alpha` and the stability index is above `config.psi`. If
      neither of the other two has moved, the probabilities still fit: there is nothing to do.

    The first two also need a calibration error above `config.ece`, or a move above LEAST_MOVE. At a low base rate the
    calibration error is always small.

    If all labels are equal, the map cannot be tested. The triples may then be a selection by label, so the answer
    to a moved base rate is to label a random sample.
    """
    scores = _scores_finding(found, config)
    if found.positives in (0, found.triples):
        sentence = _one_class(found)
        if found.shift_p < config.alpha and _matters(found, found.shift, config):
            return Report((sentence, *scores), (), LABEL)
        return Report(scores, (sentence,), NONE)
    if found.map_p < config.alpha and _matters(found, found.misfit, config):
        return Report((_map_finding(found), *scores), (), REFIT)
    if found.shift_p < config.alpha and _matters(found, found.shift, config):
        return Report((_shift_finding(found), *scores), (), SHIFT)
    still_fits = ("the labels show no change of the base rate or of the map",) if scores else ()
    return Report(scores, still_fits, NONE)


def _matters(found: Evidence, move: Estimate, config: WatchConfig) -> bool:
    return found.ece > config.ece or abs(move.value) > LEAST_MOVE


def _shift_finding(found: Evidence) -> str:
    rate = found.moved_base_rate
    return (
        f"the base rate moved: since calibration, the log-odds have changed by {_interval(found.shift, '+.2f')} "
        f"(p-value {found.shift_p:.2g}), so the base rate is about {_interval(rate, '.3g')} instead of "
        f"{found.base_rate:.3g}; beyond this shift no change of the map was found (remaining misfit "
        f"{_interval(found.misfit, '.2f')}): shift the calibrator to the new base rate"
    )


def _map_finding(found: Evidence) -> str:
    return (
        f"the map moved: beyond a shift of {_interval(found.shift, '+.2f')}, the log-odds differ from those at "
        f"calibration by {_interval(found.misfit, '.2f')} (root mean square; p-value {found.map_p:.2g}), and their "
        f"slope is {_interval(found.slope, '.2f')} instead of 1: refit the calibrator with the new labels"
    )


def _scores_finding(found: Evidence, config: WatchConfig) -> tuple[str, ...]:
    if found.psi <= config.psi or found.psi_p >= config.alpha:
        return ()
    return (
        f"the scores have drifted: the stability index is {found.psi:.3f}, above {config.psi:g} "
        f"(p-value {found.psi_p:.2g})",
    )


def _one_class(found: Evidence) -> str:
    same = "true" if found.positives else "false"
    return (
        f"all {found.triples:,} labels are {same}; the calibrator expects {found.expected:,.1f} true triples among "
        "them: labels of one class cannot show whether the base rate or the map moved; label a random sample of the "
        "triples that you judge, with its true and its false triples"
    )


def _interval(estimate: Estimate, style: str) -> str:
    return f"{estimate.value:{style}} [{estimate.low:{style}}, {estimate.high:{style}}]"
