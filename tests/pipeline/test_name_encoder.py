"""Evidence from a sentence encoder: `kgcal run --name-encoder`. Answers need neither the encoder nor its package."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kgcore
from kgcore.storage import read_predictions
from tests.core.encoders import write_encoder
from tests.pipeline.command import CHECKOUT, Kgcal, client_of, copy_of_the_code, model_folder, runs_of, tags_of_run

pytestmark = pytest.mark.long
SETTINGS = (
    *("--size", "700", "--k", "16", "--epochs", "20", "--batch-size", "128"),
    *("--calibrators", "boosted_trees", "--evidence", "score,degrees"),
)
LABEL = "ground_truth.boosted_trees"


@dataclass(frozen=True)
class Made:
    """A pipeline with an encoder, whose package is then gone."""

    kgcal: Kgcal
    package: Path
    encoder: Path
    results: dict[str, Any]

    def triples(self) -> pd.DataFrame:
        """Return the names of the first test triples."""
        [test] = (self.kgcal.home / "datasets").glob("*/test.txt")
        rows = [line.split("\t")[:3] for line in test.read_text().splitlines()[:40]]
        return pd.DataFrame(rows, columns=["subject", "predicate", "object"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("encoder")
    code = copy_of_the_code(folder)
    package = code / "sentence_transformers.py"
    shutil.copy(CHECKOUT / "tests" / "core" / "encoders.py", package)
    kgcal, encoder = Kgcal(folder, code), write_encoder(folder / "my_encoder")
    results = kgcal.results(*SETTINGS, "--name-encoder", str(encoder))
    elsewhere = folder / "copied" / encoder.name
    shutil.copytree(encoder, elsewhere)
    again = kgcal.results(*SETTINGS, "--name-encoder", str(elsewhere))
    assert again["runs"] == results["runs"]  # the content of the folder counts, not its place
    package.unlink()
    shutil.rmtree(elsewhere)
    return Made(kgcal, package, encoder, results)


def test_the_report_and_the_runs_name_the_encoder(made: Made) -> None:
    page = (made.kgcal.home / "reports" / made.results["pipeline"] / "report.html").read_text()
    groups = re.findall(r"<tr><td>(\w+)</td>", page[page.index("What evidence adds") :])
    assert "name_encoder" in groups
    config = tags_of_run(made.kgcal, made.results["runs"]["evidence"]).config
    assert config is not None
    assert config["name_encoder"] == "my_encoder"
    assert {run.data.params["name_encoder"] for run in runs_of(made.kgcal, "pipeline")} == {"my_encoder"}


def test_answers_explanations_and_the_champion_need_no_encoder(made: Made) -> None:
    kgcal, folder = made.kgcal, made.kgcal.home.parent
    file, target, triples = folder / "some.csv", folder / "answers.parquet", made.triples()
    triples.to_csv(file, index=False)
    done = kgcal("predict", str(file), "-o", str(target))
    assert done.returncode == 0, done.stderr
    answers = pd.read_parquet(target)
    [place] = kgcal.home.glob(f"artifacts/{made.results['runs']['classify']}/artifacts")
    measured = read_predictions(place / "predictions.parquet").probabilities[LABEL]
    assert np.isin(answers["probability"].to_numpy(), measured).mean() > 0.9  # some test rows are not measured

    done = kgcal("explain", *triples.iloc[0], "-o", str(folder / "why.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "why.json").read_text())
    assert {"encoded_subject", "encoded_object", "encoded_both"} <= {row["feature"] for row in found["contributions"]}
    total = sum(row["log_odds"] for row in found["contributions"])
    assert total == pytest.approx(np.log(found["probability"] / (1 - found["probability"])), abs=1e-9)

    promoted = kgcal("promote")
    assert promoted.returncode == 0, promoted.stderr
    version = client_of(kgcal).get_model_version_by_alias("kgcal-family", "champion")
    alone = kgcore.load(model_folder(kgcal, version.tags["kgcal.model_id"])).predict(triples)
    np.testing.assert_array_equal(alone["probability"], answers["probability"])


def test_recalibration_reads_names_without_the_encoder(made: Made) -> None:
    done = made.kgcal("recalibrate", made.results["runs"]["calibrate"], "--base-rate", "0.3", "--refit")
    assert done.returncode == 0, done.stderr
    assert "read names by the encoder my_encoder" in " ".join(done.stderr.split())
    config = tags_of_run(made.kgcal, runs_of(made.kgcal, "evidence")[-1].info.run_id).config
    assert config is not None
    assert (config["name_encoder"], config["evidence"]) == ("", ["score", "degrees"])


def test_what_is_missing_is_said_before_anything_is_trained(made: Made) -> None:
    count = len(runs_of(made.kgcal, "train"))
    for folder, message in (
        (made.kgcal.home / "none", "is no folder with a model of sentence-transformers"),
        (made.encoder, "pip install 'kgcal[encoder]'"),
    ):
        done = made.kgcal("run", *SETTINGS, "--seed", "5", "--name-encoder", str(folder))
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())
    assert len(runs_of(made.kgcal, "train")) == count
