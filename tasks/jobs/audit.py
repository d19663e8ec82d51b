"""Audits the training facts: lists those that are probably wrong, or draws facts to label and reads their labels."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgcore.audit.likelihood import AuditedFacts, likelihood_ratios, score_rows
from kgcore.audit.plan import plan_audit
from kgcore.audit.sample import draw_sample, read_labelled, sampled_share, stratify, to_label
from kgcore.calibration.balance import check_base_rate
from kgcore.config import AuditConfig, PipelineConfigs
from kgcore.datasets.base import find_dataset
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.metrics.bootstrap import Estimate
from kgcore.metrics.reliability import wilson
from kgcore.prediction.candidates import check_readable
from kgcore.prediction.sink import check_ending, sink
from kgcore.report.result import Result, ResultTable, table_of
from tasks.jobs.pipeline import all_settings
from tasks.jobs.request import MOST_EXAMPLES, probability_texts, triple_text
from tasks.stages.reference import StageRef
from tasks.stages.running import as_task
from tasks.stages.train import check_training
from tasks.tracking.artifacts import EMBEDDINGS, GRAPH
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel

ESTIMATED, LABELLED, STATED = "estimated", "labelled", "stated"  # where a share of wrong facts comes from
FIRST = tuple(digit * 10**power for power in range(1, 8) for digit in (1, 3))  # lengths of the first part of the list


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    dataset     name of the data set
    facts       number of its training facts
    share       share of wrong facts that the probabilities assume, with its 95 % interval
    origin      where it comes from: ESTIMATED from the planted errors, LABELLED or STATED
    labels      number of labels that it comes from
    simple      width of the interval from as many labels of a simple random sample, for the same share (Wilson, 1927)
    expected    N -> expected number of wrong facts among the first N of the list
    examples    the first facts of the list, one dictionary per row: column -> value
    sampled     number of facts that were drawn to be labelled
    output      the file that was written; '': none
    run         id of the MLflow run
    """

    dataset: str
    facts: int
    share: Estimate
    origin: str
    labels: int
    simple: float
    expected: Mapping[int, float]
    examples: Sequence[Mapping[str, object]]
    sampled: int = 0
    output: str = ""
    run: str = ""

    def sentences(self) -> list[str]:
        """Return what the audit found, one sentence each."""
        share, percent = self.share, f"{100 * self.share.value:.2f} %"
        interval = f"95 % interval {100 * share.low:.2f} to {100 * share.high:.2f} %"
        if self.origin == STATED:
            found = [f"{percent} of the facts are stated to be wrong."]
        elif self.origin == ESTIMATED:
            found = [
                f"About {percent} of the facts look like errors, and at most {100 * share.high:.2f} % (with 95 % "
                "confidence), if errors look like the planted ones. Labels show how many are wrong (--sample, then "
                "--labels)."
            ]
        else:
            width = 100 * (share.high - share.low)
            found = [
                f"By {self.labels} labels, {percent} of the {self.facts:,} facts are wrong ({interval}; the width is "
                f"{width:.2f}, and {100 * self.simple:.2f} for a simple random sample)."
            ]
        found += [
            f"Of the first {first:,} facts, {wrong:,.1f} are expected to be wrong."
            for first, wrong in self.expected.items()
        ]
        return found

    def result(self) -> Result:
        """Return the facts that are most probably wrong, how many errors to expect, and the file."""
        columns = ("fact", "probability", "95 % interval", "expected wrong so far")
        cells = [(triple_text(row), *probability_texts(row), f"{row['expected_wrong']:.1f}") for row in self.examples]
        listed = ResultTable(rows=table_of(columns, cells), words=("fact",))
        name = f"{self.sampled:,} facts to label, 1 for true and -1 for wrong" if self.sampled else "facts"
        return Result(
            title=f"Audit of {self.dataset}",
            tables=[listed] if self.examples and not self.sampled else [],
            sentences=self.sentences(),
            files={name: self.output},
            run=self.run,
            rows=self.examples,
            facts=asdict(self),
        )

    def metrics(self) -> dict[str, float]:
        """Return the numbers that MLflow logs."""
        found = {"facts": self.facts, "labels": self.labels, "sampled": self.sampled}
        share = {"error_rate": self.share.value, "error_rate.low": self.share.low, "error_rate.high": self.share.high}
        expected = {f"expected_wrong.first_{first}": wrong for first, wrong in self.expected.items()}
        return {name: float(value) for name, value in (found | share | expected).items()}


def _result(
    dataset: str, facts: int, share: Estimate, origin: str, labels: int, listed: pa.Table | None
) -> AuditResult:
    """Return the result of an audit, with the counts of its list.

    listed  the table of `AuditedFacts.table`; None: only labels were evaluated

    The other parameters are the fields of `AuditResult`.
    """
    simple = 0.0
    if labels:
        low, high = wilson(np.array([share.value]), np.array([float(labels)]))
        simple = float(high[0] - low[0])
    if listed is None:
        return AuditResult(dataset, facts, share, origin, labels, simple, {}, ())
    wrong = listed["expected_wrong"].to_numpy()
    expected = {first: float(wrong[first - 1]) for first in FIRST if first <= facts}
    examples = listed.slice(0, MOST_EXAMPLES).to_pylist()
    return AuditResult(dataset, facts, share, origin, labels, simple, expected, examples)


