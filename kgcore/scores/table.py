"""The score table: triples, labels, scores, and the origin of each row. It is the input of every later stage."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Labels, Probabilities, Scores, Triples, Weights
from kgcore.base_rate import BaseRate
from kgcore.config.calibrate import combines_labels
from kgcore.data.completeness import Completeness
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Corruptions
from kgcore.errors import MismatchError

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

LABELLED, CORRUPTION, SEARCHED = "labelled", "corruption", "searched"
LEAST_HITS, FEWEST_HIT = 0.01, 50  # the least sum of the hits, and validation facts with hits, that are many


@dataclass(frozen=True)
class ScoreTable:
    """Scored rows of the validation and test splits: of a graph, or of a file: kgcore/wings/external/rows.py.

    triples (n, 3), labels (n,) 0/1, scores (n,). In a file, a triple is (0, relation, 0)
    split   (n,) valid or test
    origin  (n,) labelled = the label comes from the data set; corruption = generated, and assumed to be false; searched
            = a corruption that was found by its high score (kgcore/scores/search.py). Only calibrators use these
    model, dataset  fingerprints of the model and of the data set
    labelled_base_rate
            share of true triples that the labelled validation rows are weighted to: see `KnowledgeGraph`. None: all
            their weights are 1
    weights (n,) the number of drawn corruptions that each corruption stands for, above 0: see `every_corruption`. It is
            1 for labelled rows of a graph, and 0 for a draw that searched rows replace. None: 1 for all rows
    concentrations
            (n,) for a row that stands for corruptions that were left out: the sum of their squared weights, divided by
            the square of the sum of their weights. It is 1 / k for k equal ones, and 1 for a row that stands only for
            itself. None: 1 for all rows
    raw     (n,) raw scores f, if `scores` are normalised by a cohort; None: `scores` are the raw scores
    confidences
            (n,) in [0, 1]: the confidences of the triples, or their labels in a split without confidences; 0 for a
            corruption. None: no split has confidences
    hits    (n, 2) for a validation positive, how often it would be among the corruptions, by replaced side: see
            `Corruptions`. 0 for other rows. None: not counted, because known facts were not left out
    cold    column, 0 or 2, of the entities that valid and test do not share: see kgcore/config/base.py. None: they
            share all
    hidden_log_odds
            (n,) for a validation positive with hits, and for a corruption of valid: log-odds of the evidence that it is
            a true triple, and not a false corruption: see kgcore/combiners/hidden.py. NaN for other rows.
            None: there are few hits
    completeness
            what the user states about facts that no split has, for the estimate of hidden facts; not stored. None:
            nothing
    relations
            names of the relations, by number, of a file that has a column of them; a graph has its own names
    """

    triples: Triples
    labels: Labels
    scores: Scores
    split: npt.NDArray[np.str_]
    origin: npt.NDArray[np.str_]
    model: str
    dataset: str
    labelled_base_rate: BaseRate | None = None
    raw: Scores | None = None
    confidences: Probabilities | None = None
    weights: Weights | None = None
    concentrations: Floats | None = None
    hits: Floats | None = None
    cold: int | None = None
    hidden_log_odds: Floats | None = None
    completeness: Completeness | None = None
    relations: tuple[str, ...] = ()

    @property
    def truth(self) -> Probabilities:
        """The confidences (n,), or the labels if there are none: what probabilities of stored rows are measured by."""
        return self.labels if self.confidences is None else self.confidences

    def soft(self, split: str) -> bool:
        """Return whether the rows of a split have confidences: whether one of them differs from its label."""
        return self.confidences is not None and bool((self.confidences != self.labels)[self.rows(split)].any())

    def __len__(self) -> int:
        return len(self.scores)

    def rows(self, split: str, origin: str | None = None, label: int | None = None) -> Bools:
        """Return the mask (n,) of the rows of a split: all of them, or only those with this origin and this label."""
        mask: Bools = self.split == split
        if origin is not None:
            mask = mask & (self.origin == origin)
        if label is not None:
            mask = mask & (self.labels == label)
        return mask

    def labelled_negatives(self, split: str) -> bool:
        """Return whether the split has labelled negatives."""
        return bool(self.rows(split, LABELLED, 0).any())

    @property
    def labelled_share(self) -> float | None:
        """The value of `labelled_base_rate`; None: all weights of labelled rows are 1."""
        return None if self.labelled_base_rate is None else self.labelled_base_rate.value

    @property
    def combines_labels(self) -> bool:
        """Whether combiners are fitted to the labelled rows of valid: enough of them are negatives."""
        return combines_labels(int(self.rows("valid", LABELLED, 0).sum()))

    def judged_alone(self, split: str) -> bool:
        """Return whether the labelled rows of a split can be measured without corruptions.

        They can if negatives are labelled, or if the rows have confidences.
        """
        return self.labelled_negatives(split) or self.soft(split)

    def measured(self, split: str) -> Bools:
        """Return a mask (n,) of the rows for a split's metrics.

        These are the labelled rows if negatives are labelled, or if the rows have confidences; else all rows. If the
        negatives are corruptions, positives of a relation without corruptions are left out: they have no
        counterpart. Searched rows are left out, because here the draws count the same.
        """
        if self.judged_alone(split):
            return self.rows(split, LABELLED)
        rows = self.rows(split) & (self.origin != SEARCHED)
        corrupted = self.triples[rows & (self.labels == 0), 1]
        counterpart: Bools = rows & np.isin(self.triples[:, 1], corrupted)
        return counterpart

    @property
    def searched(self) -> bool:
        """Whether there are searched rows. Then each draw stands for many corruptions."""
        return bool((self.origin == SEARCHED).any())

    def corruptions(self) -> Bools:
        """Return the mask (n,) of the corruptions of valid that calibrators are fitted to."""
        used = self.rows("valid", CORRUPTION) | self.rows("valid", SEARCHED)
        if self.weights is not None:
            used = used & (self.weights > 0)
        return used

    def positives(self, weighted: bool) -> Bools:
        """Return the mask of the positives of valid that are calibrated with the corruptions.

        weighted  whether the corruptions are weighted to a base rate. Then positives of a relation without corruptions
                  are left out
        """
        positives = self.rows("valid", LABELLED, 1)
        return positives & np.isin(self.triples[:, 1], self.triples[self.corruptions(), 1]) if weighted else positives

    @property
    def many_hits(self) -> bool:
        """Whether hits are so many that hidden facts matter, and that evidence about them can be learned."""
        if self.hits is None or not self.corruptions().any():
            return False
        hits = self.hits[self.rows("valid", LABELLED, 1)]
        return float(hits.sum()) >= LEAST_HITS and int(hits.any(axis=1).sum()) >= FEWEST_HIT

    def search_figures(self) -> dict[str, float]:
        """Return the number of corruptions that were looked at, and of those that were kept; empty without a search."""
        if self.weights is None or not self.searched:
            return {}
        weight = self.weights[self.corruptions()].sum()
        return {"looked_at": float(round(weight)), SEARCHED: float((self.origin == SEARCHED).sum())}

    def without_search(self) -> Self:
        """Return the table as it was before the search: all draws, which are the same for every model."""
        if not self.searched:
            return self
        return replace(self.part(self.origin != SEARCHED), weights=None, concentrations=None)

    def part(self, rows: Bools | Ints) -> Self:
        """Return some rows: a mask (n,), or their positions."""
        columns = {name: column[rows] for name, column in vars(self).items() if isinstance(column, np.ndarray)}
        return replace(self, **columns)  # type: ignore[arg-type]  # the fields that are arrays

    def left_out(self, split: str) -> int:
        """Return the number of positives that `measured` leaves out because their relation has no corruptions."""
        return 0 if self.judged_alone(split) else int((self.rows(split, LABELLED) & ~self.measured(split)).sum())


def score_table(
    graph: KnowledgeGraph, corruptions: dict[str, Corruptions], trained: "TrainedModel", cold: int | None = None
) -> ScoreTable:
    """Score the triples of valid and test, and their corruptions (split -> corruptions).

    cold  as in `ScoreTable`

    Raises MismatchError if the model and the graph have different numbers of entities or predicates.
    """
    sizes = trained.sizes
    if sizes != (len(graph.entities), len(graph.predicates)):
        raise MismatchError(
            f"the model knows {sizes[0]:,} entities and {sizes[1]:,} predicates, but the graph {graph.name} "
            f"has {len(graph.entities):,} and {len(graph.predicates):,}: use the graph that the model was trained on"
        )
    parts: list[tuple[Split, str, str]] = [(graph.valid, "valid", LABELLED), (graph.test, "test", LABELLED)]
    for split, made in corruptions.items():
        parts.append((Split(made.triples, np.zeros(len(made.triples))), split, CORRUPTION))
    triples = np.concatenate([part.triples for part, _, _ in parts])
    lengths = [len(part) for part, _, _ in parts]
    own = [None, None, *(made.weights for made in corruptions.values())]
    counts = [np.ones(n) if some is None else some for some, n in zip(own, lengths, strict=True)]
    hits = corruptions["valid"].hits if "valid" in corruptions else None
    raw = trained.raw_score(triples)
    uncertain = any(part.confidences is not None for part, _, _ in parts)
    return ScoreTable(
        triples=triples,
        labels=np.concatenate([part.labels for part, _, _ in parts]),
        scores=trained.normalise(raw, triples),
        split=np.repeat([split for _, split, _ in parts], lengths),
        origin=np.repeat([origin for _, _, origin in parts], lengths),
        model=trained.fingerprint(),
        dataset=graph.fingerprint(),
        labelled_base_rate=graph.labelled_base_rate,
        raw=None if trained.cohort is None else raw,
        confidences=np.concatenate([part.truth for part, _, _ in parts]) if uncertain else None,
        weights=None if all(some is None for some in own) else np.concatenate(counts),
        hits=None if hits is None else _of_positives(graph.valid, hits, sum(lengths)),
        cold=cold,
    )


def _of_positives(valid: Split, hits: Floats, rows: int) -> Floats:
    """Return the hits (n, 2) of the rows of a table that begins with the triples of valid."""
    every = np.zeros((rows, 2))
    every[np.flatnonzero(valid.labels == 1)] = hits
    return every


@dataclass(frozen=True)
class Evidence:
    """What is known of n triples beside their scores: columns of features (kgcore/evidence).

    names   (d) names of the features
    values  (n, d) float32; NaN: not known
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> "Evidence":
        """Return the rows that a mask or positions choose, in this order."""
        return Evidence(self.names, self.values[rows])


@dataclass(frozen=True)
class TableEvidence:
    """The evidence of some rows of a score table.

    rows      (m,) ascending positions in the score table
    evidence  of these rows
    groups    registered names of its groups
    others    fingerprints of the further models whose scores are among it
    """

    rows: Ints
    evidence: Evidence
    groups: tuple[str, ...]
    others: tuple[str, ...] = ()

    def at(self, mask: Bools) -> Evidence:
        """Return the evidence of the rows of the score table that a mask chooses.

        Raises MismatchError if a row has no evidence.
        """
        wanted = np.flatnonzero(mask)
        places = np.searchsorted(self.rows, wanted)
        found = (places < len(self.rows)) & (np.append(self.rows, -1)[places.clip(max=len(self.rows))] == wanted)
        if not found.all():
            raise MismatchError(
                f"{int((~found).sum()):,} rows of the score table have no evidence: run the stage evidence again"
            )
        return self.evidence.rows(places)
