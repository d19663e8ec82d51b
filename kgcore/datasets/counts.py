"""The check of a data set's counts against those that its declaration states."""

from kgcore.datasets.base import DatasetSpec
from kgcore.errors import InputError


def check_counts(spec: DatasetSpec, counts: dict[str, int]) -> None:
    """Raise InputError if a count differs from the declared count."""
    wanted = spec.counts
    found = {
        "train_rows": counts["train_rows"],
        "train_distinct": counts["train_rows"] - counts["train_duplicates"],
        "entities": counts["entities_in_all_files" if wanted.entities_in_all else "entities"],
        "predicates": counts["predicates"],
    }
    for name, value in found.items():
        expected = getattr(wanted, name)
        if expected is not None and value != expected:
            raise InputError(f"{spec.name} has {value:,} {name.replace('_', ' ')}: it must have {expected:,}")
