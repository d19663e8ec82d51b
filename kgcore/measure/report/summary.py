"""The summaries of an evaluation and of a pipeline, and their JSON for summary.json and `kgcal run --json`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kgcore.base_rate import BaseRate
from kgcore.measure.evaluation.groups import KnowledgeGroup, RelationReliability
from kgcore.measure.metrics.classification import RelationDecisions
from kgcore.measure.report.ensemble_summary import EnsembleSummary
from kgcore.measure.report.race import Race, contenders_table
from kgcore.measure.report.result import Result
from kgcore.measure.report.results import Results


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

    @property
    def warning(self) -> str:
        """The sentence that stands above all results, if the calibrator that answers is not calibrated; else ''."""
        return self.miscalibrated.get(self.answers, "")

    def to_json(self) -> dict[str, Any]:
        """Return the keys metrics, intervals, accuracy_per_relation, ranks, relations, notes.

        The keys knowledge, base_rate and base_rate_is follow if they are known, then base_rate_low and base_rate_high,
        answers, and miscalibrated.
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
        """Return what the terminal and Prefect show: the race, the results, the ranks, the report, and the ensemble."""
        relation, ranks = self.accuracy_per_relation, self.ranks
        again = [stage for stage in self.runs if stage not in self.reused]
        notes = [*self.results.best_text(), *([f"base rate: {self.rate}"] if self.rate and self.rate.limits else [])]
        notes += self.notes
        if relation:
            learned, median = relation["learned"], relation["median"]
            notes.append(
                f"accuracy with per-relation thresholds on the score: learned on validation {learned:.4f}, median "
                f"validation score {median:.4f}"
            )
        if ranks:
            hits = "  ".join(f"Hits@{n} {ranks[f'hits_at_{n}']:.3f}" for n in (1, 3, 10))
            notes.append(f"filtered ranks by the raw score: MR {ranks['mr']:.0f}  MRR {ranks['mrr']:.3f}  {hits}")
        notes.append(f"stages run: {', '.join(again) or 'none'}; re-used: {', '.join(self.reused) or 'none'}")
        title, pooled = f"{self.model} on {self.dataset}", self.ensemble.result() if self.ensemble else None
        race = [contenders_table(self.race)] if self.race else []
        return Result(
            title=title,
            warning=self.warning,
            tables=[*race, self.results.table(title, notes), *(pooled.tables if pooled else ())],
            sentences=pooled.sentences if pooled else (),
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
