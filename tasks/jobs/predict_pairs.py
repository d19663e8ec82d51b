"""Predicts all pairs of some subjects and objects of one predicate, on this machine or on a Dask cluster."""

import difflib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgcore.arrays import Ints, Triples
from kgcore.config import PairsConfig, PredictConfig
from kgcore.config.jobs import SurveyConfig
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.population.population import TOO_FEW, PairBlock, Population
from kgcore.prediction.answers import Answers, without_probabilities
from kgcore.prediction.candidates import read_names
from kgcore.prediction.domains import Domains
from kgcore.prediction.pairs import ALL, PairSearch, best_pairs, search_pairs
from tasks.jobs.population import Stated, asked_of, calibrate_to, lost_figures, lost_notes
from tasks.jobs.prediction import Prediction, Predictor, predictor, run_prediction
from tasks.jobs.request import Request
from tasks.workspace.cluster import THREADS, each_part
from tasks.workspace.progress import progress_bar

if TYPE_CHECKING:
    from kgcore.population.calibration import Calibration

PART = 2**25  # pairs per part of a search
ROWS = 2**18  # answers per table
log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class Pairs:
    """All pairs of subjects and objects.

    subjects, objects  files with one name per line; '': all entities
    predicate          name of the predicate
    """

    subjects: str
    predicate: str
    objects: str


def predict_pairs(
    pairs: Pairs, request: Request, decisions: PredictConfig, config: PairsConfig, runner: str = THREADS
) -> Prediction:
    """Answer the pairs of subjects and objects that the settings select.

    runner  `threads`, `dask` or `dask://HOST:PORT`: where the pairs are scored. The answers are the same to the bit

    The probabilities are calibrated to the unknown pairs, and to the number of true ones among them that the user
    states. If nothing is stated, the pairs have an order, and no probabilities.

    Raises InputError if `fdr` is set, if a file cannot be read or has no known name, if the predicate is unknown, if
    what is stated is out of range, and as `predictor` and `run_prediction` do.
    """
    if decisions.fdr:
        raise InputError("fdr selects among the candidates of a file: leave out --fdr, or list the pairs in a file")
    by = predictor(replace(request, base_rate=None), decisions)
    stated = Stated(config.completeness, request.base_rate).or_that_of(by.by.found)
    stated.check(config.above)
    graph, domains = by.answers.model.graph, Domains(by.answers.model.graph)
    search = PairSearch(
        subjects=_entities(graph, pairs.subjects, "subjects"),
        objects=_entities(graph, pairs.objects, "objects"),
        predicate=_predicate(graph, pairs.predicate),
        top=config.top,
        per=config.per,
        leave_out=graph.all_known if config.known_facts == "leave_out" else None,
    )
    search = replace(search, reflexive=_is_reflexive(graph, search.predicate))
    block = PairBlock(search.predicate, np.unique(search.subjects), np.unique(search.objects))
    population = Population.asked(domains, search.predicate, decisions.at_least, block)
    survey = SurveyConfig().for_list(config.top)
    calibration = calibrate_to(by.by, population, stated, block.predicate, survey, runner)
    by = _calibrated(by, calibration)
    if config.above:
        search = replace(search, lowest=by.answers.model.calibrator.lowest_score(config.above, search.predicate))
    asked: dict[str, object] = {
        "subjects": Path(pairs.subjects).name or "all",
        "predicate": pairs.predicate,
        "objects": Path(pairs.objects).name or "all",
        "pairs": len(search.subjects) * len(search.objects),
    }
    if calibration is not None and config.top and config.per == ALL and search.leave_out is not None:
        triples, lost = calibration.ranked(block, config.top, config.above, partial(each_part, runner))
        by = replace(by, notes=lost_notes(lost), figures=lost_figures(lost))
        tables = _tables(by.answers, triples)
    elif config.top or config.above:
        tables = _selected(by.answers, search, runner)
    else:
        tables = _all(by.answers, search)
    if not by.counts:
        tables = map(without_probabilities, tables)
    return run_prediction(by, config.as_dict() | asked, tables)


def _calibrated(by: Predictor, calibration: "Calibration | None") -> Predictor:
    """Return the predictor whose model is calibrated to the pairs; the same one without probabilities, if none is."""
    answering, about = asked_of(by.by, calibration), TOO_FEW if calibration is None else calibration.about
    return replace(by, by=answering, counts=answering.stated, about=about, unknown_only=True)


def _tables(answers: Answers, triples: Triples) -> Iterator[pa.Table]:
    """Answer triples (n, 3), block by block."""
    for start in range(0, max(1, len(triples)), ROWS):
        yield answers.table(answers.named(triples[start : start + ROWS]))


def _selected(answers: Answers, search: PairSearch, runner: str) -> Iterator[pa.Table]:
    """Search the pairs part by part, and answer the best ones."""
    trained = answers.model.trained
    parts = np.array_split(search.subjects, ceil(len(search.subjects) * len(search.objects) / PART))
    found: list[Ints] = []
    with progress_bar("predict", len(parts)) as move:
        for _, pairs in each_part(runner, search_pairs, (trained, search), parts):
            found.append(pairs)
            move(len(found), "parts of the pairs")
    yield from _tables(answers, best_pairs(trained, search, np.concatenate(found)))


def _all(answers: Answers, search: PairSearch) -> Iterator[pa.Table]:
    """Answer every pair, block by block of subjects."""
    at_once = max(1, ROWS // len(search.objects))
    with progress_bar("predict", len(search.subjects)) as move:
        for start in range(0, len(search.subjects), at_once):
            subjects = search.subjects[start : start + at_once]
            pairs = np.stack(np.meshgrid(subjects, search.objects, indexing="ij"), axis=-1).reshape(-1, 2)
            triples = search.triples(pairs if search.reflexive else pairs[pairs[:, 0] != pairs[:, 1]])
            if search.leave_out is not None:
                triples = triples[~search.leave_out.contains(triples)]
            yield answers.table(answers.named(triples))
            move(start + len(subjects), "subjects")


def _is_reflexive(graph: KnowledgeGraph, predicate: int) -> bool:
    """Return whether a training fact of the predicate has the same subject and object."""
    own = graph.train.positives[graph.train.positives[:, 1] == predicate]
    return bool((own[:, 0] == own[:, 2]).any())


def _entities(graph: KnowledgeGraph, file: str, what: str) -> Ints:
    """Return the known entities of a file of names; all entities if the file is ''. Log how many names are unknown."""
    if not file:
        return np.arange(len(graph.entities))
    numbers = {name: number for number, name in enumerate(graph.entities)}
    names = read_names(Path(file))
    known = [numbers[name] for name in names if name in numbers]
    unknown = [name for name in names if name not in numbers]
    if not known:
        raise InputError(f"{file} has no known entity: the model knows none of its {len(names):,} names")
    if unknown:
        examples = ", ".join(map(repr, unknown[:3]))
        log.warning("%d of %d %s are unknown and left out: %s", len(unknown), len(names), what, examples)
    return np.array(known, dtype=np.int64)


def _predicate(graph: KnowledgeGraph, name: str) -> int:
    """Return the number of a predicate. Raises InputError if it is unknown."""
    if name not in graph.predicates:
        near = difflib.get_close_matches(name, graph.predicates, 3, 0.5) or graph.predicates[:5]
        raise InputError(f"there is no predicate {name!r}: it could be {', '.join(near)}")
    return list(graph.predicates).index(name)
