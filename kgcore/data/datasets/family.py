"""family: a generated world of families. Every triple is known: what is not a fact is false.

The world has counties of at most `COUNTY` people over four generations. No fact connects two counties. Therefore
counties are generated one by one, in bounded memory, and the facts of one county show whether a triple is true. A fixed
share of the facts is in no split, because in real data many facts are missing too. A labelled negative is a fact whose
subject or object is replaced by another entity of the same type and county. Each negative is verified to be false.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from kgcore.arrays import Bools, Ints, Triples
from kgcore.data.datasets.base import DatasetSpec, SplitFile
from kgcore.data.graph import TripleIndex
from kgcore.registries import DATASETS

PREDICATES = (
    *("parent_of", "spouse_of", "sibling_of", "grandparent_of", "uncle_or_aunt_of", "cousin_of"),
    *("born_in", "lives_in", "works_for", "located_in"),
)
SHARES = {"train": 0.65, "valid": 0.15, "test": 0.10, "hidden": 0.10}
COUNTY = 2_000
GENERATIONS = 4
PEOPLE_PER_TOWN, PEOPLE_PER_COMPANY = 40, 20


@dataclass(frozen=True)
class County:
    """An independent part of the world. Ids are positions in `entities`.

    entities   names: people, then towns, then companies
    facts      (n, 3) all true triples
    split      (n,)   the split of each fact, as a position in SHARES. Facts of the last split, hidden, are in no file
    negatives  split -> (m, 3) verified false triples, one for each fact of valid and test
    """

    entities: npt.NDArray[np.str_]
    facts: Triples
    split: Ints
    negatives: dict[str, Triples]

    def of(self, split: str) -> Triples:
        """Return the facts of one split: train, valid, test or hidden."""
        facts: Triples = self.facts[self.split == list(SHARES).index(split)]
        return facts


def generate(size: int, seed: int) -> Iterator[County]:
    """Yield the counties of a world of `size` people. The same size and seed give the same world on every machine."""
    counties = -(-size // COUNTY)
    bounds = np.linspace(0, size, counties + 1).astype(int)
    for number, child in enumerate(np.random.SeedSequence(seed).spawn(counties)):
        yield _county(int(bounds[number]), int(bounds[number + 1]), number, np.random.default_rng(child))


def write_genealogy(folder: Path, size: int, seed: int) -> None:
    """Write train.txt, valid.txt and test.txt, tab-separated; valid and test have a 4th column, 1 or -1."""
    options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    columns = [(name, pa.string()) for name in ("s", "p", "o")]
    schemas = {"train": pa.schema(columns)}
    schemas |= dict.fromkeys(("valid", "test"), pa.schema([*columns, ("label", pa.string())]))
    writers = {s: pa.csv.CSVWriter(folder / f"{s}.txt", schema, write_options=options) for s, schema in schemas.items()}
    predicates = pa.array(PREDICATES)
    for county in generate(size, seed):
        entities = pa.array(county.entities.tolist())
        for split, writer in writers.items():
            for label, triples in (("1", county.of(split)), ("-1", county.negatives.get(split))):
                if triples is None:
                    continue
                s, p, o = (pa.array(column) for column in triples.T)
                values = [entities.take(s), predicates.take(p), entities.take(o)]
                if split != "train":
                    values.append(pa.array([label] * len(triples)))
                writer.write_table(pa.Table.from_arrays(values, schema=schemas[split]))
    for writer in writers.values():
        writer.close()


def _county(first: int, last: int, number: int, rng: np.random.Generator) -> County:
    """Generate county `number`, with the people `first` to `last` - 1."""
    people = last - first
    towns, companies = max(2, people // PEOPLE_PER_TOWN), max(2, people // PEOPLE_PER_COMPANY)
    parts = [np.arange(people), people + np.arange(towns), people + towns + np.arange(companies)]
    names = [f"person_{first + i}" for i in range(people)]
    names += [f"town_{number}_{i}" for i in range(towns)] + [f"company_{number}_{i}" for i in range(companies)]
    facts = _facts(people, parts[1], parts[2], rng)
    split = rng.choice(len(SHARES), size=len(facts), p=list(SHARES.values()))
    kind = np.repeat(np.arange(3), [len(ids_of_kind) for ids_of_kind in parts])
    truth = TripleIndex(facts, len(names), len(PREDICATES))
    negatives = {
        name: _falsify(facts[split == list(SHARES).index(name)], parts, kind, truth, rng) for name in ("valid", "test")
    }
    return County(np.array(names), facts, split, negatives)


@dataclass(frozen=True)
class _Families:
    """The relationships of the people in a county. The ids of people are 0 to the number of people - 1.

    parents            (n, 2) one row per parent and child: parent, child
    family             (people,) number of the couple that are the person's parents; -1 in the first generation
    spouse             (people,) the spouse of each person; -1 for unmarried people
    home, birthplace   (people,) the town where each person lives, and the town of birth
    """

    parents: Ints
    family: Ints
    spouse: Ints
    home: Ints
    birthplace: Ints


def _families(people: int, towns: Ints, rng: np.random.Generator) -> _Families:
    """Draw births, homes and marriages for one generation after another."""
    generation = np.sort(np.arange(people) % GENERATIONS)
    female = rng.random(people) < 0.5
    family = np.full(people, -1)
    spouse = np.full(people, -1)
    home, birthplace = np.full(people, -1), np.full(people, -1)
    couples = np.zeros((0, 2), dtype=np.int64)  # (mother, father)
    parents = np.zeros((0, 2), dtype=np.int64)
    for g in range(GENERATIONS):
        members = np.flatnonzero(generation == g)
        if g and len(couples):
            born_to = rng.integers(len(couples), size=len(members))
            family[members] = born_to + people * g
            mother, father = couples[born_to].T
            parents = np.concatenate([parents, np.c_[mother, members], np.c_[father, members]])
            birthplace[members] = home[mother]
        else:
            birthplace[members] = rng.choice(towns, len(members))
        moved = rng.random(len(members)) < 0.3
        home[members] = np.where(moved, rng.choice(towns, len(members)), birthplace[members])
        women, men = (rng.permutation(members[female[members] == f]) for f in (True, False))
        pairs = min(len(women), len(men))
        couples = np.c_[women[:pairs], men[:pairs]]
        if g:
            couples = couples[family[couples[:, 0]] != family[couples[:, 1]]]
        spouse[couples[:, 0]], spouse[couples[:, 1]] = couples[:, 1], couples[:, 0]
        home[couples[:, 1]] = home[couples[:, 0]]
    return _Families(parents, family, spouse, home, birthplace)


def _jobs(home: Ints, towns: Ints, companies: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw the employer of every person and the town of every company. Most people work in the town where they live."""
    seat = rng.choice(towns, len(companies))
    employer = rng.choice(companies, len(home))
    local = rng.random(len(home)) < 0.8
    by_town = np.argsort(seat, kind="stable")
    low, high = np.searchsorted(seat[by_town], home), np.searchsorted(seat[by_town], home, side="right")
    has_local = local & (high > low)
    employer[has_local] = companies[by_town[rng.integers(low[has_local], high[has_local])]]
    return employer, seat


