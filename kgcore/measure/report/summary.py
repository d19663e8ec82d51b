"""The summaries of an evaluation and of a pipeline, and their JSON for summary.json and `kgcal run --json`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kgcore.base_rate import ASSUMED, ESTIMATED, STATED, BaseRate
from kgcore.measure.evaluation.groups import KnowledgeGroup, RelationReliability
from kgcore.measure.metrics.base import decimals, percent
from kgcore.measure.metrics.classification import RelationDecisions
from kgcore.measure.report.ensemble_summary import EnsembleSummary
from kgcore.measure.report.race import Race
from kgcore.measure.report.result import Brief, Result, runs_text
from kgcore.measure.report.results import Results

if TYPE_CHECKING:
    from kgcore.calibrate.calibrated import Calibrated
    from kgcore.data.graph import KnowledgeGraph
    from kgcore.measure.evaluation.evaluate import Measured
    from kgcore.measure.evaluation.predictions import Predictions

FEWEST = 30  # effective test triples of a share that a verdict names
# what probabilities are whose base rate is not the stated one
BESIDE = "are at the base rate of the labels: for the stated one, {rate}, state it again when you ask"
WINDOWS = {"near 0.9": (0.85, 0.95), "above 0.95": (0.95, 1.0)}
WINDOWS |= {f"near {n / 10}": (n / 10 - 0.05, n / 10 + 0.05) for n in range(8, 0, -1)} | {"below 0.05": (0.0, 0.05)}


@dataclass(frozen=True)
class RelationSummary:
    """The measured results for one relation.

    name         name of the relation
    decisions    the decisions on its test triples with a separate score threshold for each relation
    reliability  the reliability of each calibrator
    """

    name: str
    decisions: RelationDecisions
    reliability: RelationReliability

    def to_json(self) -> dict[str, Any]:
        """Return the keys name, predicate, triples, learned, median, observed, low, high, calibrators."""
        return {"name": self.name} | asdict(self.decisions) | asdict(self.reliability)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RelationSummary":
        """Read the output of `to_json`."""
        names = ("predicate", "triples", "observed", "low", "high", "calibrators")
        reliability = RelationReliability(**{name: data[name] for name in names})
        return cls(data["name"], RelationDecisions.from_json(data), reliability)


def summarise_relations(
    names: Sequence[str], decisions: Sequence[RelationDecisions], reliability: Sequence[RelationReliability]
) -> tuple[RelationSummary, ...]:
    """Combine the results of each relation.

    names                   names of all predicates; the index of a name is the id of the predicate
    decisions, reliability  results for the same relations, in the same order

    Raises ValueError if `decisions` and `reliability` have different lengths.
    """
    pairs = zip(decisions, reliability, strict=True)
    return tuple(RelationSummary(names[decision.predicate], decision, reliable) for decision, reliable in pairs)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of an evaluation.

    results                metrics and intervals of every calibrator
    accuracy_per_relation  rule (learned, median) -> accuracy of per-relation thresholds
    ranks                  metric of the filtered ranks (mr, mrr, hits_at_N) -> value
    relations              results for each relation
    knowledge              results by what training knows about the triples; none if it is not known
    notes                  sentences that a report must show with the results
    rate                   base rate of the synthetic calibrators; None in summaries of ensembles
    answers                label of the calibrator that answers if the user names none; '' if it is not known
    miscalibrated          label -> a sentence, for calibrators with a calibration error above the tolerance
    briefs                 label of a fitted calibrator -> what a reader needs first about it
    cautions               those of the notes that change a decision
    """

    results: Results
    accuracy_per_relation: dict[str, float]
    ranks: dict[str, float]
    relations: tuple[RelationSummary, ...] = ()
    knowledge: tuple[KnowledgeGroup, ...] = ()
    notes: tuple[str, ...] = ()
    rate: BaseRate | None = None
    answers: str = ""
    miscalibrated: Mapping[str, str] = field(default_factory=dict)
    briefs: Mapping[str, Brief] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()

    @property
    def brief(self) -> Brief:
        """What a reader needs first about the calibrator that answers."""
        return self.briefs.get(self.answers, Brief(""))

    @property
    def not_first(self) -> list[str]:
        """Why the calibrator that answers is not the first one of the table; empty if it is."""
        first = self.results.best_fitted()
        if not self.answers or first is None or first.label == self.answers:
            return []
        return ["The best calibrator on validation answers; this table is about test."]

    def note(self, runs: Mapping[str, str]) -> str:
        """Return what the page of an MLflow run says: the brief, cautions, the results, and stage -> run id."""
        table = self.results.table(self.answers, notes=[*self.not_first, runs_text(runs)])
        return "\n\n".join(filter(None, [self.brief.markdown(), *self.cautions, table.markdown()]))

    def to_json(self) -> dict[str, Any]:
        """Return the keys metrics, intervals, accuracy_per_relation, ranks, relations, notes.

        The keys knowledge, base_rate and base_rate_is follow if they are known, then base_rate_low and base_rate_high,
        answers, miscalibrated, briefs and cautions.
        """
        rate = {"base_rate": self.rate.value, "base_rate_is": self.rate.origin} if self.rate else {}
        ends = dict(zip(("base_rate_low", "base_rate_high"), (self.rate and self.rate.limits) or (), strict=False))
        return self.results.to_json() | {
            "accuracy_per_relation": self.accuracy_per_relation,
            "ranks": self.ranks,
            "relations": [relation.to_json() for relation in self.relations],
            "notes": list(self.notes),
            **({"knowledge": [asdict(group) for group in self.knowledge]} if self.knowledge else {}),
            **rate,
            **ends,
            **({"answers": self.answers} if self.answers else {}),
            **({"miscalibrated": dict(self.miscalibrated)} if self.miscalibrated else {}),
            **({"briefs": {label: asdict(brief) for label, brief in self.briefs.items()}} if self.briefs else {}),
            **({"cautions": list(self.cautions)} if self.cautions else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Summary":
        """Read the output of `to_json`. Other keys are ignored."""
        rate = None
        if "base_rate" in data:
            ends = data.get("base_rate_low"), data.get("base_rate_high")
            rate = BaseRate(data["base_rate"], *ends, data["base_rate_is"])
        return cls(
            results=Results.from_json(data),
            accuracy_per_relation=data["accuracy_per_relation"],
            ranks=data["ranks"],
            relations=tuple(RelationSummary.from_json(relation) for relation in data["relations"]),
            knowledge=tuple(KnowledgeGroup(**group) for group in data.get("knowledge", [])),
            notes=tuple(data["notes"]),
            rate=rate,
            answers=data.get("answers", ""),
            miscalibrated=data.get("miscalibrated", {}),
            briefs={label: Brief(**brief) for label, brief in data.get("briefs", {}).items()},
            cautions=tuple(data.get("cautions", ())),
        )


@dataclass(frozen=True, kw_only=True)
class PipelineSummary(Summary):
    """The results of a pipeline: the results of its evaluation, and the runs and settings that they come from.

    dataset, model, loss, seed  data set, model, loss and seed of the training
    runs      stage -> MLflow run id
    seconds   stage -> duration in seconds of the run that executed the stage, which may be an earlier run
    reused    stages that this pipeline did not execute, because an earlier run has their results
    race      the race that chose the training settings; None: there was no stage choose
    report    path of the report; '' if it is unknown
    pipeline  MLflow run id of the pipeline; '' while it is unknown
    """

    dataset: str
    model: str
    loss: str
    seed: int
    runs: dict[str, str]
    seconds: dict[str, float]
    reused: tuple[str, ...]
    race: Race | None = None
    ensemble: EnsembleSummary | None = None
    report: str = ""
    pipeline: str = ""

    def result(self) -> Result:
        """Return what the terminal and Prefect show: the verdict, the results, the commands, and the ensemble."""
        again = [stage for stage in self.runs if stage not in self.reused]
        pooled = self.ensemble.result() if self.ensemble else None
        title = f"{self.model} on {self.dataset}"
        return Result(
            title=title,
            verdict=self.brief.verdict,
            tables=[self.results.table(self.answers, title, self.not_first), *(pooled.tables if pooled else ())],
            sentences=[
                *self.cautions,
                *(self.race.sentences()[:1] if self.race else ()),
                *(pooled.sentences if pooled else ()),
                *self.brief.commands,
                f"stages run: {', '.join(again) or 'none'}; re-used: {', '.join(self.reused) or 'none'}",
            ],
            files={"report": self.report},
            run=self.pipeline,
            runs=self.runs,
            linked=True,
            facts=self.to_json(),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the keys of `Summary.to_json`, all other fields, and race, ensemble, report and pipeline if known."""
        places = {"report": self.report, "pipeline": self.pipeline}
        return {
            "dataset": self.dataset,
            "model": self.model,
            "loss": self.loss,
            "seed": self.seed,
            "runs": self.runs,
            "seconds": self.seconds,
            "reused": list(self.reused),
            **super().to_json(),
            **({"race": self.race.to_json()} if self.race else {}),
            **({"ensemble": self.ensemble.to_json()} if self.ensemble else {}),
            **{name: place for name, place in places.items() if place},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PipelineSummary":
        """Read the output of `to_json`. Other keys are ignored."""
        own = {name: data[name] for name in ("dataset", "model", "loss", "seed", "runs", "seconds")}
        places = {name: data.get(name, "") for name in ("report", "pipeline")}
        race = Race.from_json(data["race"]) if "race" in data else None
        pooled = EnsembleSummary.from_json(data["ensemble"]) if "ensemble" in data else None
        own |= {"reused": tuple(data["reused"]), "race": race, "ensemble": pooled}
        return cls(**own, **places, **vars(Summary.from_json(data)))


def briefs(
    bounds: "Mapping[str, Calibrated]",
    predictions: "Predictions",
    measured: "Mapping[str, Measured]",
    wrong: Mapping[str, str],
    incomplete: bool = False,
    graph: "KnowledgeGraph | None" = None,
    dataset: str = "",
) -> dict[str, Brief]:
    """Return label -> the brief of each fitted calibrator.

    wrong    what `miscalibrated` returns for the same bounds, predictions, measured and incomplete
    graph    has the names of the examples; None: there are no examples
    dataset  name in the commands; '': there are no commands
    """
    from kgcore.measure.evaluation.evaluate import untested  # loads what computes

    found = {}
    for label, bound in bounds.items():
        why, other = untested(bound, predictions, incomplete), rate_beside(bound, list(bounds.values()))
        verdict = _verdict(bound, predictions, measured[label], wrong.get(label, ""), why)
        found[label] = Brief(
            f"{verdict} They {BESIDE.format(rate=other.figures)}." if other else verdict,
            _examples(label, predictions, graph) if graph else [],
            _next_steps(dataset, bound, predictions, label in wrong, other) if dataset else {},
        )
    return found


def rate_beside(bound: "Calibrated", fitted: Sequence["Calibrated"]) -> BaseRate | None:
    """Return the stated base rate of a fit if this calibrator has that of its labels instead; None if it has not."""
    stated = next((other.rate for other in fitted if other.rate.origin == STATED), None)
    if bound.rate.origin != ESTIMATED or stated is None or percent(stated.value) == percent(bound.base_rate):
        return None
    return stated


def _verdict(bound: "Calibrated", predictions: "Predictions", measured: "Measured", wrong: str, untested: str) -> str:
    """Return whether the probabilities of a calibrator can be trusted, how sure that is, and what they are about."""
    from kgcore.measure.evaluation.evaluate import ERROR, TOLERANCE

    these, seen = f"probabilities of {bound.shown_name.replace('_', ' ')}", _observed(bound.label, predictions)
    about = f"{bound.about}, {percent(bound.base_rate)} of them true"
    is_said = bound.rate.origin == ASSUMED or (bound.rate.origin == ESTIMATED and predictions.synthetic_negatives)
    about += f" ({bound.rate.origin})" if is_said else ""
    if predictions.confidences is not None:
        about = f"{bound.about}, with the mean confidence {bound.base_rate:.2f}"
    if wrong:
        return f"The {these} cannot be trusted yet, for {about}: {seen}. {wrong}"
    if untested:
        return f"This test cannot show whether the {these} can be trusted: {untested}. Here, {seen}."
    _, high = measured.intervals.get(ERROR, (0.0, 1.0))
    off = f"{seen}, and on average they are off by at most {max(high, 0.005):.2f}"
    if high > TOLERANCE:
        return f"The {these} look right for {about}, but this test is too small to be sure: {off}."
    return f"The {these} can be trusted for {about}: {off}."


def _observed(label: str, predictions: "Predictions") -> str:
    """Return how many of the test triples with a probability near .9 are true, in a clause, or near the next share."""
    from kgcore.measure.metrics.reliability import wilson

    q, truth = predictions.probabilities[label], predictions.truth
    for where, (low, high) in WINDOWS.items():
        rows = (q > low) & (q <= high)
        weights = predictions.weights[rows]
        count = weights.sum() ** 2 / np.square(weights).sum() if rows.any() else 0.0
        if count < FEWEST:
            continue
        share = np.array([np.average(truth[rows], weights=weights)])
        ends = "to".join(f" {percent(float(end[0]))} " for end in wilson(share, np.array([count]))).strip()
        these = f"the {rows.sum():,} test triples with a probability {where}"
        of = "of" if np.ptp(weights) == 0 else "of triples like"  # with other weights, counting gives another share
        seen = f"{of} {these}, {percent(float(share[0]))} are true"
        if predictions.confidences is not None:
            seen = f"the mean confidence of the {rows.sum():,} test triples {where} is {share[0]:.2f}"
        return f"{seen} (95 % interval: {ends})"
    return f"there are too few test triples to say how many with a high probability are true (at least {FEWEST})"


def _examples(label: str, predictions: "Predictions", graph: "KnowledgeGraph") -> list[dict[str, str]]:
    """Return the example triples of a calibrator with names, probability, interval, and whether they are true."""
    chosen, rows = predictions.examples.get(label, []), []
    names = graph.names_of(predictions.triples[[example.row for example in chosen]])
    false = "corruption" if predictions.synthetic_negatives else "false"
    for example, triple in zip(chosen, names.itertuples(index=False, name=None), strict=True):
        truth, q = predictions.truth[example.row], float(predictions.probabilities[label][example.row])
        row = dict(zip(map(str, names), triple, strict=True)) | {"probability": decimals(q)}
        row["95 % interval"] = f"{example.low:.2f} to {example.high:.2f}"
        known = (
            {"truth": "true" if truth else false} if predictions.confidences is None else {"confidence": f"{truth:g}"}
        )
        rows.append(row | known)
    return rows


def _next_steps(
    dataset: str, bound: "Calibrated", predictions: "Predictions", wrong: bool, stated: BaseRate | None
) -> dict[str, str]:
    """Return three commands for a data set, each with what it does. `stated`: a base rate for labelled calibrators."""
    labelled, name, rate, share = not predictions.synthetic_negatives, shlex.quote(dataset), "", ""
    estimated = bound.rate.origin == ESTIMATED and not labelled
    told = stated or (bound.rate if estimated else None)
    if bound.rate.origin == ASSUMED:
        rate, share = " --base-rate 0.1", ", if one in ten is true"
    elif told is not None:
        ends = told.limits or (told.value,)
        rate = f" --base-rate {':'.join(f'{end:.2g}' for end in ends)}"
        share = f", if {' to '.join(map(percent, ends))} are true, as {told.origin}"
    predict = f"kgcal predict candidates.tsv -o answers.tsv --dataset {name}{rate}"
    steps = {
        predict: f"the probabilities of your own triples{share}",
        f"kgcal promote --dataset {name}": "puts the best calibrator in use, if it passes an exam",
        f"kgcal discover --dataset {name} --completeness 0.8": "missing facts, if the graph knows 80 % of them all",
        f"kgcal recalibrate --dataset {name} --labels labels.tsv": "learns from triples that you labelled",
        f"kgcal compare --dataset {name}": "all runs and calibrators, the best one first",
    }
    has_labels = labelled or estimated or bound.negatives == "ground_truth"
    chosen = (3, 4, 1) if wrong else (0, 1, 2) if has_labels else (0, 2, 3)
    return dict([*steps.items()][number] for number in chosen)
