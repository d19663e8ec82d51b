"""Make a trained model from tables of embeddings, in the order of a graph's entities and predicates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kgcore.arrays import Ints
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.errors import InputError
from kgcore.wings.imports.files import Numbers

COMPLEX = ("complex", "rotate")  # models whose entities are complex vectors
MODULUS_TOLERANCE = 1e-3  # largest difference from 1 of the modulus of a rotation


@dataclass(frozen=True)
class Table:
    """A table of embeddings (rows, width), and where it was found.

    names  names of the rows; None: the rows are in the order of the graph
    """

    numbers: Numbers
    names: Sequence[str] | None
    place: str


@dataclass(frozen=True)
class Foreign:
    """A model of another library: its scoring function, its options, and its tables.

    layout  how complex numbers are stored in real columns: `halves` = all real parts, then all imaginary parts;
            `pairs` = the real and the imaginary part of each number side by side
    """

    model: str
    options: Mapping[str, float | bool]
    layout: str
    entities: Table
    relations: Table


@dataclass(frozen=True)
class Imported:
    """A model for a graph, and how many rows of the tables the graph has no name for."""

    model: TrainedModel
    unused_entities: int
    unused_relations: int


def check_widths(foreign: Foreign) -> int:
    """Return the embedding size k. Raises InputError if the widths of the tables do not fit each other or the model."""
    entities, relations = foreign.entities, foreign.relations
    size = _components(entities, foreign) if foreign.model in COMPLEX else _real_width(entities, foreign.model)
    if foreign.model == "complex":
        width, right = _components(relations, foreign), {size}
    elif foreign.model == "rotate":
        width = relations.numbers.shape[1]
        right = {size} if np.iscomplexobj(relations.numbers) else {size, 2 * size}
    else:
        width, right = _real_width(relations, foreign.model), {size}
    if width not in right:
        raise InputError(
            f"{relations.place} has rows of {relations.numbers.shape[1]} numbers, and {entities.place} of "
            f"{entities.numbers.shape[1]}: these do not fit in {foreign.model}, whose embedding size would be {size}"
        )
    for table in (entities, relations):
        if table.names is not None and len(table.names) != len(table.numbers):
            raise InputError(
                f"{table.place} has {len(table.numbers):,} rows, and there are {len(table.names):,} names for them: "
                "there must be as many"
            )
    return size


def import_model(foreign: Foreign, graph: KnowledgeGraph) -> Imported:
    """Return the model with its rows in the order of the graph. Rows without a name in the graph are left out.

    Raises InputError if the widths do not fit, if the graph has a name that the model does not have, or if the
    predicates of RotatE are not rotations.
    """
    k = check_widths(foreign)
    entity_rows = _rows(foreign.entities, graph.entities, "entity", "entities")
    relation_rows = _rows(foreign.relations, graph.predicates, "predicate", "predicates")
    entities, relations = foreign.entities.numbers[entity_rows], foreign.relations.numbers[relation_rows]
    if foreign.model in COMPLEX:
        entities = _halves(entities, foreign.layout)
    if foreign.model == "complex":
        relations = _halves(relations, foreign.layout)
    if foreign.model == "rotate" and (np.iscomplexobj(relations) or relations.shape[1] == 2 * k):
        relations = _phases(_halves(relations, foreign.layout), foreign.relations.place)
    tables = Embeddings(_tensor(entities), _tensor(relations))
    return Imported(
        TrainedModel(foreign.model, k, tables, foreign.options),
        len(foreign.entities.numbers) - len(entity_rows),
        len(foreign.relations.numbers) - len(relation_rows),
    )


def _real_width(table: Table, model: str) -> int:
    if np.iscomplexobj(table.numbers):
        raise InputError(f"{table.place} has complex numbers: those of {model} must be real")
    return int(table.numbers.shape[1])


def _components(table: Table, foreign: Foreign) -> int:
    """Return how many complex numbers a row has."""
    width = int(table.numbers.shape[1])
    if np.iscomplexobj(table.numbers):
        return width
    if width % 2:
        raise InputError(
            f"{table.place} has rows of {width} real numbers: {foreign.model} needs complex numbers, or an even number "
            "of real ones, the real and the imaginary parts"
        )
    return width // 2


def _rows(table: Table, wanted: Sequence[str], word: str, words: str) -> Ints:
    """Return the row of each name of the graph."""
    if table.names is None:
        if len(table.numbers) != len(wanted):
            option = "entities" if word == "entity" else "relations"
            raise InputError(
                f"{table.place} has {len(table.numbers):,} rows, but the graph has {len(wanted):,} {words}: without a "
                f"file of names, there must be a row for each, sorted by name (try --{option} FILE)"
            )
        return np.arange(len(wanted))
    places = {name: row for row, name in enumerate(table.names)}
    missing = [name for name in wanted if name not in places]
    if missing:
        raise InputError(
            f"{table.place} has no row for {len(missing):,} of {len(wanted):,} {words} of the graph, such as "
            f"{missing[0]!r}: every {word} of the training triples must have a row (its first names: "
            f"{', '.join(map(repr, table.names[:3]))})"
        )
    return np.array([places[name] for name in wanted], dtype=np.int64)


def _halves(numbers: Numbers, layout: str) -> Numbers:
    """Return complex rows (n, k) as real rows (n, 2k), real parts first."""
    if np.iscomplexobj(numbers):
        return np.concatenate([numbers.real, numbers.imag], axis=1)
    return np.concatenate([numbers[:, ::2], numbers[:, 1::2]], axis=1) if layout == "pairs" else numbers


def _phases(halves: Numbers, place: str) -> Numbers:
    """Return the phases (n, k), in radians, of rotations (n, 2k). Raises InputError if a modulus is not 1."""
    re, im = np.split(halves.astype(np.float64), 2, axis=1)
    far = np.abs(np.hypot(re, im) - 1).max(axis=1)
    if far.max() > MODULUS_TOLERANCE:
        row = int(far.argmax())
        raise InputError(
            f"{place}: a complex number has a modulus that differs from 1 by {far[row]:.3g}, but a predicate of RotatE "
            "is a rotation: give phases in radians, or complex numbers of modulus 1"
        )
    return np.arctan2(im, re)


def _tensor(numbers: Numbers) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.float32))
