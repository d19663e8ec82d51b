"""`kgcal run`: results, re-use, what a change of code re-runs, and what MLflow holds afterwards."""

import json
import shutil
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from tests.conftest import tiny_options
from tests.pipeline.conftest import CHECKOUT, Kgcal, all_runs, client_of

STAGES = ["prepare", "train", "corrupt", "score", "calibrate", "classify", "rank", "evaluate", "report"]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    kgcal = Kgcal(tmp_path_factory.mktemp("first"))
    return kgcal, kgcal.results(*tiny_options())


def test_the_json_has_everything_that_is_promised(first: tuple[Kgcal, dict]) -> None:
    _, results = first
    assert (results["dataset"], results["model"], results["loss"]) == ("family", "transe", "self_adversarial")
    assert results["seed"] == 0
    assert list(results["runs"]) == STAGES
    assert list(results["seconds"]) == STAGES
    metrics = results["metrics"]
    for values in (
        metrics["uncalibrated"],
        metrics["base_rate"],
        *(metrics[n][c] for n in ("ground_truth", "synthetic") for c in ("platt", "isotonic")),
    ):
        assert set(values) >= {"brier", "log_loss", "ece", "accuracy", "smooth_ece", "brier_miscalibration", "auroc"}
    assert set(metrics) == set(results["intervals"])
    found, intervals = metrics["synthetic"]["isotonic"], results["intervals"]["synthetic"]["isotonic"]
    assert set(intervals) == set(found)
    assert all(low <= found[name] <= high for name, (low, high) in intervals.items())
    assert set(results["accuracy_per_relation"]) == {"learned", "median"}
    assert set(results["ranks"]) == {"mr", "mrr", "hits_at_1", "hits_at_3", "hits_at_10"}
    assert (
        metrics["ground_truth"]["isotonic"]["brier"] < metrics["base_rate"]["brier"] < metrics["uncalibrated"]["brier"]
    )


def test_the_report_stands_alone(first: tuple[Kgcal, dict]) -> None:
    _, results = first
    html = Path(results["report"]).read_text()
    assert html.count("<svg") == 2
    assert "src=" not in html
    assert 'href="http' not in html
    assert f"{results['metrics']['synthetic']['isotonic']['brier']:.4f}" in html
    low, high = results["intervals"]["synthetic"]["isotonic"]["smooth_ece"]
    assert f"{low:.4f} to {high:.4f}" in html
    assert "Calibration and discrimination" in html
    assert "nan" not in html
    assert all(run_id in html for stage, run_id in results["runs"].items() if stage != "report")


