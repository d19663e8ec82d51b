"""The explanation of a triple in words: each sentence states one fact."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kgcore.prediction.alternatives import Alternatives
from kgcore.prediction.contributions import CALIBRATION, CONSTANT, Contribution
from kgcore.prediction.evidence import Evidence

if TYPE_CHECKING:
    from kgcore.prediction.explanation import Explanation
    from kgcore.prediction.unseen_explanation import UnseenExplanation

MOST_NAMED = 3  # features for a triple, and features against it
_KNOWN = {
    "train": "The triple is a known fact of the training split. The model was fitted to it, so its score is higher "
    "than that of an equally plausible new triple.",
    "valid": "The triple is a known fact of the validation split, on which the calibrator was fitted.",
    "test": "The triple is a known fact of the test split.",
    "other": "The triple is a known fact that is in no split.",
}


def sentences(made: "Explanation") -> Iterator[str]:
    """Yield the sentences of an explanation, the probability first."""
    yield probability_sentence(made)
    if not made.reason:
        yield made.about
    if made.off_type:
        yield f"Off-type: {made.subject} or {made.object} has no facts like those of this predicate, so check it."
    if made.beyond:
        yield "The evidence is beyond the calibrated range: stronger than that of every validation fact."
    if made.contributions:
        yield contributions_sentence(made.contributions)
    if made.known:
        yield _KNOWN[made.known]
    if made.labelled_false:
        yield "The data set labels the triple as false."
    if made.evidence is not None:
        yield from _evidence(made, made.evidence)
    elif not made.reason and made.at_base_rates:
        yield "The calibration triples of this predicate are not known."
    yield _rank("object", f"{made.subject} {made.predicate} ?", made.object, made.subject, made.objects)
    yield _rank("subject", f"? {made.predicate} {made.object}", made.subject, made.object, made.subjects)
    if made.normalised:
        yield "Ranks compare the scores before cohort normalisation, as `kgcal rank` does."
    yield _support(made)


def probability_sentence(made: "Explanation | UnseenExplanation") -> str:
    """Return the probability with its interval and its base rate, or the reason why it is missing."""
    if made.probability is None:
        return f"No probability: {made.reason}."
    interval = f" (95 % interval: {made.interval_text})" if made.interval_text else ""
    if not made.at_base_rates:  # calibrated to missing facts
        return f"The probability is {made.text}{interval}."
    return f"The probability is {made.text}{interval}, if {percent(made.base_rate)} of all candidates are true."


def contributions_sentence(contributions: Sequence[Contribution]) -> str:
    """Return which features of the evidence count most for and against the triple."""
    features = [row for row in contributions if row.feature not in (CONSTANT, CALIBRATION)]
    for_it = [row.feature for row in features if row.log_odds > 0][:MOST_NAMED]
    against = [row.feature for row in features if row.log_odds < 0][:MOST_NAMED]
    parts = [(for_it, "for"), (against, "against")]
    named = "; ".join(f"{', '.join(names)} count most {word} it" for names, word in parts if names)
    return f"Of the evidence, {named}."


def _evidence(made: "Explanation", found: Evidence) -> Iterator[str]:
    near = found.similar
    yield (
        f"{percent(near.share)} (95 % interval: {percent(near.low)} to {percent(near.high)}) of the calibration "
        f"triples of this predicate with a similar score are true: {near.positives:,} true and {near.negatives:,} "
        f"false ones with scores from {near.lowest:.4g} to {near.highest:.4g}, weighted to the base "
        f"rate {made.base_rate:.4g}."
    )
    parts = ((found.positives_below, found.positives, "true"), (found.negatives_below, found.negatives, "false"))
    higher = " and ".join(f"{percent(below / n)} of the {n:,} {word}" for below, n, word in parts if n)
    yield f"The score {made.score:.4g} is higher than those of {higher} calibration triples of this predicate."
    if made.corruptions:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in made.corruptions.items())
        yield f"The false calibration triples are corruptions ({shares}): the probability is valid for this kind."
    if made.probability is not None and not near.low <= made.probability <= near.high:
        side, fault = ("above", "too high") if made.probability > near.high else ("below", "too low")
        hint = "" if made.by_predicate else "; the calibrator `per_relation` has a curve for each predicate"
        yield f"The probability is {side} the interval of this share: for this predicate, it may be {fault}{hint}."


def _rank(side: str, query: str, name: str, partner: str, found: Alternatives) -> str:
    facts = "1 other known fact is" if found.known == 1 else f"{found.known:,} other known facts are"
    known = f"; {facts} left out" if found.known else ""
    itself = f"; {partner} itself ranks higher" if found.itself else ""
    return f"For ({query}), the {side} {name} has rank {found.rank_text} of {found.among:,}{itself}{known}."


def _support(made: "Explanation") -> str:
    groups = (made.support.same_subject, made.support.same_object, made.support.others)
    total = sum(group.count for group in groups)
    are = "1 other known fact" if total == 1 else f"{total:,} other known facts"
    facts = [(fact.similarity, f"{fact.subject} {made.predicate} {fact.object}") for g in groups for fact in g.nearest]
    if not total:
        return "The predicate has no other known facts."
    nearest = "The nearest one is {1} (similarity {0:.2f}).".format(*max(facts)) if facts else ""
    counts = f"{groups[0].count:,} with the same subject, {groups[1].count:,} with the same object"
    return f"The predicate has {are}: {counts}. {nearest}".rstrip()


def percent(share: float) -> str:
    """Return a share in [0, 1] as a percentage: `72 %`, but `0.5 %`, `99.5 %` and `0.02 %` near the ends."""
    value = 100 * share
    digits = 0 if 1 <= value <= 99 or value in (0, 100) else 1 if 0.1 <= round(value, 1) <= 99.9 else 2
    return f"{value:.{digits}f} %"
