"""The JSON of summaries: keys and nesting that users rely on."""

import json

import numpy as np
import pytest

from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.measure.evaluation.groups import reliability_by_relation
from kgcore.measure.metrics.classification import RelationDecisions, ThresholdResult
from kgcore.measure.report.ensemble_summary import Disputed, EnsembleSummary, MemberSummary, PooledSummary
from kgcore.measure.report.result import runs_text
from kgcore.measure.report.results import MetricsRow, Results
from kgcore.measure.report.summary import PipelineSummary, Summary, summarise_relations
from tests.core.judged import FAST, predictions

LABELS = ("uncalibrated", "ground_truth.platt", "ground_truth.isotonic", "synthetic.platt")
RULES = ("learned", "median")
EVALUATION = ["metrics", "intervals", "accuracy_per_relation", "ranks", "relations", "notes"]


@pytest.fixture
def summary(rng: np.random.Generator) -> PipelineSummary:
    q, y = rng.random(60), np.repeat([1.0, 0], 30)
    judged = predictions({label: q ** (1 + i) for i, label in enumerate(LABELS)}, y)
    decisions = [RelationDecisions(0, 60, ThresholdResult(-1.5, 0.75), ThresholdResult(-1.0, 0.5))]
    return PipelineSummary(
        results=Results.of(evaluate(judged, FAST)),
        accuracy_per_relation={"learned": 0.75, "median": 0.5},
        ranks={"mr": 9.0, "mrr": 0.25},
        relations=summarise_relations(["likes"], decisions, reliability_by_relation(judged)),
        notes=("a note",),
        dataset="family",
        model="transe",
        loss="nll",
        seed=3,
        runs={"train": "a", "evaluate": "b"},
        seconds={"train": 1.5, "evaluate": 0.25},
        reused=("train",),
    )


def plain(value: object) -> object:
    return json.loads(json.dumps(value))


def test_a_pipelines_summary_has_these_keys(summary: PipelineSummary) -> None:
    data = summary.to_json()
    own = ["dataset", "model", "loss", "seed", "runs", "seconds", "reused"]
    assert list(data) == [*own, *EVALUATION]
    assert list(data["metrics"]) == list(data["intervals"]) == ["uncalibrated", "ground_truth", "synthetic"]
    assert list(data["metrics"]["ground_truth"]) == ["platt", "isotonic"]
    platt = summary.results.row("ground_truth", "platt")
    assert data["metrics"]["ground_truth"]["platt"] == platt.metrics
    assert data["intervals"]["ground_truth"]["platt"]["brier"] == list(platt.intervals["brier"])
    [relation] = data["relations"]
    numbers = ["predicate", "triples", "learned", "median", "observed", "low", "high", "calibrators"]
    assert list(relation) == ["name", *numbers]
    assert (relation["name"], relation["learned"]) == ("likes", {"threshold": -1.5, "accuracy": 0.75})
    assert list(relation["calibrators"]["synthetic.platt"]) == ["predicted", "brier"]


def test_report_and_run_id_are_written_once_they_are_known(summary: PipelineSummary) -> None:
    data = summary.to_json() | {"report": "/a/report.html", "pipeline": "c"}
    again = PipelineSummary.from_json(data)
    assert (again.report, again.pipeline) == ("/a/report.html", "c")
    assert list(again.to_json())[-2:] == ["report", "pipeline"]


def test_summaries_are_read_back_as_they_were_written(summary: PipelineSummary) -> None:
    assert PipelineSummary.from_json(plain(summary.to_json())) == summary
    evaluated = Summary.from_json(plain(summary.to_json()))
    assert list(evaluated.to_json()) == EVALUATION
    assert evaluated.results == summary.results


def test_markdown_has_a_row_for_each_calibrator_and_the_runs(summary: PipelineSummary) -> None:
    lines = summary.results.table(notes=[runs_text(summary.runs)]).markdown().splitlines()
    assert lines[0] == "| negatives | calibrator | brier | log loss | ece | sharpness | accuracy |"
    assert len(lines) == 2 + len(LABELS) + 2
    platt = summary.results.row("ground_truth", "platt").metrics
    assert lines[2].startswith(f"| ground truth | platt | {platt['brier']:.4f} | {platt['log_loss']:.4f} |")
    assert lines[-1] == "Stages: train `a`, evaluate `b`"


def test_an_ensembles_summary_has_these_keys_and_is_read_back() -> None:
    metrics = {"brier": 0.2, "log_loss": 0.5, "ece": 0.1, "accuracy": 0.75}
    member = MemberSummary("transe", "transe", "nll", 0, "run of train", "run of calibrate", "m-1")
    pooled = PooledSummary({"transe": 1.0}, Disputed(0.01, 0.1, 0.3))
    rows = tuple(MetricsRow("synthetic", name, metrics, {"brier": (0.1, 0.3)}) for name in ("transe", "log_odds"))
    summary = EnsembleSummary(
        "family", (member,), ("log_odds",), {"synthetic.log_odds": pooled}, ("a note",), Results(rows), "run"
    )
    data = summary.to_json()
    assert list(data) == ["dataset", "members", "pools", "ensembles", "notes", "metrics", "intervals", "run"]
    assert list(data["members"][0]) == ["name", "model", "loss", "seed", "train", "calibrate", "model_id"]
    expected = {"weights": {"transe": 1.0}, "disagreement": 0.01, "brier_agreed": 0.1, "brier_disputed": 0.3}
    assert data["ensembles"] == {"synthetic.log_odds": expected}
    assert EnsembleSummary.from_json(plain(data)) == summary
    text = summary.result().markdown()
    assert "**family: 1 models, synthetic negatives**" in text
    assert "| model | brier | log loss | ece | sharpness | accuracy | log-odds weight |" in text
    assert "| transe | 0.2000* | 0.5000* | 0.1000* | - | 0.7500* | 1.000 |" in text
    assert "| ensemble, log-odds | 0.2000* | 0.5000* | 0.1000* | - | 0.7500* |  |" in text
    assert "log-odds: members disagree by 0.0100 nats; Brier score 0.1000" in text
    assert text.endswith("Members: transe `run of calibrate`")
