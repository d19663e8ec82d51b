"""Fixtures that all tests share: small graphs, and homes that no other test uses."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from kgcore.config import CorruptConfig, EvaluateConfig
from kgcore.data.graph import KnowledgeGraph, Split

gc.set_threshold(100_000, 50, 100)  # with the libraries loaded, each collection looks at a million objects
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job: tests interrupt their children
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("KGCAL_PREFECT", "off")  # each home would start Prefect
IN_A_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if IN_A_WORKER or "-n" not in sys.argv:  # otherwise this process only hands the tests to workers
    import prefect.flows  # noqa: F401 - flows that are declared after it are Prefect's flows at once, as in a worker
    import torch

    if IN_A_WORKER:  # the workers share the cores
        torch.set_num_threads(1)

settings.register_profile("kgcal", deadline=None)  # a busy machine is no failure
settings.load_profile("kgcal")


def pytest_sessionfinish() -> None:
    """Leave nothing to the five collections at the end of pytest, which would take two seconds."""
    gc.freeze()


TINY_TRAINING = ("--k", "16", "--epochs", "20", "--batch-size", "128")
# With so few corruptions no trees are fitted to hidden facts among them; tests/stages/test_handles.py fits these trees.
FEW_CORRUPTIONS = CorruptConfig(calibration_eta="3")
FEW_REPLICATES = EvaluateConfig(bootstrap_replicates=50)


def tiny_options() -> list[str]:
    """Return options with which the whole pipeline takes a few seconds."""
    return ["--size", "300", *TINY_TRAINING, "--calibration-eta", "3", "--bootstrap-replicates", "50"]


def use_home(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Use a folder as KGCAL_HOME, for stages that run in this process."""
    patch.setenv("KGCAL_HOME", str(folder))
    unset_mlflow(patch)


def unset_mlflow(patch: pytest.MonkeyPatch) -> None:
    """Unset MLflow's variables, and set them at the end of the patch to what they are now: MLflow sets them, too."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME"):
        patch.setenv(name, "")  # a variable that is not set now is only restored if the patch has set it
        patch.delenv(name)


@pytest.fixture(scope="module", autouse=True)
def own_store() -> Iterator[None]:
    """Keep the store of a module from the modules that follow it in the same process."""
    with pytest.MonkeyPatch.context() as patch:
        unset_mlflow(patch)
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a KGCAL_HOME for one test."""
    use_home(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(scope="module")
def quick_trees() -> Iterator[None]:
    """Fit few trees in the tests of a module."""
    from tests.few_trees import few_trees

    with pytest.MonkeyPatch.context() as patch:
        few_trees(patch)
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def small_graph(rng: np.random.Generator) -> KnowledgeGraph:
    return random_graph(rng)


def random_graph(rng: np.random.Generator) -> KnowledgeGraph:
    """Return a graph of 40 entities, 3 predicates and random triples; valid and test have labelled negatives."""
    every = np.indices((40, 3, 40)).reshape(3, -1).T
    every = every[every[:, 0] != every[:, 2]]
    picked = every[rng.permutation(len(every))[:900]]

    def split(triples: np.ndarray, negatives: int) -> Split:
        labels = np.ones(len(triples))
        labels[:negatives] = 0
        return Split(triples, labels)

    return KnowledgeGraph(
        "small",
        [f"e{i}" for i in range(40)],
        [f"p{i}" for i in range(3)],
        split(picked[:600], 0),
        split(picked[600:750], 70),
        split(picked[750:], 70),
    )
