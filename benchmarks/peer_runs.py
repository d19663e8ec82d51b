"""The libraries that benchmarks/peers.py compares: their virtual environments, and processes that train in turns."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
RUNNERS = ROOT / "benchmarks" / "peers"
LONGEST = 1800  # seconds of an installation
ANSWER = "answer "  # the beginning of a runner's answers, as in benchmarks/peers/turns.py

# name -> (what pip installs, the script that trains). Libraries with PyTorch get the version that kgcal runs with.
PEERS = {
    "pykeen": (["pykeen==1.11.1", f"torch=={torch.__version__}"], "with_pykeen.py"),
    "biggraph": (["torchbiggraph==1.0.0", "setuptools<81", f"torch=={torch.__version__}"], "with_biggraph.py"),
    "ampligraph": (["ampligraph==2.2.0"], "with_ampligraph.py"),
}


class PeerError(Exception):
    """A library that cannot be installed, or whose training fails. The message is one line."""


@dataclass(frozen=True)
class Case:
    """What a process trains: see `Job` in benchmarks/peers/turns.py, which reads it.

    triples  file of the triples, in NumPy's format
    sharing  number of positives that share their corruptions; 1 = each has its own
    """

    triples: str
    entities: int
    predicates: int
    model: str
    norm: int
    eta: int
    sharing: int
    k: int
    batch: int
    folder: str = ""


def python_of(peer: str, cache: Path) -> Path:
    """Return the Python of a library's virtual environment. Make the environment if it is not complete.

    Raises PeerError with the reason if the library cannot be installed.
    """
    if peer == "kgcal":
        return Path(sys.executable)
    folder, (requirements, _) = cache / peer, PEERS[peer]
    python, complete = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(requirements)
    if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing {', '.join(requirements)} in {folder}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *requirements],
    ):
        try:
            done = subprocess.run(  # noqa: S603 (the commands above)
                command, check=False, capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"not installed: pip took more than {LONGEST} s") from error
        except OSError as error:
            raise PeerError(f"not installed: {error}") from error
        if done.returncode:
            raise PeerError(f"not installed: {_last_line(done.stderr)}")
    complete.write_text(wanted, encoding="utf-8")
    return python


class Runner:
    """A process that trains at each call of `epoch` or `turn`, and waits in between.

    versions  the versions of the library and of what it computes with
    """

    def __init__(self, peer: str, case: Case, cache: Path, threads: int) -> None:
        python, script = python_of(peer, cache), PEERS[peer][1] if peer in PEERS else "with_kgcal.py"
        self._folder = tempfile.TemporaryDirectory(prefix=f"kgcal-{peer}-")
        work = Path(self._folder.name)
        (work / "files").mkdir()
        job = replace(case, folder=str(work / "files"))
        (work / "job.json").write_text(json.dumps(asdict(job)), encoding="utf-8")
        self._log = work / "log.txt"
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        environment["PYTHONPATH"] = str(ROOT) if peer == "kgcal" else ""
        with self._log.open("w") as log:
            self._process = subprocess.Popen(  # noqa: S603 (a script of this folder)
                [str(python), str(RUNNERS / script), str(work / "job.json")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=work,  # some libraries write a log into the working folder
            )
        self.versions = str(self._answer()["versions"])

    def epoch(self) -> float:
        """Train one epoch. Return its seconds. Raises PeerError if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("next\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerError(f"failed: {self._reason()}") from error
        return float(str(self._answer()["seconds"]))

    def turn(self, least: float) -> float:
        """Train one epoch that does not count, then epochs that take `least` seconds in all. Return their mean seconds.

        The machine has rested before a turn, and needs some tenths of a second to get back to its full speed. Without
        the first epoch, a library with short epochs would seem slower than one with long epochs.
        """
        self.epoch()
        epochs: list[float] = []
        while sum(epochs) < least:
            epochs.append(self.epoch())
        return sum(epochs) / len(epochs)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def _answer(self) -> dict[str, object]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):  # libraries also print while they are imported
                answer: dict[str, object] = json.loads(line.removeprefix(ANSWER))
                return answer
        self._process.wait()
        raise PeerError(f"failed: {self._reason()}")

    def _reason(self) -> str:
        return _last_line(self._log.read_text(encoding="utf-8", errors="replace"))


def _last_line(text: str) -> str:
    """Return the last line of a log that is not empty, at most 200 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "the process has ended without a message"
