"""The counts of a data set: the check against those that its declaration states, and the rows that splits share."""

from kgcore.arrays import Ints
from kgcore.datasets.base import DatasetSpec
from kgcore.errors import InputError
from kgcore.graph import SPLITS, TripleIndex

# At most this share of a held-out split's positives may be in another split too, and at most this share of a split's
# negatives may be positives of the split too. A larger share shows that one file is a copy of the other.
LARGEST_OVERLAP = 0.2


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


def count_overlaps(distinct: dict[str, Ints], entities: int, predicates: int, counts: dict[str, int]) -> None:
    """Count the positives that two splits share, and the negatives that are true, among distinct rows.

    The function adds the results to `counts`. A negative is true if a split has it as a positive.

    Raises InputError if more than the share `LARGEST_OVERLAP` of a held-out split's positives are in another split too.
    """
    true = {name: part[part[:, 3] == 1, :3] for name, part in distinct.items()}
    false = {name: part[part[:, 3] == 0, :3] for name, part in distinct.items()}
    index = {name: TripleIndex(triples, entities, predicates) for name, triples in true.items()}
    for name, other in (("valid", "train"), ("test", "train"), ("valid", "test")):
        shared = counts[f"{name}_positives_in_{other}"] = int(index[other].contains(true[name]).sum())
        smaller = name if other == "train" or len(true[name]) <= len(true[other]) else other
        if shared > LARGEST_OVERLAP * len(true[smaller]):
            raise InputError(
                f"{shared:,} of {len(true[smaller]):,} positives of {smaller} are also in "
                f"{other if smaller == name else name}: a held-out split must not contain the triples of another split"
            )
    for name in ("valid", "test"):
        for other in SPLITS:
            counts[f"{name}_negatives_true_in_{other}"] = int(index[other].contains(false[name]).sum())