@dataclass(frozen=True)
class AuditRequest:
    """What a user asks of an audit.

    output      .parquet, .csv or .tsv file for the list or for the facts to label; '': no file
    labels      file of drawn facts with their labels; '': none
    error_rate  stated share of wrong facts, in (0, 1); None: not stated
    device      auto, cpu, cuda or cuda:N
    config      settings of the audit
    """

    output: str
    labels: str
    error_rate: float | None
    device: str
    config: AuditConfig

    @property
    def folds(self) -> int:
        """The number of models to train: none if a user only asks which share of facts the labels show to be wrong."""
        return 0 if self.labels and not self.output else self.config.folds


@contextmanager
def audit_run(request: AuditRequest, configs: PipelineConfigs, preset: Mapping[str, str]) -> Iterator[str]:
    """Open the MLflow run of an audit, with every setting as a parameter, and yield its id.

    configs  the settings of the models
    preset   further parameters: the name of the preset, and the settings that it sets

    Raises InputError, before any run is opened, for settings, files or a device that cannot be used.
    """
    config = request.config
    if request.error_rate is not None:
        check_base_rate("error_rate", request.error_rate)
        if request.labels:
            raise InputError("error_rate states the share of wrong facts, and the labels show it: give one of them")
    if config.sample and not request.output:
        raise InputError("sample needs --output FILE: the file for the facts to label")
    if config.sample and request.labels:
        raise InputError("sample draws facts, and labels reads facts that were drawn: give one of them")
    if request.output:
        check_ending(Path(request.output))
    if request.labels:
        check_readable(Path(request.labels))
    check_training(configs.train, request.device)
    dataset, store = find_dataset(configs.prepare.dataset).name, open_store()
    store.mark_dead_runs()
    used = {"prepare": configs.prepare, "train": configs.train, "audit": config}
    params = all_settings(used) | dict(preset) | {"dataset": dataset}
    asked = {"labels": Path(request.labels).name, "output": request.output, "error_rate": request.error_rate}
    with store.open_run(f"audit {dataset}", RunTags(stage="audit", dataset=dataset)) as run_id:
        store.log_params(run_id, params | {name: value for name, value in asked.items() if value not in ("", None)})
        yield run_id


def labelled_share(data: StageRef, request: AuditRequest) -> tuple[Estimate, int] | None:
    """Return the share of wrong facts that the labels show, and the number of labels; None if no labels are given.

    data  the prepare run of the whole graph

    Raises InputError as `read_labelled` and `sampled_share` do.
    """
    if not request.labels:
        return None
    found = read_labelled(Path(request.labels), open_store().load(data.run_id, GRAPH))
    return sampled_share(found.strata, found.counts, found.wrong), len(found.strata)


@as_task("audit_facts")
def audit_facts(
    data: StageRef,
    folds: Sequence[StageRef],
    labelled: tuple[Estimate, int] | None,
    request: AuditRequest,
    run_id: str,
) -> AuditResult:
    """Score the facts by the models of the folds, write the file, and log the result to the audit's run.

    data      the prepare run of the whole graph
    folds     the train run of each fold; empty: only the labels are evaluated
    labelled  the share that the labels show, as `labelled_share` returns it
    """
    store = open_store()
    graph = store.load(data.run_id, GRAPH)
    facts = _audited(store, graph, folds, request) if folds else None
    share, origin = _share(facts, labelled, request)
    labels = labelled[1] if labelled else 0
    listed = facts.table(share.value) if facts else None
    result = _result(graph.name, len(graph.train.positives), share, origin, labels, listed)
    result = replace(result, sampled=request.config.sample, output=request.output, run=run_id)
    if facts is not None and request.output:
        with sink(Path(request.output)) as write:
            write(_sample(facts, share, request.config) if request.config.sample else listed)
    store.log_metrics(run_id, result.metrics(), dataset=store.get(data.run_id).dataset)
    store.log_json(run_id, asdict(result), "audit.json")
    store.log_tags(run_id, RunTags(note="\n\n".join(result.sentences())))
    return result


def _audited(store: Store, graph: KnowledgeGraph, folds: Sequence[StageRef], request: AuditRequest) -> AuditedFacts:
    """Score the facts and the planted errors by the model of every fold, and learn from the planted errors."""
    plan, device = plan_audit(graph, request.config), find_device(request.device)
    with progress_bar("audit", len(folds)) as move:

        def models() -> "Iterator[TrainedModel]":
            for number, ref in enumerate(folds, 1):
                [model_id] = store.get(ref.run_id).model_ids
                yield store.load_model(model_id, EMBEDDINGS).to(device)
                move(number, f"{len(plan.triples):,} triples")

        scores = score_rows(plan, models())
    return AuditedFacts(plan, scores, likelihood_ratios(plan, scores, request.config.audit_seed))


def _share(
    facts: AuditedFacts | None, labelled: tuple[Estimate, int] | None, request: AuditRequest
) -> tuple[Estimate, str]:
    """Return the share of wrong facts, and where it comes from: ESTIMATED, LABELLED or STATED."""
    if labelled is not None:
        return labelled[0], LABELLED
    if request.error_rate is not None:
        return Estimate(request.error_rate, request.error_rate, request.error_rate), STATED
    assert facts is not None
    return facts.largest_share(), ESTIMATED


def _sample(facts: AuditedFacts, share: Estimate, config: AuditConfig) -> pa.Table:
    """Return the facts to label."""
    strata = stratify(facts.wrong(share.value))
    rows = draw_sample(strata, config.sample, np.random.default_rng(config.audit_seed))
    return to_label(facts.plan.graph, strata, rows)
