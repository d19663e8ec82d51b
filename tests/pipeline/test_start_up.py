"""Commands load only what they need."""

import ctypes
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import tiny_options
from tests.pipeline.command import CHECKOUT, FORKS_WITH_FEW_TREES
from tests.pipeline.finished import finished

HEAVY = {"prefect", "mlflow", "torch", "pandas", "sklearn", "scipy", "numpy", "matplotlib", "optuna", "pandera"}
COMPUTING = {"jinja2", "matplotlib", "numba", "optuna", "pandera", "sklearn", "torch"}
# MLflow loads a part of SciPy, scipy.sparse, and pandas
COMPUTING |= {f"scipy.{part}" for part in ("fft", "interpolate", "linalg", "ndimage", "optimize", "special", "stats")}
SCRIPT = """
import atexit, json, sys
sys.argv = ["kgcal", *sys.argv[1:]]
atexit.register(lambda: print(json.dumps([name for name in sys.modules if name.count(".") < 2]), file=sys.stderr))
from flows.cli.main import main
main()
"""
ALL_COMMANDS = """
from flows.cli.main import whole_app
whole_app()
"""
SMALL_SURVEYS = """
import pytest
from tests.few_trees import small_surveys
small_surveys(pytest.MonkeyPatch())
"""
ARENAS = """
import ctypes, threading
from flows.cli.main import share_memory
share_memory()
libc, together = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file = ctypes.c_void_p(libc.fopen(b"arenas.xml", b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def loaded(folder: Path, *arguments: str, script: str = SCRIPT, **variables: str) -> tuple[str, set[str]]:
    """Run `kgcal` in a folder with a home there. Return its output, and the modules and packages that it has loaded."""
    left_out = {"MLFLOW_TRACKING_URI", "PREFECT_API_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    own = {"KGCAL_HOME": str(folder / "home"), "PREFECT_HOME": str(folder / "prefect"), "PYTHONPATH": str(CHECKOUT)}
    own["KGCAL_PREFECT"] = "on" if any(name.startswith("PREFECT") for name in variables) else "off"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment | own | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["status"]])
def test_light_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    output, modules = loaded(tmp_path, *arguments)
    assert output
    assert not HEAVY & modules


@pytest.mark.parametrize("command", ["watch", "recalibrate"])
def test_a_missing_file_of_labels_is_reported_before_anything_is_loaded(command: str, tmp_path: Path) -> None:
    _, modules = loaded(tmp_path, command, "--labels", "nope.tsv")
    assert not modules & (HEAVY | {"flows.jobs"})


@pytest.mark.parametrize(
    ("typed", "completed"), [("kgcal pre", ["predict", "prepare"]), ("kgcal predict --ba", ["--base-rate"])]
)
def test_the_tab_key_completes_commands_and_options(typed: str, completed: list[str], tmp_path: Path) -> None:
    asked = {"_KGCAL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    output, modules = loaded(tmp_path, **asked)
    assert output.split() == completed
    assert not HEAVY & modules


@pytest.mark.parametrize("name", ["predict", "discover", "explain"])
def test_the_help_of_a_question_imports_nothing_heavy(name: str, tmp_path: Path) -> None:
    output, modules = loaded(tmp_path, name, "--help")
    assert "--model" in output
    assert not HEAVY & modules


def test_the_help_of_work_imports_nothing_that_computes(tmp_path: Path) -> None:
    output, modules = loaded(tmp_path, "run", "--help")
    assert "--calibrators" in output
    assert not modules & (COMPUTING | {"mlflow"})


@pytest.mark.parametrize("name", sorted(HEAVY | COMPUTING))
def test_the_names_are_those_of_packages(name: str) -> None:
    assert find_spec(name)


@pytest.mark.long
def test_all_commands_load_no_optuna_and_no_torch(tmp_path: Path) -> None:
    output, modules = loaded(tmp_path, "--help", script=ALL_COMMANDS + SCRIPT)
    assert output
    assert "typer" in modules
    assert not modules & {"optuna", "torch"}


@pytest.mark.long
def test_a_pipeline_whose_stages_are_re_used_loads_nothing_that_computes(tmp_path: Path) -> None:
    finished(tmp_path)
    output, modules = loaded(tmp_path, "run", *tiny_options())
    assert "stages run: none" in output
    assert not modules & COMPUTING


@pytest.mark.long
@pytest.mark.parametrize(
    "question", [["discover", "--completeness", "0.8"], ["predict", "person_1", "parent_of", "person_2"]]
)
def test_a_repeated_question_loads_nothing_that_computes(tmp_path: Path, question: list[str]) -> None:
    kgcal, _ = finished(tmp_path)
    kgcal.forks = FORKS_WITH_FEW_TREES
    first = kgcal(*question).stdout
    output, modules = loaded(tmp_path, *question, script=SMALL_SURVEYS + SCRIPT, COLUMNS="200")
    assert output == first != ""
    assert not modules & (COMPUTING | {"prefect"})


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_threads_share_one_arena(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    subprocess.run([sys.executable, "-c", ARENAS], env=environment, cwd=tmp_path, check=True)
    assert (tmp_path / "arenas.xml").read_text().count("<heap nr=") == 1
