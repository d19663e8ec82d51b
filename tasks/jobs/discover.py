"""Discovers missing facts with a calibrated model, and logs what was asked and what came out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kgcore.answer.answers import Answers, without_probabilities
from kgcore.answer.domains import Domains
from kgcore.answer.question import Question
from kgcore.answer.sink import sink
from kgcore.arrays import Floats, Triples
from kgcore.config import DiscoverConfig
from kgcore.config.jobs import SurveyConfig
from kgcore.data.formats.base import COLUMNS
from kgcore.data.graph import KnowledgeGraph
from kgcore.data.stored_twins import Twins
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.measure.report.result import Result, ResultTable
from kgcore.workers import EachPart, OnPart
from tasks.jobs.request import (
    MOST_EXAMPLES,
    AnsweringModel,
    Request,
    Stated,
    answering_model,
    calibrate_to,
    expected_text,
    lost_by,
    probability_texts,
    triple_text,
)
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import THREADS, each_part

if TYPE_CHECKING:
    from kgcore.answer.discovery import Discovery
    from kgcore.answer.population.calibration import Calibration
    from kgcore.answer.population.fit import Count

MOST_FLYERS, SHOWN_FLYERS = 20, 3  # frequent flyers that it keeps, and that the terminal names


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


def _fact(row: Mapping[str, Any]) -> dict[str, str]:
    cells = (str(row["rank"]), triple_text(row), *probability_texts(row))
    shown = dict(zip(("rank", "missing fact", "probability", "95 % interval"), cells, strict=True))
    p_value = {"p-value": f"{row['p_value']:.4f}"} if "p_value" in row else {}
    return shown | p_value | {"flag": str(row["flag"] or "")}


def _answer_set(row: Mapping[str, Any]) -> dict[str, str]:
    tested = bool(row["test_queries"])
    return {
        "queries": f"(?, {row['predicate']}, o)" if row["asked"] == "subject" else f"(s, {row['predicate']}, ?)",
        "calibrated on": f"{row['calibration_queries']:,}{' pooled' if row['pooled'] else ''}",
        "measure": str(row["measure"]),
        "test queries": f"{row['test_queries']:,}",
        "test coverage": f"{row['test_coverage']:.3f}" if tested else "",
        "mean size": f"{row['mean_size']:,.1f}" if tested else "",
    }


def discover_facts(
    names: tuple[str, str, str], stated: Stated, request: Request, config: DiscoverConfig, runner: str = THREADS
) -> Result:
    """List the missing facts with the known parts `names`, from the most probable one down.

    names    subject, predicate and object of the missing facts; '': any
    stated   how many of the candidates, the missing facts, are true
    request  who answers; its output is a .parquet, .csv or .tsv file for the list. Its base rate is not used
    runner   `threads`, `dask` or `dask://HOST:PORT`: where the parts of the list are made. An answer set of a query is
             always made in this process. The list is the same to the bit

    The probabilities are calibrated to the missing facts themselves, and to the number of true ones among them that the
    user states. If nothing is stated, the list has an order, and no probabilities.

    Raises InputError if there is no such model or name, if the file cannot be written, if what is stated is out of
    range, or if the settings do not fit the question.
    """
    from kgcore.answer.discovery import Discovery

    request.check_table()
    answering = answering_model(replace(request, base_rate=None), its_calibrator=bool(config.fdr or config.coverage))
    found, graph, stated = answering.found, answering.model.graph, stated.or_that_of(answering.found)
    stated.check(config.above)
    discovery = Discovery(answering.model, Domains(graph, config.candidates == "typed"), config.at_least)
    question = Question.of(graph, *names)
    store = open_store()
    with store.open_run(f"discover {found.dataset}", RunTags(stage="discover", dataset=found.dataset)) as run_id:
        asked = dict(zip(COLUMNS, names, strict=True)) | answering.params | stated.parameters()
        store.log_params(run_id, config.as_dict() | asked | {"runner": runner})
        calibration, about = _calibrated(answering, discovery, question, stated, config, runner, run_id)
        answering = answering.under(calibration)
        listed = list_of(discovery, calibration, question, config, runner)
        if request.output:
            with sink(Path(request.output)) as write:
                write(listed.table)
        flyers, count = _flyers(graph, question, listed), listed.count
        notes = [*about, *listed.notes]
        if config.fdr or config.coverage:  # these need no probabilities
            notes = [*listed.notes, *(about if len(listed.table) else ())]
        facts = {
            "dataset": found.dataset,
            "because": found.because,
            **answering.params,
            "asked": f"({', '.join(name or '?' for name in names)})" if any(names) else "",
            "rows": len(listed.table),
            "expected": count.expected if count else None,
            "interval": (count.low, count.high) if count else None,
            "figures": listed.figures,
            "notes": notes,
            "flyers": flyers[:MOST_FLYERS],
            "examples": listed.table.slice(0, MOST_EXAMPLES).to_pylist(),
            "run": run_id,
        }
        metrics = {"rows": float(len(listed.table)), "frequent_flyers": float(len(flyers)), **listed.figures}
        if count:
            metrics |= {f"expected{end}": value for end, value in zip(("", "_low", "_high"), count.ends, strict=True)}
        store.log_metrics(run_id, metrics, model_id=found.model_id)
        store.log_json(run_id, facts, "discovery.json")
    return _result(facts, str(answering))


def _result(facts: Mapping[str, Any], model_text: str) -> Result:
    """Return the first rows, sentences about the list, the frequent flyers, and the model."""
    examples, count, asked = facts["examples"], facts["rows"], facts["asked"]
    has_facts = not examples or "rank" in examples[0]
    listed = f"the first {len(examples)} are shown" if len(examples) < count else ""
    parts = [f"the answer sets of {count:,} kinds of queries {asked}".rstrip(), listed]
    if has_facts:
        parts[0] = f"{count:,} missing {'fact' if count == 1 else 'facts'} {asked}".rstrip()
        parts.append(expected_text(facts["expected"], facts["interval"]))
    rows = [_fact(row) if has_facts else _answer_set(row) for row in examples]
    if not any(row.get("flag") for row in rows):
        rows = [{name: text for name, text in row.items() if name != "flag"} for row in rows]
    return Result(
        title=f"Missing facts of {facts['dataset']}",
        tables=[ResultTable(rows=rows, words=("missing fact", "queries", "measure"))],
        sentences=[", ".join(filter(None, parts)), *facts["notes"], *_about_flyers(facts["flyers"]), model_text],
        files={"the list": facts["output"]},
        run=facts["run"],
        rows=examples,
        facts=facts,
    )


def _calibrated(
    answering: AnsweringModel,
    discovery: "Discovery",
    question: Question,
    stated: Stated,
    config: DiscoverConfig,
    runner: str,
    run_id: str,
) -> tuple["Calibration | None", list[str]]:
    """Calibrate to the missing facts. Return what the probabilities are about, or the reason why none are given.

    No survey is made where nobody needs it: for a list with few false facts or an answer set without a statement.
    """
    from kgcore.answer.population.population import NOTHING_STATED, Population, too_few

    if config.coverage and question.subject is None and question.object is None:
        return None, []  # answer sets are measured
    if (config.fdr or config.coverage) and not stated.is_given:
        return None, [NOTHING_STATED.format(candidates="candidates")]
    population = Population.asked(discovery.domains, question.predicate, config.at_least)
    survey = SurveyConfig().for_list(config.top)
    calibration = calibrate_to(answering, population, stated, question.predicate, survey, runner, run_id)
    if calibration is None:
        return None, [too_few(answering.model.graph, question.predicate, config.at_least)]
    return calibration, [calibration.about]


def _about_flyers(flyers: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the sentence about the frequent flyers of a list; none without flyers."""
    shown = [
        f"{flyer['entity']} is the {flyer['part']} of {flyer['answers']} answers, {flyer['expected']} expected"
        for flyer in flyers[:SHOWN_FLYERS]
    ]
    more = [f"and {len(flyers) - len(shown)} more"] if len(flyers) > len(shown) else []
    what = "frequent flyers, entities that score high with everything (expected: the number that their facts suggest): "
    return [what + "; ".join(shown + more)] if shown else []


