"""The other end of a pipe to benchmarks/peer_runs.py: a runner waits for a word, trains an epoch, and answers.

Every runner imports this file in its own virtual environment, so it imports the standard library only.
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """What a runner trains.

    triples   file of an int64 array (n, 3) in NumPy's format
    entities  number of entities
    predicates  number of predicates
    model     transe, distmult, complex or rotate, in our words
    norm      norm of TransE's distance: 1 or 2
    eta       corruptions of a positive
    sharing   number of positives that share their corruptions; 1 = each has its own
    k         embedding size, in complex numbers for complex and rotate
    batch     positives of a step
    folder    empty folder for files of the runner
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
    folder: str


class Turns:
    """The epochs of a runner. Call `ready` once before the first epoch, then `done` after each epoch.

    What the library prints goes to the standard error, so that only answers are in the pipe.
    """

    def __init__(self) -> None:
        self.job = Job(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._started = 0.0

    def ready(self, versions: str) -> None:
        """Say which versions run, and wait for the first word."""
        self._answer({"versions": versions})
        self._wait()

    def done(self, seconds: float | None = None) -> None:
        """Answer how long the epoch took, and wait for the next word. Without another, the process ends.

        seconds  time that the library itself measured; None: the time since the word
        """
        self._answer({"seconds": time.perf_counter() - self._started if seconds is None else seconds})
        self._wait()

    def _answer(self, answer: dict[str, object]) -> None:
        self._answers.write(f"answer {json.dumps(answer)}\n")
        self._answers.flush()

    def _wait(self) -> None:
        if not sys.stdin.readline():
            os._exit(0)  # without the library's work at the end of a training
        self._started = time.perf_counter()
