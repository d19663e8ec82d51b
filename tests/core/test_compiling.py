"""Compiled training steps: same results, no compiler on the machine, and how often code is compiled."""

import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.version import Version

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training import loop
from kgcore.embed.training.step import compile_if_possible
from kgcore.errors import KgcalWarning
from tests.core.trainings import CPU, same


@pytest.mark.parametrize(
    ("model", "epochs", "compiles"), [("toruse", 1, False), ("toruse", 2, True), ("transe", 2, False)]
)
def test_a_training_compiles_from_a_number_of_steps(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, model: str, epochs: int, compiles: bool
) -> None:
    """An epoch of 600 positives in batches of 100 has 6 steps. TransE is as fast without compilation."""
    monkeypatch.setattr(loop, "COMPILE_FROM_STEPS", 12)
    compiled: list[str] = []
    monkeypatch.setattr(
        "kgcore.embed.training.step.compile_if_possible", lambda function, doing: compiled.append(doing) or function
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

    monkeypatch.setattr("kgcore.embed.training.step.compile_if_possible", noted)
    loop.train(small_graph, TrainConfig(k=4, epochs=1, batch_size=128, chunk_size=chunk), CPU, compiled=True)
    assert sizes == [128] * 4


@pytest.mark.long
def test_compiled_training_equals_plain_training_up_to_rounding_and_resumes_to_the_bit(
    small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    config = TrainConfig(k=8, epochs=3, batch_size=128, chunk_size=32, training_eta=4)
    plain = loop.train(small_graph, config, CPU, compiled=False)
    path, kept = tmp_path / "train.safetensors", tmp_path / "kept.safetensors"

    def keep(epoch: int, loss: float) -> None:
        """Keep the checkpoint of epoch 1, from which a training that was interrupted in epoch 2 continues."""
        if epoch == 2:
            path.rename(kept)

    compiled = loop.train(small_graph, config, CPU, path, checkpoint_seconds=0, on_epoch=keep, compiled=True)
    np.testing.assert_allclose(compiled.losses, plain.losses, rtol=1e-4)

    assert same(loop.train(small_graph, config, CPU, kept, compiled=True), compiled)


def test_without_a_compiler_functions_run_with_one_warning() -> None:
    without = {"cpp.cxx": (None, "no-compiler"), "force_disable_caches": True}
    with torch._inductor.config.patch(without), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        double = compile_if_possible(lambda x: (x * 2).sum(), "training")
        values = [double(torch.ones(300)).item() for _ in range(3)]
    assert values == [600, 600, 600]
    [warned] = [str(one.message) for one in caught if one.category is KgcalWarning]
    assert warned.startswith("training runs without torch.compile, which is slower: InvalidCxxCompiler")


@pytest.mark.skipif(Version(torch.__version__) < Version("2.13"), reason="PyTorch 2.12 compiles eight")
def test_every_training_of_a_process_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def counted(graph, example):
        graphs.append(graph)
        return graph

    class Training:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def loss(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.factor).sum()

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counted))
    for number in range(12):
        compile_if_possible(Training(number + 2.5).loss, "training")(torch.ones(3 + number))
    assert len(graphs) == 12