def _facts(people: int, towns: Ints, companies: Ints, rng: np.random.Generator) -> Triples:
    """Return all true triples of a county (n, 3), in random order."""
    drawn = _families(people, towns, rng)
    employer, seat = _jobs(drawn.home, towns, companies, rng)
    everyone, married = np.arange(people), np.flatnonzero(drawn.spouse >= 0)
    born = np.flatnonzero(drawn.family >= 0)
    siblings = _join(np.c_[born, drawn.family[born]], np.c_[drawn.family[born], born])
    siblings = siblings[siblings[:, 0] != siblings[:, 1]]
    uncles = _join(siblings, drawn.parents)
    cousins = _join(drawn.parents[:, ::-1], uncles)
    pairs_of = {
        "parent_of": drawn.parents,
        "spouse_of": np.c_[married, drawn.spouse[married]],
        "sibling_of": siblings,
        "grandparent_of": _join(drawn.parents, drawn.parents),
        "uncle_or_aunt_of": uncles,
        "cousin_of": cousins[cousins[:, 0] != cousins[:, 1]],
        "born_in": np.c_[everyone, drawn.birthplace],
        "lives_in": np.c_[everyone, drawn.home],
        "works_for": np.c_[everyone, employer],
        "located_in": np.c_[companies, seat],
    }
    triples = [
        np.c_[s, np.full(len(s), PREDICATES.index(name)), o] for name, (s, o) in ((n, p.T) for n, p in pairs_of.items())
    ]
    return rng.permutation(np.unique(np.concatenate(triples), axis=0))


def _join(left: Ints, right: Ints) -> Ints:
    """Return all pairs (x, z) with (x, y) in left and (y, z) in right, in O(matches) time."""
    right = right[np.argsort(right[:, 0], kind="stable")]
    low = np.searchsorted(right[:, 0], left[:, 1])
    counts = np.searchsorted(right[:, 0], left[:, 1], side="right") - low
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    pairs: Ints = np.c_[np.repeat(left[:, 0], counts), right[np.repeat(low, counts) + offsets, 1]]
    return pairs


def _falsify(facts: Triples, parts: list[Ints], kind: Ints, truth: TripleIndex, rng: np.random.Generator) -> Triples:
    """Make one false triple per fact: replace a subject or object by random entities of its type until it is false."""
    false, column = facts.copy(), np.where(rng.random(len(facts)) < 0.5, 0, 2)
    wrong: Bools = np.ones(len(facts), dtype=bool)
    while wrong.any():
        rows = np.flatnonzero(wrong)
        types = kind[facts[rows, column[rows]]]
        lengths, starts = np.array([len(p) for p in parts]), np.array([p[0] for p in parts])
        false[rows, column[rows]] = starts[types] + rng.integers(lengths[types])
        wrong[rows] = truth.contains(false[rows])
    return false


DATASETS.add(
    "family",
    DatasetSpec(
        name="family",
        title="generated genealogy, the truth of every triple is known (any size)",
        generate=write_genealogy,
        labelled=True,
        as_published=True,
        files={split: SplitFile(f"{split}.txt") for split in ("train", "valid", "test")},
    ),
)