def _flyers(graph: KnowledgeGraph, question: Question, listed: Listed) -> list[dict[str, object]]:
    from kgcore.answer.discovery import frequent_flyers

    parts = (SUBJECT, question.subject), (OBJECT, question.object)
    return [
        {
            "entity": graph.entities[flyer.entity],
            "part": "subject" if flyer.column == SUBJECT else "object",
            "answers": flyer.answers,
            "expected": round(flyer.expected, 3),
        }
        for flyer in frequent_flyers(graph, listed.triples, [column for column, given in parts if given is None])
    ]


def list_of(
    discovery: "Discovery", calibration: "Calibration | None", question: Question, config: DiscoverConfig, runner: str
) -> Listed:
    """Make the list that the settings ask for.

    discovery    the stored model, whose scores choose among the answers of a query
    calibration  the model that is calibrated to the missing facts; None: none is
    """
    from kgcore.answer.population.draw import ranked_by
    from kgcore.answer.population.population import Population

    figures: dict[str, float] = {}
    each, notes, p_values = partial(each_part, runner), list[str](), None
    with progress_bar("discover", 100) as move:

        def on_part(done: float) -> None:
            move(int(100 * done))

        if config.coverage and question.subject is None and question.object is None:
            return _sets(discovery, question, config.coverage, on_part, each)
        if config.coverage:
            triples, figures, notes = _answers_of_query(discovery, question, config.coverage, on_part)
        elif config.fdr:
            rng = np.random.default_rng(config.discover_seed)
            triples, p_values, tried = discovery.with_few_false(question, config.fdr, rng, on_part, each)
            figures, notes = _few_false(config.fdr, len(triples), len(tried.triples), tried.skipped)
        elif calibration is None:
            population = Population.of_predicates(discovery.domains, discovery.predicates(question))
            triples = ranked_by(discovery.model, population, question, config.top, each)
        else:
            triples, lost = calibration.most_probable(question, config.top, config.above, each)
            figures, notes = lost_by(lost)
    return _finished(discovery, calibration, triples, figures, notes, config, p_values)


