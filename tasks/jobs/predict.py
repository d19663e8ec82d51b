"""Predicts candidate triples: those of a file, one triple, or all pairs of subjects and objects."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from kgcore.config import PredictConfig
from kgcore.datasets.formats.base import COLUMNS
from kgcore.errors import InputError
from kgcore.prediction.answers import Answers, table_of, without_probabilities
from kgcore.prediction.candidates import BLOCK_ROWS, Block, check_readable, read_candidates
from kgcore.prediction.few_false import Negatives, Selection, mark
from kgcore.prediction.sink import sink
from tasks.jobs.calibration_sample import counted_sample
from tasks.jobs.file_population import for_file
from tasks.jobs.population import Stated, asked_of, calibrate_to_missing
from tasks.jobs.prediction import Prediction, predictor, run_prediction
from tasks.jobs.request import Request
from tasks.workspace.progress import progress_bar


def predict_candidates(
    candidates: Sequence[str], request: Request, config: PredictConfig, completeness: str = ""
) -> Prediction:
    """Answer the triples of a file, or one triple.

    candidates    a file (see `read_candidates`), or subject, predicate and object
    completeness  as in `Stated`: about the triples of the file, or about the missing facts of the triple's predicate

    The answers about a file are calibrated to its triples: see `for_file`.

    Raises InputError if the file cannot be read, if candidates of no file should be selected, if completeness is stated
    with fdr, and as `predictor`, `for_file`, `calibrate_to_missing` and `run_prediction` do.
    """
    blocks = _blocks(candidates)
    if config.fdr and len(candidates) > 1:
        raise InputError("fdr selects among the candidates of a file: give a file, or leave out --fdr")
    if completeness and config.fdr:
        raise InputError("completeness is about probabilities, and fdr about scores: leave out one of them")
    by = predictor(request, config)
    stated = Stated(completeness, request.base_rate)
    if len(candidates) == 1:
        by = for_file(by, _blocks(candidates), stated)
    elif completeness:
        calibration = calibrate_to_missing(by.by, candidates[1], stated, by.config.at_least)
        by = replace(by, by=asked_of(by.by, calibration), about=calibration.about)
    asked = {"candidates": Path(candidates[0]).name if len(candidates) == 1 else " ".join(candidates)}
    tables = _answered(by.answers, blocks)
    if not by.by.stated:
        tables = map(without_probabilities, tables)
    if not config.fdr:
        return run_prediction(by, asked, tables)
    found = by.by.found
    if found.model.calibrator.negatives == "none":
        raise InputError(f"{found.uri} ({found.label}) was not fitted on negatives: name another calibrator")
    sample = counted_sample(found.model_id, found.model)
    selection = Selection(Negatives.of(sample), by.answers)
    with tempfile.TemporaryDirectory() as folder:
        return run_prediction(by, asked, _selected(selection, tables, config.fdr, folder))


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


def _selected(selection: Selection, tables: Iterator[pa.Table], level: float, folder: str) -> Iterator[pa.Table]:
    """Answer all candidates, then mark those that are selected. A file in the folder has the answers meanwhile."""
    answers = Path(folder) / "answers.parquet"
    with sink(answers) as write:
        for table in tables:
            write(selection.add(table))
    limit = selection.limit(level)
    with pa.parquet.ParquetFile(answers) as file:
        for batch in file.iter_batches(BLOCK_ROWS):
            yield mark(pa.table(batch), limit)
