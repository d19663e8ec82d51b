"""Estimates the base rate of candidates from their scores, from labels of a random sample, or from both."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from kgcore.arrays import Ints
from kgcore.config import BaseRateConfig
from kgcore.ensembles.ensemble import PooledModel
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.mixture.fit import FOREIGN, MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.labels import Rate, labelled_rate, labelled_rates
from kgcore.mixture.relations import FEWEST, fit_relations
from kgcore.mixture.samples import MixtureData
from kgcore.models.scorer import Scorer
from kgcore.prediction.candidates import check_readable
from kgcore.prediction.judged import JudgedCandidates, check_enough, mixture_triples, read_judged
from tasks.jobs.base_rate_file import check_output, write_estimates
from tasks.jobs.base_rate_result import BaseRateResult, RelationRow
from tasks.jobs.request import Request, answering
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store


def estimate_base_rate(candidates: str, request: Request, config: BaseRateConfig) -> BaseRateResult:
    """Estimate the base rate of the candidates of a file, in an MLflow run with the result as base_rate.json.

    candidates  file of candidates, some of which may have labels: see `read_judged`
    request     whose scores are used. Its output is a table, whose first row is the estimate for all candidates, or a
                .json file with the whole result

    Raises InputError as `read_judged` does, if there is no such model or if it is an ensemble, if the candidates are
    too few, and if the output cannot be written.
    """
    path = Path(candidates)
    check_readable(path)
    check_output(request.output)
    by, store = answering(request), open_store()
    found, scorer, graph = by.found, by.model.trained, by.model.graph
    if isinstance(scorer, PooledModel):
        raise InputError(f"{found.uri} is an ensemble, fitted to the validation triples: name one of its members")
    judged = read_judged(path, graph)
    unlabelled = int((~judged.labelled).sum())
    if not judged.labelled.any():
        check_enough(judged, str(path))
    tags = RunTags(stage="base-rate", dataset=found.dataset)
    with store.open_run(f"base rate {found.dataset}", tags) as run_id:
        store.log_params(run_id, {**config.as_dict(), "candidates": path.name, "model": found.uri})
        result = _result(judged, unlabelled >= FEWEST, scorer, graph, config)
        result = replace(result, model=found.uri, run=run_id)
        store.log_metrics(run_id, result.metrics(), model_id=found.model_id)
        said = result.sentences()
        made = {**asdict(result), "sentences": said, "command": result.command}
        store.log_json(run_id, made, "base_rate.json")
        write_estimates(request.output, result, made)
        store.log_tags(run_id, RunTags(note="\n\n".join(said)))
    return result


def _result(
    judged: JudgedCandidates, by_scores: bool, scorer: Scorer, graph: KnowledgeGraph, config: BaseRateConfig
) -> BaseRateResult:
    """Estimate the base rate from the labels and, if `by_scores`, from the scores."""
    rng, known, notes = np.random.default_rng(config.base_rate_seed), judged.labelled, judged.left_out()
    predicates, mixture = judged.triples[:, 1], None
    rates: dict[int, Rate] = {}
    if config.by_relation:
        rates |= labelled_rates(judged.labels[known], predicates[known])
    if by_scores:
        drawn = mixture_triples(judged, scorer, graph, config.strategies, config.per_positive, rng)
        data = drawn.data(scorer.score(drawn.every))
        mixture = fit_mixture(data, MixtureOptions(width=config.width), rng)
        if config.by_relation and mixture.fit.p_value > FOREIGN:  # otherwise scores do not show base rates
            rates |= _rates(data, mixture, rng)
    elif not known.all():
        notes.append(f"{int((~known).sum()):,} candidates without labels are too few: they do not count")
    used = predicates if by_scores else predicates[known]
    rows = [_row(graph, number, rate, used, predicates[known]) for number, rate in rates.items()]
    return BaseRateResult(
        dataset=graph.name,
        model="",
        mixture=mixture,
        labelled=labelled_rate(judged.labels[known]) if known.any() else None,
        labels=int(known.sum()),
        width=config.width,
        relations=sorted(rows, key=lambda row: -row.candidates),
        others=len(np.unique(used)) - len(rows) if config.by_relation else 0,
        notes=notes,
    )


def _rates(data: MixtureData, mixture: MixtureFit, rng: np.random.Generator) -> dict[int, Rate]:
    """Return predicate -> base rate, for the relations whose scores are enough."""
    found = fit_relations(data, mixture.strategies, rng)
    return {one.predicate: Rate(one.shrunk, one.own.low, one.own.high) for one in found}


def _row(graph: KnowledgeGraph, number: int, rate: Rate, used: Ints, labelled: Ints) -> RelationRow:
    counts = int((used == number).sum()), int((labelled == number).sum())
    return RelationRow(graph.predicates[number], rate.value, rate.low, rate.high, *counts)
