"""The comparison of evaluated calibrators, on runs logged to a real store as the stages log them."""

import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flows.cli.tables.comparison import show_comparison
from kgcore.errors import InputError
from tasks.jobs.compare import COLUMNS, comparison
from tasks.tracking.store import Store, open_store


class BrokenError(Exception):
    """What ends a run badly."""


def stage(store: Store, name: str, tags: Mapping[str, str], metrics: Mapping[str, float], **config: Any) -> str:
    """A finished run of a stage; its id."""
    with store.open_run(name, {"stage": name, "config": json.dumps(config), **tags}) as run_id:
        store.log_metrics(run_id, metrics)
    return run_id


def evaluation(
    store: Store,
    dataset: str,
    briers: Mapping[str, float],
    base_rate: float = 0.5,
    strategy: str = "uniform",
    labelled: bool = True,
    broken: bool = False,
    **train: Any,
) -> str:
    """A pipeline up to its evaluation, whose calibrators have these Brier scores; the id of the pipeline's run."""
    digest = {"dataset": dataset, "digest": f"digest of {dataset}"}
    settings = {"loss": "nll", "k": 50, "negatives": {"uniform": 1.0}, "seed": 0} | train
    corrupted = {"valid.corruptions": 9} | ({} if labelled else {"test.corruptions": 9})
    corrupt = {
        "strategy": {strategy: 1.0},
        "sides": "both",
        "calibration_eta": 20,
        "filtered": True,
        "calibration_seed": 0,
    }
    runs = {
        "prepare": stage(store, "prepare", digest, {}, size=300, graph_seed=0),
        "train": stage(store, "train", {}, {}, **settings),
        "corrupt": stage(store, "corrupt", {}, corrupted, **corrupt),
        "calibrate": stage(store, "calibrate", {}, {}, base_rate=base_rate, calibrators=["platt", "isotonic"]),
        "rank": stage(store, "rank", {}, {"mr": 7.0, "mrr": 0.25}),
    }
    with suppress(BrokenError), store.open_run("pipeline", {"stage": "pipeline"}) as pipeline:
        inputs = {f"input.{name}": run_id for name, run_id in runs.items()}
        with store.open_run("evaluate", {"stage": "evaluate", "config": '{"bins": 10}'} | inputs, pipeline) as run_id:
            for label, brier in briers.items():
                negatives, _, calibrator = label.rpartition(".")
                with store.open_run(label, {"stage": "measurement"}, run_id) as measurement:
                    own = 0.49 if negatives == "ground_truth" else base_rate
                    params = {"calibrator": calibrator, "negatives": negatives or "none", "base_rate": own}
                    store.log_params(
                        measurement, params | {"model": train["model"], "loss": settings["loss"], "dataset": dataset}
                    )
                    metrics = {"brier": brier, "log_loss": 2 * brier, "ece": brier / 2, "accuracy": 1 - brier}
                    if train["model"] == "transe":  # others were measured before there were more
                        metrics |= {"smooth_ece": brier**2, "auroc": 1 - brier / 2}
                    store.log_metrics(measurement, metrics)
            if broken:
                raise BrokenError
    return pipeline


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A store with evaluations on three data sets: name -> run id of the pipeline."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGCAL_HOME", str(tmp_path_factory.mktemp("compare")))
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME"):
            patch.delenv(name, raising=False)
        with pytest.raises(InputError, match=r"no finished evaluation is in sqlite:.*: `kgcal run` makes one"):
            comparison()
        store = open_store()
        good = {"synthetic.isotonic": 0.1, "ground_truth.platt": 0.2, "uncalibrated": 0.3, "base_rate": 0.25}
        made = {"good": evaluation(store, "zoo", good, model="transe")}
        made["again"] = evaluation(store, "zoo", good, model="transe")
        made["typed"] = evaluation(store, "zoo", {"synthetic.isotonic": 0.12}, strategy="typed", model="transe")
        made["seed"] = evaluation(store, "zoo", {"synthetic.isotonic": 0.11}, model="transe", seed=1)
        made["lost"] = evaluation(store, "zoo", {"synthetic.isotonic": math.nan}, model="hole")
        made["broken"] = evaluation(store, "zoo", {"synthetic.isotonic": 0.01}, broken=True, model="transe")
        for rate, brier in ((0.5, 0.1), (0.1, 0.05)):
            scores = {"synthetic.platt": brier}
            made[f"bare {rate}"] = evaluation(store, "bare", scores, rate, labelled=False, model="transe")
        made["mixed"] = evaluation(
            store, "other", {"synthetic.platt": 0.1}, model="transe", negatives={"typed": 0.5, "uniform": 0.5}
        )
        yield made


def printed(metric: str, width: int, top: int = 0, **wanted: Any) -> str:
    """What a terminal of that width shows."""
    file = io.StringIO()
    show_comparison(Console(file=file, width=width, highlight=False), comparison(metric, **wanted), metric, top)
    return file.getvalue()


