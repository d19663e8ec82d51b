"""The lists of `discover`: the most probable missing facts, lists with few false ones, answer sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgcore.arrays import Bools, Floats, Triples
from kgcore.config import DiscoverConfig
from kgcore.corruptions.base import OBJECT
from kgcore.prediction.answers import Answers, table_of, without_probabilities
from kgcore.prediction.parts import EachPart, OnPart
from tasks.jobs.population import TOO_FEW, lost_figures, lost_notes
from tasks.workspace.cluster import each_part
from tasks.workspace.progress import progress_bar

if TYPE_CHECKING:  # torch takes more than a second to load: only a discovery loads it
    from kgcore.population.calibrate import Count
    from kgcore.population.calibration import Calibration
    from kgcore.prediction.discovery import Discovery, Question

BEYOND, OFF_TYPE = "beyond the calibrated range", "off-type"


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
    discovery: "Discovery", calibration: "Calibration | None", question: "Question", config: DiscoverConfig, runner: str
) -> Listed:
    """Make the list that the settings ask for.

    discovery    the stored model, whose scores choose among the answers of a query
    calibration  the model that is calibrated to the missing facts; None: validation has too few of them
    """
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
            found = discovery.most_probable(question, config.top, 0.0, on_part, each)
            return _finished(discovery, None, found.triples, {}, [], config)
        return _finished(discovery, calibration, *_most_probable(calibration, question, config, each), config)


def _most_probable(
    calibration: "Calibration", question: "Question", config: DiscoverConfig, each: EachPart
) -> tuple[Triples, dict[str, float], list[str]]:
    """Return the most probable facts, figures and notes."""
    triples, lost = calibration.most_probable(question, config.top, config.above, each)
    return triples, lost_figures(lost), lost_notes(lost)


def _sets(discovery: "Discovery", question: "Question", coverage: float, on_part: OnPart, each: EachPart) -> Listed:
    """Measure the answer sets of every predicate that is asked about, instead of making one."""
    made, graph = discovery.sets_by_predicate(question, coverage, on_part, each), discovery.model.graph
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
    question: "Question",
    config: DiscoverConfig,
    on_part: OnPart,
) -> Listed:
    found, rule, measured = discovery.answer_set(question, config.coverage, on_part)
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
    return _finished(discovery, calibration, found.triples, figures, notes, config)


def _with_few_false(
    discovery: "Discovery",
    calibration: "Calibration | None",
    question: "Question",
    config: DiscoverConfig,
    on_part: OnPart,
    each: EachPart,
) -> Listed:
    rng = np.random.default_rng(config.discover_seed)
    found, candidates = discovery.with_few_false(question, config.fdr, rng, on_part, each)
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
    return _finished(discovery, calibration, found.triples, figures, notes, config, found.p_values)


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
    model = discovery.model if calibration is None else calibration.model
    if calibration is not None and len(triples):
        order = calibration.order(triples)
        triples, p_values = triples[order], None if p_values is None else p_values[order]
    names = table_of(model.graph.names_of(triples).to_numpy().tolist())
    table = Answers(model, 0.5, config.at_least).table(names).drop_columns(["decision", "known", "unseen"])
    if p_values is not None:
        table = table.add_column(table.column_names.index("reason"), "p_value", pa.array(p_values))
    table = table.append_column("flag", pa.array(_flags(discovery, calibration, table, triples), pa.string()))
    about = TOO_FEW if calibration is None else calibration.about
    if calibration is None or calibration.true is None:
        return Listed(_ranked(without_probabilities(table)), triples, figures, [about, *notes])
    log_odds, answered = table["score"].to_numpy(), ~np.isnan(table["probability"].to_numpy())
    if not answered.any():
        return Listed(_ranked(table), triples, figures, [about, *notes])
    rng = np.random.default_rng(0)
    count = calibration.fit.count(log_odds[answered], triples[answered, 1], rng)
    return Listed(_ranked(table), triples, figures, [about, *notes], count)


def _ranked(table: pa.Table) -> pa.Table:
    return table.add_column(0, "rank", pa.array(np.arange(1, len(table) + 1)))


def _flags(
    discovery: "Discovery", calibration: "Calibration | None", table: pa.Table, triples: Triples
) -> list[str | None]:
    """Return what makes each triple doubtful (n,); None: nothing does.

    off-type                     no training fact of the predicate has the subject, or none has the object
    beyond the calibrated range  its evidence is stronger than that of every validation fact
    """
    from kgcore.population.population import off_type

    kinds: list[tuple[str, Bools]] = [(OFF_TYPE, off_type(discovery.model.graph, triples))]
    if calibration is not None:
        kinds.append((BEYOND, table["score"].to_numpy() > calibration.fit.supported))
    rows = zip(*(mask.tolist() for _, mask in kinds), strict=True)
    return ["; ".join(name for (name, _), on in zip(kinds, row, strict=True) if on) or None for row in rows]
