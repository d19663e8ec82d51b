"""The store of compiled loops."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kgcore

SCORES = """
import numpy as np
from kgcore.wings.fast_cpu.scores import turned_distances
found = np.zeros(1, np.float32)
turned_distances(np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32), found)
print(found[0])
"""


@pytest.mark.long
def test_a_loop_is_compiled_again_if_a_file_that_it_uses_changes(tmp_path: Path) -> None:
    code = tmp_path / "kgcore"
    shutil.copytree(Path(kgcore.__file__).parent, code, ignore=shutil.ignore_patterns("__pycache__"))

    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}

    def distance() -> float:
        command = [sys.executable, "-c", SCORES]
        done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
        return float(done.stdout)

    assert distance() == pytest.approx(1e-6)  # sqrt(MODULUS_PLUS)
    fast = code / "wings" / "fast_cpu"
    stored = sorted((fast / "__pycache__").glob("scores.turned_distances*.nbc"))
    assert stored
    rows = fast / "comparisons.py"
    source = rows.read_text()
    rows.write_text(source.replace("MODULUS_PLUS = np.float32(1e-12)", "MODULUS_PLUS = np.float32(4)"))
    assert rows.read_text() != source
    assert distance() == 2
    assert sorted((fast / "__pycache__").glob("scores.turned_distances*.nbc")) == stored  # not one more


TRAINING = """
import hashlib, sys
import numpy as np, torch
from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.training.loop import train
triples = np.random.default_rng(0).integers((40, 3, 40), size=(600, 3))
none = Split(triples[:0], np.zeros(0))
names = [str(number) for number in range(40)]
graph = KnowledgeGraph("small", names, names[:3], Split(triples, np.ones(600)), none, none)
for model, chunk in (("transe", 64), ("transe", 1), ("rotate", 64), ("kg2e", 64)):
    config = TrainConfig(model=model, k=100, epochs=2, batch_size=200, chunk_size=chunk)
    trained = train(graph, config, torch.device("cpu")).model.embeddings
    print(hashlib.sha256(trained.entities.numpy().tobytes()).hexdigest())
"""


@pytest.mark.long
def test_a_training_has_the_same_bits_when_its_loops_are_compiled_and_when_they_are_read_from_the_disk(
    tmp_path: Path,
) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", TRAINING]
    compiled, read = (
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout for _ in range(2)
    )
    assert len(compiled.split()) == 4
    assert compiled == read