def _sets(discovery: "Discovery", question: Question, coverage: float, on_part: OnPart, each: EachPart) -> Listed:
    """Measure the answer sets of every predicate that is asked about, instead of making one."""
    from kgcore.answer.answer_sets import sets_by_predicate

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


def _answers_of_query(
    discovery: "Discovery", question: Question, coverage: float, on_part: OnPart
) -> tuple[Triples, dict[str, float], list[str]]:
    triples, rule, measured = discovery.answer_set(question, coverage, on_part)
    figures = {"coverage": coverage, "calibration_queries": rule.queries, "pooled": float(rule.pooled)}
    of = "several predicates, because this one has few" if rule.pooled else "the predicate"
    notes = [
        f"the answer set contains the true answer with probability {coverage:g}: calibrated on "
        f"{rule.queries:,} validation queries of {of}, by {rule.kind}"
    ]
    if measured.queries:
        test = {"queries": measured.queries, "coverage": measured.covered, "size": measured.size}
        figures |= {f"test_{name}": float(value) for name, value in test.items()}
        notes.append(_tested(measured.queries, measured.covered, measured.size))
    return triples, figures, notes


def _few_false(level: float, chosen: int, queries: int, skipped: int) -> tuple[dict[str, float], list[str]]:
    notes = list[str]()
    if queries:
        notes.append(
            f"at most {level:.0%} of the list is false, in expectation: chosen from the best answers of {queries:,} "
            "queries"
        )
    if queries and not chosen:
        notes.append("no answer is sure enough for the list")
    if skipped:
        left_out = f"{skipped:,} queries were left out" if queries else f"all {skipped:,} queries were left out"
        notes.append(f"{left_out}: too few validation queries are like them, or these show no signal")
    return {"fdr": level, "queries": float(queries), "skipped": float(skipped)}, notes


def _finished(
    discovery: "Discovery",
    calibration: "Calibration | None",
    triples: Triples,
    figures: Mapping[str, float],
    notes: Sequence[str],
    config: DiscoverConfig,
    p_values: Floats | None,
) -> Listed:
    """Return the list with the columns of the answer of `kgcal predict`, its rank, and the flags of its triples.

    It has probabilities if they are calibrated to the missing facts, and the user states how many of these are true.
    """
    from kgcore.answer.population.lists import flagged, listed

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
    ranked = table.add_column(0, "rank", pa.array(np.arange(1, len(table) + 1)))
    graph = discovery.model.graph
    repeats = np.flatnonzero(replace(Twins.of(graph), train=graph.all_known).has_twin(triples))
    figures = {**figures, "repeats": float(len(repeats))}
    return Listed(ranked, triples, figures, [*notes, *_about_repeats(ranked.take(repeats))], count)


def _about_repeats(rows: pa.Table) -> list[str]:
    """Return the sentence about the rows that say what known facts say; none without such rows."""
    if not len(rows):
        return []
    is_one, first = len(rows) == 1, triple_text(rows.slice(0, 1).to_pylist()[0])
    what = "with subject and object exchanged, or by another predicate"
    return [f"{len(rows):,} {'row repeats a known fact' if is_one else 'rows repeat known facts'}, {what}: {first}"]
