"""Estimates the base rate of candidates from their scores, from labels of a random sample, or from both."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kgcore.answer.sink import ENDINGS, check_ending, sink
from kgcore.arrays import Ints
from kgcore.config import BaseRateConfig
from kgcore.data.formats.base import check_readable
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.scorer import Scorer
from kgcore.errors import InputError
from kgcore.measure.report.result import Result, ResultTable, table_of
from kgcore.mixture.fit import FOREIGN, MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.interval import MOST_ODDS, Rate, labelled_rate, labelled_rates, labels_needed
from kgcore.mixture.judged import JudgedCandidates, check_enough, mixture_triples, read_judged
from kgcore.mixture.matched import FEWEST, fit_relations
from kgcore.mixture.samples import MixtureData
from kgcore.storage.folders import write_json
from kgcore.wings.ensembles.ensemble import PooledModel
from tasks.jobs.request import Request, answering_model
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store

JSON = ".json"
# Of a relation, the base rate is moved towards those of other relations if it was estimated from scores; low and high
# are the 95 % interval of this relation alone; `candidates` is their number, with and without labels.
COLUMNS = pa.schema(
    [
        ("relation", pa.string()),
        ("base_rate", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("candidates", pa.int64()),
        ("labels", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class BaseRateResult:
    """The base rate of candidates.

    dataset    name of the data set of the model
    model      URI of the calibrated model whose scores were used
    mixture    what the scores say, and the labels with them; None if all candidates have labels
    labelled   what the labels alone say: the exact binomial interval; None without labels
    labels     number of candidates with a label
    width      a 95 % interval that is wider than this does not determine the base rate: see `Rate.is_narrow`
    relations  a row for each relation with an estimate: see COLUMNS. Those with most candidates come first
    others     number of further relations of the candidates
    notes      which rows are left out, and why, in sentences
    run        id of the MLflow run
    """

    dataset: str
    model: str
    mixture: MixtureFit | None
    labelled: Rate | None
    labels: int
    width: float
    relations: Sequence[Mapping[str, Any]]
    others: int
    notes: Sequence[str]
    run: str = ""

    @property
    def foreign(self) -> bool:
        """Return whether the test of fit found mistakes that no strategy resembles. Scores then say little."""
        return self.mixture is not None and self.mixture.fit.p_value <= FOREIGN

    @property
    def rate(self) -> Rate:
        """Return the best estimate: from scores and labels; from labels alone if scores cannot be trusted."""
        if self.mixture is None or (self.foreign and self.labelled is not None):
            assert self.labelled is not None
            return self.labelled
        return self.mixture.estimated

    @property
    def shows(self) -> bool:
        """Return whether there are labels, or scores that a mixture of strategies explains: else no number is shown."""
        return not self.foreign or self.labelled is not None

    @property
    def determined(self) -> bool:
        """Return whether the interval is narrow enough, and comes from scores that fit or from labels."""
        return self.rate.is_narrow(self.width) and self.shows

    @property
    def command(self) -> str:
        """Return the command that calibrates to this base rate; '' if it is not determined, or is 0 or 1."""
        value = f"{self.rate.value:.3g}"
        if not self.determined or not 0 < float(value) < 1:
            return ""
        return f"kgcal recalibrate {self.model} --base-rate {value}"

    def rows(self) -> list[tuple[str, Rate]]:
        """Return every overall estimate, with the name of what it comes from."""
        found = []
        if self.mixture is not None and self.shows:
            found.append(("scores and labels" if self.labelled else "scores", self.mixture.estimated))
        if self.labelled is not None:
            found.append(("labels alone", self.labelled))
        return found

    def sentences(self) -> list[str]:
        """Return the estimate, and what a user should know about it, in sentences."""
        rate = self.rate
        number = f"The base rate is {rate.value:.3g}; its 95 % interval is {rate.low:.3g} to {rate.high:.3g}."
        said = [number] if self.shows else []
        said += [_sentence(finding) for finding in self._findings()]
        said += [_sentence(note) for note in self.notes]
        said += [f"Next: `{self.command}`"] if self.command else []
        return said

    def _findings(self) -> list[str]:
        needed = labels_needed(self.rate, self.width)
        factor = f"its ends differ by more than a factor of {MOST_ODDS:g} in odds"
        why = f"the interval is wider than {self.width:g}" if self.rate.width > self.width else factor
        wide = (
            f"{why}, so the base rate is not determined: about {needed:,} labels of candidates drawn at random make "
            "the interval narrow enough"
        )
        if self.mixture is None:
            return [] if self.determined else [wide]
        found = self.mixture.findings()
        if not self.shows:
            found.append("so their scores cannot show the base rate: state it, or label candidates drawn at random")
        elif self.labelled is not None and not self.labelled.low <= self.rate.value <= self.labelled.high:
            limits = f"{self.labelled.low:.3g} to {self.labelled.high:.3g}"
            found.append(f"the labels alone say {limits}: check that the labelled candidates were drawn at random")
        elif self.foreign:
            found.append("so only the labels count here")
            found += [] if self.determined else [wide]
        return found

    def result(self) -> Result:
        """Return the overall estimates, the shares of the mistakes, the base rates by relation, and the sentences."""
        rates = ("base rate", "95 % interval")
        shares = self.mixture.shares if self.mixture is not None and self.shows else {}
        relations = [
            (
                *(row["relation"], *_texts(row["base_rate"], row["low"], row["high"])),
                *map("{:,}".format, (row["candidates"], row["labels"])),
            )
            for row in self.relations
        ]
        others = (
            [f"{self.others:,} other relations have too few triples for an estimate"]
            if self.others and self.shows
            else []
        )
        overall = [(name, *_texts(rate.value, rate.low, rate.high)) for name, rate in self.rows()]
        mistakes = [(name, *_texts(share.value, share.low, share.high)) for name, share in shares.items()]
        tables = [
            ResultTable("", table_of(("from", *rates), overall), ("from",)),
            ResultTable("mistakes", table_of(("resemble", "share", "95 % interval"), mistakes), ("resemble",)),
            ResultTable(
                "relations", table_of(("relation", *rates, "candidates", "labels"), relations), ("relation",), others
            ),
        ]
        return Result(
            title=f"Base rate of candidates of {self.dataset}",
            tables=[table for table in tables if table.rows or table.notes],
            sentences=self.sentences(),
            run=self.run,
            rows=self.relations,
            facts=self.to_json(),
        )

    def to_json(self) -> dict[str, object]:
        """Return all fields, and the keys sentences and command."""
        return asdict(self) | {"sentences": self.sentences(), "command": self.command}

    def metrics(self) -> dict[str, float]:
        """Return the overall estimate, if there is one, as MLflow metrics."""
        rate, fit = self.rate, self.mixture
        found = {"base_rate": rate.value, "low": rate.low, "high": rate.high} if self.shows else {}
        found |= {"determined": float(self.determined), "labels": float(self.labels)}
        if fit is not None:
            found |= {"unlabelled": float(fit.candidates), "fit_p": fit.fit.p_value}
            found |= {f"share.{name}": share.value for name, share in fit.shares.items()}
        return found


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _texts(value: float, low: float, high: float) -> tuple[str, str]:
    return f"{value:.3g}", f"{low:.3g} to {high:.3g}"


def estimate_base_rate(candidates: str, request: Request, config: BaseRateConfig) -> Result:
    """Estimate the base rate of the candidates of a file, in an MLflow run with the result as base_rate.json.

    candidates  file of candidates, some of which may have labels: see `read_judged`
    request     whose scores are used. Its output is a table, whose first row is the estimate for all candidates, or a
                .json file with the whole result

    Raises InputError as `read_judged` does, if there is no such model or if it is an ensemble, if the candidates are
    too few, and if the output cannot be written.
    """
    path = Path(candidates)
    check_readable(path)
    if request.output:
        check_ending(Path(request.output), (*ENDINGS, JSON))
    answering, store = answering_model(request), open_store()
    found, scorer, graph = answering.found, answering.model.trained, answering.model.graph
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
        store.log_json(run_id, result.to_json(), "base_rate.json")
        if request.output:
            _write(Path(request.output), result)
        store.log_tags(run_id, RunTags(note="\n\n".join(result.sentences())))
    return result.result()


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
        relations=sorted(rows, key=lambda row: -row["candidates"]),
        others=len(np.unique(used)) - len(rows) if config.by_relation else 0,
        notes=notes,
    )


def _rates(data: MixtureData, mixture: MixtureFit, rng: np.random.Generator) -> dict[int, Rate]:
    """Return predicate -> base rate, for the relations whose scores are enough."""
    found = fit_relations(data, mixture.strategies, rng)
    return {one.predicate: Rate(one.shrunk, one.own.low, one.own.high) for one in found}


def _row(graph: KnowledgeGraph, number: int, rate: Rate, used: Ints, labelled: Ints) -> Mapping[str, Any]:
    counts = {"candidates": int((used == number).sum()), "labels": int((labelled == number).sum())}
    return {"relation": graph.predicates[number], "base_rate": rate.value, "low": rate.low, "high": rate.high} | counts


def _write(path: Path, found: BaseRateResult) -> None:
    """Write the base rates to a file. Raises InputError if the file cannot be written.

    .json                   the whole result
    .parquet, .csv or .tsv  a row for all candidates, without a relation, then a row for each relation
    """
    if path.suffix.lower() == JSON:
        try:
            write_json(path, found.to_json())
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error
        return
    unlabelled = found.mixture.candidates if found.mixture is not None else 0
    rate = {"base_rate": found.rate.value, "low": found.rate.low, "high": found.rate.high} if found.shows else {}
    overall = {"relation": None, **rate, "candidates": unlabelled + found.labels, "labels": found.labels}
    with sink(path) as write:
        write(pa.Table.from_pylist([overall, *found.relations], COLUMNS))