def test_the_best_stands_first_each_row_once_and_what_is_not_a_number_last(runs: dict[str, str]) -> None:
    frame = comparison(dataset="zoo")
    assert list(frame)[: len(COLUMNS)] == COLUMNS
    assert frame["brier"].tolist()[:-1] == [0.1, 0.11, 0.12, 0.2, 0.25, 0.3]
    assert math.isnan(frame["brier"].iloc[-1])
    assert frame["run"].tolist() == [*(runs[n] for n in ("again", "seed", "typed", "again", "again", "again", "lost"))]
    assert frame["strategy"].tolist() == ["uniform", "uniform", "typed", "", "", "", "uniform"]
    assert set(frame["mrr"]) == {0.25}
    assert set(frame["k"]) == {50}
    assert comparison("accuracy", "zoo")["brier"].tolist()[:3] == [0.1, 0.11, 0.12]


def test_further_metrics_sort_rows_and_have_a_column_when_asked_for(runs: dict[str, str]) -> None:
    for metric, title in (("auroc", "AUROC"), ("smooth_ece", "smooth ECE")):
        frame = comparison(metric, "zoo")
        assert frame["brier"].tolist()[:3] == [0.1, 0.11, 0.12]
        assert math.isnan(frame[metric].iloc[-1])
        shown = printed(metric, 200, dataset="zoo")
        assert f"best {title} first" in shown
        assert f"the first row's run: {runs['again']}" in shown
    assert "0.9500*" in printed("auroc", 60, dataset="zoo")
    assert "AUROC" not in printed("brier", 200, dataset="zoo")


def test_rows_are_chosen_by_negatives_and_by_the_base_rate_that_was_stated(runs: dict[str, str]) -> None:
    assert comparison(dataset="zoo", negatives="ground_truth")["base_rate"].tolist() == [0.49]
    assert set(comparison(base_rate=0.5)["dataset"]) == {"bare", "other", "zoo"}
    assert comparison(base_rate=0.1)["run"].tolist() == [runs["bare 0.1"]]
    assert comparison(dataset="other")["training_negatives"].tolist() == ["typed=0.5 uniform=0.5"]


def test_what_was_measured_on_different_triples_is_not_ranked_together(runs: dict[str, str]) -> None:
    frame = comparison(dataset="bare")
    assert frame["test"].tolist() == [
        f"uniform corruptions, sides both, eta 20, seed 0, base rate {rate}" for rate in (0.1, 0.5)
    ]
    shown = printed("brier", 200, dataset="bare")
    assert shown.count("1 calibrators, best Brier score first") == 2
    assert "0.0500*" in shown
    assert "0.1000*" in shown


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"metric": "f1"}, "there is no metric 'f1' to compare by: known are brier, log_loss, ece, accuracy, mrr"),
        ({"negatives": "none"}, "negatives is 'none': it must be one of ground_truth, synthetic"),
        ({"dataset": "wn12"}, "no finished evaluation of the data set wn12: there are some .* bare, other, zoo"),
        ({"base_rate": 0.3}, r"no finished evaluation with the stated base rate 0.3: there are some .* 0.1, 0.5"),
        ({"dataset": "bare", "negatives": "ground_truth"}, "with negatives ground_truth: .* with negatives synthetic"),
    ],
)
def test_what_there_is_not_is_told(runs: dict[str, str], wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        comparison(**wanted)


def test_the_best_are_marked_baselines_are_no_candidates_and_seeds_are_told_apart(runs: dict[str, str]) -> None:
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
def test_a_narrow_terminal_cuts_nothing_that_matters(runs: dict[str, str], width: int) -> None:
    lines = printed("log_loss", width, dataset="zoo", negatives="synthetic").splitlines()
    table = lines[: next(number for number, line in enumerate(lines) if line.startswith("in every row"))]
    assert max(map(len, table)) <= width
    assert not any("…" in line for line in table)
    assert [text for line in table for text in ("0.2000*", "0.2200", "0.2400") if text in line] == [
        "0.2000*",
        "0.2200",
        "0.2400",
    ]
    assert "in every row: training negatives uniform" in "\n".join(lines)
    assert any(line.startswith("no room for: when") for line in lines)


def test_more_runs_than_a_page_holds_are_all_found(runs: dict[str, str]) -> None:
    store = open_store()
    found = store.search_all(page=2, stage="pipeline")
    assert {run.info.run_id for run in found} == set(runs.values()) - {runs["broken"]}
    assert len(found) == len(runs) - 1


def test_a_folder_stands_for_its_results(runs: dict[str, str], tmp_path: Path) -> None:
    assert set(comparison(dataset=str(tmp_path / "zoo") + "/")["dataset"]) == {"zoo"}
