"""Who answers a question or the triples of a file, and the tables of answers: probabilities, their subject, flags."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kgcore.answer.answers import Answers, without_probabilities
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.domains import Domains
from kgcore.answer.explainer import Explainer
from kgcore.answer.pairs import best_answers_to
from kgcore.answer.population.calibration import Calibration
from kgcore.answer.population.fit import Count
from kgcore.answer.population.likeness import SampleDifference
from kgcore.answer.population.population import FEWEST_ROWS, Population, stated_facts, unstored
from kgcore.answer.population.survey import Survey
from kgcore.answer.question import Question
from kgcore.arrays import Bools, Triples
from kgcore.calibrate.fit import CANDIDATES
from kgcore.config import ExplainConfig
from kgcore.config.jobs import SurveyConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.measure.metrics.base import percent

LABEL = "Label some of them (kgcal recalibrate --labels FILE). The order by score needs no labels"
STATE = f"State which share of them is true (--base-rate) or how complete the graph is (--completeness). Or: {LABEL}"
UNLIKE = "the triples are unlike the calibration triples ({comparison}). {state}"
FEW = (
    "too few of the {count:,} triples are new to the graph to compare them with these or to calibrate to them: at "
    f"least {FEWEST_ROWS} with predicates of validation are needed, and half of all"
)
LABELS_SAY = (
    ". Of the triples that you labelled, a share of {rate} is true: state it if they are a random sample of these"
)
CHOSEN = "{why}, so how they were chosen is not used, and their sum is no number of true triples"
WHY = f"fewer than {FEWEST_ROWS} triples are new to the graph", "none of the triples is a validation fact"
FEWEST_SWAPPED, SWAPPED = 10, 0.9  # triples, and their share, that show that two columns are swapped
TURNED = (
    ". {fitting:,} of the {count:,} triples fit their predicate only with subject and object exchanged: are the "
    "columns swapped?"
)
SEED = SurveyConfig().survey_seed
BEYOND, OFF_TYPE = "beyond the calibrated range", "off-type"


@dataclass(frozen=True)
class FileAnswer:
    """Who answers the triples of a file.

    model        the model that answers
    about        what the probabilities are about, or why the rows get none: a sentence without its full stop
    counts       whether the sum of the probabilities is a number of true rows
    stated       whether there are probabilities
    calibration  to the rows or to missing facts; None: the stored calibrator answers, or there are no probabilities
    """

    model: CalibratedModel
    about: str
    counts: bool = False
    stated: bool = True
    calibration: Calibration | None = None

    def table(self, answers: Answers, names: pa.Table) -> pa.Table:
        """Return the rows of `names` with their answers, as `Answers.table` does.

        answers  the stored model and the decisions
        """
        table = (answers if self.calibration is None else replace(answers, model=self.model)).table(names)
        return table if self.stated else without_probabilities(table)


def answer_of_file(
    model: CalibratedModel,
    triples: Triples,
    completeness: str,
    base_rate: str | float | None,
    at_least: int,
    difference: Callable[[Triples], SampleDifference],
    survey: Callable[[Population], Survey],
) -> FileAnswer:
    """Return who answers the triples of a file, and what the probabilities are about.

    model         the stored model at the stated base rate
    triples       (n, 3) the distinct triples
    completeness  as `read_completeness` takes it; '': not stated
    base_rate     share of true ones among the triples, as `BaseRate.read` takes it; None: not stated
    at_least      fewest validation facts of a predicate to which its triples can be calibrated
    difference    compares unknown triples with the calibration triples: see `CalibrationTriples`
    survey        weighs the evidence about the triples

    If the triples look like the calibration triples of their predicates, the stored model answers. If they do not, a
    stated base rate or completeness calibrates a survey to them; without one, there are no probabilities. If there are
    too few to compare, the stored model answers, and nothing is counted.

    A completeness does not say how many of too few triples are true, or of triples without a validation fact. Each then
    has its probability among the missing facts of the predicate, or of the graph if there are several predicates.

    A sentence asks whether two columns are swapped, if the triples fit their predicates only the other way round.
    Raises InputError if what is stated is wrong, FitError if a fit does not converge.
    """
    graph, bound = model.graph, model.calibrator
    stored = FileAnswer(model, model.about, model.knows_base_rate)
    if not len(triples) or (bound.negatives in (CANDIDATES, "none") and not completeness):
        return stored
    rows = comparable(graph, triples)
    if len(rows) < FEWEST_ROWS and not completeness:
        about = f"{stored.about}; {FEW.format(count=len(triples))}"
        return replace(stored, about=about, counts=False) if len(triples) > 1 else stored
    domains = Domains(graph)
    turned = _turned(domains, rows)
    if not completeness:
        comparison = difference(rows)
        if comparison.alike:
            return replace(stored, about=f"{stored.about}; the triples look like these ({comparison}){turned}")
        if base_rate is None:
            return _refused(stored, f"{UNLIKE.format(comparison=comparison, state=_to_state(graph))}{turned}")
    population = Population.of_rows(domains, triples, at_least) if len(rows) >= FEWEST_ROWS else None
    missing, asked = completeness != "" and (population is None or not population.known.any()), None
    if missing:
        asked = int(triples[0, 1]) if len(np.unique(triples[:, 1])) == 1 else None
        population = Population.asked(domains, asked, at_least)
    if population is None:
        return _refused(stored, f"validation has too few facts of the predicates of the triples. {LABEL}")
    true, rng = stated_facts(population, completeness, base_rate, asked), np.random.default_rng(SEED)
    models = model.trained.embedding_models
    calibration = Calibration.of(population, survey(population), models, true, rng, asked)
    unseen = bound.unseen  # answers about new entities come from their names, as before
    fitted = replace(calibration.model, calibrator=replace(calibration.model.calibrator, unseen=unseen))
    chosen = CHOSEN.format(why=WHY[len(rows) >= FEWEST_ROWS])
    about = f"{chosen}: {calibration.about}" if missing else calibration.about
    return FileAnswer(fitted, f"{about}{turned}", counts=not missing, calibration=calibration)


def _turned(domains: Domains, rows: Triples) -> str:
    """Return a question if triples (n, 3) fit their predicates only with subject and object exchanged; '' otherwise."""
    if len(rows) < FEWEST_SWAPPED or domains.off_type(rows).mean() < SWAPPED:
        return ""
    fitting = int((~domains.off_type(rows[:, ::-1])).sum())
    return TURNED.format(fitting=fitting, count=len(rows)) if fitting >= SWAPPED * len(rows) else ""


def _to_state(graph: KnowledgeGraph) -> str:
    """Return what to state about a file, with the share that the labels of the graph estimate."""
    rate = graph.labelled_base_rate
    return f"{STATE}{LABELS_SAY.format(rate=rate.figures)}" if rate else STATE


def comparable(graph: KnowledgeGraph, triples: Triples) -> Triples:
    """Return the triples (n, 3) of a file that the graph does not store, with a predicate of validation.

    If the graph stores most triples of the file, no triple is returned: the run has measured such triples.
    """
    unknown = unstored(graph, triples)
    rows: Triples = unknown[np.isin(unknown[:, 1], graph.valid.triples[:, 1])]
    return rows if 2 * len(unknown) >= len(triples) else rows[:0]


def _refused(stored: FileAnswer, why: str) -> FileAnswer:
    return replace(stored, about=f"no probabilities: {why}", counts=False, stated=False)


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

    Calibrated answers are the candidates of the population and the known facts; otherwise, all entities. Raises
    InputError for a `top` below 1.
    """
    if top < 1:
        raise InputError(f"top is {top}: it must be at least 1")
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
    """Return a text with a capital letter at its start, and a point at its end, unless it is a question."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def _about(answers: Answers) -> str:
    return as_sentence(
        f"{answers.model.about}, not about all answers to the query: their sum is no number of true answers. For "
        "probabilities of missing facts, state which share of the true facts the graph knows (completeness), or which "
        "share of the missing facts is true (base_rate)"
    )


def _order(table: pa.Table) -> str:
    """Return in which order answers stand, and how many at the top cannot be told apart.

    These have the same probability to .1 %, or each of their intervals contains all of their probabilities.
    """
    rows = [row for row in table.select(["probability", "low", "high"]).to_pylist() if row["probability"] is not None]
    if not rows:
        return "The answers stand in the order of their scores."
    order = "The answers stand in the order of their scores, in which their probabilities do not increase."
    q, low, high = (np.array([row[name] for row in rows], dtype=float) for name in ("probability", "low", "high"))
    same = np.cumprod(np.round(q, 3) == np.round(q[0], 3)).sum() if q[0] >= 0.0005 else 0
    within = np.cumprod((np.maximum.accumulate(low) <= q) & (q[0] <= np.minimum.accumulate(high))).sum()
    first = max(same, within)
    if first < 2:
        return order
    have = (
        f"the same probability, {percent(q[0])}" if same == first else "intervals that contain the probabilities of all"
    )
    ends = (
        "" if np.isnan(low[0]) else f" (95 % intervals: {percent(low[:first].min())} to {percent(high[:first].max())})"
    )
    return (
        f"The first {first:,} answers have {have}{ends}: too few calibration triples have such scores to tell them "
        f"apart. {order}"
    )
