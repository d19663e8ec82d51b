"""Explains the probability of a triple with an entity that training has not seen: what its name and the rest say."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kgcore.calibrated import CalibratedModel
from kgcore.calibration.unseen_answers import UnseenProbabilities as Found
from kgcore.evidence.words import words_of
from kgcore.prediction.answers import SIDES, numbered_unseen, table_of
from kgcore.prediction.contributions import Contribution, divided
from kgcore.prediction.estimate import Estimate, Shifted, numbers
from kgcore.prediction.near_names import near_names, positions
from kgcore.prediction.wording import contributions_sentence, probability_sentence


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
class UnseenExplanation(Estimate):
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
            probability_sentence(self),
            f"Training has not seen the {self.unseen}. The answer rests on names, the predicate and the facts of "
            "an entity that training has; the model has no score, so that alternatives and near facts are left out.",
        ]
        said += [sentence for name in self.names for sentence in name.sentences()]
        return (*said, *([contributions_sentence(self.contributions)] if self.contributions else []))

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON, and the key sentences."""
        return asdict(self) | {"sentences": list(self.sentences)}


def explain_unseen(
    model: CalibratedModel, names: tuple[str, str, str], reason: str, rates: tuple[float, ...]
) -> UnseenExplanation:
    """Explain a triple of names with a known predicate and an entity that training lacks.

    The probability equals that of kgcore/prediction/answers.py, to the bit.

    model   a model with answers about such entities. Its calibrator states the base rate
    reason  why the predicate has no probabilities; '' if it has some
    rates   base rates at which the probability is shown
    """
    graph, bound = model.graph, model.calibrator
    triple = np.array([positions(graph, names)])
    table = table_of([names])
    numbered, new = numbered_unseen(graph, triple, [table["subject"], table["object"]])
    evidence = model.unseen_evidence(numbered, new)

    def at(own: CalibratedModel) -> dict[str, float | None]:
        found: Found = own.answer_unseen(numbered, evidence)
        return numbers(np.array([found.probabilities[0], found.low[0], found.high[0]]))

    own = numbers(np.full(3, np.nan)) if reason else at(model)
    q, unseen = own["probability"], bound.unseen
    assert unseen is not None
    return UnseenExplanation(
        subject=names[0],
        predicate=names[1],
        object=names[2],
        unseen=SIDES[int((triple[0, [0, 2]] < 0) @ np.array([1, 4]))],
        names=tuple(_name(model, name) for name in new),
        reason=reason,
        **own,
        base_rate=bound.base_rate,
        base_rate_text=str(bound.rate),
        calibrator=model.label,
        at_base_rates=() if reason else tuple(Shifted(base_rate=rate, **at(_moved(model, rate))) for rate in rates),
        contributions=() if q is None else divided(unseen.combined, evidence, triple[:, 1], q),
    )


def _moved(model: CalibratedModel, rate: float) -> CalibratedModel:
    return model if rate == model.calibrator.base_rate else model.at(rate)


def _name(model: CalibratedModel, name: str) -> UnseenName:
    words = tuple(dict.fromkeys(words_of(name)))
    shared = tuple(word for word in words if word in model.shared_words)
    new = tuple(word for word in words if word not in shared)
    return UnseenName(name, shared, new, tuple(near_names(name, model.graph.entities)))
