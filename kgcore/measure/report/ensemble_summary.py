"""The summary of an ensemble's run: its JSON in summary.json, and its tables."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kgcore.measure.report.result import Brief, Result, ResultTable
from kgcore.measure.report.results import Results, first_table


@dataclass(frozen=True)
class MemberSummary:
    """A member of an ensemble.

    name               unique name of the member; it also names the member's rows in the results
    model, loss, seed  settings of its training
    train, calibrate   MLflow run ids of the two stages
    model_id           MLflow's id of the embedding model
    """

    name: str
    model: str
    loss: str
    seed: int
    train: str
    calibrate: str
    model_id: str


@dataclass(frozen=True)
class Disputed:
    """The error of an ensemble on the rows where its members agree most, and on those where they disagree most.

    disagreement    weighted mean of the disagreement over all rows, in nats
    brier_agreed    Brier score on the half of the rows, by weight, with the least disagreement
    brier_disputed  Brier score on the other half
    """

    disagreement: float
    brier_agreed: float
    brier_disputed: float


@dataclass(frozen=True)
class PooledSummary:
    """The results of one ensemble, which combines the members with one opinion pool.

    weights   member -> its weight in the pool
    disputed  the mean disagreement of the members, and the Brier scores of the ensemble on the half of the triples
              with the least disagreement and on the other half
    """

    weights: dict[str, float]
    disputed: Disputed

    def to_json(self) -> dict[str, Any]:
        """Return the keys weights, disagreement, brier_agreed, brier_disputed."""
        return {"weights": self.weights} | asdict(self.disputed)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PooledSummary":
        """Read the output of `to_json`."""
        return cls(data["weights"], Disputed(**{name: value for name, value in data.items() if name != "weights"}))


@dataclass(frozen=True)
class EnsembleSummary:
    """The results of an ensemble's run.

    dataset    name of the data set
    members    the members, in the order in which the weights of each pool list them
    pools      names of the opinion pools
    ensembles  label NEGATIVES.POOL, such as `ground_truth.linear` -> the ensemble
    notes      sentences that a report must show with the results
    results    a row for each member and each pool
    run        MLflow run id; '' while it is unknown
    miscalibrated  label -> a sentence, for ensembles with a calibration error above the tolerance
    briefs     label -> what a reader needs first about an ensemble
    """

    dataset: str
    members: tuple[MemberSummary, ...]
    pools: tuple[str, ...]
    ensembles: dict[str, PooledSummary]
    notes: tuple[str, ...]
    results: Results
    run: str = ""
    miscalibrated: Mapping[str, str] = field(default_factory=dict)
    briefs: Mapping[str, Brief] = field(default_factory=dict)

    def pooled(self, negatives: str, pool: str) -> PooledSummary:
        """Return the ensemble that a pool makes from members calibrated with these negatives."""
        return self.ensembles[f"{negatives}.{pool}"]

    def result(self) -> Result:
        """Return what the terminal, Prefect and MLflow show: for each kind of negatives, members and ensembles.

        A star marks the best value of each column. Sentences relate the disagreement of members to their error.
        """
        members = ", ".join(f"{member.name} `{member.calibrate}`" for member in self.members)
        return Result(
            title=f"Ensembles on {self.dataset}",
            tables=[self._table(negatives) for negatives in self.results.negatives],
            sentences=[*self.notes, f"Members: {members}"],
            run=self.run,
            linked=True,
            facts=self.to_json(),
        )

    def _table(self, negatives: str) -> ResultTable:
        """Return the metrics of members and ensembles, and the weight of each member in each pool."""
        results, pools = self.results.only(negatives), [(pool, self.pooled(negatives, pool)) for pool in self.pools]
        best, rows, notes = results.best(), [], []
        for row in results.rows:
            name = row.calibrator
            cells = {"model": f"ensemble, {_words(name)}" if name in self.pools else name}
            for metric, text in zip(first_table(), row.texts(first_table()), strict=True):
                star = "*" if metric in row.metrics and row.metrics[metric] == best.get(metric) else " "
                cells[_words(metric)] = f"{text}{star}"
            for pool, own in pools:
                cells[f"{_words(pool)}\nweight"] = f"{own.weights[name]:.3f}" if name in own.weights else ""
            rows.append(cells)
        for pool, own in pools:
            disputed = own.disputed
            notes.append(
                f"{_words(pool)}: members disagree by {disputed.disagreement:.4f} nats; Brier score "
                f"{disputed.brier_agreed:.4f} on the half of the triples with the least disagreement, "
                f"{disputed.brier_disputed:.4f} on the other half"
            )
        heading = f"{self.dataset}: {len(self.members)} models, {_words(negatives)} negatives"
        return ResultTable(heading, rows, ("model",), notes)

    def to_json(self) -> dict[str, Any]:
        """Return the keys dataset, members, pools, ensembles, notes, metrics, intervals, run, miscalibrated, briefs."""
        return {
            "dataset": self.dataset,
            "members": [asdict(member) for member in self.members],
            "pools": list(self.pools),
            "ensembles": {label: pooled.to_json() for label, pooled in self.ensembles.items()},
            "notes": list(self.notes),
            **self.results.to_json(),
            **({"run": self.run} if self.run else {}),
            **({"miscalibrated": dict(self.miscalibrated)} if self.miscalibrated else {}),
            **({"briefs": {label: asdict(brief) for label, brief in self.briefs.items()}} if self.briefs else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EnsembleSummary":
        """Read the output of `to_json`."""
        return cls(
            dataset=data["dataset"],
            members=tuple(MemberSummary(**member) for member in data["members"]),
            pools=tuple(data["pools"]),
            ensembles={label: PooledSummary.from_json(pooled) for label, pooled in data["ensembles"].items()},
            notes=tuple(data["notes"]),
            results=Results.from_json(data),
            run=data.get("run", ""),
            miscalibrated=data.get("miscalibrated", {}),
            briefs={label: Brief(**brief) for label, brief in data.get("briefs", {}).items()},
        )


def _words(name: str) -> str:
    """Replace the underscores of a name by spaces. `log_odds` becomes `log-odds`."""
    return name.replace("log_odds", "log-odds").replace("_", " ")
