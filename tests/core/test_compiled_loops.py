"""The store of compiled loops."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kgcore

SCORES = """
import numpy as np
from kgcore.loops.scores import turned_distances
found = np.zeros(1, np.float32)
turned_distances(np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32), found)
print(found[0])
"""


@pytest.mark.long
def test_a_loop_is_compiled_again_if_a_file_that_it_uses_changes(tmp_path: Path) -> None:
    code = tmp_path / "kgcore"
    shutil.copytree(Path(kgcore.__file__).parent, code, ignore=shutil.ignore_patterns("__pycache__"))

    def distance() -> float:
        command = [sys.executable, "-c", SCORES]
        return float(subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout)

    assert distance() == pytest.approx(1e-6)  # sqrt(MODULUS_PLUS)
    stored = sorted((code / "loops" / "__pycache__").glob("scores.turned_distances*.nbc"))
    rows = code / "loops" / "rows.py"
    source = rows.read_text()
    rows.write_text(source.replace("MODULUS_PLUS = np.float32(1e-12)", "MODULUS_PLUS = np.float32(4)"))
    assert rows.read_text() != source
    assert distance() == 2
    assert sorted((code / "loops" / "__pycache__").glob("scores.turned_distances*.nbc")) == stored  # not one more
