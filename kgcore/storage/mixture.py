"""The scores of a mixture as a parquet table, and the fit of a mixture as JSON."""

from pathlib import Path

import numpy as np

from kgcore.arrays import Bools, Ints
from kgcore.calibration.matched import Matched
from kgcore.mixture.samples import LabelledCandidates, MixtureData, ScoreSample
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.tables import read_table, write_table

POSITIVE, CORRUPTION, CANDIDATE, LABELLED = "positive", "corruption", "candidate", "labelled"
NONE = -1  # no group, no predicate or no label


def write_mixture(path: Path, data: MixtureData) -> None:
    """Write the columns kind, strategy, score, group, predicate and label, one row for each score.

    kind      positive, corruption, candidate, or labelled: a candidate with a label
    strategy  that of a corruption; '' for other rows
    group, predicate, label
              NONE if there is none. The label of a labelled candidate is 1 or 0
    """
    labels = data.labelled.labels.astype(np.int64)
    parts: list[tuple[str, str, ScoreSample, Ints | None]] = [(POSITIVE, "", data.positives, None)]
    parts += [(CORRUPTION, name, sample, None) for name, sample in data.negatives.items()]
    parts += [(CANDIDATE, "", data.candidates, None)]
    parts += [(LABELLED, "", data.labelled.sample, labels)] if len(labels) else []
    lengths = [len(sample) for _, _, sample, _ in parts]
    columns = {
        "kind": np.repeat([kind for kind, *_ in parts], lengths),
        "strategy": np.repeat([strategy for _, strategy, *_ in parts], lengths),
        "score": np.concatenate([sample.scores for _, _, sample, _ in parts]),
        "group": np.concatenate([_or_none(sample.groups, len(sample)) for _, _, sample, _ in parts]),
        "predicate": np.concatenate([_or_none(sample.predicates, len(sample)) for _, _, sample, _ in parts]),
        "label": np.concatenate([_or_none(own, len(sample)) for _, _, sample, own in parts]),
    }
    write_table(path, columns, {"strategies": list(data.negatives), "shared": data.shared})


def read_mixture(path: Path) -> MixtureData:
    """Read the output of `write_mixture`."""
    table, metadata = read_table(path)

    def sample(rows: Bools) -> ScoreSample:
        groups, predicates = (_given(table[name][rows]) for name in ("group", "predicate"))
        return ScoreSample(table["score"][rows], groups, predicates)

    kinds, strategies = table["kind"], table["strategy"]
    labelled = kinds == LABELLED
    return MixtureData(
        sample(kinds == POSITIVE),
        {name: sample((kinds == CORRUPTION) & (strategies == name)) for name in metadata["strategies"]},
        sample(kinds == CANDIDATE),
        LabelledCandidates(sample(labelled), table["label"][labelled].astype(np.float64)),
        metadata["shared"],
    )


def write_matched(path: Path, matched: Matched) -> None:
    """Write the fit as JSON."""
    write_json(path, matched.to_json())


def read_matched(path: Path) -> Matched:
    """Read the output of `write_matched`."""
    return Matched.from_json(read_json(path))


def _or_none(values: Ints | None, size: int) -> Ints:
    return np.full(size, NONE, dtype=np.int64) if values is None else values.astype(np.int64)


def _given(values: Ints) -> Ints | None:
    return None if (values == NONE).all() else values
