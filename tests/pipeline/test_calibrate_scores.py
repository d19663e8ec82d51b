"""`kgcal calibrate-scores`: scores of any scorer, from the command line to MLflow, its report and its pyfunc."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import mlflow
import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException

from tests.core.scored_rows import table_of_scores, written
from tests.pipeline.command import Kgcal, client_of, models_of, runs_of

FIT = ("scores.csv", "--score", "f", "--label", "y", "--scorer", "miner", "--relation", "r", "--base-rate", "0.1")
QUICK = ("--bootstrap-replicates", "50", "--folds", "3")
CALIBRATORS = ("smoothed_isotonic", "beta", "per_relation")


@dataclass(frozen=True)
class FittedHome:
    """A home in which calibrators of scores were fitted, and the terminal output."""

    kgcal: Kgcal
    shown: str

    @property
    def folder(self) -> Path:
        return self.kgcal.home.parent

    def models(self) -> dict[str, str]:
        """Return label -> id of the LoggedModel."""
        run = runs_of(self.kgcal, "calibrate-scores")[0]
        return {model.tags["label"]: model.model_id for model in models_of(self.kgcal, run.info.run_id)}

    def __call__(self, *arguments: str) -> str:
        """Run the command, which must succeed, and return its output."""
        done = self.kgcal("calibrate-scores", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> FittedHome:
    kgcal = Kgcal(tmp_path_factory.mktemp("scores"))
    rng = np.random.default_rng(1)
    written(kgcal.home.parent, "scores.csv", table_of_scores(rng, 1500))
    written(kgcal.home.parent, "others.tsv", table_of_scores(rng, 200).drop_columns(["y", "w"]))
    made = FittedHome(kgcal, "")
    options = ("--calibrators", ",".join(CALIBRATORS), "--bootstrap-replicates", "50")
    return FittedHome(kgcal, made(*FIT, *options, "--apply", "others.tsv", "-o", "answers.parquet"))


def test_the_run_has_metrics_report_and_diagrams(calibrated: FittedHome) -> None:
    run = runs_of(calibrated.kgcal, "calibrate-scores")[0]
    client, run_id = client_of(calibrated.kgcal), run.info.run_id
    labels = ["uncalibrated", "base_rate", *(f"ground_truth.{name}" for name in CALIBRATORS)]
    assert list(calibrated.models()) == labels
    assert {f"gt.{name}.brier" for name in CALIBRATORS} | {"gt.beta.brier_low"} <= set(run.data.metrics)
    assert run.data.params["best"] in labels
    assert run.data.params["base_rate"] == "0.1"
    files = {item.path for item in client.list_artifacts(run_id)}
    assert {"summary.json", "measured.json", "report.html", "figures"} <= files
    summary = json.loads(Path(client.download_artifacts(run_id, "summary.json")).read_text())
    assert summary["counts"]["measured"] == 1500
    assert [relation["name"] for relation in summary["relations"]] == ["likes", "owns", "ö"]
    assert summary["metrics"]["ground_truth"]["beta"]["brier"] == run.data.metrics["gt.beta.brier"]
    [report] = re.findall(r"report: (\S+)", calibrated.shown)
    page = Path(report).read_text()
    assert "Probabilities on rows of other folds" in page
    assert "Filtered ranks" not in page
    assert all(note in page for note in summary["notes"])
    assert "Measured by cross-fitting on 1,500 rows (10 folds)" in calibrated.shown


def test_answers_of_a_fit_of_a_stored_model_and_of_the_pyfunc_are_equal(
    calibrated: FittedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pd.read_parquet(calibrated.folder / "answers.parquet")
    others = pd.read_csv(calibrated.folder / "others.tsv", sep="\t")
    assert (first[["r", "f"]].astype({"f": float}) == others[["r", "f"]]).all(axis=None)
    ask = ("--score", "f", "--scorer", "miner", "--relation", "r", "--apply", "others.tsv")
    calibrated("--model", "latest", *ask, "-o", "again.csv")
    again = pd.read_csv(calibrated.folder / "again.csv", float_precision="round_trip")
    columns = ["probability", "low", "high"]
    assert (again[columns] == first[columns]).all(axis=None)
    monkeypatch.chdir(calibrated.folder)
    mlflow.set_tracking_uri(f"sqlite:///{calibrated.kgcal.home}/mlflow.db")
    for label, model_id in calibrated.models().items():
        uri = f"models:/{model_id}"
        calibrated("--model", uri, *ask, "-o", "one.parquet", "--base-rate", "0.3")
        expected = pd.read_parquet(calibrated.folder / "one.parquet")[columns]
        loaded = mlflow.pyfunc.load_model(uri)
        asked = pd.DataFrame({"score": others["f"], "relation": others["r"], "scorer": "miner"})
        found = loaded.predict(asked, params={"base_rate": 0.3})
        assert np.array_equal(found[columns].astype(float), expected, equal_nan=True), label
        with pytest.raises(MlflowException, match="belongs to the scorer 'miner', but the scores are of 'engine'"):
            loaded.predict(asked.assign(scorer="engine"))


def test_a_split_column_gives_the_rows_to_measure(calibrated: FittedHome) -> None:
    table = table_of_scores(np.random.default_rng(2), 900).to_pandas()
    table["part"] = np.arange(900) % 3
    table["part"] = table["part"].map({0: "valid", 1: "test", 2: "train"})
    table.to_csv(calibrated.folder / "parts.csv", index=False)
    shown = calibrated("parts.csv", "--score", "f", "--label", "y", "--split", "part", "--bootstrap-replicates", "50")
    assert "Measured on the 300 rows of the split test." in shown
    assert "Left out: 300 rows of the split train." in shown
    assert "Left out: the calibrator per_relation, which needs --relation." in shown
    assert "the share of true rows in the file" in shown


def test_two_scorers_do_not_share_a_champion(calibrated: FittedHome) -> None:
    fit = ("scores.csv", "--score", "f", "--label", "y", "--calibrators", "platt", "--promote", *QUICK)
    assert "It is the new champion." in calibrated(*fit, "--scorer", "a/b")
    done = calibrated.kgcal("calibrate-scores", *fit, "--scorer", "a:b", "--base-rate", "0.2")
    assert done.returncode == 2
    assert "the champion of 'a:b' would be that of 'a/b', whose name differs in marks only" in done.stderr


def test_the_best_calibrator_is_promoted_if_it_is_better(calibrated: FittedHome) -> None:
    promote = ("--scorer", "other", "--promote", *QUICK)
    fit = ("scores.csv", "--score", "f", "--label", "y", *promote)
    assert "It is the new champion." in calibrated(*fit, "--calibrators", "platt")
    assert "(ground_truth.platt) is already the champion" in calibrated(*fit, "--calibrators", "platt")
    shown = calibrated(*fit, "--calibrators", "bbq", "--base-rate", "0.3")
    assert "kgcal-scores-other/2 (ground_truth.bbq) against the champion, models:/kgcal-scores-other/1" in shown
    assert "It is not promoted." in shown
    uri = "models:/kgcal-scores-other@champion"
    ask = ("--scorer", "other", "--score", "f", "--apply", "others.tsv", "-o", "by-champion.csv")
    assert f"model: {uri} (ground_truth.platt)" in calibrated("--model", uri, *ask)
    versions = client_of(calibrated.kgcal).search_model_versions("name = 'kgcal-scores-other'")
    assert len(versions) == 2


def test_newly_labelled_rows_show_whether_a_calibrator_still_fits(calibrated: FittedHome) -> None:
    """The true share of rows is 0.3. The calibrators state 0.1, so a random sample of rows finds a moved base rate."""
    written(calibrated.folder, "new.csv", table_of_scores(np.random.default_rng(9), 800))
    model = f"models:/{calibrated.models()['ground_truth.per_relation']}"
    watch = ("--score", "f", "--label", "y", "--scorer", "miner", "--relation", "r", "--model", model, "--watch")
    shown = calibrated("new.csv", *watch)
    assert f"check 1 of {model}: 800 newly labelled triples" in shown
    assert "* the base rate moved" in shown
    [rate] = re.findall(rf"calibrate-scores --model {model} --scorer miner --score f --base-rate (\S+) ", shown)
    assert float(rate) == pytest.approx(0.3, abs=0.06)
    assert "check 2 of" in calibrated("new.csv", *watch)
    run = runs_of(calibrated.kgcal, "watch-scores")[-1]
    assert run.data.metrics["check"] == 2
    assert run.data.metrics["moved_base_rate"] == pytest.approx(float(rate), rel=1e-3)
    done = calibrated.kgcal("calibrate-scores", "scores.csv", *watch)
    assert "scores.csv has the rows that the calibrator was fitted to: give newly labelled rows" in done.stderr


def test_drift_is_answered_by_a_new_champion(calibrated: FittedHome) -> None:
    """The scores of new rows run the other way: the old map is wrong, and a new one replaces it."""
    table = table_of_scores(np.random.default_rng(10), 1500).to_pandas()
    table["f"] = -table["f"]
    table.to_csv(calibrated.folder / "turned.csv", index=False)
    ask = ("--score", "f", "--label", "y", "--scorer", "third", *QUICK)
    calibrated("scores.csv", *ask, "--calibrators", "beta,platt", "--promote")
    shown = calibrated("turned.csv", *ask, "--calibrators", "isotonic,bbq", "--watch", "--recalibrate")
    assert "kgcal-scores-third/2" in shown
    assert "It is the new champion." in shown
    assert "calibrators were fitted to half of the new rows" in shown
    [again] = re.findall(r"recalibrated: run (\w+)", shown)
    assert again in {run.info.run_id for run in runs_of(calibrated.kgcal, "calibrate-scores")}
    done = calibrated.kgcal("calibrate-scores", "turned.csv", *ask, "--recalibrate")
    assert "--recalibrate needs --watch" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("scores.csv", "--score", "f", "--label", "y", "--calibrators", "beta,per_relation"),
            "per_relation needs relations: name their column with --relation, or leave it out of --calibrators",
        ),
        ((), "give a file of labelled scores, or --model with --apply"),
        (("scores.csv", "--label", "y"), "has no column score: its columns are r, f, y, w; name another one with"),
        (("missing.csv",), "missing.csv cannot be read: No such file or directory"),
        (("scores.csv", "--apply", "others.tsv"), "--apply others.tsv needs --output FILE"),
        (("scores.csv", "-o", "x.csv"), "--output x.csv needs --apply FILE"),
        (("scores.json",), "its name must end in .tsv, .txt, .csv, .parquet"),
        ((*FIT, *QUICK, "--calibrator", "histogram"), "there is no calibrator 'histogram': there are uncalibrated"),
        ((*FIT, "--model", "latest"), "give one of them"),
        (
            (*["--model", "latest", "--apply", "others.tsv", "-o", "x.csv", "--folds", "3", "--scale", "probability"],),
            "--model names a calibrator that is fitted already: leave out --scale, --folds",
        ),
        (("--watch",), "--watch needs a file of newly labelled scores"),
        ((*FIT, "--watch"), "the model models:/kgcal-scores-miner@champion does not exist"),
        (
            ("--model", "latest", "--scorer", "engine", "--apply", "others.tsv", "-o", "x.csv"),
            "no calibrator of the scorer 'engine' was fitted",
        ),
        (
            ("--model", "RUN", "--score", "f", "--apply", "others.tsv", "-o", "x.csv"),
            "belongs to the scorer 'miner', but the scores are of 'f'",
        ),
        (
            (*FIT, *QUICK, "--calibrators", "platt", "--apply", "broken.csv", "-o", "x.csv"),
            "broken.csv, line 3: the score in the column f is 'oops'",
        ),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(
    calibrated: FittedHome, arguments: tuple[str, ...], message: str
) -> None:
    (calibrated.folder / "broken.csv").write_text("f,r\n1,likes\noops,owns\n")
    run = runs_of(calibrated.kgcal, "calibrate-scores")[0].info.run_id
    done = calibrated.kgcal("calibrate-scores", *(run if text == "RUN" else text for text in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (calibrated.folder / "x.csv").exists()


def test_a_model_moves_to_another_machine(calibrated: FittedHome, tmp_path: Path) -> None:
    """The files of a LoggedModel are all that its pyfunc needs."""
    model_id = calibrated.models()["ground_truth.beta"]
    [folder] = (calibrated.kgcal.home / "artifacts").glob(f"**/models/{model_id}/artifacts")
    shutil.copytree(folder, tmp_path / "model")
    found = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(pd.DataFrame({"score": [-1.0, 0.0, 1.0]}))
    assert found["probability"].is_monotonic_increasing
