"""`kgcal base-rate`: the base rate of candidates, with and without labels, from the command line to MLflow."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from tests.pipeline.command import Kgcal, client_of, runs_of, tags_of
from tests.pipeline.finished import finished

QUICK = ("--no-by-relation", "--per-positive", "5")


@dataclass(frozen=True)
class Trained:
    """A home with a finished pipeline on a small graph, and its test triples in a random order.

    rows    subject, predicate, object, label 1 or -1
    """

    kgcal: Kgcal
    rows: list[list[str]]

    @property
    def folder(self) -> Path:
        return self.kgcal.home.parent

    @property
    def facts(self) -> list[list[str]]:
        """Return the training facts. They do not count as candidates."""
        [train] = (self.kgcal.home / "datasets").glob("*/train.txt")
        return [line.split("\t")[:3] for line in train.read_text().splitlines()]

    def write(self, name: str, rows: list[list[str]]) -> str:
        (self.folder / name).write_text("".join("\t".join(row) + "\n" for row in rows))
        return str(self.folder / name)

    def estimated(self, file: str, *options: str) -> tuple[dict, str]:
        """Estimate the base rate, and return the artifact and the terminal output."""
        done = self.kgcal("base-rate", file, *options)
        assert done.returncode == 0, done.stderr
        run = runs_of(self.kgcal, "base-rate")[-1]
        logged = client_of(self.kgcal).download_artifacts(run.info.run_id, "base_rate.json")
        return json.loads(Path(logged).read_text()), done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    kgcal, _ = finished(tmp_path_factory.mktemp("base_rate"))
    [test] = (kgcal.home / "datasets").glob("*/test.txt")
    rows = [line.split("\t") for line in test.read_text().splitlines()]
    return Trained(kgcal, [rows[i] for i in np.random.default_rng(0).permutation(len(rows))])


@pytest.fixture(scope="module")
def hidden(trained: Trained) -> tuple[dict, str]:
    """Estimate from all test triples without their labels, in a file with 6 rows that do not count."""
    rows = [row[:3] for row in trained.rows]
    file = trained.write("hidden.tsv", [*rows, *trained.facts[:3], *rows[:2], ["nobody", "likes", "nothing"]])
    return trained.estimated(file, *QUICK)


@pytest.mark.long
def test_scores_alone_show_the_base_rate_of_candidates(trained: Trained, hidden: tuple[dict, str]) -> None:
    """Half of the test triples are true. Of the false ones, three quarters are left out."""
    true = [row[:3] for row in trained.rows if row[3] == "1"]
    false = [row[:3] for row in trained.rows if row[3] == "-1"]
    most = true + false[: len(false) // 4]
    found = {}
    for name, size, (made, shown) in (
        ("half", len(trained.rows), hidden),
        ("most", len(most), trained.estimated(trained.write("most.tsv", most), *QUICK)),
    ):
        rate = made["mixture"]["estimated"]
        assert rate["low"] <= len(true) / size <= rate["high"]
        assert made["labelled"] is None
        assert f"{rate['low']:.3g} to {rate['high']:.3g}" in shown
        found[name] = rate["value"]
    assert found["most"] - found["half"] > 0.15


def test_labels_alone_give_the_exact_binomial_interval(trained: Trained) -> None:
    rows = trained.rows[:120]
    made, shown = trained.estimated(trained.write("labelled.tsv", rows), "--width", "0.3")
    true = sum(row[3] == "1" for row in rows)
    exact = binomtest(true, 120).proportion_ci(0.95, method="exact")
    rate = made["labelled"]
    assert (rate["value"], made["mixture"], made["labels"]) == (true / 120, None, 120)
    assert (rate["low"], rate["high"]) == pytest.approx((exact.low, exact.high), abs=1e-9)
    by_relation = {one["relation"]: one for one in made["relations"]}
    own = [row[3] for row in rows if row[1] == rows[0][1]]
    assert by_relation[rows[0][1]]["base_rate"] == own.count("1") / len(own)
    assert sum(one["labels"] for one in made["relations"]) == 120
    run = runs_of(trained.kgcal, "base-rate")[-1]
    assert made["command"] == f"kgcal recalibrate {run.data.params['model']} --base-rate {true / 120:.3g}"
    assert made["command"] in shown
    assert run.data.metrics["base_rate"] == true / 120
    assert made["sentences"][0] in run.data.tags["mlflow.note.content"]
    assert tags_of(run).dataset == "family"


def test_the_next_command_works(trained: Trained) -> None:
    made, _ = trained.estimated(trained.write("again.tsv", trained.rows[:120]), "--width", "0.3", *QUICK)
    done = trained.kgcal(*made["command"].split()[1:])
    assert done.returncode == 0, done.stderr


def test_labels_and_scores_count_together(trained: Trained, hidden: tuple[dict, str]) -> None:
    rows = [[*row[:3], row[3] if number < 60 else ""] for number, row in enumerate(trained.rows)]
    made, shown = trained.estimated(trained.write("both.tsv", rows), "--per-positive", "5")
    assert (made["labels"], made["mixture"]["labels"]) == (60, 60)
    assert made["mixture"]["candidates"] == len(rows) - 60
    assert made["mixture"]["estimated"] != hidden[0]["mixture"]["estimated"]
    assert "scores and labels" in shown
    assert "labels alone" in shown
    assert sum(one["candidates"] for one in made["relations"]) <= len(rows)
    assert all(one["low"] <= one["base_rate"] <= one["high"] for one in made["relations"])


def test_rows_that_do_not_count_are_said(trained: Trained, hidden: tuple[dict, str]) -> None:
    made, shown = hidden
    assert made["mixture"]["candidates"] == len(trained.rows)
    for number, reason in ((1, "have a name"), (3, "are training facts"), (2, "repeat another row")):
        assert f"Left out: {number} of {len(trained.rows) + 6:,} rows {reason}" in shown


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "json"])
def test_the_estimates_go_to_a_file(trained: Trained, ending: str) -> None:
    file, target = trained.write("labelled.tsv", trained.rows[:120]), trained.folder / f"rates.{ending}"
    made, _ = trained.estimated(file, "--width", "0.3", "--output", str(target))
    if ending == "json":
        assert json.loads(target.read_text()) == made
        return
    read = {"tsv": lambda path: pd.read_csv(path, sep="\t"), "csv": pd.read_csv, "parquet": pd.read_parquet}
    frame = read[ending](target)
    assert list(frame) == ["relation", "base_rate", "low", "high", "candidates", "labels"]
    overall = frame.iloc[0]
    assert pd.isna(overall["relation"])
    assert (overall["base_rate"], overall["labels"]) == (pytest.approx(made["labelled"]["value"]), 120)
    assert frame["relation"].tolist()[1:] == [one["relation"] for one in made["relations"]]
    assert frame["high"].to_numpy()[1:] == pytest.approx([one["high"] for one in made["relations"]])
    assert frame["labels"].sum() == 240


def test_mistakes_that_no_strategy_resembles_are_refused_without_labels(trained: Trained) -> None:
    """The mistakes swap subject and object of facts; the strategies are uniform corruptions only."""
    known = {tuple(row[:3]) for row in trained.rows}
    true = [row[:3] for row in trained.rows if row[3] == "1"]
    swapped = [row[2::-1] for row in true if tuple(row[2::-1]) not in known]
    # every mistake that is not a fact, so that a large part of the candidates scores like neither
    rows = true[: len(true) // 3] + swapped
    options = (*QUICK, "--strategies", "uniform")
    made, shown = trained.estimated(trained.write("foreign.tsv", rows), *options)
    assert made["mixture"]["fit"]["p_value"] <= 0.01
    assert made["command"] == ""
    assert "mistakes that no strategy resembles" in " ".join(shown.split())
    assert "The base rate is" not in shown
    assert "so their scores cannot show the base rate" in " ".join(made["sentences"])[:2_000].replace("So", "so")
    labelled = [[*row, "1" if row in true else "-1"] for row in rows[:: len(rows) // 100]]
    file = trained.write("judged.tsv", labelled + [[*row, ""] for row in rows])
    made, _ = trained.estimated(file, *options[1:])
    assert any(text.startswith("So only the labels count here") for text in made["sentences"])
    by_relation: dict[str, list[bool]] = {}
    for _, relation, _, label in (row for row in labelled if row[:3] not in trained.facts):
        by_relation.setdefault(relation, []).append(label == "1")
    shares = {relation: sum(own) / len(own) for relation, own in by_relation.items()}
    assert {one["relation"]: one["base_rate"] for one in made["relations"]} == shares  # scores do not replace labels


def test_too_wide_an_interval_asks_for_labels(trained: Trained) -> None:
    made, shown = trained.estimated(trained.write("few.tsv", trained.rows[:20]), *QUICK)
    assert made["command"] == ""
    assert "so the base rate is not determined: about " in shown


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            [["a", "b", "c"]] * 5,
            (),
            "has 0 usable candidates: it must have at least 20; left out: 5 of 5 rows",
        ),
        ([["a", "b", "c", "yes"]], (), "has the labels 'yes': a label must be 1 (true), -1 (false) or empty"),
        ([["TRUE", "1"], ["TRUE", "-1"]], (), "labels 1 triples both true and false"),
        ([["a", "b", "c"]], ("--strategies", "kbgan"), "strategies"),
        ([["a", "b", "c"]], ("--output", "rates.xlsx"), "its name must end in .parquet, .csv, .tsv, .json"),
        ([["a", "b", "c"]], ("--dataset", "wn11"), "wn11 has neither a champion nor a finished run"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(
    trained: Trained, rows: list[list[str]], options: tuple[str, ...], message: str
) -> None:
    known = trained.rows[0][:3]
    file = trained.write("wrong.tsv", [[*known, row[1]] if row[0] == "TRUE" else row for row in rows])
    done = trained.kgcal("base-rate", file, *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
