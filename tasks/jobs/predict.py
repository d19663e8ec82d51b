"""Predicts candidate triples: those of a file, one triple, or all pairs of subjects and objects."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from kgcore.config import PredictConfig
from kgcore.datasets.read import COLUMNS
from kgcore.errors import InputError
from kgcore.prediction.answers import Answers, table_of
from kgcore.prediction.candidates import Block, check_readable, read_candidates
from tasks.jobs.prediction import Prediction, predictor, run_prediction
from tasks.jobs.request import Request
from tasks.workspace.progress import progress_bar


def predict_candidates(candidates: Sequence[str], request: Request, config: PredictConfig) -> Prediction:
    """Answer the triples of a file, or one triple.

    candidates  a file (see `read_candidates`), or subject, predicate and object

    Raises InputError if the file cannot be read, and as `predictor` and `run_prediction` do.
    """
    blocks = _blocks(candidates)
    by = predictor(request, config)
    asked = {"candidates": Path(candidates[0]).name if len(candidates) == 1 else " ".join(candidates)}
    return run_prediction(by, asked, _answered(by.answers, blocks))


def _blocks(candidates: Sequence[str]) -> Iterator[Block]:
    if len(candidates) == 1:
        check_readable(Path(candidates[0]))
        return read_candidates(Path(candidates[0]))
    if len(candidates) == len(COLUMNS):
        return iter([Block(table_of([candidates]), 1.0)])
    raise InputError(f"{len(candidates)} candidates are given: give a file, or a subject, a predicate and an object")


def _answered(answers: Answers, blocks: Iterator[Block]) -> Iterator[pa.Table]:
    """Answer block after block, with a progress bar in percent of the candidates."""
    with progress_bar("predict", 100) as move:
        rows = 0
        for block in blocks:
            table = answers.table(block.names)
            rows += len(table)
            yield table
            move(int(100 * block.done), f"{rows:,} triples")