def test_mlflow_holds_nested_runs_models_metrics_data_and_figures(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    client, runs = client_of(kgcal), {run.info.run_id: run for run in all_runs(kgcal)}
    assert len(runs) == 1 + len(STAGES) + 6  # pipeline, stages, and what was measured of each calibrator
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    for stage, run_id in results["runs"].items():
        assert runs[run_id].data.tags["mlflow.parentRunId"] == results["pipeline"]
        assert runs[run_id].data.tags["kgcal.stage"] == stage
    parent = runs[results["pipeline"]]
    assert parent.data.params["base_rate"] == "0.5"
    assert parent.data.metrics["syn.isotonic.brier"] == results["metrics"]["synthetic"]["isotonic"]["brier"]
    assert parent.data.metrics["gt.isotonic.smooth_ece"] == results["metrics"]["ground_truth"]["isotonic"]["smooth_ece"]
    assert "gt.isotonic.brier_miscalibration" not in parent.data.metrics  # its stage has all
    evaluated = runs[results["runs"]["evaluate"]].data.metrics
    assert {"gt.isotonic.brier_miscalibration", "syn.platt.auroc", "uncalibrated.smooth_ece_low"} <= set(evaluated)
    assert [data.dataset.name for data in parent.inputs.dataset_inputs] == ["family"]
    assert [data.dataset.name for data in runs[results["runs"]["prepare"]].inputs.dataset_inputs] == ["family"]
    series = client.get_metric_history(results["runs"]["train"], "loss")
    assert [point.step for point in series] == list(range(1, 21))

    models = client.search_logged_models([parent.info.experiment_id])
    assert len(models) == 7  # one base model, two baselines, two calibrators by two kinds of negatives
    by_label = {model.tags["label"]: model for model in models if "label" in model.tags}
    [base] = [model for model in models if "label" not in model.tags]
    assert {model.tags["base_model"] for model in by_label.values()} == {base.model_id}
    measured = {metric.key: metric for metric in by_label["synthetic.platt"].metrics}
    assert measured["brier"].value == results["metrics"]["synthetic"]["platt"]["brier"]
    assert measured["brier"].dataset_name == "family"
    assert measured["smooth_ece"].value == results["metrics"]["synthetic"]["platt"]["smooth_ece"]
    assert measured["smooth_ece"].dataset_name == "family"
    assert {metric.key for metric in base.metrics} >= {"mrr", "hits_at_10"}

    mlflow.set_tracking_uri(f"sqlite:///{kgcal.home}/mlflow.db")
    stored = [a.path for a in client.list_logged_model_artifacts(by_label["synthetic.platt"].model_id)]
    assert stored == ["calibrator.json"]
    [platt] = [run for run in runs.values() if run.info.run_name == "transe self_adversarial syn.platt"]
    assert platt.data.tags["mlflow.parentRunId"] == results["runs"]["evaluate"]
    assert platt.data.params["calibrator"] == "platt"
    ends = {
        f"{name}_{end}": results["intervals"]["synthetic"]["platt"][name][number]
        for name in ("brier", "smooth_ece")
        for number, end in enumerate(("low", "high"))
    }
    assert platt.data.metrics == results["metrics"]["synthetic"]["platt"] | ends
    figures = [a.path for a in client.list_artifacts(results["pipeline"], "figures")]
    assert figures == ["figures/reliability_ground_truth.png", "figures/reliability_synthetic.png"]
    files = {path.suffix for path in (kgcal.home / "artifacts").rglob("*") if path.is_file()}
    assert files == {".parquet", ".json", ".safetensors", ".html", ".png"}  # and no pickle


def test_the_calibrators_of_all_runs_are_compared(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    target = kgcal.home.parent / "compared.csv"
    done = kgcal("compare", "--dataset", "family", "--base-rate", "0.5", "--top", "2", "--csv", str(target))
    assert done.returncode == 0, done.stderr
    frame = pd.read_csv(target)
    own = frame[frame["run"] == results["pipeline"]]
    assert len(own) == 6  # four calibrators, two baselines
    assert own["brier"].is_monotonic_increasing
    fitted = own[own["negatives"] != "none"]
    for row in fitted.itertuples():
        assert row.brier == results["metrics"][row.negatives][row.calibrator]["brier"]
        assert (row.model, row.loss, row.k, row.mrr) == ("transe", "self_adversarial", 16, results["ranks"]["mrr"])
        assert row.smooth_ece == results["metrics"][row.negatives][row.calibrator]["smooth_ece"]
    assert f"{fitted['brier'].min():.4f}*" in done.stdout
    smooth = kgcal("compare", "--dataset", "family", "--base-rate", "0.5", "--metric", "smooth_ece")
    assert f"{fitted['smooth_ece'].min():.4f}*" in smooth.stdout
    assert f"the first row's run: {results['pipeline']}" in done.stdout
    assert not list(target.parent.glob(".*.partial"))


def test_a_second_run_re_uses_every_stage_and_says_so(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    done = kgcal("run", *tiny_options())
    assert done.returncode == 0
    assert "stages run: none" in done.stdout
    assert done.stderr.count("re-used") == len(STAGES)
    again = kgcal.results(*tiny_options())
    assert again["runs"] == results["runs"]
    assert again["reused"] == STAGES
    assert again["metrics"] == results["metrics"]


def test_another_setting_re_runs_what_it_concerns_and_what_follows(first: tuple[Kgcal, dict]) -> None:
    kgcal, _ = first
    results = kgcal.results(*tiny_options(), "--base-rate", "0.3")
    assert results["reused"] == ["prepare", "train", "corrupt", "score", "rank"]


def test_a_deleted_artifact_is_made_again(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    results = kgcal.results(*tiny_options())
    for file, reused in (
        ("scores.parquet", ["prepare", "train", "corrupt", "rank"]),
        ("predictions.parquet", ["prepare", "train", "corrupt", "score", "calibrate", "rank"]),
        ("embeddings.safetensors", ["prepare", "corrupt"]),
    ):
        newest = max((kgcal.home / "artifacts").rglob(file), key=lambda path: path.stat().st_mtime)
        newest.unlink()
        again = kgcal.results(*tiny_options())
        assert again["reused"] == reused, file
        assert again["metrics"] == results["metrics"]
    forced = kgcal.results(*tiny_options(), "--force")
    assert forced["reused"] == []
    assert forced["metrics"] == results["metrics"]


def test_a_stage_made_anew_by_force_is_what_follows_is_made_from(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    first = kgcal.results(*tiny_options())
    options = [part for part in tiny_options() if part not in ("--size", "300")]
    forced = kgcal("train", "--data", first["runs"]["prepare"], *options, "--force")
    assert forced.returncode == 0, forced.stderr
    again = kgcal.results(*tiny_options())
    assert again["runs"]["train"] == forced.stdout.strip() != first["runs"]["train"]
    assert again["reused"] == ["prepare", "corrupt"] or again["reused"] == ["prepare", "train", "corrupt"]
    html = Path(again["report"]).read_text()
    assert again["runs"]["train"] in html
    assert first["runs"]["train"] not in html


def copy_of_the_code(tmp_path: Path) -> Path:
    code = tmp_path / "code"
    for package in ("kgcore", "tasks", "flows"):
        shutil.copytree(CHECKOUT / package, code / package, ignore=shutil.ignore_patterns("__pycache__"))
    return code


def test_a_changed_generator_generates_anew(tmp_path: Path) -> None:
    code = copy_of_the_code(tmp_path)
    kgcal = Kgcal(tmp_path, code)
    before = kgcal("prepare", "--size", "300").stdout
    source = code / "kgcore" / "datasets" / "genealogy.py"
    source.write_text(
        source.read_text().replace(
            "PEOPLE_PER_TOWN, PEOPLE_PER_COMPANY = 40, 20", "PEOPLE_PER_TOWN, PEOPLE_PER_COMPANY = 10, 20"
        )
    )
    after = kgcal("prepare", "--size", "300").stdout
    entities = [client_of(kgcal).get_run(run.strip()).data.metrics["entities"] for run in (before, after)]
    assert entities == [322, 345]


def test_touching_the_calibration_code_re_runs_calibrate_and_what_follows_alone(tmp_path: Path) -> None:
    code = copy_of_the_code(tmp_path)
    kgcal = Kgcal(tmp_path, code)
    kgcal.results(*tiny_options())
    for file, expected in (
        ("kgcore/calibration/isotonic.py", ["prepare", "train", "corrupt", "score", "rank"]),
        ("kgcore/calibration/sample.py", ["prepare", "train", "corrupt", "score", "rank"]),
        ("kgcore/models/hole.py", STAGES),
        ("kgcore/metrics/ranks.py", ["prepare", "train", "corrupt", "score", "calibrate", "classify"]),
        ("kgcore/report/page.html.j2", [stage for stage in STAGES if stage != "report"]),
        ("kgcore/models/transe.py", ["prepare", "corrupt"]),
    ):
        with (code / file).open("a") as source:
            source.write("\n# touched\n")
        assert kgcal.results(*tiny_options())["reused"] == expected, file


def test_one_stage_runs_from_the_run_ids_of_its_upstream(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    done = kgcal("calibrate", "--scores", results["runs"]["score"], "--base-rate", "0.1", "--calibrators", "platt")
    assert done.returncode == 0, done.stderr
    calibrators = done.stdout.strip()
    done = kgcal("classify", "--calibrators", calibrators)
    assert done.returncode == 0, done.stderr
    done = kgcal("evaluate", "--predictions", done.stdout.strip(), "--ranks", results["pipeline"])
    assert done.returncode == 0, done.stderr
    done = kgcal("report", "--evaluation", done.stdout.strip())
    assert done.returncode == 0, done.stderr
    assert kgcal("rank", "--model", "latest").returncode == 0


def test_stages_that_do_not_belong_together_are_refused(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    other = kgcal.results(*tiny_options(), "--graph-seed", "1")
    done = kgcal("score", "--model", results["runs"]["train"], "--corruptions", other["runs"]["corrupt"])
    assert done.returncode == 2
    assert "they do not belong together" in done.stderr
    done = kgcal("score", "--model", results["runs"]["prepare"], "--corruptions", other["runs"]["corrupt"])
    assert done.returncode == 2
    assert "is of stage prepare: a run of stage train is needed" in done.stderr


def test_the_datasets_are_listed_with_what_is_here(first: tuple[Kgcal, dict]) -> None:
    kgcal, _ = first
    done = kgcal("datasets")
    assert done.returncode == 0
    for text in ("wn11", "112,581", "fb15k-237", "14,541", "family-300-0"):
        assert text in done.stdout


def test_a_folder_of_ones_own_and_a_data_set_without_negatives(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    rows = [f"e{i % 30}\tr{i % 2}\te{(i * 7 + i // 30) % 30}" for i in range(600)]
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, part in (("train", rows[:400]), ("valid", rows[400:500]), ("test", rows[500:])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    results = kgcal.results("--dataset", str(folder), "--k", "8", "--epochs", "3", "--base-rate", "0.2")
    assert results["dataset"] == "mine"
    assert "ground_truth" not in results["metrics"]
    assert results["metrics"]["base_rate"]["brier"] == pytest.approx(0.16)
    assert "no labelled negatives" in Path(results["report"]).read_text()
    low, high = results["intervals"]["synthetic"]["isotonic"]["auroc"]
    assert low < results["metrics"]["synthetic"]["isotonic"]["auroc"] < high
    recorded = [(run.data.tags, run.data.params) for run in all_runs(kgcal)]
    assert str(folder) not in json.dumps(recorded)


def test_every_metric_about_the_data_names_it_and_its_model(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    client = client_of(kgcal)
    for stage, about_a_model in (("classify", "gt.platt.accuracy"), ("evaluate", "gt.platt.auroc"), ("rank", "mrr")):
        run_id = results["runs"][stage]
        [metric] = client.get_metric_history(run_id, about_a_model)
        measured = {
            (point.key, point.run_id, point.dataset_name)
            for model in client.search_logged_models(["1"])
            for point in model.metrics or []
        }
        assert (metric.key, run_id, "family") in measured
    note = client.get_run(results["runs"]["evaluate"]).data.tags["mlflow.note.content"]
    assert f"{results['metrics']['synthetic']['platt']['brier']:.4f}" in note
    [synthetic] = [run for run in all_runs(kgcal) if run.info.run_name == "transe self_adversarial syn.isotonic"][:1]
    wanted = {"dataset": "family", "model": "transe", "loss": "self_adversarial", "k": "16"}
    wanted |= {"calibrator": "isotonic", "negatives": "synthetic", "training_negatives": "uniform"}
    wanted |= {"strategy": "typed=0.9 uniform=0.1", "sides": "bernoulli", "filtered": "True"}
    assert wanted.items() <= synthetic.data.params.items()
