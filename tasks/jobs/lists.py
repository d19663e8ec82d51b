"""The lists of `discover`: the most probable missing facts, lists with few false ones, answer sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgcore.arrays import Floats, Triples
from kgcore.config import DiscoverConfig
from kgcore.corruptions.base import OBJECT
from kgcore.prediction.answers import Answers, without_probabilities
from kgcore.prediction.parts import EachPart, OnPart
from kgcore.prediction.question import Question
from tasks.jobs.population import lost_figures, lost_notes
from tasks.workspace.cluster import each_part
from tasks.workspace.progress import progress_bar

if TYPE_CHECKING:  # torch takes more than a second to load: only a discovery loads it
    from kgcore.population.calibrate import Count
    from kgcore.population.calibration import Calibration
    from kgcore.prediction.discovery import Discovery


@dataclass(frozen=True)
class Listed:
    """A list.

    table    its rows
    triples  (n, 3) the missing facts; none if the rows are predicates
    figures  figures of the list
    notes    sentences about it
    count    number of true facts in the list; None: it is not known
    """

    table: pa.Table
    triples: Triples
    figures: Mapping[str, float]
    notes: Sequence[str]
    count: "Count | None" = None


def list_of(
    discovery: "Discovery", calibration: "Calibration | None", question: Question, config: DiscoverConfig, runner: str
) -> Listed:
    """Make the list that the settings ask for.

    discovery    the stored model, whose scores choose among the answers of a query
    calibration  the model that is calibrated to the missing facts; None: none is
    """
    from kgcore.population.draw import ranked_by
    from kgcore.population.population import Population

    each = partial(each_part, runner)
    with progress_bar("discover", 100) as move:

        def on_part(done: float) -> None:
            move(int(100 * done))

        if config.coverage and question.subject is None and question.object is None:
            return _sets(discovery, question, config.coverage, on_part, each)
        if config.coverage:
            return _answer_set(discovery, calibration, question, config, on_part)
        if config.fdr:
            return _with_few_false(discovery, calibration, question, config, on_part, each)
        if calibration is None:
            population = Population.of_predicates(discovery.domains, discovery.predicates(question))
            triples = ranked_by(discovery.model, population, question, config.top, each)
            return _finished(discovery, None, triples, {}, [], config)
        triples, lost = calibration.most_probable(question, config.top, config.above, each)
        return _finished(discovery, calibration, triples, lost_figures(lost), lost_notes(lost), config)


def _sets(discovery: "Discovery", question: Question, coverage: float, on_part: OnPart, each: EachPart) -> Listed:
    """Measure the answer sets of every predicate that is asked about, instead of making one."""
    from kgcore.prediction.answer_sets import sets_by_predicate

    model, graph = discovery.model, discovery.model.graph
    predicates = range(len(graph.predicates)) if question.predicate is None else [question.predicate]
    made = sets_by_predicate(model.trained, graph, discovery.domains, predicates, coverage, on_part, each)
    rows = [
        {
            "predicate": graph.predicates[sets.predicate],
            "asked": "object" if sets.side == OBJECT else "subject",
            "calibration_queries": sets.rule.queries,
            "pooled": sets.rule.pooled,
            "measure": sets.rule.kind,
            "test_queries": sets.test.queries,
            "test_coverage": sets.test.covered if sets.test.queries else None,
            "mean_size": sets.test.size if sets.test.queries else None,
        }
        for sets in made
    ]
    tested = [sets.test for sets in made if sets.test.queries]
    total = sum(test.queries for test in tested)
    figures = {"coverage": coverage, "test_queries": float(total)}
    notes = ["give a subject or an object, too, for the answer set of a query"]
    if total:
        covered = sum(test.covered * test.queries for test in tested) / total
        figures |= {"test_coverage": covered, "test_size": sum(test.size * test.queries for test in tested) / total}
        notes.insert(0, _tested(total, covered, figures["test_size"]))
    return Listed(pa.Table.from_pylist(rows), np.zeros((0, 3), dtype=np.int64), figures, notes)


def _tested(queries: int, covered: float, size: float) -> str:
    return (
        f"on {queries:,} test queries the sets contain {covered:.1%} of the true answers, with {size:,.1f} answers on "
        "average"
    )


def _answer_set(
    discovery: "Discovery",
    calibration: "Calibration | None",
    question: Question,
    config: DiscoverConfig,
    on_part: OnPart,
) -> Listed:
    triples, rule, measured = discovery.answer_set(question, config.coverage, on_part)
    figures = {"coverage": config.coverage, "calibration_queries": rule.queries, "pooled": float(rule.pooled)}
    of = "several predicates, because this one has few" if rule.pooled else "the predicate"
    notes = [
        f"the answer set contains the true answer with probability {config.coverage:g}: calibrated on "
        f"{rule.queries:,} validation queries of {of}, by {rule.kind}"
    ]
    if measured.queries:
        test = {"queries": measured.queries, "coverage": measured.covered, "size": measured.size}
        figures |= {f"test_{name}": float(value) for name, value in test.items()}
        notes.append(_tested(measured.queries, measured.covered, measured.size))
    return _finished(discovery, calibration, triples, figures, notes, config)


def _with_few_false(
    discovery: "Discovery",
    calibration: "Calibration | None",
    question: Question,
    config: DiscoverConfig,
    on_part: OnPart,
    each: EachPart,
) -> Listed:
    rng = np.random.default_rng(config.discover_seed)
    triples, p_values, candidates = discovery.with_few_false(question, config.fdr, rng, on_part, each)
    tested = len(candidates.triples)
    notes = [
        f"at most {config.fdr:.0%} of the list is false, in expectation: chosen from the best answers of {tested:,} "
        "queries"
    ]
    if candidates.skipped:
        notes.append(
            f"{candidates.skipped:,} queries were left out: too few validation queries are like them, or these show no "
            "signal"
        )
    figures = {"fdr": config.fdr, "queries": float(tested), "skipped": float(candidates.skipped)}
    return _finished(discovery, calibration, triples, figures, notes, config, p_values)


def _finished(
    discovery: "Discovery",
    calibration: "Calibration | None",
    triples: Triples,
    figures: Mapping[str, float],
    notes: Sequence[str],
    config: DiscoverConfig,
    p_values: Floats | None = None,
) -> Listed:
    """Return the list with the columns of the answer of `kgcal predict`, its rank, and the flags of its triples.

    It has probabilities if they are calibrated to the missing facts, and the user states how many of these are true.
    """
    from kgcore.population.answers import flagged, listed

    if calibration is None:
        answers = Answers(discovery.model, 0.5, config.at_least)
        table = without_probabilities(flagged(answers.table(answers.named(triples)), triples, discovery.model.graph))
    else:
        order = calibration.order(triples)
        triples, p_values = triples[order], None if p_values is None else p_values[order]
        table = listed(calibration, triples, Answers(calibration.model, 0.5, config.at_least))
    table = table.drop_columns(["decision", "known", "unseen"])
    if p_values is not None:
        table = table.add_column(table.column_names.index("reason"), "p_value", pa.array(p_values))
    answered = table["probability"].is_valid().to_numpy()
    count = calibration.count(triples[answered]) if calibration is not None and answered.any() else None
    return Listed(_ranked(table), triples, figures, notes, count)


def _ranked(table: pa.Table) -> pa.Table:
    return table.add_column(0, "rank", pa.array(np.arange(1, len(table) + 1)))
