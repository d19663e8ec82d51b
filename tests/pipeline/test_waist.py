"""The way from a command to the mathematics is short, and a plain run executes few files."""

import json

import pytest

from tests.pipeline.command import CHECKOUT, Kgcal

FRAMES = 12  # at most, from `main` to scikit-learn's isotonic regression
FILES = 110  # at most, of which a plain run executes a function
RUN = ["run", "--size", "1200", "--model", "transe", "--epochs", "2"]
SCRIPT = """
import json, sys, threading
root = sys.argv.pop(1)
files, chains = set(), []

def ours(code):  # functions, not the bodies of modules and classes
    name = code.co_filename
    return name.startswith(root) and name.endswith(".py") and ".venv" not in name and code.co_flags & 1

def on_call(frame, event, argument):
    if event == "call" and ours(frame.f_code):
        files.add(frame.f_code.co_filename.removeprefix(root))
    elif event == "call" and frame.f_code.co_name == "isotonic_regression" and "sklearn" in frame.f_code.co_filename:
        chain = []
        while frame := frame.f_back:
            chain += [frame.f_code.co_name] if ours(frame.f_code) else []
        chains.append(chain[::-1])

from flows.cli.main import main
threading.setprofile(on_call)
sys.setprofile(on_call)
try:
    main()
finally:
    sys.setprofile(None)
    print(json.dumps([sorted(files), chains]))
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[list[str]]]:
    """Return the files of which a run executes a function, and our functions above each call of isotonic regression."""
    kgcal = Kgcal(tmp_path_factory.mktemp("waist"))
    files, chains = json.loads(kgcal.python("-c", SCRIPT, f"{CHECKOUT}/", *RUN).splitlines()[-1])
    return files, chains


def test_the_mathematics_is_near(executed: tuple[list[str], list[list[str]]]) -> None:
    assert sum("fit_calibrators" in chain for chain in executed[1]) >= 2  # on labelled negatives, and on corruptions
    for chain in executed[1]:  # also of the hidden facts, and of the cross-fitting that chooses a calibrator
        assert chain[0] == "main"
        assert len(chain) <= FRAMES, chain


def test_a_plain_run_executes_few_files(executed: tuple[list[str], list[list[str]]]) -> None:
    assert "flows/cli/main.py" in executed[0]
    assert len(executed[0]) <= FILES, executed[0]
