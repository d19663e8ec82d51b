"""Compiled training steps: same results, no compiler on the machine, and how often code is compiled."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kgcore.config import TrainConfig
from kgcore.graph import KnowledgeGraph
from kgcore.training import loop, state
from tests.core.trainings import CPU, StoppedError, same, stop_at


@pytest.mark.parametrize(
    ("model", "epochs", "compiles"), [("quate", 1, False), ("quate", 2, True), ("transe", 2, False)]
)
def test_a_training_compiles_from_a_number_of_steps(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, model: str, epochs: int, compiles: bool
) -> None:
    """An epoch of 600 positives in batches of 100 has 6 steps. TransE is as fast without compilation."""
    monkeypatch.setattr(state, "COMPILE_FROM_STEPS", 12)
    compiled: list[str] = []
    monkeypatch.setattr(
        "kgcore.training.step.compile_if_possible", lambda function, doing: compiled.append(doing) or function
    )
    loop.train(small_graph, TrainConfig(model=model, k=4, epochs=epochs, batch_size=100), CPU)
    assert compiled == (["training"] if compiles else [])


@pytest.mark.parametrize("chunk", [1, 32, 1000])
def test_only_steps_of_the_compiled_shape_run_compiled_code(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """600 positives in batches of 128 give 4 full steps and a last step of 88."""
    sizes: list[int] = []

    def noted(function, doing):
        def call(shared, rows, left_out, chunk, count):
            sizes.append(count)
            return function(shared, rows, left_out, chunk, count)

        return call

    monkeypatch.setattr("kgcore.training.step.compile_if_possible", noted)
    loop.train(small_graph, TrainConfig(k=4, epochs=1, batch_size=128, chunk_size=chunk), CPU, compiled=True)
    assert sizes == [128] * 4


def test_compiled_training_equals_plain_training_up_to_rounding_and_resumes_to_the_bit(
    small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    config = TrainConfig(k=8, epochs=3, batch_size=128, chunk_size=32, training_eta=4)
    plain = loop.train(small_graph, config, CPU, compiled=False)
    compiled = loop.train(small_graph, config, CPU, compiled=True)
    np.testing.assert_allclose(compiled.losses, plain.losses, rtol=1e-4)

    path = tmp_path / "train.safetensors"
    with pytest.raises(StoppedError):
        loop.train(small_graph, config, CPU, path, checkpoint_seconds=0, on_epoch=stop_at(2), compiled=True)
    assert same(loop.train(small_graph, config, CPU, path, compiled=True), compiled)


def test_without_a_compiler_functions_run_with_one_warning(tmp_path: Path) -> None:
    script = """
import torch, warnings
from kgcore.compiling import compile_if_possible
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    double = compile_if_possible(lambda x: (x * 2).sum(), "training")
    print([double(torch.ones(300)).item() for _ in range(3)])
    print([str(w.message) for w in caught if w.category.__name__ == "KgcalWarning"])
"""
    environment = {"PATH": str(tmp_path), "CXX": "no-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    values, warned = done.stdout.splitlines()
    assert values == "[600.0, 600.0, 600.0]"
    assert warned.count("training runs without torch.compile, which is slower") == 1


def test_every_training_of_a_process_is_compiled(tmp_path: Path) -> None:
    script = """
import torch
from kgcore.compiling import compile_if_possible
graphs = []
def counted(graph, example):
    graphs.append(graph)
    return graph
real = torch.compile
torch.compile = lambda function, **options: real(function, backend=counted, **options)
class Training:
    def __init__(self, factor): self.factor = factor
    def loss(self, x): return (x * self.factor).sum()
for number in range(12):
    compile_if_possible(Training(number + 2.5).loss, "training")(torch.ones(3 + number))
print(len(graphs))
"""
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert made.stdout.split()[-1] == "12"
