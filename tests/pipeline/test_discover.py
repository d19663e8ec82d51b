"""`kgcal discover`: missing facts of a run, from the command line to a file and to MLflow."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.pipeline.command import FORKS_WITH_FEW_TREES, Kgcal, client_of, runs_of
from tests.pipeline.finished import finished

TRIPLE = ["subject", "predicate", "object"]


@dataclass(frozen=True)
class Trained:
    """A home with a finished pipeline on a small graph, and its file of labelled test triples."""

    kgcal: Kgcal
    test: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    kgcal, _ = finished(tmp_path_factory.mktemp("discover"))
    kgcal.forks = FORKS_WITH_FEW_TREES
    [test] = (kgcal.home / "datasets").glob("*/test.txt")
    return Trained(kgcal, test)


def discovered(trained: Trained, *options: str, file: str = "facts.parquet") -> pd.DataFrame:
    """Discover missing facts, and return the list."""
    target = trained.kgcal.home.parent / file
    done = trained.kgcal("discover", "-o", str(target), *options)
    assert done.returncode == 0, done.stderr
    return pd.read_parquet(target) if file.endswith("parquet") else pd.read_csv(target, float_precision="round_trip")


STATED = ("--completeness", "0.9")


@pytest.mark.parametrize("options", [("--predicate", "born_in", "--top", "40"), ("--top", "30")])
def test_the_facts_are_missing_and_in_the_order_of_their_probabilities(
    trained: Trained, options: tuple[str, ...]
) -> None:
    facts = discovered(trained, *options, *STATED)
    assert facts["rank"].tolist() == list(range(1, len(facts) + 1))
    assert facts["probability"].is_monotonic_decreasing
    assert (facts["low"] <= facts["probability"]).all()
    names = trained.kgcal.home.parent / "names.tsv"
    facts[["subject", "predicate", "object"]].to_csv(names, sep="\t", index=False)
    target = names.with_name("answers.parquet")
    assert trained.kgcal("predict", str(names), "-o", str(target)).returncode == 0
    assert not pd.read_parquet(target)["known"].any()
    metrics = runs_of(trained.kgcal, "discover")[-1].data.metrics
    assert metrics["expected"] == pytest.approx(facts["probability"].sum())
    assert metrics["expected_low"] <= metrics["expected"] <= metrics["expected_high"]


def test_rows_that_repeat_known_facts_are_counted(trained: Trained) -> None:
    facts = discovered(trained, "--predicate", "spouse_of", "--top", "30", *STATED)
    known: set[tuple[str, ...]] = set()
    for split in ("train", "valid", "test"):
        rows = pd.read_csv(trained.test.with_name(f"{split}.txt"), sep="\t", header=None, dtype=str)
        rows = rows if split == "train" else rows[rows[3] == "1"]
        known |= set(map(tuple, rows[[2, 1, 0]].to_numpy()))
    repeats = [row for row in map(tuple, facts[TRIPLE].to_numpy()) if row in known]
    assert len(repeats) > 1
    assert runs_of(trained.kgcal, "discover")[-1].data.metrics["repeats"] == len(repeats)
    said = trained.kgcal("discover", "--predicate", "spouse_of", "--top", "30", *STATED).stdout
    sentence = f"{len(repeats)} rows repeat known facts, with subject and object exchanged, or by another predicate: "
    assert sentence + " ".join(repeats[0]) in " ".join(said.split())


@pytest.mark.long
def test_pairs_of_a_predicate_are_the_list_of_its_missing_facts(trained: Trained) -> None:
    facts = discovered(trained, "--predicate", "cousin_of", "--candidates", "all", "--top", "20", *STATED)
    target = trained.kgcal.home.parent / "pairs.parquet"
    done = trained.kgcal("predict", "--predicate", "cousin_of", "--top", "20", *STATED, "-o", str(target))
    assert done.returncode == 0, done.stderr
    columns = ["subject", "object", "score"]
    assert len(pd.read_parquet(target)[columns]) == len(facts[columns]) == 20


def test_without_a_statement_there_is_an_order_and_no_probability(trained: Trained) -> None:
    asked = ("--predicate", "lives_in", "--top", "30")
    stated, ranked = discovered(trained, *asked, *STATED), discovered(trained, *asked)
    assert ranked["probability"].isna().all()
    assert (ranked["reason"] == "the base rate of the candidates is not stated").all()
    assert ranked["score"].tolist() == stated["score"].tolist()
    assert set(map(tuple, ranked[TRIPLE].to_numpy())) == set(map(tuple, stated[TRIPLE].to_numpy()))
    done = trained.kgcal("discover", "--top", "30")
    assert "no probabilities: nothing says how many of the" in done.stdout
    assert "--completeness 0.8" in done.stdout
    assert "expected to be true" not in done.stdout
    run = runs_of(trained.kgcal, "discover")[-1]
    assert "expected" not in run.data.metrics


def test_the_survey_is_a_stage_that_is_used_again(trained: Trained) -> None:
    discovered(trained, "--top", "30", *STATED)
    before = len(runs_of(trained.kgcal, "survey"))
    done = trained.kgcal("discover", "--top", "30", "--base-rate", "0.001")
    assert done.returncode == 0, done.stderr
    assert "true by the stated base rate 0.001" in done.stdout
    assert len(runs_of(trained.kgcal, "survey")) == before


def test_a_predicate_with_too_few_validation_facts_has_no_probability(trained: Trained) -> None:
    done = trained.kgcal("discover", "--predicate", "born_in", "--at-least", "10000", "--top", "3", *STATED)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in trained.test.with_name("valid.txt").read_text().splitlines()]
    number = sum(predicate == "born_in" and label == "1" for _, predicate, _, label in rows)
    assert f"no probabilities: validation has {number} facts of born_in, and at least 10000 are needed" in done.stdout


@pytest.mark.long
def test_doubtful_facts_have_a_flag(trained: Trained) -> None:
    typed = discovered(trained, "--top", "2000", *STATED)
    assert set(typed["flag"].dropna()) <= {"beyond the calibrated range"}
    facts = discovered(trained, "--candidates", "all", "--predicate", "lives_in", "--top", "2000", *STATED)
    flags = set(facts["flag"].dropna())
    assert any("off-type" in flag for flag in flags)
    assert flags <= {"off-type", "beyond the calibrated range", "off-type; beyond the calibrated range"}


def test_a_query_lists_the_answers_above_a_probability(trained: Trained) -> None:
    subject = trained.test.read_text().split("\t")[0]
    every = discovered(trained, "--subject", subject, "--predicate", "born_in", *STATED, file="all.csv")
    assert (every[["subject", "predicate"]] == [subject, "born_in"]).all(axis=None)
    limit = float(every["probability"].iloc[2])
    query = ("--subject", subject, "--predicate", "born_in", "--above", str(limit))
    above = discovered(trained, *query, *STATED, file="above.csv")
    assert above["object"].tolist() == every["object"][every["probability"] > limit].tolist()


def test_a_list_with_few_false_facts_needs_no_survey(trained: Trained) -> None:
    before = len(runs_of(trained.kgcal, "survey"))
    done, empty = (trained.kgcal("discover", "--predicate", "lives_in", "--fdr", fdr) for fdr in ("0.9", "0.0001"))
    assert done.returncode == empty.returncode == 0, done.stderr
    assert "no probabilities: nothing says how many of the candidates are true" in done.stdout
    assert "0 missing facts" in empty.stdout
    assert "no probabilities" not in empty.stdout
    assert len(runs_of(trained.kgcal, "survey")) == before


def test_an_answer_set_reports_its_coverage_on_test(trained: Trained) -> None:
    subject = trained.test.read_text().split("\t")[0]
    done = trained.kgcal("discover", "--subject", subject, "--predicate", "lives_in", "--coverage", "0.8")
    assert done.returncode == 0, done.stderr
    assert "the answer set contains the true answer with probability 0.8: calibrated on" in done.stdout
    metrics = runs_of(trained.kgcal, "discover")[-1].data.metrics
    assert metrics["coverage"] == 0.8
    assert 0.5 < metrics["test_coverage"] <= 1
    assert metrics["test_size"] > 0
    assert f"on {metrics['test_queries']:,.0f} test queries the sets contain" in done.stdout


def test_without_a_query_the_answer_sets_of_each_predicate_are_measured(trained: Trained) -> None:
    sets = discovered(trained, "--coverage", "0.8")
    assert len(sets) == 2 * 10
    metrics = runs_of(trained.kgcal, "discover")[-1].data.metrics
    tested = sets[sets["test_queries"] > 0]
    assert metrics["test_queries"] == tested["test_queries"].sum()
    mean = np.average(tested["test_coverage"], weights=tested["test_queries"])
    assert metrics["test_coverage"] == pytest.approx(mean)
    one = discovered(trained, "--coverage", "0.8", "--predicate", "lives_in")
    pd.testing.assert_frame_equal(one, sets[sets["predicate"] == "lives_in"].reset_index(drop=True))
    done = trained.kgcal("discover", "--coverage", "0.8", "--predicate", "lives_in")
    assert "the answer sets of 2 kinds of queries (?, lives_in, ?)" in done.stdout
    assert "give a subject or an object, too, for the answer set of a query" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [("--top", "50", "--completeness", "0.9"), ("--predicate", "lives_in", "--fdr", "0.9"), ("--coverage", "0.8")],
)
def test_two_dask_workers_find_the_same_rows_to_the_bit(trained: Trained, options: tuple[str, ...]) -> None:
    from distributed import LocalCluster

    here = discovered(trained, *options)
    with LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        runner = f"dask:{cluster.scheduler_address.removeprefix('tcp:')}"
        there = discovered(trained, *options, "--runner", runner)
    pd.testing.assert_frame_equal(here, there, check_exact=True)
    one, other = (run.data.metrics for run in runs_of(trained.kgcal, "discover")[-2:])
    assert one == other
    assert one.get("queries", len(here)) > 0


@pytest.mark.long
def test_a_repeated_question_is_answered_by_its_run_unless_a_file_is_part_of_it(trained: Trained) -> None:
    shares = trained.kgcal.home.parent / "shares.tsv"
    shares.write_text("born_in\t0.9\n")

    def asked(*options: str) -> str:
        return trained.kgcal("discover", "--predicate", "born_in", "--top", "12", *options).stdout

    first = asked(*STATED)
    asked_before = len(runs_of(trained.kgcal, "discover"))
    assert asked(*STATED) == first
    assert len(runs_of(trained.kgcal, "discover")) == asked_before
    others = [asked("--completeness", "0.8"), asked("--completeness", str(shares)), asked(*STATED, "--at-least", "6")]
    shares.write_text("born_in\t0.7\n")
    others.append(asked("--completeness", str(shares)))
    assert len({first, *others}) >= 4
    assert len(discovered(trained, "--predicate", "born_in", "--top", "12", *STATED)) == 12
    assert len(runs_of(trained.kgcal, "discover")) == asked_before + 5


def test_a_list_with_few_false_facts_has_p_values(trained: Trained) -> None:
    facts = discovered(trained, "--predicate", "lives_in", "--fdr", "0.9")
    assert (facts["p_value"] <= 0.9).all()
    run = runs_of(trained.kgcal, "discover")[-1]
    assert run.data.params["fdr"] == "0.9"
    assert run.data.params["predicate"] == "lives_in"
    metrics = run.data.metrics
    assert metrics["rows"] == len(facts) <= metrics["queries"]
    assert metrics["queries"] > 0
    assert metrics["frequent_flyers"] >= 0
    client_of(trained.kgcal).download_artifacts(run.info.run_id, "discovery.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--subject", "nobody"), "has no entity 'nobody' (no name is near)"),
        (("--predicate", "likes"), "has no predicate 'likes' ("),
        (("--subject", "person_1", "--coverage", "0.9"), "an answer set belongs to a query: give a predicate, and a"),
        (("--fdr", "0.1", "--coverage", "0.9"), "fdr is 0.1 and coverage is 0.9: give one of them"),
        (("--above", "0.5"), "above is 0.5, but there are no probabilities: state --completeness or --base-rate"),
        (("--completeness", "2"), "completeness is '2': it must be above 0 and below 1, or LOW:HIGH"),
        (("--completeness", "0.9", "--base-rate", "0.1"), "each of them says how many candidates are true, so state"),
        (("-o", "facts.json"), "facts.json is of an unknown kind: its name must end in .parquet, .csv, .tsv"),
        (("--coverage", "0.9", "--above", "0.5"), "above is 0.5 and coverage is 0.9: give one of them"),
        (("--fdr", "1"), "fdr is 1.0: it must be at least 0 and below 1"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(trained: Trained, options: tuple[str, ...], message: str) -> None:
    done = trained.kgcal("discover", *options)
    assert done.returncode == 2
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert message in sentence
    assert not Path(trained.kgcal.home.parent / "facts.json").exists()
