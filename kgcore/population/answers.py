"""Tables of missing facts and of the answers to a query: probabilities, what they are about, and flags."""

from dataclasses import dataclass

import pyarrow as pa

from kgcore.arrays import Bools, Triples
from kgcore.config import ExplainConfig
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.population.calibrate import Count
from kgcore.population.calibration import Calibration
from kgcore.prediction.answers import Answers, without_probabilities
from kgcore.prediction.domains import Domains
from kgcore.prediction.explainer import Explainer
from kgcore.prediction.explanation import percent
from kgcore.prediction.pairs import best_answers_to
from kgcore.prediction.question import Question

BEYOND, OFF_TYPE = "beyond the calibrated range", "off-type"


@dataclass(frozen=True)
class QueryAnswers:
    """The answers to a query, best first.

    table  a row for each answer, with the columns of ANSWERS and `flag`. Known facts are marked in `known`
    about  what the probabilities are about, and in which order the answers stand, in sentences
    count  number of true facts among the listed answers that are not known; None: nothing is stated about these
    """

    table: pa.Table
    about: tuple[str, ...]
    count: Count | None


def answers_to(question: Question, answers: Answers, calibration: Calibration | None, top: int) -> QueryAnswers:
    """Return the `top` best answers to a query, the known facts among them.

    question     from `Question.of_query`
    answers      the model that answers if there is no calibration, and the decisions
    calibration  to the missing facts of the predicate; None: nothing is stated about these. Then the probabilities are
                 those of the model's calibrator, and about triples like the ones that it was fitted to

    Calibrated answers are the candidates of the population and the known facts; otherwise, all entities.
    """
    if calibration is None:
        triples = best_answers_to(question, answers.model, top)
        table = flagged(answers.table(answers.named(triples)), triples, answers.model.graph)
        return QueryAnswers(table, (_about(answers), _order(table)), None)
    triples = calibration.answers(question, top)
    table = listed(calibration, triples, Answers(calibration.model, answers.threshold, answers.at_least))
    unknown = ~table["known"].to_numpy()
    count = calibration.count(triples[unknown]) if unknown.any() else None
    return QueryAnswers(table, (as_sentence(calibration.about), _order(table)), count)


def listed(calibration: Calibration, triples: Triples, answers: Answers) -> pa.Table:
    """Return the answers about triples (n, 3) as `Answers.table` does, with their flags.

    There are no probabilities if nothing says how many candidates are true.
    """
    table = flagged(answers.table(answers.named(triples)), triples, answers.model.graph, calibration)
    return table if calibration.true is not None else without_probabilities(table)


def flagged(
    table: pa.Table, triples: Triples, graph: KnowledgeGraph, calibration: Calibration | None = None
) -> pa.Table:
    """Return the table of the answers about triples (n, 3) with the column `flag`: what makes each triple doubtful.

    off-type                     the subject or the object does not fit the predicate: see `Domains.off_type`
    beyond the calibrated range  its evidence is stronger than that of every validation fact
    """
    kinds: list[tuple[str, Bools]] = [(OFF_TYPE, Domains(graph).off_type(triples))]
    if calibration is not None:
        kinds.append((BEYOND, table["score"].to_numpy() > calibration.fit.supported))
    rows = zip(*(mask.tolist() for _, mask in kinds), strict=True)
    flags = ["; ".join(name for (name, _), on in zip(kinds, row, strict=True) if on) or None for row in rows]
    return table.append_column("flag", pa.array(flags, pa.string()))


def explainer_of(calibration: Calibration, config: ExplainConfig = ExplainConfig()) -> Explainer:
    """Return what explains probabilities that are calibrated to missing facts.

    Raises InputError if nothing says how many of these are true.
    """
    if calibration.true is None:
        raise InputError(calibration.about)
    about = as_sentence(calibration.about)
    return Explainer(calibration.model, None, config, about, calibration.fit.supported)


def as_sentence(text: str) -> str:
    """Return a text with a capital letter at its start, and a point at its end."""
    return f"{text[:1].upper()}{text[1:]}."


def _about(answers: Answers) -> str:
    return as_sentence(
        f"{answers.model.about}, not about all answers to the query: their sum is no number of true answers. For "
        "probabilities of missing facts, state which share of the true facts the graph knows (completeness), or which "
        "share of the missing facts is true (base_rate)"
    )


def _order(table: pa.Table) -> str:
    """Return in which order answers stand, and how many at the top have the same probability to .1 %."""
    rows = [row for row in table.select(["probability", "low", "high"]).to_pylist() if row["probability"] is not None]
    if not rows:
        return "The answers stand in the order of their scores."
    order = "The answers stand in the order of their scores, in which their probabilities do not increase."
    first = rows[0]
    shares = [round(row["probability"], 3) for row in rows]
    equal = next((n for n, share in enumerate(shares) if share != shares[0]), len(rows))
    if equal == 1 or not shares[0]:
        return order
    interval = "" if first["low"] is None else f" (95 % interval: {percent(first['low'])} to {percent(first['high'])})"
    same = f"have the same probability, {percent(first['probability'])}{interval}"
    return f"The first {equal:,} answers {same}: it does not tell them apart. {order}"
