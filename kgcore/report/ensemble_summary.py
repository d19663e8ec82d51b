"""The summary of an ensemble's run, and its JSON, summary.json."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kgcore.ensembles.disagreement import Disputed
from kgcore.report.results import Results


@dataclass(frozen=True)
class MemberSummary:
    """A member of an ensemble.

    name              unique name of the member, also in the rows of the results
    model, loss, seed settings of its training
    train, calibrate  MLflow run ids of the two stages
    model_id          MLflow's id of the embedding model
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
    """One ensemble.

    weights   member -> its weight in the pool
    disputed  the disagreement of the members, and the error of the ensemble on agreed and on disputed triples
    """

    weights: dict[str, float]
    disputed: Disputed

    def to_json(self) -> dict[str, Any]:
        """{weights, disagreement, brier_agreed, brier_disputed}."""
        return {"weights": self.weights} | asdict(self.disputed)


@dataclass(frozen=True)
class EnsembleSummary:
    """The results of an ensemble's run.

    dataset    name of the data set
    members    the members, in the order of the pools' weights
    pools      names of the opinion pools
    ensembles  label, such as `ground_truth.linear`, -> the ensemble
    notes      important sentences for readers
    results    a row for each member and each pool
    run        MLflow run id; '' while it is unknown
    """

    dataset: str
    members: tuple[MemberSummary, ...]
    pools: tuple[str, ...]
    ensembles: dict[str, PooledSummary]
    notes: tuple[str, ...]
    results: Results
    run: str = ""

    def pooled(self, negatives: str, pool: str) -> PooledSummary:
        """The ensemble of a pool, fitted on these negatives."""
        return self.ensembles[f"{negatives}.{pool}"]

    def to_json(self) -> dict[str, Any]:
        """{dataset, members, pools, ensembles, notes, metrics, intervals, run}; without run while it is unknown."""
        return {
            "dataset": self.dataset,
            "members": [asdict(member) for member in self.members],
            "pools": list(self.pools),
            "ensembles": {label: pooled.to_json() for label, pooled in self.ensembles.items()},
            "notes": list(self.notes),
            **self.results.to_json(),
            **({"run": self.run} if self.run else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EnsembleSummary":
        """Read the output of `to_json`."""
        return cls(
            dataset=data["dataset"],
            members=tuple(MemberSummary(**member) for member in data["members"]),
            pools=tuple(data["pools"]),
            ensembles={label: _pooled(pooled) for label, pooled in data["ensembles"].items()},
            notes=tuple(data["notes"]),
            results=Results.from_json(data),
            run=data.get("run", ""),
        )


def _pooled(data: Mapping[str, Any]) -> PooledSummary:
    weights, disputed = data["weights"], {name: value for name, value in data.items() if name != "weights"}
    return PooledSummary(weights, Disputed(**disputed))
