"""The way from a command to the mathematics is short, and a plain run executes few files."""

import json

import pytest

from tests.pipeline.command import CHECKOUT, Kgcal

pytestmark = pytest.mark.long

FRAMES = 12  # at most, from `main` to scikit-learn's isotonic regression
FILES = 110  # at most, of which a plain run executes a function
RUN = ["run", "--size", "1200", "--model", "transe", "--epochs", "2", "--bootstrap-replicates", "50"]
Executed = tuple[list[str], list[list[str]], dict[str, int]]
SCRIPT = """
import collections, json, sys, threading
root = sys.argv.pop(1)
files, chains, calls = set(), [], collections.Counter()

def ours(code):  # functions, not the bodies of modules and classes
    name = code.co_filename
    return name.startswith(root) and name.endswith(".py") and ".venv" not in name and code.co_flags & 1

def on_call(frame, event, argument):
    if event == "call" and ours(frame.f_code):
        files.add(frame.f_code.co_filename.removeprefix(root))
        calls[frame.f_code.co_name] += 1
    elif event == "call" and frame.f_code.co_name == "isotonic_regression" and "sklearn" in frame.f_code.co_filename:
        chain = []
        while frame := frame.f_back:
            chain += [frame.f_code.co_name] if ours(frame.f_code) else []
        chains.append(chain[::-1])

import tests.pipeline.with_few_trees
from flows.cli.main import main
threading.settrace(on_call)  # without c_call and return, the events of setprofile
sys.settrace(on_call)
try:
    main()
finally:
    sys.settrace(None)
    print(json.dumps([sorted(files), chains, calls]))
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Executed:
    """Return the files that a run executes, our functions above each isotonic regression, and the calls of each."""
    kgcal = Kgcal(tmp_path_factory.mktemp("waist"))
    files, chains, calls = json.loads(kgcal.python("-c", SCRIPT, f"{CHECKOUT}/", *RUN).splitlines()[-1])
    return files, chains, calls


def test_the_mathematics_is_near(executed: Executed) -> None:
    assert sum("fit_calibrators" in chain for chain in executed[1]) >= 2  # on labelled negatives, and on corruptions
    for chain in executed[1]:  # also of the hidden facts, and of the cross-fitting that chooses a calibrator
        assert chain[0] == "main"
        assert len(chain) <= FRAMES, chain


def test_a_plain_run_executes_few_files(executed: Executed) -> None:
    assert "flows/cli/main.py" in executed[0]
    assert len(executed[0]) <= FILES, executed[0]


def test_the_evidence_of_labelled_rows_is_put_together_once(executed: Executed) -> None:
    assert executed[2]["ablate"] == executed[2]["evidence_sample"] == 1
