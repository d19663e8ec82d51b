"""A graph without labelled negatives: an assumed base rate, what its results say about mistakes, and new labels."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kgcore.data.datasets.family import write_genealogy
from tasks.tracking.artifacts import CALIBRATOR
from tests.pipeline.command import Kgcal, client_of, model_folder, models_of, tags_of_run

pytestmark = pytest.mark.long

OPTIONS = (
    "--preset",
    "default",
    "--k",
    "16",
    "--epochs",
    "5",
    "--batch-size",
    "128",
    "--calibrators",
    "platt",
    "--calibration-eta",
    "5",
)


@dataclass(frozen=True)
class Unlabelled:
    """A pipeline on a graph without labelled negatives, and its recalibration with 60 labels, of which 10 are true."""

    kgcal: Kgcal
    before: dict[str, Any]
    after: dict[str, Any]


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory: pytest.TempPathFactory) -> Unlabelled:
    folder = tmp_path_factory.mktemp("unlabelled")
    made, mine = folder / "made", folder / "mine"
    for place in (made, mine):
        place.mkdir()
    write_genealogy(made, 300, 0)
    rows = {
        name: [r.split("\t") for r in (made / f"{name}.txt").read_text().splitlines()] for name in ("valid", "test")
    }
    true = {name: [row[:3] for row in own if row[3] == "1"] for name, own in rows.items()}
    labels = true["valid"][:10] + [row[:3] for row in rows["valid"] if row[3] == "-1"][:50]
    for name, own in (("valid", true["valid"][10:]), ("test", true["test"])):
        (mine / f"{name}.txt").write_text("".join("\t".join(row) + "\n" for row in own))
    (mine / "train.txt").write_text((made / "train.txt").read_text())
    marked = [[*row, "1" if i < 10 else "-1"] for i, row in enumerate(labels)]
    (folder / "new.tsv").write_text("".join("\t".join(row) + "\n" for row in marked))
    kgcal = Kgcal(folder)
    before = kgcal.results("--dataset", str(mine), *OPTIONS)
    target = folder / "after.json"
    done = kgcal("recalibrate", "--labels", str(folder / "new.tsv"), "--base-rate", "0.5", "--json", str(target))
    assert done.returncode == 0, done.stderr
    return Unlabelled(kgcal, before, json.loads(target.read_text()))


def test_labels_estimate_a_base_rate_that_nobody_stated(unlabelled: Unlabelled) -> None:
    """10 of 60 labels are true: (10 + 1/2) / (60 + 1), for all calibrators."""
    kgcal, target = unlabelled.kgcal, unlabelled.kgcal.home.parent / "estimated.json"
    labels = str(kgcal.home.parent / "new.tsv")
    options = ("--model", unlabelled.before["pipeline"], "--labels", labels, "--exam-share", "0")
    done = kgcal("recalibrate", *options, "--json", str(target))
    assert done.returncode == 0, done.stderr
    after = json.loads(target.read_text())
    assert after["base_rate"] == pytest.approx(10.5 / 61)
    assert after["base_rate_is"] == "estimated"
    params = client_of(kgcal).get_run(after["pipeline"]).data.params
    assert (float(params["base_rate"]), params["base_rate_is"]) == (after["base_rate"], "estimated")
    rates = {m.tags["label"]: float(m.params["base_rate"]) for m in models_of(kgcal, after["runs"]["calibrate"])}
    assert rates["synthetic.platt"] == after["base_rate"]
    assert rates["ground_truth.platt"] == pytest.approx(after["base_rate"], rel=1e-12)


def test_a_base_rate_that_nobody_stated_is_called_assumed(unlabelled: Unlabelled) -> None:
    for results, origin in ((unlabelled.before, "assumed"), (unlabelled.after, "stated")):
        assert (results["base_rate"], results["base_rate_is"]) == (0.5, origin)
        assert f"weighted to the {origin} base rate of 0.5" in results["notes"][0]
        assert any("is assumed: nobody stated or estimated it" in note for note in results["notes"]) == (
            origin == "assumed"
        )
        for run_id in (results["pipeline"], results["runs"]["calibrate"], results["runs"]["evaluate"]):
            assert tags_of_run(unlabelled.kgcal, run_id).base_rate == f"0.5, {origin}"
        params = client_of(unlabelled.kgcal).get_run(results["pipeline"]).data.params
        assert (params["base_rate"], params["base_rate_is"]) == ("0.5", origin)
        kinds = {
            m.tags["label"]: m.tags["base_rate_is"] for m in models_of(unlabelled.kgcal, results["runs"]["calibrate"])
        }
        assert kinds["synthetic.platt"] == origin
        assert kinds.get("ground_truth.platt", "estimated") == "estimated"


def test_results_on_corruptions_say_what_they_say_about_mistakes(unlabelled: Unlabelled) -> None:
    for results, evidence in ((unlabelled.before, "none, because"), (unlabelled.after, "24 validation triples that")):
        assert results["notes"][1].startswith("A small calibration error here is by construction")
        assert results["notes"][2].startswith(f"Evidence about real mistakes: {evidence}")
        report = Path(results["report"]).read_text()
        assert "A small calibration error here is by construction" in report
        assert f"Evidence about real mistakes: {evidence}" in report


def test_new_labels_join_the_validation_positives(unlabelled: Unlabelled) -> None:
    runs = [client_of(unlabelled.kgcal).get_run(r["runs"]["prepare"]) for r in (unlabelled.before, unlabelled.after)]
    first, second = (run.data.metrics for run in runs)
    used, false = second["labels_used"], second["labels_false"]
    assert (used, false) == (27, 24)  # the others belong to the exam
    assert second["valid_positives"] == first["valid_positives"] + 3
    assert second["valid_negatives"] == 24
    bound = {
        (calibrator := CALIBRATOR.read(model_folder(unlabelled.kgcal, model.model_id))).label: calibrator
        for model in models_of(unlabelled.kgcal, unlabelled.after["runs"]["calibrate"])
    }
    assert bound["ground_truth.platt"].base_rate == pytest.approx(3.5 / 28)
    positives = {
        label: sum(true for true, _ in one.support.rows.values()) for label, one in bound.items() if one.support
    }
    assert positives == dict.fromkeys(("ground_truth.platt", "synthetic.platt"), second["valid_positives"])


def test_the_share_of_true_corruptions_is_estimated_stored_and_logged(unlabelled: Unlabelled) -> None:
    runs, client = unlabelled.before["runs"], client_of(unlabelled.kgcal)
    [model] = [m for m in models_of(unlabelled.kgcal, runs["calibrate"]) if m.tags["label"] == "synthetic.platt"]
    hidden = CALIBRATOR.read(model_folder(unlabelled.kgcal, model.model_id)).hidden
    assert hidden is not None
    assert 0 < hidden.low < hidden.share < hidden.high < 0.1
    assert model.params["hidden_share"] == str(hidden)
    metrics = client.get_run(runs["calibrate"]).data.metrics
    assert metrics["syn.hidden_share"] == hidden.share
    true = client.get_run(runs["corrupt"]).data.metrics["valid.true_in_test"]
    assert hidden.low < true < hidden.high


def test_a_run_takes_a_file_of_shares_whose_content_is_part_of_its_key(unlabelled: Unlabelled) -> None:
    kgcal, folder = unlabelled.kgcal, unlabelled.kgcal.home.parent
    data = ("--dataset", str(folder / "mine"), *OPTIONS, "--completeness")
    rows = [line.split("\t")[1] for line in (folder / "mine" / "valid.txt").read_text().splitlines()]
    first, *rest = sorted(set(rows))
    shares, twin, fewer = (folder / f"{name}.tsv" for name in ("shares", "twin", "fewer"))
    lines = [f"{first}\t0.2", *(f"{name}\t0.7:0.9" for name in rest)]
    for path in (shares, twin):
        path.write_text("\n".join(lines))
    fewer.write_text("\n".join(lines[1:]))
    found = kgcal.results(*data, str(shares))
    client, runs = client_of(kgcal), [own["runs"]["calibrate"] for own in (unlabelled.before, found)]
    low, high = (client.get_run(run).data.metrics["syn.hidden_share"] for run in runs)
    assert low < high
    assert found["runs"]["score"] == unlabelled.before["runs"]["score"]
    assert client.get_run(found["pipeline"]).data.params["completeness"] == "by predicate"
    assert any("The graph is stated to be incomplete (completeness by predicate)" in note for note in found["notes"])
    assert kgcal.results(*data, str(twin))["runs"] == found["runs"]
    moved = kgcal("recalibrate", "--model", found["runs"]["calibrate"], "--base-rate", "0.2")
    assert moved.returncode == 0, moved.stderr
    for wrong, message in (
        (str(fewer), f"completeness fewer.tsv lacks {first}: add a line for each"),
        ("nothing.tsv", "completeness is 'nothing.tsv': it must be a share above 0 and below 1"),
        ("1", "completeness is '1': it must be above 0 and below 1, or LOW:HIGH"),
    ):
        refused = kgcal("run", *data, wrong)
        assert refused.returncode != 0
        assert message in " ".join(refused.stderr.split())
