"""Discovers missing facts with a calibrated model, and logs what was asked and what came out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from kgcore.config import DiscoverConfig
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.prediction.answers import Answers, table_of
from kgcore.prediction.domains import Domains
from kgcore.prediction.flyers import frequent_flyers
from kgcore.prediction.sink import check_ending, sink
from tasks.jobs.calibrated_model import Ask, find_calibrated_model
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device

if TYPE_CHECKING:  # torch takes more than a second to load: only a discovery loads it
    from kgcore.prediction.discovery import Discovery, Found, Question

MOST_EXAMPLES = 20  # facts that a summary keeps for the terminal and the Prefect UI
MOST_FLYERS = 20  # frequent flyers that it keeps


@dataclass(frozen=True)
class Wanted:
    """The names of the known parts of the missing facts; '': any."""

    subject: str = ""
    predicate: str = ""
    object: str = ""

    def __str__(self) -> str:
        return f"({', '.join(part or '?' for part in (self.subject, self.predicate, self.object))})"


@dataclass(frozen=True)
class Discovered:
    """The summary of a discovery.

    asked       what was asked, such as `(person_2, parent_of, ?)`
    dataset     name of the data set of the model
    model       URI of the calibrator
    calibrator  its label, such as `synthetic.isotonic`
    base_rate   share of true triples that the probabilities assume
    rows        number of missing facts in the list
    expected    expected number of true ones among them: the sum of their probabilities
    figures     figures of the list, by name: of `fdr`, level, queries, skipped; of `coverage`, coverage, calibration,
                test_queries, test_coverage, test_size
    notes       sentences about the list
    flyers      frequent flyers: entity, part, answers, expected
    output      the file with the list; '' if none was written
    examples    the first facts, one dictionary per row: column -> value
    run         id of the MLflow run
    """

    asked: str
    dataset: str
    model: str
    calibrator: str
    base_rate: float
    rows: int
    expected: float
    figures: Mapping[str, float]
    notes: Sequence[str]
    flyers: Sequence[Mapping[str, object]]
    output: str
    examples: Sequence[Mapping[str, object]]
    run: str


def discover_facts(
    wanted: Wanted, output: str, ask: Ask, base_rate: float | None, device: str, config: DiscoverConfig
) -> Discovered:
    """List the missing facts with the known parts `wanted`, from the most probable one down.

    output     .parquet, .csv or .tsv file for the list; '': no file
    ask        which model answers
    base_rate  share of true triples that the probabilities assume, in (0, 1); None: the calibrator's
    device     auto, cpu, cuda or cuda:N

    Raises InputError if there is no such model or name, if the file cannot be written, if the base rate is out of
    range, or if the settings do not fit the question.
    """
    from kgcore.prediction.discovery import Discovery

    if output:
        check_ending(Path(output))
    found = find_calibrated_model(ask)
    calibrator = found.model.calibrator if base_rate is None else found.model.calibrator.at(base_rate)
    model = replace(found.model, trained=found.model.trained.to(find_device(device)), calibrator=calibrator)
    discovery = Discovery(model, Domains(model.graph, config.candidates == "typed"), config.at_least)
    question = discovery.question(wanted.subject, wanted.predicate, wanted.object)
    store = open_store()
    with store.open_run(f"discover {found.dataset}", RunTags(stage="discover", dataset=found.dataset)) as run_id:
        asked = {"model": found.uri, "calibrator": found.label, "base_rate": calibrator.base_rate, "output": output}
        store.log_params(run_id, asdict(config) | asdict(wanted) | asked)
        listed, figures, notes = _list(discovery, question, config)
        table = _table(discovery, listed, config)
        if output:
            with sink(Path(output)) as write:
                write(table)
        flyers = _flyers(discovery, question, listed)
        summary = Discovered(
            asked=str(wanted),
            dataset=found.dataset,
            model=found.uri,
            calibrator=found.label,
            base_rate=calibrator.base_rate,
            rows=len(table),
            expected=float(np.nansum(table["probability"].to_numpy())),
            figures=figures,
            notes=notes,
            flyers=flyers[:MOST_FLYERS],
            output=output,
            examples=table.slice(0, MOST_EXAMPLES).to_pylist(),
            run=run_id,
        )
        metrics = {"rows": summary.rows, "expected": summary.expected, "frequent_flyers": len(flyers), **figures}
        store.log_metrics(run_id, metrics, model_id=found.model_id)
        store.log_json(run_id, asdict(summary), "discovery.json")
    return summary


Listed: TypeAlias = "tuple[Found, dict[str, float], list[str]]"  # the list, its figures, and sentences about it


def _list(discovery: "Discovery", question: "Question", config: DiscoverConfig) -> Listed:
    with progress_bar("discover", 100) as move:

        def on_part(done: float) -> None:
            move(int(100 * done))

        if config.coverage:
            return _answer_set(discovery, question, config.coverage)
        if config.fdr:
            return _with_few_false(discovery, question, config, on_part)
        return discovery.most_probable(question, config.top, config.above, on_part), {}, []


def _answer_set(discovery: "Discovery", question: "Question", coverage: float) -> Listed:
    listed, rule, measured = discovery.answer_set(question, coverage)
    figures = {"coverage": coverage, "calibration_queries": rule.queries, "pooled": float(rule.pooled)}
    of = "several predicates, because this one has few" if rule.pooled else "the predicate"
    notes = [
        f"the answer set contains the true answer with probability {coverage:g}: calibrated on {rule.queries:,} "
        f"validation queries of {of}, by {rule.kind}"
    ]
    if measured.queries:
        test = {"queries": measured.queries, "coverage": measured.covered, "size": measured.size}
        figures |= {f"test_{name}": float(value) for name, value in test.items()}
        notes.append(
            f"on {measured.queries:,} test queries the sets contain {measured.covered:.1%} of the true answers, with "
            f"{measured.size:,.1f} answers on average"
        )
    return listed, figures, notes


def _with_few_false(
    discovery: "Discovery", question: "Question", config: DiscoverConfig, on_part: Callable[[float], None]
) -> Listed:
    rng = np.random.default_rng(config.discover_seed)
    listed, candidates = discovery.with_few_false(question, config.fdr, rng, on_part)
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
    return listed, {"fdr": config.fdr, "queries": tested, "skipped": candidates.skipped}, notes


def _table(discovery: "Discovery", listed: "Found", config: DiscoverConfig) -> pa.Table:
    """Return the list with the columns of the answer of `kgcal predict`, and the rank as its first column."""
    names = discovery.model.graph.names_of(listed.triples)
    answers = Answers(discovery.model, 0.5, config.at_least)
    table = answers.table(table_of(names.to_numpy().tolist())).drop_columns(["decision", "known"])
    if listed.p_values is not None:
        table = table.add_column(table.column_names.index("reason"), "p_value", pa.array(listed.p_values))
    if config.above:
        table = table.filter(pa.compute.greater(table["probability"], config.above))
    return table.add_column(0, "rank", pa.array(np.arange(1, len(table) + 1)))


def _flyers(discovery: "Discovery", question: "Question", listed: "Found") -> list[dict[str, object]]:
    graph, parts = discovery.model.graph, ((SUBJECT, question.subject), (OBJECT, question.object))
    columns = [column for column, given in parts if given is None]
    return [
        {
            "entity": graph.entities[flyer.entity],
            "part": "subject" if flyer.column == SUBJECT else "object",
            "answers": flyer.answers,
            "expected": round(flyer.expected, 3),
        }
        for flyer in frequent_flyers(graph, listed.triples, columns)
    ]
