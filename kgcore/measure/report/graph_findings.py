"""What the data of a graph mean for the figures that follow: its shape, and a sentence for each finding.

The shape are degrees, components, kinds of predicates, and predicates that repeat each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from kgcore.arrays import Floats, Ints, Probabilities, Triples, blocks, counted, repeated
from kgcore.config.base import RANDOM
from kgcore.data.datasets.prepare import Prepared
from kgcore.data.datasets.twins import SHARE, Families, Repeat, repeats_of
from kgcore.data.graph import Ends, KnowledgeGraph, components_of
from kgcore.measure.report import data
from kgcore.measure.report.curation import curator_findings
from kgcore.measure.report.data import Finding, drawn_notes, html, split_sentence, such_as

MANY = 1.5  # a predicate is 1-to-n if a subject has this many objects on average (Bordes et al. 2013, section 4.3)
BINS = 10
FEW = 0.05  # a smaller share of test positives that follow from train is no warning
SPARSE = 2  # a median number of facts per entity up to this is a warning
FEW_VALUES = 10  # confidences with so few distinct values are classes rather than a scale
MOST_CERTAIN = 0.9  # with a larger share of the confidences 0 or 1, they are hardly more than labels
MOST_ROWS = 200  # predicates and pairs of predicates that the page shows


@dataclass(frozen=True)
class Predicate:
    """A predicate in train.

    objects, subjects  mean number of objects of a subject, and of subjects of an object
    symmetry           share of the facts (s, p, o) with different ends for which (o, p, s) is a fact too
    """

    name: str
    facts: int
    objects: float
    subjects: float
    symmetry: float

    @property
    def cardinality(self) -> str:
        """1-to-1, 1-to-n, n-to-1 or n-to-n."""
        return f"{'n' if self.subjects >= MANY else '1'}-to-{'n' if self.objects >= MANY else '1'}"


@dataclass(frozen=True)
class GraphShape:
    """The shape of the train split, and the twins among all facts.

    degrees      median, 90 % quantile and maximum of the number of facts of an entity
    single       share of the entities with one fact
    components   number of connected components
    largest      share of the entities in the largest component
    predicates   largest first
    twins        pairs of predicates that repeat each other
    symmetric    number of predicates most of whose facts hold both ways, among all facts
    facts        number of facts of all splits
    twin_facts   number of them that have a twin: the same two entities, by an inverse, duplicate or symmetric predicate
    leaking      number of test positives with a twin, or with subject and object exchanged, in train
    """

    degrees: tuple[int, int, int]
    single: float
    components: int
    largest: float
    predicates: tuple[Predicate, ...]
    twins: tuple[Repeat, ...]
    symmetric: int
    facts: int
    twin_facts: int
    leaking: int


def shape_of(graph: KnowledgeGraph) -> GraphShape:
    """Measure the train split of a graph, and count facts that follow from others by an inverse or duplicate.

    Which predicates repeat each other is seen in the facts of all splits, so that it does not depend on the split.
    """
    train, entities, predicates = graph.train.positives, len(graph.entities), len(graph.predicates)
    degrees = counted(train[:, 0], entities) + counted(train[:, 2], entities)
    median, ninety, most = (int(value) for value in np.quantile(degrees, (0.5, 0.9, 1.0), method="lower"))
    sizes = np.bincount(components_of(train, entities))
    kinds = _predicates(train, graph)  # with the index of train, before that of all facts is in memory
    facts = graph.all_known
    repeats = repeats_of(facts, entities, predicates)
    apart = [repeat for repeat in repeats if repeat.predicate != repeat.other]
    twin_facts = repeated(Families.of(repeats, predicates).keys(facts, entities, True))
    return GraphShape(
        degrees=(median, ninety, most),
        single=float((degrees == 1).mean()),
        components=len(sizes),
        largest=float(sizes.max() / entities),
        predicates=kinds,
        twins=tuple(sorted(apart, key=lambda twin: -twin.share)),
        symmetric=len(repeats) - len(apart),
        facts=len(facts),
        twin_facts=twin_facts,
        leaking=_leaking(graph, repeats),
    )


def _predicates(train: Triples, graph: KnowledgeGraph) -> tuple[Predicate, ...]:
    index, names = graph.index(train), graph.predicates
    facts, different, symmetric = (np.zeros(len(names), dtype=np.int64) for _ in range(3))
    for rows in blocks(len(train)):
        part = train[rows]
        apart = part[:, 0] != part[:, 2]
        mirrored = index.contains(part[:, [2, 1, 0]])
        for counts, of_kind in ((facts, part), (different, part[apart]), (symmetric, part[apart & mirrored])):
            counts += np.bincount(of_kind[:, 1], minlength=len(names))
    subjects, objects = (ends.numbers for ends in (Ends.of_subjects(index), Ends.of_objects(index)))
    per_subject, per_object = facts / np.maximum(subjects, 1), facts / np.maximum(objects, 1)
    columns = per_subject, per_object, symmetric / np.maximum(different, 1)
    order = np.argsort(-facts, kind="stable")
    return tuple(Predicate(names[p], int(facts[p]), *(float(c[p]) for c in columns)) for p in order)


def _leaking(graph: KnowledgeGraph, repeats: list[Repeat]) -> int:
    """Return how many test positives have a twin or their mirror image in train."""
    test, index = graph.test.positives, graph.index(graph.train.positives)
    leaks = index.contains(test[:, [2, 1, 0]]) & (test[:, 0] != test[:, 2])
    for repeat in repeats:
        rows = np.flatnonzero(test[:, 1] == repeat.predicate)
        s, o = (test[rows, end] for end in ((2, 0) if repeat.inverse else (0, 2)))
        leaks[rows] |= index.contains(np.stack([s, np.full_like(s, repeat.other), o], axis=1))
    return int(leaks.sum())


@dataclass(frozen=True)
class PredicateConfidences:
    """The confidences of the training triples of a predicate. `zeros` and `ones` are the shares of exactly 0 and 1."""

    name: str
    facts: int
    mean: float
    deviation: float
    zeros: float
    ones: float


@dataclass(frozen=True)
class Confidences:
    """The confidences of the training triples, all in [0, 1].

    shares       share of the triples in each of BINS bins of equal width
    quantiles    the 10 %, 50 % and 90 % quantiles
    values       number of distinct values
    zeros, ones  shares of exactly 0 and 1
    predicates   largest first
    constant     mean squared error of the mean confidence of train on the true triples of test
    by_relation  the same for the mean of each predicate
    """

    shares: tuple[float, ...]
    quantiles: tuple[float, float, float]
    values: int
    zeros: float
    ones: float
    predicates: tuple[PredicateConfidences, ...]
    constant: float
    by_relation: float


def confidences_of(graph: KnowledgeGraph) -> Confidences | None:
    """Measure the confidences of a graph. None: its training triples have none."""
    confidences = graph.train.confidences
    if confidences is None:
        return None
    predicates, size = graph.train.triples[:, 1], len(graph.predicates)
    counts = np.bincount(predicates, minlength=size)
    means = _means(predicates, confidences, counts)
    spread = np.sqrt(np.maximum(_means(predicates, (confidences - means[predicates]) ** 2, counts), 0))
    zeros, ones = (_means(predicates, (confidences == end).astype(np.float64), counts) for end in (0, 1))
    rows = (
        PredicateConfidences(graph.predicates[p], int(counts[p]), *(float(c[p]) for c in (means, spread, zeros, ones)))
        for p in np.argsort(-counts, kind="stable")
    )
    low, middle, high = (float(value) for value in np.quantile(confidences, (0.1, 0.5, 0.9)))
    true = graph.test if graph.test.confidences is not None else graph.test.part(graph.test.labels == 1)
    target = true.truth
    return Confidences(
        shares=tuple(float(share) for share in np.histogram(confidences, BINS, (0, 1))[0] / len(confidences)),
        quantiles=(low, middle, high),
        values=len(np.unique(confidences)),
        zeros=float((confidences == 0).mean()),
        ones=float((confidences == 1).mean()),
        predicates=tuple(rows),
        constant=float(((target - confidences.mean()) ** 2).mean()),
        by_relation=float(((target - means[true.triples[:, 1]]) ** 2).mean()),
    )


def _means(predicates: Ints, values: Probabilities, counts: Ints) -> Floats:
    """Return the mean of the values of each predicate; 0 for a predicate without triples."""
    return np.bincount(predicates, values, len(counts)) / np.maximum(counts, 1)


def findings(
    graph: KnowledgeGraph,
    shape: GraphShape,
    counts: Mapping[str, int],
    split: str = RANDOM,
    drawn: str = "",
    both: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Finding]:
    """Return the findings about a graph.

    counts  the counts of its files: see `Prepared`
    split   the setting `split`
    drawn   what valid and test have in common, if they were drawn by a rule
    both    split -> examples of its true triples that valid or test labels false
    """
    how = _drawn(counts, split, drawn) if "drawn_from_rows" in counts else []
    rows = [*_splits(graph, counts), data.few_validation_facts(graph), *how, *_shape(graph, shape)]
    rows += _leaks(graph, shape, counts)
    return [*rows, *curator_findings(graph, counts, both)]


def data_report(prepared: Prepared, split: str) -> tuple[str, list[str]]:
    """Return the page about a data set, and what to say of it. `split`: the setting."""
    graph, counts = prepared.graph, prepared.counts
    shape, confidences = shape_of(graph), confidences_of(graph)
    found = data.unread_findings(prepared.unread) + findings(graph, shape, counts, split, prepared.drawn, prepared.both)
    found += [*confidence_findings(confidences), *(Finding(*doubt, warns=True) for doubt in prepared.doubts)]
    notes = [*drawn_notes(counts, split, prepared.drawn), *prepared.dropped_notes()]
    notes += [f"{one.title}: {one.figure}. {one.meaning}" for one in found if one.warns]
    return graph_page(graph, shape, found, confidences), notes


def _drawn(counts: Mapping[str, int], split: str, drawn: str) -> list[Finding]:
    if split == RANDOM:
        meaning = (
            "The figures hold for facts like those that the graph has. If you will ask about newer facts, about "
            "entities without facts of the predicate, or about another source, give --split."
        )
    else:
        meaning = "Calibrators are fitted to valid, which is drawn as test is: the figures hold for facts of this kind."
    return [Finding("Split", split_sentence(counts, split, drawn), meaning)]


def _splits(graph: KnowledgeGraph, counts: Mapping[str, int]) -> list[Finding]:
    splits = {"valid": graph.valid, "test": graph.test}
    held = {name: (len(split.positives), len(split.negatives)) for name, split in splits.items()}
    texts = [f"{true:,} true and {false:,} false triples in {name}" for name, (true, false) in held.items()]
    unseen = counts.get("valid_with_unseen", 0) + counts.get("test_with_unseen", 0)
    repeated = sum(counts.get(f"{name}_duplicates", 0) for name in ("train", "valid", "test"))
    repeated += counts.get("drawn_from_duplicates", 0)
    smallest = min(true for true, _ in held.values())
    return [
        Finding(
            "Size",
            f"{len(graph.entities):,} entities, {len(graph.predicates):,} predicates, {len(graph.train):,} training "
            f"triples, {', '.join(texts)}",
            "Four times as many held-out triples make the intervals of the figures half as wide."
            + (" There are fewer than 200 in a split: the intervals are wide." if smallest < 200 else ""),
            smallest < 200,
        ),
        Finding("Duplicates", f"{repeated:,} rows", "Duplicate rows are dropped, so that no triple counts twice."),
        Finding(
            "Unknown names",
            f"{unseen:,} held-out rows have an entity or a predicate that is not in train",
            "These rows have no score and are dropped: the figures hold for names in train only.",
            unseen > 0,
        ),
    ]


def _shape(graph: KnowledgeGraph, shape: GraphShape) -> list[Finding]:
    median, ninety, most = shape.degrees
    symmetric = [predicate.name for predicate in shape.predicates if predicate.symmetry >= 0.5]
    many = sum(predicate.cardinality == "n-to-n" for predicate in shape.predicates)
    return [
        Finding(
            "Facts per entity",
            f"median {median:,}, 90 % at most {ninety:,}, maximum {most:,}; {shape.single:.0%} have one fact",
            "The embedding of an entity with few facts stays close to its random start: its scores are less certain.",
            median <= SPARSE,
        ),
        Finding(
            "Components",
            f"{shape.components:,}; the largest has {shape.largest:.1%} of the entities",
            "Training has no path between components: scores of triples across components say little.",
            shape.largest < 0.9,
        ),
        Finding(
            "Symmetric predicates",
            f"{len(symmetric):,} of {len(graph.predicates):,}",
            "TransE cannot model a symmetric predicate; DistMult, ComplEx and RotatE can.",
        ),
        Finding(
            "Predicates with many subjects and many objects",
            f"{many:,} of {len(graph.predicates):,}",
            "TransE gives all objects of a subject one place; bilinear models such as ComplEx separate them better.",
        ),
    ]


def _leaks(graph: KnowledgeGraph, shape: GraphShape, counts: Mapping[str, int]) -> list[Finding]:
    test = len(graph.test.positives)
    shared = sum(counts.get(f"{name}_positives_in_train", 0) for name in ("valid", "test"))
    together = "drawn_from_rows" in counts and not shape.leaking
    unseen = (
        " Nor does a validation fact. If the graph has the twin of a triple, calibrators that see evidence count how "
        "many training facts have one."
        if shape.twin_facts
        else ""
    )
    meaning = (
        f"All of them stay in one split with their twins, so that no test triple follows from a training fact.{unseen}"
        if together
        else "A model only has to remember these, as in FB15K and WN18: the figures are better than for new facts. "
        "One file, split at random, keeps these facts together."
    )
    leaks = (
        ""
        if together
        else f"; {shape.leaking:,} of {test:,} true test triples follow from a training fact by an inverse, a "
        "duplicate or a symmetric predicate"
    )
    names = graph.predicates
    kinds = {True: "inverse", False: "duplicate"}
    examples = [f"{names[twin.predicate]} and {names[twin.other]} ({kinds[twin.inverse]})" for twin in shape.twins]
    mirrored = sorted((one for one in shape.predicates if one.symmetry >= FEW), key=lambda one: -one.symmetry)
    examples += [f"{one.name} ({one.symmetry:.0%} of its facts both ways)" for one in mirrored]
    twins = Finding(
        "Inverse and duplicate predicates",
        f"{len(shape.twins):,} pairs and {shape.symmetric:,} symmetric predicates: {shape.twin_facts:,} of "
        f"{shape.facts:,} facts follow from another one{leaks}{such_as(examples)}",
        meaning,
        shape.leaking > FEW * test,
    )
    return [
        twins,
        Finding(
            "Held-out triples that are training facts",
            f"{shared:,}",
            "The model was fitted to them, so they are left out, except in the data sets of the paper.",
            shared > 0,
        ),
    ]


def confidence_findings(found: Confidences | None) -> list[Finding]:
    """Return the findings about the confidences; an empty list without confidences."""
    if found is None:
        return []
    low, middle, high = found.quantiles
    certain = found.zeros + found.ones
    return [
        Finding(
            "Confidences",
            f"median {middle:.3g}, 80 % from {low:.3g} to {high:.3g}; {found.values:,} different values",
            "The Brier score and the log loss are measured against them: a probability is right if it equals the "
            "expected confidence."
            + (" With so few values, they are classes rather than a scale." if found.values <= FEW_VALUES else ""),
        ),
        Finding(
            "Confidences of 0 and 1",
            f"{found.zeros:.1%} are 0, and {found.ones:.1%} are 1",
            "A triple with confidence 0 counts as false, and one with confidence 1 as true: training and the "
            "calibrators take them as sure."
            + (" Almost all are sure: the confidences say little more than labels." if certain > MOST_CERTAIN else ""),
            certain > MOST_CERTAIN,
        ),
        Finding(
            "Confidences without a model",
            f"on test, the mean confidence of train has the mean squared error {found.constant:.4f}, and the mean of "
            f"each predicate {found.by_relation:.4f}",
            "A Brier score (ground truth) of a model that knows more than the predicate is below the second figure.",
        ),
    ]


def graph_page(
    graph: KnowledgeGraph, shape: GraphShape, found: Sequence[Finding], confidences: Confidences | None = None
) -> str:
    """Return the page as HTML.

    found        the findings about the graph: see `findings` and `confidence_findings`
    confidences  the confidences of the training triples; None: they have none
    """
    return html(
        "graph_findings.html.j2",
        name=graph.name,
        names=graph.predicates,
        findings=found,
        predicates=shape.predicates[:MOST_ROWS],
        total=len(shape.predicates),
        twins=shape.twins[:MOST_ROWS],
        pairs=len(shape.twins),
        share=SHARE,
        confidences=confidences,
        confident=confidences.predicates[:MOST_ROWS] if confidences else (),
    )
