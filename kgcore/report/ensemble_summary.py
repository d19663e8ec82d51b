"""The summary of an ensemble's run, and its JSON in summary.json."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kgcore.ensembles.disagreement import Disputed
from kgcore.report.columns import first_table
from kgcore.report.results import Results


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
    """

    dataset: str
    members: tuple[MemberSummary, ...]
    pools: tuple[str, ...]
    ensembles: dict[str, PooledSummary]
    notes: tuple[str, ...]
    results: Results
    run: str = ""
    miscalibrated: Mapping[str, str] = field(default_factory=dict)

    def pooled(self, negatives: str, pool: str) -> PooledSummary:
        """Return the ensemble that a pool makes from members calibrated with these negatives."""
        return self.ensembles[f"{negatives}.{pool}"]

    def to_json(self) -> dict[str, Any]:
        """Return the keys dataset, members, pools, ensembles, notes, metrics, intervals, run, and miscalibrated."""
        return {
            "dataset": self.dataset,
            "members": [asdict(member) for member in self.members],
            "pools": list(self.pools),
            "ensembles": {label: pooled.to_json() for label, pooled in self.ensembles.items()},
            "notes": list(self.notes),
            **self.results.to_json(),
            **({"run": self.run} if self.run else {}),
            **({"miscalibrated": dict(self.miscalibrated)} if self.miscalibrated else {}),
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
        )


def ensemble_markdown(summary: EnsembleSummary) -> str:
    """Return Markdown: the table of members and ensembles, sentences on disagreement, and the members' run ids."""
    heads = column_heads(summary)
    lines = [f"| {' | '.join(['negatives', 'model', *heads])} |", "|---|---|" + "---|" * len(heads)]
    for row in summary.results.rows:
        cells = row.texts(first_table()) + weight_cells(summary, row.negatives, row.calibrator)
        lines.append(f"| {' | '.join([words(row.negatives), row_title(summary, row.calibrator), *cells])} |")
    lines.append("")
    for negatives in summary.results.negatives:
        lines += [f"* {words(negatives)}, {line}" for line in disputes(summary, negatives)]
    members = ", ".join(f"{member.name} `{member.calibrate}`" for member in summary.members)
    return "\n".join([*lines, "", f"Members: {members}"])


def column_heads(summary: EnsembleSummary) -> list[str]:
    """Return the headings of the columns with numbers: the metrics, and for each pool the weight of a member."""
    return [words(metric) for metric in first_table()] + [f"{words(pool)}, weight" for pool in summary.pools]


def row_title(summary: EnsembleSummary, name: str) -> str:
    """Return the title of a row: the name of a member, or `ensemble, ` and the name of the pool."""
    return f"ensemble, {words(name)}" if name in summary.pools else name


def weight_cells(summary: EnsembleSummary, negatives: str, name: str) -> list[str]:
    """Return the weight of a model in each pool, as text: empty if the model is not a member, as an ensemble is not."""
    weights = [summary.pooled(negatives, pool).weights for pool in summary.pools]
    return [f"{pool_weights[name]:.3f}" if name in pool_weights else "" for pool_weights in weights]


def disputes(summary: EnsembleSummary, negatives: str) -> list[str]:
    """Describe each ensemble in a sentence: the disagreement of its members, and its error."""
    pools = [(pool, summary.pooled(negatives, pool).disputed) for pool in summary.pools]
    return [
        f"{words(pool)}: members disagree by {disputed.disagreement:.4f} nats; Brier score "
        f"{disputed.brier_agreed:.4f} on the half of the triples with the least disagreement, "
        f"{disputed.brier_disputed:.4f} on the other half"
        for pool, disputed in pools
    ]


def words(name: str) -> str:
    """Replace the underscores of a name by spaces. `log_odds` becomes `log-odds`."""
    return name.replace("log_odds", "log-odds").replace("_", " ")
