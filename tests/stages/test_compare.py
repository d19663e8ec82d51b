"""The comparison of evaluated calibrators, on runs logged to a real store as the stages log them."""

import io
import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from flows.cli.terminal import Terminal, show, show_table
from kgcore.errors import InputError
from kgcore.measure.report.result import ResultTable, table_of
from tasks.jobs.compare import COLUMNS, comparison, dataset_name, shown_comparison
from tasks.tracking import ui
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tests.stages.logged import log_evaluation

pytestmark = pytest.mark.filterwarnings("error::UserWarning")  # only the table appears in the terminal


@pytest.fixture(scope="module")
def runs(module_home: Path) -> dict[str, str]:
    """Create a store with evaluations on three data sets, and return name -> run id of the pipeline."""
    with pytest.raises(InputError, match=r"there is no finished evaluation in sqlite:.*: run `kgcal run` first"):
        comparison()
    store = open_store()
    good = {"synthetic.isotonic": 0.1, "ground_truth.platt": 0.2, "uncalibrated": 0.3, "base_rate": 0.25}
    made = {"good": log_evaluation(store, "zoo", good, model="transe")}
    made["again"] = log_evaluation(store, "zoo", good, model="transe")
    made["typed"] = log_evaluation(store, "zoo", {"synthetic.isotonic": 0.12}, strategy="typed", model="transe")
    made["seed"] = log_evaluation(store, "zoo", {"synthetic.isotonic": 0.11}, model="transe", seed=1)
    made["lost"] = log_evaluation(store, "zoo", {"synthetic.isotonic": math.nan}, model="hole")
    made["broken"] = log_evaluation(store, "zoo", {"synthetic.isotonic": 0.01}, broken=True, model="transe")
    for rate, brier in ((0.5, 0.1), (0.1, 0.05)):
        scores = {"synthetic.platt": brier}
        made[f"bare {rate}"] = log_evaluation(store, "bare", scores, rate, labelled=False, model="transe")
    mixed = {"typed": 0.5, "uniform": 0.5}
    made["mixed"] = log_evaluation(store, "other", {"synthetic.platt": 0.1}, model="transe", training_strategy=mixed)
    return made


def printed(metric: str, width: int, top: int = 0, **wanted: Any) -> str:
    """Return the output in a terminal of that width."""
    file = io.StringIO()
    shown = shown_comparison(comparison(metric, **wanted), metric, top)
    show(Terminal(file=file, width=width), shown)
    return file.getvalue()


def test_the_best_row_is_first_equal_rows_appear_once_and_nan_is_last(runs: dict[str, str]) -> None:
    frame = comparison(dataset="zoo")
    assert list(frame)[: len(COLUMNS)] == COLUMNS
    assert frame["brier"].tolist()[:-1] == [0.1, 0.11, 0.12, 0.2, 0.25, 0.3]
    assert math.isnan(frame["brier"].iloc[-1])
    assert frame["run"].tolist() == [*(runs[n] for n in ("again", "seed", "typed", "again", "again", "again", "lost"))]
    assert frame["calibration_strategy"].tolist() == ["uniform", "uniform", "typed", "", "", "", "uniform"]
    assert set(frame["mrr"]) == {0.25}
    assert set(frame["k"]) == {50}
    assert comparison("accuracy", "zoo")["brier"].tolist()[:3] == [0.1, 0.11, 0.12]


def test_a_further_metric_sorts_the_rows_and_then_has_a_column(runs: dict[str, str]) -> None:
    for metric, title in (("auroc", "AUROC"), ("smooth_ece", "smooth ECE")):
        frame = comparison(metric, "zoo")
        assert frame["brier"].tolist()[:3] == [0.1, 0.11, 0.12]
        assert math.isnan(frame[metric].iloc[-1])
        shown = printed(metric, 200, dataset="zoo")
        assert f"best {title} first" in shown
        assert f"the first row's run: {runs['again']}" in shown
    assert "0.9500*" in printed("auroc", 60, dataset="zoo")
    assert "AUROC" not in printed("brier", 200, dataset="zoo")


def test_rows_are_chosen_by_negatives_and_by_stated_base_rate(runs: dict[str, str]) -> None:
    assert comparison(dataset="zoo", negatives="ground_truth")["base_rate"].tolist() == [0.49]
    assert set(comparison(base_rate=0.5)["dataset"]) == {"bare", "other", "zoo"}
    assert comparison(base_rate=0.1)["run"].tolist() == [runs["bare 0.1"]]
    assert comparison(dataset="other")["training_strategy"].tolist() == ["typed=0.5 uniform=0.5"]


def test_different_test_samples_are_not_ranked_together(runs: dict[str, str]) -> None:
    frame = comparison(dataset="bare")
    assert frame["test"].tolist() == [
        f"uniform corruptions, sides both, eta 20, seed 0, base rate {rate}" for rate in (0.1, 0.5)
    ]
    shown = printed("brier", 200, dataset="bare")
    assert shown.count("1 calibrator, best Brier score first") == 2
    assert "0.0500*" in shown
    assert "0.1000*" in shown


