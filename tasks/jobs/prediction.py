"""The run of a prediction: it writes answers to a file, counts them, and logs what was asked and what came out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.answer.answers import NO_KNOWN_NAME, P_VALUE, SELECTED, UNKNOWN_ENTITIES, Answers
from kgcore.answer.domains import Domains
from kgcore.answer.question import unknown_names
from kgcore.answer.sink import sink
from kgcore.arrays import Ints, Scores
from kgcore.config import PredictConfig
from kgcore.data.formats.base import COLUMNS
from kgcore.measure.report.result import Result, ResultTable
from tasks.jobs.request import (
    MOST_EXAMPLES,
    AnsweringModel,
    Request,
    answering_model,
    expected_text,
    probability_texts,
    triple_text,
)
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store

if TYPE_CHECKING:
    from kgcore.answer.population.calibration import Calibration

COUNTS = ("rows", "answered", "accepted", "known", "unseen", "selected", "tested")


@dataclass(frozen=True)
class Predictor:
    """The model that answers a prediction, and its decisions.

    answering    the model, and the output file
    config       the decisions
    counts       whether the probabilities are about the candidates that are asked for, so that their sum is a count
    about        what they are about, as a sentence
    notes        sentences about the candidates that were chosen
    figures      further figures of them, as metrics
    unknown_only whether only candidates that are no known facts count as expected to be true
    calibration  the calibration to the candidates, for the interval of their number; None: it has none
    """

    answering: AnsweringModel
    config: PredictConfig
    counts: bool = True
    about: str = ""
    notes: Sequence[str] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    unknown_only: bool = False
    calibration: "Calibration | None" = None

    @cached_property
    def answers(self) -> Answers:
        """The model with the decisions."""
        return Answers(self.answering.model, self.config.decides_at, self.config.at_least)


def find_predictor(request: Request, config: PredictConfig, its_calibrator: bool = True) -> Predictor:
    """Find the model of a prediction.

    its_calibrator  see `find_calibrated_model`

    The sum of the probabilities of a file is a number of true candidates if the user states their base rate, now or in
    the run, or if the calibrator was fitted to candidates or to newly labelled ones. Otherwise the prediction says what
    they are about.

    Raises InputError as `answering_model` does, or if the ending of the output file is unknown.
    """
    request.check_table()
    answering = answering_model(request, its_calibrator)
    if answering.model.knows_base_rate:
        return Predictor(answering, config)
    about = (
        f"{answering.model.about}. For these candidates, state which share of them is true (--base-rate), or calibrate "
        "to them (kgcal recalibrate --candidates FILE)"
    )
    return Predictor(answering, config, counts=False, about=about)


def run_prediction(predictor: Predictor, asked: Mapping[str, object], tables: Iterator[pa.Table]) -> Result:
    """Write the answers to the output file, and log the prediction as an MLflow run of stage `predict`.

    asked   the question, as parameters of the run
    tables  the answers, block by block

    Raises InputError if the output file cannot be written. If an error ends the answers, no output file is left behind.
    """
    store, answering, config = open_store(), predictor.answering, predictor.config
    found = answering.found
    with (
        sink(Path(answering.output)) if answering.output else nullcontext(lambda table: None) as write,
        store.open_run(f"predict {found.dataset}", RunTags(stage="predict", dataset=found.dataset)) as run_id,
    ):
        store.log_params(run_id, {**config.as_dict(), **answering.params, "threshold": config.decides_at, **asked})
        tally = _Tally(predictor)
        for table in tables:
            write(table)
            tally.add(table)
        facts = {**tally.facts(), "run": run_id}
        store.log_metrics(run_id, {**_metrics(facts), **predictor.figures}, model_id=found.model_id)
        store.log_json(run_id, facts, "prediction.json")
    return _result(facts, str(answering))


class _Tally:
    """Counts answers, block by block."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.counts = Counter(dict.fromkeys(COUNTS, 0))
        self.reasons: Counter[str] = Counter()
        self.expected = 0.0
        self.scored: list[tuple[Scores, Ints]] = []  # of the calibrated rows that count: log-odds, predicates
        self.examples: list[dict[str, object]] = []
        self.first_unknown = ""  # the first row with some unknown names: which, and near spellings
        self.domains, self.off_type, self.first_off_type = Domains(predictor.answers.model.graph), 0, ""

    def add(self, table: pa.Table) -> None:
        """Count the answers of a table."""
        self.counts["rows"] += len(table)
        self.counts["answered"] += len(table) - table["probability"].null_count
        self.counts["unseen"] += len(table) - table["unseen"].null_count
        for name, column in (("accepted", "decision"), ("known", "known"), ("selected", SELECTED)):
            if column in table.column_names:
                self.counts[name] += pc.sum(table[column]).as_py() or 0
        if P_VALUE in table.column_names:
            self.counts["tested"] += len(table) - table[P_VALUE].null_count
        counted = table["probability"].is_valid().to_numpy()
        if self.predictor.unknown_only:
            counted = counted & ~pc.fill_null(table["known"], False).to_numpy().astype(bool)
        self.expected += float(table["probability"].to_numpy()[counted].sum())
        if self.predictor.calibration is not None:
            triples, named = self.predictor.answers.numbers(table)
            self.scored.append((table["score"].to_numpy()[counted & named], triples[counted & named, 1]))
        self.reasons.update(table["reason"].drop_null().to_pylist())
        if not self.first_unknown:
            self.first_unknown = self._first_unknown(table)
        if len(self.examples) < MOST_EXAMPLES:
            self.examples += table.slice(0, MOST_EXAMPLES - len(self.examples)).to_pylist()
        self._count_off_type(table.filter(pc.fill_null(table["decision"], False)))

    def _first_unknown(self, table: pa.Table) -> str:
        """Return the unknown names of the first row that has some, but not three; '' if no row has."""
        lacking = pc.and_(pc.starts_with(table["reason"], "unknown"), pc.not_equal(table["reason"], NO_KNOWN_NAME))
        rows = table.filter(pc.or_(table["unseen"].is_valid(), pc.fill_null(lacking, False))).slice(0, 1).to_pylist()
        graph = self.predictor.answers.model.graph
        return "".join(unknown_names(graph, (row["subject"], row["predicate"], row["object"])) for row in rows)

    def _count_off_type(self, accepted: pa.Table) -> None:
        """Count the triples that are accepted as true although an entity does not fit the predicate."""
        triples, named = self.predictor.answers.numbers(accepted)
        rows = np.flatnonzero(named)[self.domains.off_type(triples[named])]
        self.off_type += len(rows)
        if len(rows) and not self.first_off_type:
            [row] = accepted.slice(rows[0], 1).to_pylist()
            self.first_off_type = triple_text(row)

    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the number of true candidates; None: it is not known.

        Candidates about which names answer count as they are expected.
        """
        if self.predictor.calibration is None or not self.scored:
            return None
        scores, predicates = (np.concatenate(parts) for parts in zip(*self.scored, strict=True))
        count = self.predictor.calibration.fit.count(scores, predicates, np.random.default_rng(0))
        others = self.expected - count.expected
        return count.low + others, count.high + others

    def facts(self) -> Mapping[str, Any]:
        """Return the facts of the prediction.

        because    why the model answers; '' if the user has named it
        dataset, model, calibrator, base_rate, base_rate_text, output  see `AnsweringModel.params`
        threshold  a triple with a probability above it counts as true
        rows       number of candidates: `answered` with a probability, `accepted` as true, `known` facts, `unseen` with
                   an entity that training has not seen, so that names answer for them
        selected   number of candidates, of `tested` ones, of which at most the share `fdr` is false, in expectation
        expected   expected number of true candidates, with its 95 % `interval`; None: it is not known
        unknown_only  whether known facts are left out of this number
        reasons    why candidates have no answer -> their number
        lacks      why candidates with unknown entities have no answer, as a sentence; '' if there are none
        off_type   number of accepted candidates with an entity that does not fit the predicate, and the first one
        about      a sentence: the population of the probabilities, or why there are no probabilities. '' for a single
                   candidate without a stated completeness
        notes      sentences about the candidates that were chosen, and about the first unknown name
        examples   the first rows
        """
        predictor = self.predictor
        return {
            "dataset": predictor.answering.found.dataset,
            "because": predictor.answering.found.because,
            **predictor.answering.params,
            **self.counts,
            "threshold": predictor.config.decides_at,
            "fdr": predictor.config.fdr,
            "expected": self.expected if predictor.counts else None,
            "unknown_only": predictor.unknown_only,
            "interval": self.interval(),
            "reasons": dict(self.reasons),
            "lacks": predictor.answering.model.lacks if UNKNOWN_ENTITIES & set(self.reasons) else "",
            "about": predictor.about if self.counts["rows"] > 1 or self.counts["answered"] else "",
            "off_type": (self.off_type, self.first_off_type),
            "notes": [*predictor.notes, *([self.first_unknown] if self.first_unknown else [])],
            "examples": self.examples,
        }


def _metrics(facts: Mapping[str, Any]) -> dict[str, float]:
    names = (*COUNTS[: len(COUNTS) if facts["fdr"] else -2], "expected")
    counts = {name: float(facts[name]) for name in names if facts[name] is not None}
    counts |= dict(zip(("expected_low", "expected_high"), facts["interval"] or (), strict=False))
    return counts | {f"no_answer.{reason.replace(' ', '_')}": float(n) for reason, n in facts["reasons"].items()}


def _result(facts: Mapping[str, Any], model_text: str) -> Result:
    """Return the answer for a single triple, a table of a few answers without a file, or counts; then the model."""
    count, examples, above = facts["rows"], facts["examples"], f"above {facts['threshold']:g}"
    lines, rows = list[str](), list[dict[str, str]]()
    if count == 1:
        lines = [triple_text(examples[0]), *_answer(examples[0], facts["threshold"])]
    elif not facts["output"] and len(examples) == count:
        rows = [_cells(rank, row, above, facts["base_rate"] is not None) for rank, row in enumerate(examples, 1)]
    else:
        others = " of the others" if facts["unknown_only"] and facts["known"] else ""
        known = [f"{facts['known']:,} known facts", expected_text(facts["expected"], facts["interval"], others)]
        lines = [
            f"{count:,} triples: {facts['answered']:,} answered, {facts['accepted']:,} with a probability {above}, "
            f"{', '.join(filter(None, known))}"
        ]
    lines += [*([facts["about"]] if facts["about"] else []), *facts["notes"]]
    off_type, example = facts["off_type"]
    if off_type:
        which = f"{off_type:,} of the triples {above}, such as {example}, have" if count > 1 else "the triple has"
        lines.append(f"off-type: {which} an entity without facts like those of the predicate")
    if count > 1 and examples and examples[0]["reason"] == NO_KNOWN_NAME:
        lines.append(
            f"the first row has no known name: {triple_text(examples[0])}. If it has the names of the columns, call "
            f"them {', '.join(COLUMNS)}"
        )
    if facts["unseen"] and count > 1:
        lines.append(f"from names: {facts['unseen']:,} of the answers are about entities that training has not seen")
    if facts["fdr"]:
        lines.append(
            f"selected: {facts['selected']:,} of {facts['tested']:,} candidates that are no known facts; at most "
            f"{100 * facts['fdr']:g} % of the selected ones are false, in expectation"
        )
    if count > 1 and facts["base_rate"] is not None:
        lines += [f"no answer: {reason} ({number:,} triples)" for reason, number in facts["reasons"].items()]
    return Result(
        title=f"Prediction by {facts['model']}",
        tables=[ResultTable(rows=rows, words=("triple", above, "known"))] if rows else [],
        sentences=[*lines, *([facts["lacks"]] if facts["lacks"] else []), model_text],
        files={"answers": facts["output"]},
        run=facts["run"],
        rows=examples,
        facts=facts,
    )


def _answer(row: Mapping[str, Any], threshold: float) -> list[str]:
    """Return the lines of the only answer."""
    if row["reason"]:
        return [f"no answer: {row['reason']}"]
    probability, ends = probability_texts(row)
    interval = f" (95 % interval: {ends})" if ends else ""
    accepted = f"{'above' if row['decision'] else 'not above'} the threshold {threshold:g}"
    answer = f"probability {probability}{interval}, {accepted}{'; a known fact' if row['known'] else ''}"
    names = [f"training has not seen the {row['unseen']}: the answer rests on names"] if row["unseen"] else []
    return [answer, *names]


def _cells(rank: int, row: Mapping[str, Any], above: str, has_probabilities: bool) -> dict[str, str]:
    known = "yes" if row["known"] else "no"
    if not has_probabilities:
        return {"rank": str(rank), "triple": triple_text(row), "known": known}
    known = f"{row['unseen']} unseen: from names" if row["unseen"] else known
    probability, interval = probability_texts(row)
    return {
        "triple": triple_text(row),
        "probability": probability,
        "95 % interval": interval,
        above: "" if row["reason"] else "yes" if row["decision"] else "no",
        "known": str(row["reason"] or known),
    }
