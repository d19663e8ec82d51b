"""Audits the training facts: lists those that are probably wrong, or draws facts to label and reads their labels."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kgcore.answer.sink import check_ending, sink
from kgcore.base_rate import check_size
from kgcore.calibrate.sample import check_base_rate
from kgcore.config import AuditConfig, PipelineConfigs
from kgcore.data.datasets.base import find_dataset
from kgcore.data.formats.base import check_readable
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.measure.metrics.base import Estimate
from kgcore.measure.metrics.reliability import wilson
from kgcore.measure.report.result import Result, ResultTable, table_of
from kgcore.wings.audit.likelihood import AuditedFacts, likelihood_ratios, score_rows
from kgcore.wings.audit.plan import plan_audit
from kgcore.wings.audit.sample import draw_sample, read_labelled, sampled_share, stratify, to_label
from kgcore.workers import find_device
from tasks.jobs.pipeline import all_settings, open_work
from tasks.jobs.request import MOST_EXAMPLES, probability_texts, triple_text
from tasks.stages.running import StageRef, as_task
from tasks.stages.train import check_training
from tasks.tracking.artifacts import EMBEDDINGS, GRAPH
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import progress_bar

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

ESTIMATED, LABELLED, STATED = "estimated", "labelled", "stated"  # where a share of wrong facts comes from
FIRST = tuple(digit * 10**power for power in range(1, 8) for digit in (1, 3))  # lengths of the first part of the list


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


def audit_run(
    request: AuditRequest, configs: PipelineConfigs, preset: Mapping[str, str]
) -> AbstractContextManager[str]:
    """Open the MLflow run of an audit, with every setting as a parameter; `with` gives its id.

    configs  the settings of the models
    preset   further parameters: the name of the preset, and the settings that it sets

    Raises InputError, before any run is opened, for settings, files or a device that cannot be used.
    """
    config = request.config
    if request.error_rate is not None:
        check_base_rate("error_rate", request.error_rate)
        check_size("error_rate", [request.error_rate])
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
    dataset = find_dataset(configs.prepare.dataset).name
    used = {"prepare": configs.prepare, "train": configs.train, "audit": config}
    params = all_settings(used) | dict(preset) | {"dataset": dataset}
    asked = {"labels": Path(request.labels).name, "output": request.output, "error_rate": request.error_rate}
    params |= {name: value for name, value in asked.items() if value not in ("", None)}
    return open_work(f"audit {dataset}", RunTags(stage="audit"), params)


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
) -> Result:
    """Score the facts by the models of the folds, write the file, and log the result to the audit's run.

    data      the prepare run of the whole graph
    folds     the train run of each fold; empty: only the labels are evaluated
    labelled  the share that the labels show, as `labelled_share` returns it
    """
    store = open_store()
    graph = store.load(data.run_id, GRAPH)
    audited = _audited(store, graph, folds, request) if folds else None
    share, origin = _share(audited, labelled, request)
    listed = audited.table(share.value) if audited else None
    if audited is not None and request.output:
        with sink(Path(request.output)) as write:
            write(_sample(audited, share, request.config) if request.config.sample else listed)
    facts = {
        "dataset": graph.name,
        "facts": len(graph.train.positives),
        "share": asdict(share),
        "origin": origin,
        "labels": labelled[1] if labelled else 0,
        "expected": {},
        "examples": [],
        "sampled": request.config.sample,
        "output": request.output,
        "run": run_id,
    }
    if listed is not None:  # N -> expected number of wrong facts among the first N of the list
        wrong = listed["expected_wrong"].to_numpy()
        facts["expected"] = {first: float(wrong[first - 1]) for first in FIRST if first <= len(wrong)}
        facts["examples"] = listed.slice(0, MOST_EXAMPLES).to_pylist()
    result = _result(facts, share)
    store.log_metrics(run_id, _metrics(facts, share), dataset=store.get(data.run_id).dataset)
    store.log_json(run_id, facts, "audit.json")
    store.log_tags(run_id, RunTags(note="\n\n".join(result.sentences)))
    return result


def _result(facts: Mapping[str, Any], share: Estimate) -> Result:
    """Return the facts that are most probably wrong, how many errors to expect, and the file."""
    columns, sampled = ("fact", "probability", "95 % interval", "expected wrong so far"), facts["sampled"]
    cells = [(triple_text(row), *probability_texts(row), f"{row['expected_wrong']:.1f}") for row in facts["examples"]]
    wrong = facts["expected"].items()
    return Result(
        title=f"Audit of {facts['dataset']}",
        tables=[ResultTable(rows=table_of(columns, cells), words=("fact",))] if cells and not sampled else [],
        sentences=[
            _share_text(facts, share),
            *(f"Of the first {first:,} facts, {count:,.1f} are expected to be wrong." for first, count in wrong),
        ],
        files={f"{sampled:,} facts to label, 1 for true and -1 for wrong" if sampled else "facts": facts["output"]},
        run=facts["run"],
        rows=facts["examples"],
        facts=facts,
    )


def _share_text(facts: Mapping[str, Any], share: Estimate) -> str:
    """Return the share of wrong facts as a sentence.

    Of labels, it compares the interval with that of as many labels of a simple random sample (Wilson, 1927).
    """
    percent, labels = f"{100 * share.value:.2f} %", facts["labels"]
    if facts["origin"] == STATED:
        return f"{percent} of the facts are stated to be wrong."
    if facts["origin"] == ESTIMATED:
        return (
            f"About {percent} of the facts look like errors, and at most {100 * share.high:.2f} % (with 95 % "
            "confidence), if errors look like the planted ones. Labels show how many are wrong (--sample, then "
            "--labels)."
        )
    low, high = wilson(np.array([share.value]), np.array([float(labels)]))
    return (
        f"By {labels} labels, {percent} of the {facts['facts']:,} facts are wrong (95 % interval "
        f"{100 * share.low:.2f} to {100 * share.high:.2f} %; the width is {100 * (share.high - share.low):.2f}, and "
        f"{100 * (high[0] - low[0]):.2f} for a simple random sample)."
    )


def _metrics(facts: Mapping[str, Any], share: Estimate) -> dict[str, float]:
    metrics = {name: float(facts[name]) for name in ("facts", "labels", "sampled")}
    metrics |= {"error_rate": share.value, "error_rate.low": share.low, "error_rate.high": share.high}
    return metrics | {f"expected_wrong.first_{first}": wrong for first, wrong in facts["expected"].items()}


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
