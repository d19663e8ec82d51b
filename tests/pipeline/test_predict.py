"""`kgcal predict`: the answers of a run, a calibrator or the champion, from the command line to MLflow."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kgcore.storage.folders import read_graph
from tests.pipeline.command import FORKS_WITH_FEW_TREES, Kgcal, client_of, runs_of
from tests.pipeline.finished import copy_home, finished


@dataclass(frozen=True)
class Trained:
    """A home with a finished pipeline on a small graph with labelled negatives.

    runs  stage -> run id
    test  its file of labelled test triples
    """

    kgcal: Kgcal
    runs: dict[str, str]
    test: Path

    def answers(self, *options: str, file: Path | None = None) -> pd.DataFrame:
        """Predict a file, the labelled test triples if none is given, and return the answers."""
        target = self.kgcal.home.parent / "answers.parquet"
        done = self.kgcal("predict", str(file or self.test), "-o", str(target), *options)
        assert done.returncode == 0, done.stderr
        return pd.read_parquet(target)

    def evaluated(self) -> pd.DataFrame:
        """Return the test predictions that the classify run logged."""
        folder = client_of(self.kgcal).download_artifacts(self.runs["classify"], "predictions.parquet")
        return pd.read_parquet(folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    kgcal, results = finished(tmp_path_factory.mktemp("predict"))
    kgcal.forks = FORKS_WITH_FEW_TREES
    runs = results["runs"]
    [test] = (kgcal.home / "datasets").glob("*/test.txt")
    return Trained(kgcal, runs, test)


@pytest.mark.parametrize("label", ["ground_truth.beta", "synthetic.smoothed_isotonic"])
def test_the_test_file_has_the_probabilities_that_were_evaluated_to_the_bit(trained: Trained, label: str) -> None:
    answers, evaluated = trained.answers("--calibrator", label, "--at-least", "0"), trained.evaluated()
    graph = read_graph(Path(client_of(trained.kgcal).download_artifacts(trained.runs["prepare"], "graph")))
    numbers, known = graph.number(answers)
    found = {tuple(row): answers.loc[i, ["score", "probability"]].tolist() for i, row in enumerate(numbers)}
    assert known.sum() >= len(evaluated) > 500
    for row in evaluated.to_dict("records"):
        assert found[row["s"], row["p"], row["o"]] == [row["score"], row[f"q.{label}"]]


def test_a_triple_is_answered_in_two_lines(trained: Trained) -> None:
    subject, predicate, object_ = trained.test.read_text().splitlines()[0].split("\t")[:3]
    done = trained.kgcal("predict", subject, predicate, object_)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    [row] = trained.answers().head(1).to_dict("records")
    assert lines[0] == f"{subject} {predicate} {object_}"
    assert lines[1].startswith(f"probability {row['probability']:.4f} (95 % interval: {row['low']:.4f} to ")
    assert "family has no champion: the newest calibrators answer" in done.stderr
    assert "answers: the best of" in done.stderr


def test_a_triple_with_a_misspelt_predicate_is_refused(trained: Trained) -> None:
    done = trained.kgcal("predict", "person_0", "sibling_off", "person_1")
    assert done.returncode == 2
    assert "the graph family has no predicate 'sibling_off' (near names: sibling_of" in done.stderr


def test_a_misspelt_entity_gets_near_names(trained: Trained) -> None:
    done = trained.kgcal("predict", "Person_0", "sibling_of", "person_1")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "no answer: unknown subject the graph family has no entity 'Person_0' (near names: person_0, " in said


def test_the_first_misspelt_name_of_a_file_gets_near_names(trained: Trained, tmp_path: Path) -> None:
    rows = ["\t".join(row.split("\t")[:3]) for row in trained.test.read_text().splitlines()[:25]]
    file, said = tmp_path / "candidates.tsv", []
    for extra in ("person_0\tsibling_of\tPerson_1\nperson_0\tsibling_of\tPERSON_2\n", ""):
        file.write_text("".join(f"{row}\n" for row in rows) + extra)
        done = trained.kgcal("predict", str(file), "-o", str(tmp_path / "answers.tsv"))
        said.append(" ".join(done.stdout.split()))
    assert "the graph family has no entity 'Person_1' (near names: person_1, " in said[0]
    assert "PERSON_2" not in said[0]
    assert "has no entity" not in said[1]


def test_a_base_rate_may_be_an_interval(trained: Trained) -> None:
    done = trained.kgcal("predict", "person_0", "sibling_of", "person_1", "--base-rate", "0.2:0.4")
    assert done.returncode == 0, done.stderr
    assert "base rate 0.29 [0.2, 0.4], stated" in " ".join(done.stdout.split())


def test_a_first_row_with_the_names_of_columns_is_noticed(trained: Trained, tmp_path: Path) -> None:
    rows, file = trained.test.read_text().splitlines()[:25], tmp_path / "candidates.tsv"
    noticed = []
    for header in ("drug\trelated\tdisease\t4\n", ""):
        file.write_text(header + "".join(f"{row}\n" for row in rows))
        done = trained.kgcal("predict", str(file), "-o", str(tmp_path / "answers.tsv"))
        noticed.append("the first row has no known name: drug related disease. If it has the names" in done.stdout)
    assert noticed == [True, False]


def test_an_answer_with_an_entity_that_does_not_fit_is_flagged(trained: Trained) -> None:
    """A city has no siblings. Every probability is above the threshold 0."""
    rows = [line.split("\t") for line in trained.test.read_text().splitlines()]
    city = next(row[2] for row in rows if row[1] == "lives_in")
    person, _, other, _ = next(row for row in rows if row[1] == "sibling_of")
    flag = "off-type: the triple has an entity without facts like those of the predicate"
    for subject, is_flagged in ((city, True), (person, False)):
        done = trained.kgcal("predict", subject, "sibling_of", other, "--threshold", "0", "--at-least", "0")
        assert done.returncode == 0, done.stderr
        assert (flag in done.stdout) == is_flagged


def test_an_unknown_name_has_no_answer_and_a_reason(trained: Trained, tmp_path: Path) -> None:
    file = tmp_path / "candidates.csv"
    first = trained.test.read_text().splitlines()[0].split("\t")
    file.write_text(f"object,subject,predicate\n{first[2]},{first[0]},{first[1]}\nnobody,{first[0]},{first[1]}\n")
    answers = trained.answers(file=file)
    assert answers["reason"].isna().tolist() == [True, False]
    assert answers["reason"][1] == "unknown object"
    assert answers["probability"].notna().tolist() == [True, False]


def test_a_base_rate_and_costs_change_the_answers_without_a_fit(trained: Trained) -> None:
    before = trained.answers("--calibrator", "synthetic.beta")
    after = trained.answers("--calibrator", "synthetic.beta", "--base-rate", "0.1", "--cost-false-positive", "4")
    answered = before["probability"].notna()
    odds = [frame["probability"][answered] / (1 - frame["probability"][answered]) for frame in (before, after)]
    np.testing.assert_allclose(odds[0] / odds[1], 9, rtol=1e-9)  # from 1/2 to 1/10
    assert after["decision"][answered].tolist() == (after["probability"][answered] > 0.8).tolist()


def test_few_of_the_selected_candidates_are_false(trained: Trained) -> None:
    answers = trained.answers("--fdr", "0.2", "--calibrator", "ground_truth.beta")
    rows = [line.split("\t") for line in trained.test.read_text().splitlines()]
    false = np.array([row[3] == "-1" for row in rows])
    selected = answers["selected"].fillna(False).to_numpy(dtype=bool)
    assert selected.sum() > 50
    assert false[selected].mean() < 0.3
    assert answers["p_value"].notna().tolist() == answers["selected"].notna().tolist()
    assert answers["p_value"][selected].max() < answers["p_value"][~selected].min()
    metrics = runs_of(trained.kgcal, "predict")[-1].data.metrics
    assert metrics["selected"] == selected.sum()
    assert metrics["tested"] == answers["p_value"].notna().sum()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "b", "c", "--fdr", "0.1"], "fdr selects among the candidates of a file: give a file"),
        (["--predicate", "parent_of", "--fdr", "0.1"], "fdr selects among the candidates of a file: leave out --fdr"),
        (["FILE", "--fdr", "0.1", "--calibrator", "base_rate"], "was not fitted on negatives: name another calibrator"),
    ],
)
def test_nothing_else_is_selected(trained: Trained, words: list[str], message: str) -> None:
    done = trained.kgcal("predict", *(str(trained.test) if word == "FILE" else word for word in words))
    assert done.returncode == 2
    assert message in done.stderr


def test_mlflow_has_what_was_asked_and_what_came_out(trained: Trained) -> None:
    trained.answers("--model", trained.runs["calibrate"], "--threshold", "0.7")
    run = runs_of(trained.kgcal, "predict")[-1]
    assert run.data.params["threshold"] == "0.7"
    assert run.data.params["candidates"] == "test.txt"
    metrics, rows = run.data.metrics, len(trained.test.read_text().splitlines())
    assert metrics["rows"] == rows
    without = sum(value for name, value in metrics.items() if name.startswith("no_answer."))
    assert metrics["answered"] + without == rows
    assert 0 < metrics["accepted"] < metrics["answered"]
    assert 0 < metrics["known"] < rows
    assert "expected" not in metrics  # the file has other candidates than the calibration
    trained.answers("--model", trained.runs["calibrate"], "--base-rate", "0.3")
    assert "expected" not in runs_of(trained.kgcal, "predict")[-1].data.metrics  # its rows are stored in the graph
    client_of(trained.kgcal).download_artifacts(run.info.run_id, "prediction.json")


def test_the_champion_answers_if_there_is_one(trained: Trained) -> None:
    assert trained.kgcal("promote", "--dataset", "family").returncode == 0
    done = trained.kgcal("predict", str(trained.test), "--dataset", "family")
    assert done.returncode == 0, done.stderr
    assert "model: models:/kgcal-family/1 (" in done.stdout
    again = trained.kgcal("predict", str(trained.test), "--model", "models:/kgcal-family@champion")
    assert again.stdout.splitlines()[0] == done.stdout.splitlines()[0]


def test_the_files_of_another_calibrator_are_refused(trained: Trained, tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    copy_home(trained.kgcal.home, kgcal.home)
    paths = list((kgcal.home / "artifacts").rglob("calibrator.json"))
    stored = {(data["negatives"], data["name"]): path for path in paths if (data := json.loads(path.read_text()))}
    shutil.copy(stored["synthetic", "beta"], stored["ground_truth", "beta"])
    done = kgcal("predict", str(trained.test), "-o", str(tmp_path / "a.csv"), "--calibrator", "ground_truth.beta")
    assert done.returncode == 2
    assert "are of synthetic.beta, not of ground_truth.beta" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b"), "2 candidates are given: give a file, or a subject, a predicate and an object"),
        (("none.tsv",), "none.tsv cannot be read: No such file or directory"),
        (("TEST", "-o", "out.json"), "out.json is of an unknown kind: its name must end in .parquet, .csv, .tsv"),
        (("TEST", "-o", "no/out.csv"), "--output no/out.csv: there is no folder"),
        (("TEST", "--model", "f" * 32), f"the run '{'f' * 32}' does not exist"),
        (("TEST", "--calibrator", "platt"), "has no calibrator 'platt': it has uncalibrated, base_rate, ground_truth"),
        (("TEST", "--base-rate", "1"), "base_rate is 1: it must be above 0 and below 1"),
        (("TEST", "--threshold", "0.6", "--cost-false-positive", "2"), "give a threshold or costs"),
        (("TEST", "--dataset", "wn11"), "wn11 has neither a champion nor a finished run"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(trained: Trained, arguments: tuple[str, ...], message: str) -> None:
    words = [str(trained.test) if word == "TEST" else word for word in arguments]
    done = trained.kgcal("predict", *words)
    assert done.returncode == 2
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert message in sentence
    assert "Traceback" not in done.stderr
    assert not list(trained.kgcal.home.parent.glob("*out*.csv"))


def test_a_fault_in_a_file_leaves_no_output(trained: Trained, tmp_path: Path) -> None:
    file = tmp_path / "candidates.tsv"
    file.write_text(trained.test.read_text() + "a\tb\n")
    line = len(file.read_text().splitlines())
    done = trained.kgcal("predict", str(file), "-o", str(tmp_path / "out.csv"))
    assert done.returncode == 2
    assert f"kgcal: {file}, line {line}: 2 columns: it must have 4" in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_swapped_columns_are_noticed(trained: Trained, tmp_path: Path) -> None:
    rows = [line.split("\t")[:3] for line in trained.test.with_name("train.txt").read_text().splitlines()]
    born = [(o, p, s) for s, p, o in rows if p == "born_in"][:60]
    file = tmp_path / "swapped.tsv"
    for said, order in ((True, 1), (False, -1)):
        file.write_text("".join("\t".join(row[::order]) + "\n" for row in born))
        done = trained.kgcal("predict", str(file), "--base-rate", "0.1")
        assert done.returncode == 0, done.stderr
        assert ("exchanged: are the columns swapped?" in " ".join(done.stdout.split())) is said


@pytest.mark.long
def test_all_pairs_of_a_predicate_are_those_of_a_file_with_the_same_triples(trained: Trained, tmp_path: Path) -> None:
    rows = [line.split("\t")[:3] for line in trained.test.read_text().splitlines()]
    subjects, objects = (sorted({row[place] for row in rows})[:30] for place in (0, 2))
    for name, names in (("subjects", subjects), ("objects", objects)):
        (tmp_path / name).write_text("\n".join([*names, "nobody"]))
    files = ("--subjects", str(tmp_path / "subjects"), "--objects", str(tmp_path / "objects"))
    target = tmp_path / "pairs.parquet"

    def answered(*options: str) -> pd.DataFrame:
        done = trained.kgcal("predict", "--predicate", "cousin_of", *files, "-o", str(target), *options)
        assert done.returncode == 0, done.stderr
        assert "1 of 31 subjects are unknown and left out: 'nobody'" in done.stderr
        return pd.read_parquet(target)

    stated = ("--completeness", "0.9")
    everything = answered("--known-facts", "mark", *stated)
    assert len(everything) == 900 - len(set(subjects) & set(objects))

    unknown = everything[~everything["known"]].sort_values(
        ["score", "subject", "object"], ascending=[False, True, True]
    )
    best = answered("--top", "25", *stated)
    assert best["score"].tolist() == unknown["score"].head(25).tolist()
    metrics = runs_of(trained.kgcal, "predict")[-1].data.metrics
    assert metrics["expected"] == pytest.approx(best["probability"].sum())
    assert 0 <= metrics["expected_low"] <= metrics["expected"] <= metrics["expected_high"] <= 25
    assert answered("--top", "25")["probability"].isna().all()
    each = answered("--top", "2", "--per", "subject", *stated)
    assert each.groupby("subject").size().tolist() == [2] * 30
    limit = float(unknown["probability"].iloc[10])
    likely = answered("--above", str(limit), *stated)
    assert sorted(likely["score"]) == sorted(unknown["score"][unknown["probability"] > limit])


@pytest.mark.long
def test_a_file_is_calibrated_to_its_rows_or_refused(trained: Trained, tmp_path: Path) -> None:
    facts = [line.split("\t") for line in (trained.test.parent / "valid.txt").read_text().splitlines()]
    cousins = [row for row in facts if row[1] == "cousin_of" and row[3] == "1"][:25]
    people = sorted({row[0] for row in cousins} | {row[2] for row in cousins})
    file, target = tmp_path / "pairs.tsv", tmp_path / "answers.parquet"
    file.write_text("".join(f"{s}\tcousin_of\t{o}\n" for s in people for o in people if s != o))

    def answered(*options: str) -> tuple[pd.DataFrame, str]:
        done = trained.kgcal("predict", str(file), "-o", str(target), *options)
        assert done.returncode == 0, done.stderr
        answers = pd.read_parquet(target)
        return answers[~answers["known"].astype(bool)], done.stdout + done.stderr

    synthetic = ("--calibrator", "synthetic.beta")
    refused, text = answered(*synthetic)
    assert refused["probability"].isna().all()
    assert refused["score"].notna().all()
    assert "no probabilities: the triples are unlike the calibration triples (AUROC" in text
    assert "expected" not in runs_of(trained.kgcal, "predict")[-1].data.metrics

    assert "comparison re-used" in answered(*synthetic)[1]
    stated, text = answered(*synthetic, "--completeness", "0.9")
    assert "true by the stated completeness 0.9, and are calibrated to these with" in text
    assert 0 < stated["probability"].sum() < len(stated) / 2
    metrics = runs_of(trained.kgcal, "predict")[-1].data.metrics
    assert metrics["expected"] == pytest.approx(stated["probability"].sum())
    assert metrics["expected_low"] < metrics["expected"] < metrics["expected_high"]
    assert f" expected to be true (95 % interval: {metrics['expected_low']:,.0f} to " in text
    again, text = answered(*synthetic, "--completeness", "0.9")
    assert "survey    re-used" in text
    pd.testing.assert_frame_equal(again, stated, check_exact=True)

    output = tmp_path / "selected.csv"
    selected = trained.kgcal("predict", str(file), *synthetic, "--fdr", "0.1", "-o", str(output))
    assert (selected.returncode, output.exists()) == (2, False)
    assert "this one differs from them at every share of true ones" in selected.stderr
    assert "every share of true ones (AUROC" in selected.stderr


@pytest.mark.long
def test_two_dask_workers_find_the_same_rows_to_the_bit(trained: Trained, tmp_path: Path) -> None:
    from distributed import LocalCluster

    pairs = ("predict", "--predicate", "cousin_of", "--top", "500")
    with LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp:")
        for name, runner in (("here", "threads"), ("there", f"dask:{address}")):
            done = trained.kgcal(*pairs, "--runner", runner, "-o", str(tmp_path / f"{name}.parquet"))
            assert done.returncode == 0, done.stderr
    here, there = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    assert len(here) == 500
    pd.testing.assert_frame_equal(here, there, check_exact=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b", "c", "--runner", "dask"), "runner are for pairs: give --predicate, too"),
        (
            ("a", "b", "c", "--model", "latest", "--dataset", "nowhere"),
            "nowhere has neither a champion nor a finished run",
        ),
        (
            ("--top", "3"),
            "subjects, objects, top, per, above, known_facts, runner are for pairs: give --predicate, too",
        ),
        (("--predicate", "cousin"), "has no predicate 'cousin' (near names: cousin_of; frequent predicates: "),
        (("a", "b", "c", "--predicate", "cousin_of"), "give candidates or --predicate"),
        (("--predicate", "cousin_of", "--subjects", "none"), "none cannot be read: No such file or directory"),
        (
            ("--predicate", "cousin_of", "--top", "3", "--runner", "spark"),
            "it must be threads, dask or dask://HOST:PORT",
        ),
        (
            ("--predicate", "cousin_of", "--above", "0.5"),
            "there are no probabilities: state --completeness or --base-rate",
        ),
    ],
)
def test_a_mistake_about_pairs_is_reported(trained: Trained, arguments: tuple[str, ...], message: str) -> None:
    done = trained.kgcal("predict", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
