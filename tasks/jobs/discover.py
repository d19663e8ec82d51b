"""Discovers missing facts with a calibrated model, and logs what was asked and what came out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgcore.arrays import Triples
from kgcore.config import DiscoverConfig
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.graph import KnowledgeGraph
from kgcore.prediction.answers import Answers, table_of
from kgcore.prediction.domains import Domains
from kgcore.prediction.flyers import frequent_flyers
from kgcore.prediction.parts import EachPart, OnPart
from kgcore.prediction.sink import sink
from tasks.jobs.request import MOST_EXAMPLES, AnsweredTable, Request, answering
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.cluster import THREADS, each_part
from tasks.workspace.progress import progress_bar

if TYPE_CHECKING:  # torch takes more than a second to load: only a discovery loads it
    from kgcore.prediction.discovery import Discovery, Found, Question

MOST_FLYERS = 20  # frequent flyers that it keeps


@dataclass(frozen=True)
class Wanted:
    """The names of the known parts of the missing facts; '': any."""

    subject: str = ""
    predicate: str = ""
    object: str = ""

    def __str__(self) -> str:
        return f"({', '.join(part or '?' for part in (self.subject, self.predicate, self.object))})"


@dataclass(frozen=True, kw_only=True)
class Discovered(AnsweredTable):
    """The summary of a discovery. Its rows are missing facts or, if the answer sets were measured, predicates.

    asked    what was asked, such as `(person_2, parent_of, ?)`
    figures  figures of the list, by name: of `fdr`, level, queries, skipped; of `coverage`, coverage, calibration,
             test_queries, test_coverage, test_size
    notes    sentences about the list
    flyers   frequent flyers: entity, part, answers, expected
    """

    asked: str
    figures: Mapping[str, float]
    notes: Sequence[str]
    flyers: Sequence[Mapping[str, object]]

    @property
    def has_facts(self) -> bool:
        """Return whether the rows are missing facts."""
        return not self.examples or "rank" in self.examples[0]


@dataclass(frozen=True)
class Listed:
    """A list.

    table    its rows
    triples  (n, 3) the missing facts; none if the rows are predicates
    figures  figures of the list
    notes    sentences about it
    """

    table: pa.Table
    triples: Triples
    figures: Mapping[str, float]
    notes: Sequence[str]


def discover_facts(wanted: Wanted, request: Request, config: DiscoverConfig, runner: str = THREADS) -> Discovered:
    """List the missing facts with the known parts `wanted`, from the most probable one down.

    request  who answers; its output is a .parquet, .csv or .tsv file for the list
    runner   `threads`, `dask` or `dask://HOST:PORT`: where the parts of the list are made. An answer set of a query is
             always made in this process. The list is the same to the bit

    Raises InputError if there is no such model or name, if the file cannot be written, if the base rate is out of
    range, or if the settings do not fit the question.
    """
    from kgcore.prediction.discovery import Discovery

    request.check_table()
    by = answering(request)
    found, graph = by.found, by.model.graph
    discovery = Discovery(by.model, Domains(graph, config.candidates == "typed"), config.at_least)
    question = discovery.question(wanted.subject, wanted.predicate, wanted.object)
    store = open_store()
    with store.open_run(f"discover {found.dataset}", RunTags(stage="discover", dataset=found.dataset)) as run_id:
        store.log_params(run_id, {**asdict(config), **asdict(wanted), **by.params, "runner": runner})
        listed = _list(discovery, question, config, runner)
        if request.output:
            with sink(Path(request.output)) as write:
                write(listed.table)
        flyers = _flyers(graph, question, listed.triples)
        summary = Discovered(
            **by.answered,
            asked=str(wanted),
            rows=len(listed.table),
            expected=float(np.nansum(listed.table["probability"].to_numpy())) if len(listed.triples) else 0.0,
            figures=listed.figures,
            notes=listed.notes,
            flyers=flyers[:MOST_FLYERS],
            examples=listed.table.slice(0, MOST_EXAMPLES).to_pylist(),
            run=run_id,
        )
        metrics = {"rows": summary.rows, "expected": summary.expected, "frequent_flyers": len(flyers)}
        store.log_metrics(run_id, {**metrics, **listed.figures}, model_id=found.model_id)
        store.log_json(run_id, asdict(summary), "discovery.json")
    return summary


def _list(discovery: "Discovery", question: "Question", config: DiscoverConfig, runner: str) -> Listed:
    each = partial(each_part, runner)
    with progress_bar("discover", 100) as move:

        def on_part(done: float) -> None:
            move(int(100 * done))

        if config.coverage and question.subject is None and question.object is None:
            return _sets(discovery, question, config.coverage, on_part, each)
        if config.coverage:
            return _answer_set(discovery, question, config, on_part)
        if config.fdr:
            return _with_few_false(discovery, question, config, on_part, each)
        found = discovery.most_probable(question, config.top, config.above, on_part, each)
        return Listed(_table(discovery, found, config), found.triples, {}, [])


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


def _answer_set(discovery: "Discovery", question: "Question", config: DiscoverConfig, on_part: OnPart) -> Listed:
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
    return Listed(_table(discovery, found, config), found.triples, figures, notes)


def _with_few_false(
    discovery: "Discovery", question: "Question", config: DiscoverConfig, on_part: OnPart, each: EachPart
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
    return Listed(_table(discovery, found, config), found.triples, figures, notes)


def _table(discovery: "Discovery", found: "Found", config: DiscoverConfig) -> pa.Table:
    """Return the list with the columns of the answer of `kgcal predict`, and the rank as its first column."""
    names = discovery.model.graph.names_of(found.triples)
    answers = Answers(discovery.model, 0.5, config.at_least)
    table = answers.table(table_of(names.to_numpy().tolist())).drop_columns(["decision", "known", "unseen"])
    if found.p_values is not None:
        table = table.add_column(table.column_names.index("reason"), "p_value", pa.array(found.p_values))
    if config.above:
        table = table.filter(pa.compute.greater(table["probability"], config.above))
    return table.add_column(0, "rank", pa.array(np.arange(1, len(table) + 1)))


def _flyers(graph: KnowledgeGraph, question: "Question", triples: Triples) -> list[dict[str, object]]:
    parts = (SUBJECT, question.subject), (OBJECT, question.object)
    return [
        {
            "entity": graph.entities[flyer.entity],
            "part": "subject" if flyer.column == SUBJECT else "object",
            "answers": flyer.answers,
            "expected": round(flyer.expected, 3),
        }
        for flyer in frequent_flyers(graph, triples, [column for column, given in parts if given is None])
    ]
