"""What a curator would mend in a graph before training: facts that look wrong, with examples and the edit."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from kgcore.arrays import Ints, Triples, sorted_distinct
from kgcore.config.jobs import FEWEST_CALIBRATED
from kgcore.data.formats.base import column_word
from kgcore.data.formats.columns import MEANING, is_column, looks_like_header
from kgcore.data.graph import KnowledgeGraph
from kgcore.measure.report.data import MOST_EXAMPLES, Finding, such_as
from kgcore.measure.report.names import PLACEHOLDERS, last_part, name_findings

DENIALS = {"disjoint", "not", "no", "non", "neg", "never", "without", "lack", "lacks", "lackof", "absent", "doesnt"}
DENIALS |= {"isnt", "cannot", "fails", "failed"}
NEGATORS = {"!", "\u00ac"}  # before the name of a predicate
TYPES = {"string", "str", "text", "varchar", "object", "int", "integer", "long", "float", "double"}  # of columns
EDGE_TYPES = {"directed", "undirected", "mutual"}  # of Gephi
# words of OWL and RDF that say how an ontology is written
SYNTAX = {
    *("onproperty", "somevaluesfrom", "allvaluesfrom", "hasvalue", "first", "rest", "intersectionof", "unionof"),
    *("complementof", "annotatedsource", "annotatedproperty", "annotatedtarget", "distinctmembers"),
    "propertychainaxiom",
}
VOCABULARIES = ("http://www.w3.org/2002/07/owl#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "owl:", "rdf:")
RELATION = {"relation", "predicate", "relationship", "rel", "relationtype", "edgetype"}  # names of a column
MOST_FILES = 3  # of a data set, each with a header; more facts that share no name with another are no headers
IDENTIFIER = re.compile(r"\w*[:/]")
SWAPPED = 5  # a column of predicates has this many times the names of another column only if columns are swapped
FEWEST_PREDICATES = 10  # fewer predicates do not show it
HUB = 0.2  # an entity with a larger share of the facts is a hub
FEWEST_ENTITIES = 50  # in smaller graphs, every entity may be a hub
FEWEST_FACTS = 20  # of a predicate whose facts all have one subject or object; of an entity and itself
LOOPS = 0.01  # a larger share of facts of an entity and itself is odd
GENID = "/.well-known/genid/"  # of an IRI that stands for a blank node (RDF 1.1 Concepts, section 3.5)


def few_validation_facts(graph: KnowledgeGraph) -> Finding:
    """Return which predicates validation has so few facts of that their triples have no probability."""
    facts, valid = (
        np.bincount(split.positives[:, 1], minlength=len(graph.predicates)) for split in (graph.train, graph.valid)
    )
    few = np.flatnonzero((facts > 0) & (valid < FEWEST_CALIBRATED))
    few = few[np.argsort(-facts[few], kind="stable")]
    examples = [f"{graph.predicates[p]!r} ({valid[p]:,} of {valid[p] + facts[p]:,})" for p in few.tolist()]
    return Finding(
        "Predicates with few validation facts",
        f"{len(few):,} of {len(graph.predicates):,} have fewer than {FEWEST_CALIBRATED}; train has "
        f"{facts[few].sum():,} facts of them{such_as(examples)}",
        "Triples of these predicates have no probability: give validation more facts of them, or ask with a smaller "
        "--at-least.",
        len(few) > 0,
    )


def curator_findings(
    graph: KnowledgeGraph, counts: Mapping[str, int], both: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """Return a finding for each kind of fault, whether the graph has it or not. It warns if the graph has it.

    counts, both  see `findings` in graph_findings.py
    """
    facts = graph.all_known.triples
    return [
        *_contradictions(counts, both),
        *name_findings(graph, facts),
        _suspicious_predicates(graph, facts),
        _headers(graph, facts),
        _swapped_columns(graph, facts),
        _hubs(graph, facts),
        _complete(graph, facts),
        _blank_nodes(graph, facts),
        _self_loops(graph, facts),
    ]


def unread_findings(unread: Sequence[str]) -> list[Finding]:
    """Return what was not read of the files; nothing if all was. `unread`: see `Prepared`."""
    meaning = (
        "If triples are in other columns, name these by --columns. If other files have facts of the graph, too, name "
        "all of them: --dataset FILE,FILE."
    )
    return [Finding("Not read", "; ".join(unread), meaning, True)] if unread else []


def _suspicious_predicates(graph: KnowledgeGraph, facts: Triples) -> Finding:
    numbers = sum(name.isdecimal() for name in graph.entities) > len(graph.entities) / 2
    reasons = {place: _suspicion(name, numbers) for place, name in enumerate(graph.predicates)}
    counts = np.bincount(facts[:, 1], minlength=len(graph.predicates))
    examples = [f"{graph.predicates[p]!r} {why} ({counts[p]:,} facts)" for p, why in reasons.items() if why]
    return Finding(
        "Suspicious predicates",
        f"{len(examples):,} of {len(graph.predicates):,}{such_as(examples)}",
        "A predicate says how two entities are related, and each of its facts counts as true. If another column has "
        "the predicates, give --columns; delete lines that deny something or describe the file, or label denials -1.",
        bool(examples),
    )


def _suspicion(name: str, entities_are_numbers: bool) -> str:
    """Return why a predicate is suspicious; empty if it is not."""
    last = last_part(name)
    words = {word.casefold() for word in re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", re.split(r"[/#:]", name)[-1])}
    if last in PLACEHOLDERS:
        return "is a placeholder"
    is_number = re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?", name.strip().casefold())  # BFO:0000050 is none
    if not entities_are_numbers and (name.casefold() in MEANING or is_number):
        return "is a number or a label"
    if words & DENIALS or name[:1] in NEGATORS:
        return "denies something"
    if last in EDGE_TYPES:
        return "is a type of edge"
    if last in SYNTAX and name.startswith(VOCABULARIES):
        return "says how an ontology is written"
    return ""


def _headers(graph: KnowledgeGraph, facts: Triples) -> Finding:
    named = [place for place, name in enumerate(graph.predicates) if is_column(name, "predicate")]
    degrees, counts = np.bincount(facts[:, [0, 2]].reshape(-1)), np.bincount(facts[:, 1])
    alone = (counts[facts[:, 1]] == 1) & (degrees[facts[:, [0, 2]]] == 1).all(axis=1)
    rows = graph.names_of(facts[alone]), graph.names_of(facts[~alone & np.isin(facts[:, 1], named)])
    first, inside = ([*frame.itertuples(index=False, name=None)] for frame in rows)
    first = [tuple(name.lstrip("\ufeff#") for name in row) for row in first]
    few = len(first) <= MOST_FILES
    headers = [row for row in first if looks_like_header(row) or (few and not any(map(IDENTIFIER.match, row)))]
    single = {graph.predicates[p] for p in named if counts[p] == 1 and column_word(graph.predicates[p]) in RELATION}
    new = {graph.entities[entity] for entity in np.flatnonzero(degrees == 1).tolist()} if single else set()
    headers += [row for row in inside if row[1] in single and not new.isdisjoint(row)]
    headers += [row for row in inside if is_column(row[0], "subject") and is_column(row[2], "object")]
    types = [place for place, name in enumerate(graph.predicates) if name.casefold() in TYPES]
    of_types = graph.names_of(facts[np.isin(facts[:, 1], types)]).itertuples(index=False, name=None)
    headers += [row for row in of_types if all(name.casefold() in TYPES for name in row)]
    return Finding(
        "Headers among the facts",
        f"{len(headers):,}{such_as(map(' '.join, headers))}",
        "The names of columns are no fact. Files that were joined have their headers inside: delete these lines. A "
        "fact that shares no name with another may be a header, too: then name its columns by --columns.",
        bool(headers),
    )


def _swapped_columns(graph: KnowledgeGraph, facts: Triples) -> Finding:
    subjects, predicates, objects = (len(sorted_distinct(column)) for column in facts.T)
    shared = sorted(set(graph.predicates).intersection(graph.entities))
    fewest = min(subjects, objects)
    warns = predicates >= FEWEST_PREDICATES and (SWAPPED * fewest <= predicates or 2 * len(shared) >= predicates)
    order = "2,1,3" if subjects < objects else "1,3,2"
    return Finding(
        "Order of the columns",
        f"{subjects:,} names are subjects, {predicates:,} are predicates, {objects:,} are objects; {len(shared):,} "
        f"predicates are entities, too{such_as(map(repr, shared))}",
        f"The columns look swapped, because the predicates are many: --columns {order} puts them right; where a format "
        "fixes the columns, exchange them in the file."
        if warns
        else "A graph has few predicates, and they are no entities. Otherwise its columns may be swapped.",
        warns,
    )


def _hubs(graph: KnowledgeGraph, facts: Triples) -> Finding:
    ends = facts[:, [0, 2]].reshape(-1)
    shares = np.bincount(ends, minlength=len(graph.entities)) / len(facts)
    hubs = np.flatnonzero((shares > HUB) & (len(shares) >= FEWEST_ENTITIES)).tolist()
    examples = [f"{graph.entities[hub]!r} in {shares[hub]:.0%} of the facts" for hub in hubs]
    counts = np.bincount(facts[:, 1], minlength=len(graph.predicates))
    for end, word in ((0, "subject"), (2, "object")):
        predicates, entities = _ends(graph, facts, end)
        single = np.bincount(predicates, minlength=len(counts)) == 1
        rows = (single & (counts >= FEWEST_FACTS))[predicates]
        for predicate, entity in zip(predicates[rows].tolist(), entities[rows].tolist(), strict=True):
            name = f"{graph.predicates[predicate]!r} has no {word} but {graph.entities[entity]!r}"
            examples.append(f"{name} ({counts[predicate]:,} facts)")
    return Finding(
        "Hubs",
        f"{len(examples):,}{such_as(examples)}",
        "What most facts share is easy to predict and says nothing about a single one: the figures look too good. If "
        "nobody will ask about these facts, delete their lines.",
        bool(examples),
    )


def _ends(graph: KnowledgeGraph, facts: Triples, end: int) -> tuple[Ints, Ints]:
    """Return the distinct pairs of a predicate (m,) and an entity (m,) in the column `end` of its facts."""
    size = len(graph.entities)
    predicates, entities = np.divmod(sorted_distinct(facts[:, 1].astype(np.int64) * size + facts[:, end]), size)
    return predicates, entities


def _complete(graph: KnowledgeGraph, facts: Triples) -> Finding:
    counts = np.bincount(facts[:, 1], minlength=len(graph.predicates))
    subjects, objects = (np.bincount(_ends(graph, facts, end)[0], minlength=len(counts)) for end in (0, 2))
    complete = np.flatnonzero((counts == subjects * objects) & (np.minimum(subjects, objects) > 1)).tolist()
    examples = [f"{graph.predicates[p]!r} ({subjects[p]:,} subjects x {objects[p]:,} objects)" for p in complete]
    return Finding(
        "Complete predicates",
        f"{len(examples):,}{such_as(examples)}",
        "All pairs of their subjects and objects are facts, so corruptions of them are known facts and left out. If no "
        "corruption is left, no strategy helps: label false triples, in a fourth column of the file.",
        bool(examples),
    )


def _blank_nodes(graph: KnowledgeGraph, facts: Triples) -> Finding:
    blank = np.fromiter((name.startswith("_:") or GENID in name for name in graph.entities), bool, len(graph.entities))
    count, among = int(blank.sum()), int(blank[facts[:, [0, 2]]].any(axis=1).sum())
    return Finding(
        "Blank nodes",
        f"{count:,} of {len(blank):,} entities, in {among:,} of {len(facts):,} facts"
        + such_as(graph.entities[place] for place in np.flatnonzero(blank)[: MOST_EXAMPLES + 1]),
        "A blank node has no name outside its file, so nobody can ask about it. Give it an IRI, or write one fact for "
        "the path through it (an ontology tool can: relation graphs of ROBOT).",
        count > 0,
    )


def _self_loops(graph: KnowledgeGraph, facts: Triples) -> Finding:
    loops = facts[facts[:, 0] == facts[:, 2]]
    counts = np.bincount(loops[:, 1], minlength=len(graph.predicates))
    examples = [f"{counts[p]:,} of {graph.predicates[p]!r}" for p in np.argsort(-counts, kind="stable") if counts[p]]
    return Finding(
        "Facts of an entity and itself",
        f"{len(loops):,} of {len(facts):,}{such_as(examples)}",
        "If nothing can be related to itself, these facts are mistakes of the file: delete their lines.",
        len(loops) >= max(FEWEST_FACTS, LOOPS * len(facts)),
    )


def _contradictions(counts: Mapping[str, int], both: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Return the findings about labelled negatives that are true in train, and in valid or test."""
    rows = []
    wrong = "A triple cannot be both: one of its labels is wrong. "
    for title, splits, meaning in (
        ("are training facts", ("train",), "Held-out rows are left out if they are in train. Correct the file."),
        ("are labelled true, too", ("valid", "test"), "It counts once with each label in its split. Correct the file."),
    ):
        count = sum(
            counts.get(f"{name}_negatives_true_in_{other}", 0) for name in ("valid", "test") for other in splits
        )
        figure = f"{count:,}{such_as(example for other in splits for example in both.get(other, ()))}"
        rows.append(Finding(f"Labelled negatives that {title}", figure, wrong + meaning, count > 0))
    return rows
