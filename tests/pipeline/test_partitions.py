"""Training in partitions on Dask: the same bits with any number of workers, a killed one, and a killed scheduler."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
import torch
from distributed import Client
from distributed.comm.core import CommClosedError

import kgcore as kg
from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.wings.partitions import Bucket, Change, train_in_partitions
from kgcore.workers import EachPart, one_by_one
from tasks.workspace.resources import local_cluster, workers
from tests.conftest import tiny_options
from tests.pipeline.command import Kgcal, model_folder, models_of, runs_of
from tests.ports import free_port

pytestmark = pytest.mark.long

CONFIG = TrainConfig(
    model="transe", k=8, epochs=3, batch_size=16, chunk_size=4, optimiser="adagrad", learning_rate=0.2, partitions=4
)
KILLED = 5  # bucket after which something is killed: in the second epoch


def trained(graph: KnowledgeGraph, folder: Path, each: EachPart = one_by_one) -> str:
    return train_in_partitions(graph, CONFIG, torch.device("cpu"), folder, each).model.fingerprint()


def killing(each: EachPart, kill: Callable[[], object]) -> EachPart:
    """Return what calls `kill` once, while the buckets of a round are trained."""
    done = 0

    def do(
        function: Callable[[Bucket], Change], shared: Sequence[object], parts: Sequence[Bucket]
    ) -> Iterator[tuple[int, Change]]:
        nonlocal done
        for number, change in each(function, shared, parts):
            done += 1
            if done == KILLED:
                kill()
            yield number, change

    return do  # type: ignore[return-value]


@pytest.fixture
def alone(small_graph: KnowledgeGraph, tmp_path: Path) -> str:
    return trained(small_graph, tmp_path / "alone")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_worker_changes_no_bit(
    processes: int, alone: str, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    with local_cluster(processes) as cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        pid = next(iter(client.run(lambda: __import__("os").getpid()).values()))
        with workers(cluster.scheduler_address.replace("tcp:", "dask:")) as each:
            kill = psutil.Process(pid).kill
            assert trained(small_graph, tmp_path / "dask", killing(each, kill)) == alone
        assert not psutil.pid_exists(pid)


def test_a_killed_scheduler_loses_no_finished_round(alone: str, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    port, module = free_port(), [sys.executable, "-m", "distributed.cli"]
    scheduler = subprocess.Popen(
        [*module[:2], "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
        cwd=tmp_path,
    )
    worker = subprocess.Popen(
        [*module[:2], "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard"],
        cwd=tmp_path,
    )
    try:
        with pytest.raises(InputError, match="cluster"), workers(f"dask://127.0.0.1:{port}") as each:
            trained(small_graph, tmp_path / "dask", killing(each, scheduler.kill))
    finally:
        scheduler.kill()
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
    assert (tmp_path / "dask" / "state.json").exists()
    assert trained(small_graph, tmp_path / "dask") == alone


def cut_off() -> None:
    raise CommClosedError("the connection is closed")


def test_a_cut_connection_is_the_end_of_the_cluster() -> None:
    """The client learns it from a result that does not arrive, before its status changes."""
    with (
        local_cluster(1) as cluster,
        workers(cluster.scheduler_address.replace("tcp:", "dask:")) as each,
        pytest.raises(InputError, match=r"cluster has ended, or its workers die: the connection is closed"),
    ):
        list(each(lambda part: cut_off(), (), [1]))


def test_a_run_trains_in_partitions_wherever_they_are_trained(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    options = ["--dataset", "family", "--preset", "default", *tiny_options(), "--partitions", "2"]
    refused = kgcal("run", *options, "--optimiser", "adam")
    assert refused.returncode == 2
    assert refused.stderr.strip().startswith("kgcal: the optimiser is adam: training in partitions needs --optimiser")
    for runner in ([], ["--runner", "dask", "--force"]):
        done = kgcal("run", *options, "--optimiser", "adagrad", *runner)
        assert done.returncode == 0, done.stderr
    models = [model for run in runs_of(kgcal, "train") for model in models_of(kgcal, run.info.run_id)]
    tables = [(model_folder(kgcal, model.model_id) / "embeddings.safetensors").read_bytes() for model in models]
    assert len(tables) == 2
    assert tables[0] == tables[1]
    assert not list((kgcal.home / "checkpoints").rglob("*.npy"))


def test_the_library_trains_in_partitions(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    settings = {name: getattr(CONFIG, name) for name in ("k", "epochs", "batch_size", "chunk_size", "partitions")}
    settings |= {"optimiser": CONFIG.optimiser, "learning_rate": CONFIG.learning_rate}
    model = kg.train(small_graph, CONFIG.model, preset="none", progress=False, **settings)
    assert model.config == CONFIG
    assert model.fingerprint() == trained(small_graph, tmp_path)
