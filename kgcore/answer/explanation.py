"""The explanation of the probability of a triple: its numbers, and the sentences that state them, one fact each."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kgcore.answer.calibration_evidence import CalibrationCurve, CalibrationEvidence
from kgcore.answer.similar import Alternatives, ProbabilityInterval, Shifted, SupportingFacts
from kgcore.measure.metrics.base import percent

CONSTANT, PREDICATE, CALIBRATION = "constant", "predicate", "calibration"
MOST_NAMED = 3  # features for a triple, and features against it
_KNOWN = {
    "train": "The triple is a known fact of the training split. The model was fitted to it, so its score is higher "
    "than that of an equally plausible new triple.",
    "valid": "The triple is a known fact of the validation split, on which the calibrator was fitted.",
    "test": "The triple is a known fact of the test split.",
    "other": "The triple is a known fact that is in no split.",
}


@dataclass(frozen=True)
class Contribution:
    """What one feature adds to the log-odds of a probability.

    feature   name of the feature; or constant: what all triples have in common; predicate: the predicate itself;
              calibration: what the calibrator of the log-odds adds
    value     value of the feature; None: it has none, or it is not known for this triple
    log_odds  its exact contribution (Shapley value, see kgcore/combiners)
    """

    feature: str
    value: float | None
    log_odds: float


@dataclass(frozen=True, kw_only=True)
class Explanation(ProbabilityInterval):
    """The score and the probability of a triple, and where they come from.

    subject, predicate, object  names
    known            the split of the triple if it is a known fact: train, valid, test or other; '' if it is not one
    labelled_false   whether the data set labels the triple as false
    off_type         whether the subject or the object does not fit the predicate: see `Domains.off_type`
    beyond           whether the evidence is stronger than that of every fact that the calibrator was fitted to, as far
                     as this is known
    score            score of the triple, any real number
    about            what the probability is about, in a sentence
    reason           a sentence that says why there is no probability; '' if there is one
    base_rate        share of true triples that the probabilities assume, in (0, 1)
    base_rate_text   the base rate and where it comes from: `0.494, estimated`
    calibrator       label of the calibrator, such as `synthetic.isotonic`
    by_predicate     whether the calibrator has a map for each predicate, or was fitted to one predicate alone
    corruptions      how the false calibration triples were drawn: strategy -> share; empty if they are labelled
    normalised       whether the score is cohort-normalised; ranks use the score f before it
    at_base_rates    the probability at `BASE_RATES` and at `base_rate`, in descending order of the base rate
    evidence         the calibration triples of the predicate; None if there are none
    curve            the calibration curve of the predicate; None if there is a reason, or no range of scores is known
    objects          the rank of the object for (s, p, ?)
    subjects         the rank of the subject for (?, p, o)
    support          known facts that resemble the triple
    contributions    what each piece of evidence adds to the log-odds; empty if the calibrator sees the score alone, or
                     if there is no probability
    """

    subject: str
    predicate: str
    object: str
    known: str
    labelled_false: bool
    off_type: bool
    beyond: bool
    about: str
    score: float
    reason: str
    base_rate: float
    base_rate_text: str
    calibrator: str
    by_predicate: bool
    corruptions: dict[str, float]
    normalised: bool
    at_base_rates: tuple[Shifted, ...]
    evidence: CalibrationEvidence | None
    curve: CalibrationCurve | None
    objects: Alternatives
    subjects: Alternatives
    support: SupportingFacts
    contributions: tuple[Contribution, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation in words."""
        return tuple(_sentences(self))

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON, and the key sentences."""
        return asdict(self) | {"sentences": list(self.sentences)}


@dataclass(frozen=True)
class UnseenName:
    """The name of an entity that training has not seen.

    name    the name
    shared  its words that at least two entities of training have
    new     its other words, which say nothing
    near    names of training that are spelled alike
    """

    name: str
    shared: tuple[str, ...]
    new: tuple[str, ...]
    near: tuple[str, ...]

    def sentences(self) -> Iterator[str]:
        """Yield what of the name training knows."""
        if self.shared:
            yield f"Of the name {self.name}, other entities have the words {', '.join(self.shared)}."
        elif self.new:
            yield f"Fewer than two entities of training have a word of the name {self.name}."
        else:
            yield f"The name {self.name} has no word: it says nothing."
        if self.near:
            yield f"Training has names that are spelled like {self.name}: {', '.join(self.near)}."


@dataclass(frozen=True, kw_only=True)
class UnseenExplanation(ProbabilityInterval):
    """The probability of a triple with an entity that training has not seen, and where it comes from.

    The model has no score for such a triple: there are no curve, no alternatives and no nearest facts.

    subject, predicate, object  names
    unseen           which entities training has not seen: one of SIDES
    names            these entities
    reason           a sentence that says why there is no probability; '' if there is one
    base_rate, base_rate_text, calibrator, at_base_rates
                     as in `Explanation`
    contributions    what each piece of evidence adds to the log-odds; empty if there is no probability
    """

    subject: str
    predicate: str
    object: str
    unseen: str
    names: tuple[UnseenName, ...]
    reason: str
    base_rate: float
    base_rate_text: str
    calibrator: str
    at_base_rates: tuple[Shifted, ...]
    contributions: tuple[Contribution, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation in words."""
        said = [
            _probability_sentence(self),
            f"Training has not seen the {self.unseen}. The answer rests on names, the predicate and the facts of "
            "an entity that training has; the model has no score, so that alternatives and near facts are left out.",
        ]
        said += [sentence for name in self.names for sentence in name.sentences()]
        return (*said, *([_contributions_sentence(self.contributions)] if self.contributions else []))

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON, and the key sentences."""
        return asdict(self) | {"sentences": list(self.sentences)}


def _sentences(it: Explanation) -> Iterator[str]:
    """Yield the sentences of an explanation, the probability first."""
    yield _probability_sentence(it)
    if not it.reason:
        yield it.about
    if it.off_type:
        yield f"Off-type: {it.subject} or {it.object} has no facts like those of this predicate, so check it."
    if it.beyond:
        yield "The evidence is beyond the calibrated range: stronger than that of every validation fact."
    if it.contributions:
        yield _contributions_sentence(it.contributions)
    if it.known:
        yield _KNOWN[it.known]
    if it.labelled_false:
        yield "The data set labels the triple as false."
    if it.evidence is not None:
        yield from _evidence(it, it.evidence)
    elif not it.reason and it.at_base_rates:
        yield "The calibration triples of this predicate are not known."
    yield _rank("object", f"{it.subject} {it.predicate} ?", it.object, it.subject, it.objects)
    yield _rank("subject", f"? {it.predicate} {it.object}", it.subject, it.object, it.subjects)
    if it.normalised:
        yield "Ranks compare the scores before cohort normalisation, as `kgcal rank` does."
    yield _support(it)


def _probability_sentence(it: Explanation | UnseenExplanation) -> str:
    """Return the probability with its interval and its base rate, or the reason why it is missing."""
    if it.probability is None:
        return f"No probability: {it.reason}."
    interval = f" (95 % interval: {it.interval_text})" if it.interval_text else ""
    if not it.at_base_rates:  # calibrated to missing facts
        return f"The probability is {it.text}{interval}."
    return f"The probability is {it.text}{interval}, if {percent(it.base_rate)} of all candidates are true."


def _contributions_sentence(contributions: Sequence[Contribution]) -> str:
    """Return which features of the evidence count most for and against the triple."""
    features = [row for row in contributions if row.feature not in (CONSTANT, CALIBRATION)]
    for_it = [row.feature for row in features if row.log_odds > 0][:MOST_NAMED]
    against = [row.feature for row in features if row.log_odds < 0][:MOST_NAMED]
    parts = [(for_it, "for"), (against, "against")]
    named = "; ".join(f"{', '.join(names)} count most {word} it" for names, word in parts if names)
    return f"Of the evidence, {named}."


def _evidence(it: Explanation, evidence: CalibrationEvidence) -> Iterator[str]:
    near = evidence.similar
    yield (
        f"{percent(near.share)} (95 % interval: {percent(near.low)} to {percent(near.high)}) of the calibration "
        f"triples of this predicate with a similar score are true: {near.positives:,} true and {near.negatives:,} "
        f"false ones with scores from {near.lowest:.4g} to {near.highest:.4g}, weighted to the base "
        f"rate {it.base_rate:.4g}."
    )
    parts = (
        (evidence.positives_below, evidence.positives, "true"),
        (evidence.negatives_below, evidence.negatives, "false"),
    )
    higher = " and ".join(f"{percent(below / n)} of the {n:,} {word}" for below, n, word in parts if n)
    yield f"The score {it.score:.4g} is higher than those of {higher} calibration triples of this predicate."
    if it.corruptions:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in it.corruptions.items())
        yield f"The false calibration triples are corruptions ({shares}): the probability is valid for this kind."
    if it.probability is not None and not near.low <= it.probability <= near.high:
        side, fault = ("above", "too high") if it.probability > near.high else ("below", "too low")
        hint = "" if it.by_predicate else "; the calibrator `per_relation` has a curve for each predicate"
        yield f"The probability is {side} the interval of this share: for this predicate, it may be {fault}{hint}."


def _rank(side: str, query: str, name: str, partner: str, ranked: Alternatives) -> str:
    facts = "1 other known fact is" if ranked.known == 1 else f"{ranked.known:,} other known facts are"
    known = f"; {facts} left out" if ranked.known else ""
    itself = f"; {partner} itself ranks higher" if ranked.itself else ""
    return f"For ({query}), the {side} {name} has rank {ranked.rank_text} of {ranked.among:,}{itself}{known}."


def _support(it: Explanation) -> str:
    groups = (it.support.same_subject, it.support.same_object, it.support.others)
    total = sum(group.count for group in groups)
    are = "1 other known fact" if total == 1 else f"{total:,} other known facts"
    facts = [(fact.similarity, f"{fact.subject} {it.predicate} {fact.object}") for g in groups for fact in g.nearest]
    if not total:
        return "The predicate has no other known facts."
    nearest = "The nearest one is {1} (similarity {0:.2f}).".format(*max(facts)) if facts else ""
    counts = f"{groups[0].count:,} with the same subject, {groups[1].count:,} with the same object"
    return f"The predicate has {are}: {counts}. {nearest}".rstrip()
