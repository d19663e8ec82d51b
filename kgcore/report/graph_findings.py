"""What the data of a graph mean for the figures that follow, one sentence for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgcore.config.choices import RANDOM
from kgcore.datasets.twins import MOST_FACTS, SHARE
from kgcore.graph import KnowledgeGraph
from kgcore.report.data import split_sentence
from kgcore.report.graph_shape import Confidences, GraphShape
from kgcore.report.html import html

FEW = 0.05  # a smaller share of test positives that follow from train is no warning
SPARSE = 2  # a median number of facts per entity up to this is a warning
FEW_VALUES = 10  # confidences with so few distinct values are classes rather than a scale
MOST_CERTAIN = 0.9  # with a larger share of the confidences 0 or 1, they are hardly more than labels
MOST_ROWS = 200  # predicates and pairs of predicates that the page shows


@dataclass(frozen=True)
class Finding:
    """A figure of the data.

    figure   what was found
    meaning  what it means for the figures that follow
    warns    whether the terminal shows it, too
    """

    title: str
    figure: str
    meaning: str
    warns: bool = False


def findings(
    graph: KnowledgeGraph, shape: GraphShape, counts: Mapping[str, int], split: str = RANDOM, drawn: str = ""
) -> list[Finding]:
    """Return the findings about a graph.

    counts  the counts of its files: see `Prepared`
    split   the setting `split`
    drawn   what valid and test have in common, if they were drawn by a rule
    """
    how = _drawn(counts, split, drawn) if "drawn_from_rows" in counts else []
    return [*_splits(graph, counts), *how, *_shape(graph, shape), *_leaks(graph, shape, counts)]


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
    false = sum(counts.get(f"{name}_negatives_true_in_train", 0) for name in ("valid", "test"))
    shared = sum(counts.get(f"{name}_positives_in_train", 0) for name in ("valid", "test"))
    if shape.twins is None:
        twins = Finding(
            "Inverse and duplicate predicates",
            f"not compared: the graph has more than {MOST_FACTS:,} facts",
            "Test triples may follow from train by an inverse predicate.",
        )
    else:
        drawn = "drawn_from_rows" in counts
        meaning = (
            "All of them stay in one split with their twins, so that no test triple follows from a training fact."
            if drawn
            else "A model only has to remember these, as in FB15K and WN18: the figures are better than for new facts."
        )
        leaks = (
            ""
            if drawn
            else f"; {shape.leaking:,} of {test:,} true test triples follow from a training fact by an inverse, a "
            "duplicate or a symmetric predicate"
        )
        twins = Finding(
            "Inverse and duplicate predicates",
            f"{len(shape.twins):,} pairs and {shape.symmetric:,} symmetric predicates: {shape.twin_facts:,} of "
            f"{shape.facts:,} facts follow from another one{leaks}",
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
        Finding(
            "Labelled negatives that are training facts",
            f"{false:,}",
            "A triple cannot be both: one of its labels is wrong, and the figures count it as the model's mistake.",
            false > 0,
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
        twins=(shape.twins or ())[:MOST_ROWS],
        pairs=len(shape.twins or ()),
        share=SHARE,
        confidences=confidences,
        confident=confidences.predicates[:MOST_ROWS] if confidences else (),
    )
