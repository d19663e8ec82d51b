"""Predicts candidate triples: those of a file, one triple, or all pairs of subjects and objects."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from kgcore.answer.answers import Answers, Negatives, Selection, mark, table_of, without_probabilities
from kgcore.answer.domains import Domains
from kgcore.answer.pairs import ALL, PairBlock, PairSearch, best_pairs, search_pairs
from kgcore.answer.population.population import Population, too_few
from kgcore.answer.question import positions_of
from kgcore.answer.sink import sink
from kgcore.arrays import Ints, Triples
from kgcore.calibrate.fit import GROUND_TRUTH, SYNTHETIC
from kgcore.config import Config, EvidenceConfig, PairsConfig, PredictConfig
from kgcore.config.jobs import SurveyConfig
from kgcore.data.formats.base import BLOCK_ROWS, COLUMNS, Block, check_readable, read_candidates, read_names
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.measure.report.result import Result
from kgcore.registries import EVIDENCE, STRATEGIES
from tasks.jobs.find_model import counted_sample
from tasks.jobs.prediction import Predictor, find_predictor, run_prediction
from tasks.jobs.request import (
    AnsweringModel,
    Request,
    Stated,
    calibrate_to,
    calibrate_to_missing,
    lost_by,
    survey_of,
)
from tasks.stages.running import Context, StageRef, StageRun, run_stage
from tasks.tracking.artifacts import DIFFERENCE
from tasks.tracking.keys import digest
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import THREADS, each_part
from tasks.workspace.settings import temporary_folder

if TYPE_CHECKING:
    from kgcore.answer.population.likeness import SampleDifference

PART = 2**25  # pairs per part of a search
ROWS = 2**18  # answers per table
MOST_COUNTED = 10**6  # pairs among which the number of true ones has an interval
log = logging.getLogger("kgcal")
UNLIKE = (
    "fdr is {fdr:g}: it needs a file like the calibration triples, and this one differs from them at every share of "
    "true ones ({found}). Label some of its triples (kgcal recalibrate --labels FILE)"
)


def predict_candidates(
    candidates: Sequence[str], request: Request, config: PredictConfig, completeness: str = ""
) -> Result:
    """Answer the triples of a file, or one triple.

    candidates    a file (see `read_candidates`), or subject, predicate and object
    completeness  as in `Stated`: about the triples of the file, or about the missing facts of the triple's predicate

    The answers about a file are calibrated to its triples: see `for_file`.

    Raises InputError if the file cannot be read, if the predicate of the triple is unknown, if candidates of no file
    should be selected, if completeness is stated with fdr, and as `find_predictor`, `for_file`, `calibrate_to_missing`
    and `run_prediction` do.
    """
    blocks = _blocks(candidates)
    if config.fdr and len(candidates) > 1:
        raise InputError("fdr selects among the candidates of a file: give a file, or leave out --fdr")
    if completeness and config.fdr:
        raise InputError("completeness is about probabilities, and fdr about scores: leave out one of them")
    about_missing = bool(completeness) and len(candidates) > 1
    predictor = find_predictor(request, config, its_calibrator=not about_missing)
    stated = Stated(completeness, request.base_rate)
    if len(candidates) > 1:  # an unknown entity may have an answer by its name
        positions_of(predictor.answering.found.model.graph, ("", candidates[1], ""), can_be_empty=True)
    if len(candidates) == 1:
        predictor = for_file(predictor, _blocks(candidates), stated)
    elif about_missing:
        calibration = calibrate_to_missing(predictor.answering, candidates[1], stated, predictor.config.at_least)
        predictor = replace(predictor, answering=predictor.answering.under(calibration), about=calibration.about)
    else:
        predictor = replace(predictor, about=predictor.answers.model.about)
    asked = {"candidates": Path(candidates[0]).name if len(candidates) == 1 else " ".join(candidates)}
    tables = _answered(predictor.answers, blocks)
    if not predictor.answering.stated:
        tables = map(without_probabilities, tables)
    if not config.fdr:
        return run_prediction(predictor, asked, tables)
    found = predictor.answering.found
    if found.model.calibrator.negatives == "none":
        raise InputError(f"{found.uri} ({found.label}) was not fitted on negatives: name another calibrator")
    sample = counted_sample(found.model_id, found.model)
    selection = Selection(Negatives.of(sample), predictor.answers)
    with temporary_folder() as folder:
        return run_prediction(predictor, asked, _selected(selection, tables, config.fdr, folder))


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


def _selected(selection: Selection, tables: Iterator[pa.Table], level: float, folder: Path) -> Iterator[pa.Table]:
    """Answer all candidates, then mark those that are selected. A file in the folder has the answers meanwhile."""
    answers = folder / "answers.parquet"
    with sink(answers) as write:
        for table in tables:
            write(selection.add(table))
    limit = selection.limit(level)
    with pa.parquet.ParquetFile(answers) as file:
        for batch in file.iter_batches(BLOCK_ROWS):
            yield mark(pa.table(batch), limit)


def predict_pairs(
    names: tuple[str, str, str], request: Request, decisions: PredictConfig, config: PairsConfig, runner: str = THREADS
) -> Result:
    """Answer the pairs of subjects and objects that the settings select.

    names   file with one subject per line, name of the predicate, file with one object per line; '': all entities
    runner  `threads`, `dask` or `dask://HOST:PORT`: where the pairs are scored. The answers are the same to the bit

    The probabilities are calibrated to the unknown pairs, and to the number of true ones among them that the user
    states. If nothing is stated, the pairs have an order, and no probabilities.

    Raises InputError if `fdr` is set, if a file cannot be read or has no known name, if the predicate is unknown, if
    what is stated is out of range, and as `find_predictor` and `run_prediction` do.
    """
    if decisions.fdr:
        raise InputError("fdr selects among the candidates of a file: leave out --fdr, or list the pairs in a file")
    predictor = find_predictor(replace(request, base_rate=None), decisions, its_calibrator=False)
    stated = Stated(config.completeness, request.base_rate).or_that_of(predictor.answering.found)
    stated.check(config.above)
    graph, domains = predictor.answers.model.graph, Domains(predictor.answers.model.graph)
    subjects, objects = _entities(graph, names[0], "subjects"), _entities(graph, names[2], "objects")
    _, predicate, _ = positions_of(graph, ("", names[1], ""), can_be_empty=True)
    s, _, o = graph.train.positives[graph.train.positives[:, 1] == predicate].T
    search = PairSearch(
        subjects=subjects,
        objects=objects,
        predicate=predicate,
        top=config.top,
        per=config.per,
        leave_out=graph.all_known if config.known_facts == "leave_out" else None,
        reflexive=bool((s == o).any()),
    )
    block = PairBlock(predicate, np.unique(subjects), np.unique(objects))
    population = Population.asked(domains, predicate, decisions.at_least, block)
    survey = SurveyConfig().for_list(config.top)
    calibration = calibrate_to(predictor.answering, population, stated, predicate, survey, runner)
    answering = predictor.answering.under(calibration)
    about = too_few(graph, predicate, decisions.at_least) if calibration is None else calibration.about
    predictor = replace(predictor, answering=answering, counts=answering.stated, about=about, unknown_only=True)
    if config.above:
        search = replace(search, lowest=predictor.answers.model.calibrator.lowest_score(config.above, predicate))
    sides = {side: Path(file).name or "all" for side, file in zip(("subjects", "objects"), names[::2], strict=True)}
    asked = config.as_dict() | sides | {"predicate": names[1], "pairs": len(subjects) * len(objects)}
    limit = config.top if config.top and config.per == ALL else inf
    if predictor.counts and min(len(subjects) * len(objects), limit) <= MOST_COUNTED:
        predictor = replace(predictor, calibration=calibration)
    if calibration is not None and config.top and config.per == ALL and search.leave_out is not None:
        triples, lost = calibration.ranked(block, config.top, config.above, partial(each_part, runner))
        figures, notes = lost_by(lost)
        predictor = replace(predictor, notes=notes, figures=figures)
        tables = _tables(predictor.answers, triples)
    elif config.top or config.above:
        tables = _chosen(predictor.answers, search, runner)
    else:
        tables = _all(predictor.answers, search)
    if not predictor.counts:
        tables = map(without_probabilities, tables)
    return run_prediction(predictor, asked, tables)


def _tables(answers: Answers, triples: Triples) -> Iterator[pa.Table]:
    """Answer triples (n, 3), block by block."""
    for start in range(0, max(1, len(triples)), ROWS):
        yield answers.table(answers.named(triples[start : start + ROWS]))


def _chosen(answers: Answers, search: PairSearch, runner: str) -> Iterator[pa.Table]:
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


def for_file(predictor: Predictor, blocks: Iterator[Block], stated: Stated) -> Predictor:
    """Return the predictor whose probabilities are about the triples of a file, or that has none.

    predictor  the stored model at the stated base rate
    blocks     the triples of the file

    Raises InputError if `fdr` is set and the triples are unlike the calibration triples, whose negatives the scores are
    compared with. Raises InputError and FitError as `answer_of_file` does.
    """
    from kgcore.answer.population.lists import answer_of_file

    triples, model = _triples(predictor, blocks), predictor.answering.model
    if predictor.config.fdr and _compared(predictor, triples):
        return replace(predictor, counts=False, about=model.about)
    difference = partial(_difference, predictor.answering, base_rate=model.calibrator.base_rate)
    survey = partial(survey_of, predictor.answering, config=SurveyConfig())
    says = stated.completeness, stated.base_rate
    answer = answer_of_file(model, triples, *says, predictor.config.at_least, difference, survey)
    basis = answer.calibration.basis if answer.calibration else ""
    return replace(
        predictor,
        answering=replace(predictor.answering, model=answer.model, stated=answer.stated, basis=basis),
        counts=answer.counts,
        about=answer.about,
        unknown_only=True,
        calibration=answer.calibration if answer.counts else None,
    )


def _compared(predictor: Predictor, triples: Triples) -> bool:
    """Compare the triples of a file with the calibration triples, for `fdr`. Return False if they cannot be compared.

    Raises InputError if they are unlike these for every share of true ones.
    """
    from kgcore.answer.population.lists import comparable
    from kgcore.answer.population.population import FEWEST_ROWS

    rows = comparable(predictor.answering.model.graph, triples)
    if predictor.answering.model.calibrator.negatives not in (GROUND_TRUTH, SYNTHETIC) or len(rows) < FEWEST_ROWS:
        return False
    found = _difference(predictor.answering, rows, None)
    if not found.alike:
        raise InputError(UNLIKE.format(fdr=predictor.config.fdr, found=found))
    return True


def _difference(answering: AnsweringModel, rows: Triples, base_rate: float | None) -> "SampleDifference":
    """Compare triples (n, 3) with the calibration triples at a base rate, or read the comparison of a finished run."""
    from kgcore.answer.population.likeness import CalibrationTriples, SampleDifference

    store, bound = open_store(), answering.model.calibrator
    made_by = sources_of(store, answering.found.model_id).run
    groups = bound.combined.groups if bound.combined else EvidenceConfig().evidence
    strategies = bound.corruptions.strategy if bound.corruptions else {}
    modules = [EVIDENCE.module(name) for name in groups] + [STRATEGIES.module(name) for name in strategies]
    identity = digest([sha256(rows.tobytes()).hexdigest(), answering.found.label, base_rate])

    def body(run: StageRun) -> None:
        found = CalibrationTriples(answering.model).difference(rows, base_rate)
        run.save(DIFFERENCE, asdict(found))
        run.log_metrics(asdict(found))

    upstream = [StageRef(made_by.tags.stage or "", made_by.run_id)]
    code = ("kgcore.answer.population.likeness", *modules)
    ref = run_stage("comparison", Config(), upstream, code, body, Context(device=answering.device), identity)
    return SampleDifference(**store.load(ref.run_id, DIFFERENCE))


def _triples(predictor: Predictor, blocks: Iterator[Block]) -> Triples:
    """Return the distinct triples (n, 3) of the blocks whose three names are known."""
    parts = [np.zeros((0, 3), dtype=np.int64)]
    for block in blocks:
        triples, known = predictor.answers.numbers(block.names)
        parts.append(triples[known])
    return predictor.answers.model.graph.index(*parts).triples