def test_each_test_sample_has_a_page_of_its_own_in_mlflow(
    runs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui, "ui_address", lambda: "http://127.0.0.1:5000")
    pages = shown_comparison(comparison(dataset="bare"), "brier", 0).files
    tested = "bare, tested on uniform corruptions, sides both, eta 20, seed 0, base rate"
    assert list(pages) == [f"{tested} {rate} in MLflow" for rate in (0.1, 0.5)]
    store = open_store()
    tags = store.client.get_experiment(store.experiment_id).tags
    for page, rate, brier in zip(pages.values(), (0.1, 0.5), (0.05, 0.1), strict=True):
        view = unquote(page.partition("viewStateShareKey=")[2].partition("&")[0])
        state = json.loads(tags[f"mlflow.sharedViewState.{view}"])
        [run] = store.client.search_runs([store.experiment_id], state["searchFilter"])
        assert (run.data.metrics["brier"], float(run.data.params["base_rate"])) == (brier, rate)
        assert [name for name in state["selectedColumns"] if name.startswith("metrics")] == [
            f"metrics.`{name}`" for name in ("brier", "log_loss", "ece", "accuracy")
        ]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"metric": "f1"}, "unknown metric 'f1': the known ones are brier, log_loss, ece, accuracy, mrr"),
        ({"negatives": "none"}, "negatives is 'none': it must be one of ground_truth, candidates, synthetic"),
        ({"dataset": "wn12"}, "no finished evaluation of the data set wn12: the known ones are bare, other, zoo"),
        ({"base_rate": 0.3}, r"no finished evaluation with the stated base rate 0.3: the known ones are 0.1, 0.5"),
        ({"dataset": "bare", "negatives": "ground_truth"}, "with negatives ground_truth: the known ones are synthetic"),
    ],
)
def test_an_empty_choice_names_what_exists(runs: dict[str, str], wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        comparison(**wanted)


def test_the_best_values_are_starred_baselines_excluded_and_seeds_shown(runs: dict[str, str]) -> None:
    shown = printed("ece", 200, dataset="zoo")
    assert shown.startswith("zoo: 5 calibrators, best ECE first")
    [best] = [line for line in shown.splitlines() if "*" in line and runs["again"] in line and "isotonic" in line]
    assert all(text in best for text in ("0.1000*", "0.2000*", "0.0500*", "0.9000*", "seed=0"))
    assert "seed=1" in shown
    assert "base rate " not in shown
    assert "best ECE without calibration: 0.1500" in shown
    assert f"the first row's run: {runs['again']}" in shown
    assert "2 of 5 rows: --top 0 shows all" in printed("ece", 200, top=2, dataset="zoo")
    assert printed("ece", 200, top=2, dataset="zoo").count("isotonic") == 2


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_drops_whole_columns_and_cuts_no_cell(runs: dict[str, str], width: int) -> None:
    lines = printed("log_loss", width, dataset="zoo", negatives="synthetic").splitlines()
    table = lines[: next(number for number, line in enumerate(lines) if line.startswith("in every row"))]
    assert max(map(len, table)) <= width
    assert not any("…" in line for line in table)
    assert [text for line in table for text in ("0.2000*", "0.2200", "0.2400") if text in line] == [
        "0.2000*",
        "0.2200",
        "0.2400",
    ]
    assert "in every row: training strategy uniform" in "\n".join(lines)
    assert any(line.startswith("not shown: when") for line in lines)


def test_a_single_row_names_what_it_shares_below_the_table_and_keeps_its_metrics(runs: dict[str, str]) -> None:
    shown = printed("brier", 80, top=1, dataset="zoo")
    assert "in every row: training strategy uniform" in shown
    heads = shown.splitlines()[1:3]
    for title in ("Brier", "log loss", "ECE", "accuracy"):
        assert any(title in line for line in heads)


def test_a_cell_wraps_at_spaces_only() -> None:
    cells = (("typed=0.9 uniform=0.1", "0.1234*"), ("uniform", "0.5000 "))
    table = ResultTable(rows=table_of(("long\nheader", "value"), cells), words=["long\nheader"])
    for width in range(11 + 1 + 7, 21 + 2 + 7 + 2):  # from the longest word and a number on, to all words in a line
        file = io.StringIO()
        show_table(Terminal(file=file, width=width), table)
        assert max(map(len, file.getvalue().splitlines())) <= width
        words = file.getvalue().split()
        assert {"long", "header", "value", "typed=0.9", "uniform=0.1", "uniform", "0.1234*", "0.5000"} <= set(words)


def test_a_search_reads_every_page(runs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.tracking.store.PAGE", 2)
    store = open_store()
    found = store.find_all(RunTags(stage="pipeline"))
    assert {run.run_id for run in found} == set(runs.values()) - {runs["broken"]}
    assert len(found) == len(runs) - 1


def test_a_folder_names_the_data_set_of_its_last_part(runs: dict[str, str], tmp_path: Path) -> None:
    assert set(comparison(dataset=str(tmp_path / "zoo") + "/")["dataset"]) == {"zoo"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("wn11", "wn11"),
        ("data/mine", "mine"),
        ("data/mine/", "mine"),
        ("data/facts.tsv", "facts"),
        ("facts.nt.gz", "facts"),
        ("data/a.tsv, data/b.tsv", "data"),
    ],
)
def test_a_data_set_has_the_name_that_its_runs_record(text: str, name: str) -> None:
    assert dataset_name(text) == name
