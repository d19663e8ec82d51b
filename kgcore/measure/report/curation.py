"""What a curator would mend in a graph before training: names and facts that look wrong, with examples and the edit."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from html import unescape
from urllib.parse import unquote

import numpy as np

from kgcore.data.formats.base import column_word
from kgcore.data.formats.columns import MEANING, is_column, looks_like_header
from kgcore.data.formats.headers import WORDS
from kgcore.data.graph import FactCounts, KnowledgeGraph
from kgcore.measure.report.data import MOST_EXAMPLES, Finding, contradictions, such_as

GAPS = re.compile(r"(?<=\w)[\s_-]+(?=\w)|\s+|(?<=[A-Za-z]):(?=\d)")  # names that differ here only are near-duplicates
# beginnings that an identifier may lack
BASES = re.compile(r"^https?://(?:purl\.obolibrary\.org/obo/|www\.wikidata\.org/(?:entity|wiki)/)?|^wdt?:(?=[QP]\d)")
ENCLOSED = re.compile(r"""^=?"(.*)"$|^'(.*)'$|^<(.*)>$""", re.DOTALL)
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
QUOTES, DASHES = "\u2018\u2019\u00b4", "\u2010\u2011\u2012\u2013\u2014\u2212"
MARKS = str.maketrans({**dict.fromkeys(QUOTES, "'"), **dict.fromkeys(DASHES, "-")})
# letters that UTF-8 writes with two or three bytes, and that are usual in names
USUAL_LETTERS = re.compile("[\\x00-\u017f\u0370-\u03ff\u0400-\u04ff\u2010-\u2122]+")
ZEROS = re.compile(r"^0+(?=\d+(?:\.0+)?$)|(?<=\d)\.0+$")  # of whole numbers that a table of numbers wrote
PLACEHOLDERS = {
    *("", "-", "--", "---", "?", ".", "n/a", "#n/a", "na", "n.a.", "nan", "<na>", "nil", "null", "none", "unknown"),
    *("undefined", "unspecified", "missing", "not available", "not applicable", "not known", "no data", "tbd"),
    *("\\n", "(null)", "nat", "[]", "{}", '""', "#ref!", "#value!"),  # of databases, pandas and spreadsheets
    *("#name?", "#div/0!", "#num!", "#null!", "not reported", "not determined", "not recorded", "notermfound"),
    *("not found", "no name", "no label", "cui-less", "unk", "[unk]", "<unk>", "\u2013", "\u2014"),
}
# what a spreadsheet or a wrong encoding makes of a name: a gene as a date, a number that is rounded, lost letters
MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec|Mrz|Mai|Okt|Dez|mars|avr|sept|oct|dec)"
CHANGED = re.compile(
    rf"\d{{1,2}}(?:-|\. ){MONTH}(?:-\d\d)?|{MONTH}-\d\d|\d{{4}}-\d\d-\d\d 00:00:00|\d(?:\.\d+)?[eE]\+\d+|"
    r"\d{11,}0{5}|.*\ufffd.*|.*\\u[0-9a-fA-F]{4}.*|.*&(?:[A-Za-z]{2,8}|#\d+);.*|[^:=/]*[A-Za-z]\?[A-Za-z][^:=/]*",
    re.DOTALL,
)
# a value, which RDF and Wikidata tell from an entity: with a language or a type, a date, a measure, a sentence
VALUE = re.compile(
    r"""".*"(?:@[\w-]+|\^\^.+)|[-+]?\d{4,}-\d\d-\d\d(?:[T ].*)?|[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|(?:\S+\s+){9,}.*\.""",
    re.DOTALL,
)
PAIRS = {"(": ")", "[": "]", "{": "}"}
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
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?")
WEIGHT, MOST_WEIGHTS = re.compile(rf"{NUMBER.pattern}|\{{.*\}}"), 1_000  # of an edge; how many objects are looked at
HUB = 0.2  # an entity with a larger share of the facts is a hub
FEWEST_ENTITIES = 50  # in smaller graphs, every entity may be a hub
FEWEST_FACTS = 20  # of a predicate whose facts all have one subject or object; of an entity and itself
LOOPS = 0.01  # a larger share of facts of an entity and itself is odd
GENID = "/.well-known/genid/"  # of an IRI that stands for a blank node (RDF 1.1 Concepts, section 3.5)


def curator_findings(
    graph: KnowledgeGraph, counts: Mapping[str, int], both: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """Return a finding for each kind of fault, whether the graph has it or not. It warns if the graph has it.

    counts, both  see `findings` in graph_findings.py
    """
    facts = FactCounts.of(graph.all_known)
    return [
        *contradictions(counts, both),
        _near_duplicates(graph),
        _syntax_in_names(graph),
        _changed_names(graph),
        _placeholders(graph, facts),
        _values(graph, facts),
        _suspicious_predicates(graph, facts),
        _headers(graph, facts),
        _swapped_columns(graph, facts),
        _hubs(graph, facts),
        _complete(graph, facts),
        _blank_nodes(graph, facts),
        _self_loops(graph, facts),
    ]


def _near_duplicates(graph: KnowledgeGraph) -> Finding:
    examples: list[str] = []
    for names in (graph.entities, graph.predicates):
        codes = np.fromiter((hash(_alike(name)) for name in names), np.int64, len(names))  # takes less memory than text
        _, code, counts = np.unique(codes, return_inverse=True, return_counts=True)
        groups = defaultdict[str, list[str]](list)
        for place in np.flatnonzero(counts[code] > 1).tolist():
            groups[_alike(names[place])].append(names[place])
        examples += [_difference(*group[:2]) for group in groups.values() if len(group) > 1]
        lonely = (name for name in names if name != name.strip() and len(groups.get(_alike(name), ())) < 2)
        examples += [f"{name!r} (white space at an end)" for name in lonely]
    return Finding(
        "Names that hardly differ",
        f"{len(examples):,}{such_as(examples)}",
        "Each spelling is a separate entity or predicate with a part of the facts. If both mean the same, write them "
        "alike in the files: strip blanks, use one Unicode form (NFC) and one case.",
        bool(examples),
    )


def _alike(name: str) -> str:
    """Return what a name and those that hardly differ from it have in common."""
    plain = _plain(name).strip()
    if not plain.isascii():
        plain = plain.translate(MARKS)
    if not plain.isalnum():
        plain = unescape(unquote(plain)) if "&" in plain or "%" in plain else plain
        plain = ENCLOSED.sub(r"\1\2\3", plain.rstrip(",;"))
        plain = BASES.sub("", plain) if plain.startswith(("http", "wd")) else plain
        plain = plain.replace(",", "") if THOUSANDS.fullmatch(plain) else plain
    return ZEROS.sub("", GAPS.sub(" ", plain)).casefold()


def _syntax_in_names(graph: KnowledgeGraph) -> Finding:
    every = {*graph.entities}
    names = [name for name in (*graph.entities, *graph.predicates) if _has_syntax(name, every)]
    return Finding(
        "Names with the marks of a syntax",
        f"{len(names):,}{such_as(map(repr, names))}",
        "Quotes, <>, a bracket without its partner, a dot at the end of a line, # before the name of another entity, "
        "and | or ; between names are hardly part of a name: the file is written otherwise than its ending says, has "
        "lines that were taken out, or several values in a cell. Save it as plain values, one fact a line.",
        bool(names),
    )


def _has_syntax(name: str, entities: Collection[str]) -> bool:
    """Return whether a name has quotes, brackets or other marks that belong to the syntax of a file."""
    if len(name) < 2:
        return False
    quoted = name[0] in "\"'" and name[-1] == name[0]
    opened = name[0] in PAIRS and name.count(name[0]) > name.count(PAIRS[name[0]])
    closed = any(name[-1] == end and name.count(end) > name.count(begin) for begin, end in PAIRS.items())
    quoted = quoted or (name[0] == "<" and name[-1] == ">") or (name[:2] in ('["', '{"', "['") and name[-1] in "]}")
    several = any(
        mark in name and any(part.strip() in entities for part in name.split(mark) if part.strip()) for mark in "|;"
    )
    several = several or (", " in name and all(part.strip() in entities for part in name.split(",")))
    taken_out = name[0] in "#%/" and name.lstrip("#%/ ") in entities
    return quoted or opened or closed or name.endswith((" .", " ;")) or taken_out or several


def _changed_names(graph: KnowledgeGraph) -> Finding:
    every = (*graph.entities, *graph.predicates)
    names = [name for name in every if CHANGED.fullmatch(name) or _is_garbled(name)]
    return Finding(
        "Names that a program has changed",
        f"{len(names):,}{such_as(map(repr, names))}",
        "A spreadsheet turns genes into dates and rounds long numbers, and a wrong encoding loses letters: several "
        "names can become one. Export the file anew, as UTF-8 text.",
        bool(names),
    )


def _is_garbled(name: str) -> bool:
    """Return whether a name is UTF-8 that was read as another encoding, such as CP1252."""
    if name.isascii():
        return False
    for encoding in ("cp1252", "latin-1"):
        with suppress(UnicodeError):
            return USUAL_LETTERS.fullmatch(name.encode(encoding).decode("utf-8")) is not None
    return False


def _plain(name: str) -> str:
    """Return a name in the Unicode form NFKC, without marks that nobody sees."""
    if name.isascii():
        return name
    return "".join(mark for mark in unicodedata.normalize("NFKC", name) if unicodedata.category(mark) != "Cf")


def _difference(name: str, other: str) -> str:
    """Return two names, and what they differ in."""
    by_form = _plain(name) == _plain(other)
    if "".join(name.split()) == "".join(other.split()):
        what = "white space"
    else:
        by_zeros = ZEROS.sub("", name) == ZEROS.sub("", other)
        by_case = name.casefold() == other.casefold()
        what = "Unicode form" if by_form else "zeros" if by_zeros else "case" if by_case else "spelling"
    shown = ascii if by_form else repr
    return f"{shown(name)} and {shown(other)} ({what})"


def _last(name: str) -> str:
    """Return the last part of a name in lower case: `na` for `http://x.org/NA`."""
    return re.split(r"[/#:]", name.strip())[-1].casefold() if name.casefold().strip() not in PLACEHOLDERS else "na"


def _placeholders(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    places = [place for place, name in enumerate(graph.entities) if _last(name) in PLACEHOLDERS]
    is_place = np.zeros(len(graph.entities), dtype=bool)
    is_place[places] = True
    ends = facts.chosen(lambda part: is_place[part[:, 0]] | is_place[part[:, 2]])[:, [0, 2]]
    counts = {place: int((ends == place).any(axis=1).sum()) for place in places}
    examples = [
        f"{graph.entities[place]!r} in {counts[place]:,} facts" for place in sorted(places, key=lambda p: -counts[p])
    ]
    return Finding(
        "Placeholders as entities",
        f"{len(examples):,}{such_as(examples)}",
        "A value that stands for a missing one joins facts that have nothing in common. Delete its lines from the "
        "files, unless it is the name of something.",
        bool(examples),
    )


def _values(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    """Find values among the entities that are never subjects; whole numbers only where most entities are none."""
    numbers = sum(name.isdecimal() for name in graph.entities) > len(graph.entities) / 2
    names = ((place, graph.entities[place]) for place in np.flatnonzero(facts.subjects == 0).tolist())
    places = [p for p, name in names if VALUE.fullmatch(name) or (name.isdecimal() and not numbers)]
    is_value = np.zeros(len(graph.entities), dtype=bool)
    is_value[places] = True
    rows = facts.chosen(lambda part: is_value[part[:, 2]])
    predicates = [graph.predicates[p] for p in np.argsort(-np.bincount(rows[:, 1])).tolist()[: len({*rows[:, 1]})]]
    return Finding(
        "Values as entities",
        f"{len(places):,}, in {len(rows):,} facts{such_as(repr(graph.entities[place]) for place in places)}"
        + (f" (of {', '.join(map(repr, predicates[:MOST_EXAMPLES]))})" if predicates else ""),
        "A number, a date or a text is no entity: for the model, 1.70 and 1.71 have nothing in common. Leave out these "
        "facts, as kgcal does with the literals of RDF files, or make classes of the values, such as decades.",
        bool(places),
    )


def _suspicious_predicates(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    numbers = sum(name.isdecimal() for name in graph.entities) > len(graph.entities) / 2
    reasons = {place: _suspicion(name, numbers) for place, name in enumerate(graph.predicates)}
    counts = facts.predicates
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
    last = _last(name)
    words = {word.casefold() for word in WORDS.split(re.split(r"[/#:]", name)[-1])}
    if last in PLACEHOLDERS:
        return "is a placeholder"
    is_number = NUMBER.fullmatch(name.strip().casefold())  # BFO:0000050 is no number
    if not entities_are_numbers and (name.casefold() in MEANING or is_number):
        return "is a number or a label"
    if words & DENIALS or name[:1] in NEGATORS:
        return "denies something"
    if last in EDGE_TYPES:
        return "is a type of edge"
    if last in SYNTAX and name.startswith(VOCABULARIES):
        return "says how an ontology is written"
    return ""


def _headers(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    named = [place for place, name in enumerate(graph.predicates) if is_column(name, "predicate")]
    degrees, counts = facts.degrees, facts.predicates
    of_interest = counts == 1
    of_interest[named] = True
    rows = facts.chosen(lambda part: of_interest[part[:, 1]])
    alone = (counts[rows[:, 1]] == 1) & (degrees[rows[:, [0, 2]]] == 1).all(axis=1)
    frames = graph.names_of(rows[alone]), graph.names_of(rows[~alone & np.isin(rows[:, 1], named)])
    first, inside = ([*frame.itertuples(index=False, name=None)] for frame in frames)
    first = [tuple(name.lstrip("\ufeff#") for name in row) for row in first]
    few = len(first) <= MOST_FILES
    headers = [row for row in first if looks_like_header(row) or (few and not any(map(IDENTIFIER.match, row)))]
    single = {graph.predicates[p] for p in named if counts[p] == 1 and column_word(graph.predicates[p]) in RELATION}
    new = {graph.entities[entity] for entity in np.flatnonzero(degrees == 1).tolist()} if single else set()
    headers += [row for row in inside if row[1] in single and not new.isdisjoint(row)]
    headers += [row for row in inside if is_column(row[0], "subject") and is_column(row[2], "object")]
    types = [place for place, name in enumerate(graph.predicates) if name.casefold() in TYPES]
    typed = facts.chosen(lambda part: np.isin(part[:, 1], types)) if types else rows[:0]
    of_types = graph.names_of(typed).itertuples(index=False, name=None)
    headers += [row for row in of_types if all(name.casefold() in TYPES for name in row)]
    return Finding(
        "Headers among the facts",
        f"{len(headers):,}{such_as(map(' '.join, headers))}",
        "The names of columns are no fact. Files that were joined have their headers inside: delete these lines. A "
        "fact that shares no name with another may be a header, too: then name its columns by --columns.",
        bool(headers),
    )


def _swapped_columns(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    counts = facts.subjects, facts.predicates, facts.objects
    subjects, predicates, objects = (int(np.count_nonzero(of_names)) for of_names in counts)
    shared = sorted(set(graph.predicates).intersection(graph.entities))
    fewest = min(subjects, objects)
    warns = predicates >= FEWEST_PREDICATES and (SWAPPED * fewest <= predicates or 2 * len(shared) >= predicates)
    order = "2,1,3" if subjects < objects else "1,3,2"
    names = (graph.entities[entity] for entity in np.flatnonzero(facts.objects)[:MOST_WEIGHTS].tolist())
    if warns and all(map(WEIGHT.fullmatch, names)) and not all(map(WEIGHT.fullmatch, graph.predicates)):
        mend = (
            "The objects are numbers or attributes, and the predicates many: this is a list of edges with weights. Put "
            "a column with the same word in every row between subject and object, and name the three by --columns."
        )
    elif warns:
        mend = (
            f"The columns look swapped, because the predicates are many: --columns {order} puts them right; where a "
            "format fixes the columns, exchange them in the file."
        )
    else:
        mend = "A graph has few predicates, and they are no entities. Otherwise its columns may be swapped."
    return Finding(
        "Order of the columns",
        f"{subjects:,} names are subjects, {predicates:,} are predicates, {objects:,} are objects; {len(shared):,} "
        f"predicates are entities, too{such_as(map(repr, shared))}",
        mend,
        warns,
    )


def _hubs(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    shares, counts = facts.degrees / len(facts.index), facts.predicates
    hubs = np.flatnonzero((shares > HUB) & (len(shares) >= FEWEST_ENTITIES)).tolist()
    examples = [f"{graph.entities[hub]!r} in {shares[hub]:.0%} of the facts" for hub in hubs]
    for ends, word in zip(facts.distinct, ("subject", "object"), strict=True):
        for predicate in np.flatnonzero((ends.numbers == 1) & (counts >= FEWEST_FACTS)).tolist():
            name = f"{graph.predicates[predicate]!r} has no {word} but {graph.entities[ends.largest[predicate]]!r}"
            examples.append(f"{name} ({counts[predicate]:,} facts)")
    return Finding(
        "Hubs",
        f"{len(examples):,}{such_as(examples)}",
        "What most facts share is easy to predict and says nothing about a single one: the figures look too good. If "
        "nobody will ask about these facts, delete their lines.",
        bool(examples),
    )


def _complete(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    subjects, objects = (ends.numbers for ends in facts.distinct)
    complete = np.flatnonzero((facts.predicates == subjects * objects) & (np.minimum(subjects, objects) > 1)).tolist()
    examples = [f"{graph.predicates[p]!r} ({subjects[p]:,} subjects x {objects[p]:,} objects)" for p in complete]
    return Finding(
        "Complete predicates",
        f"{len(examples):,}{such_as(examples)}",
        "All pairs of their subjects and objects are facts, so corruptions of them are known facts and left out. If no "
        "corruption is left, no strategy helps: label false triples, in a fourth column of the file.",
        bool(examples),
    )


def _blank_nodes(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    blank = np.fromiter((name.startswith("_:") or GENID in name for name in graph.entities), bool, len(graph.entities))
    count = int(blank.sum())
    among = sum(int(blank[part[:, [0, 2]]].any(axis=1).sum()) for part in facts.index.blocks()) if count else 0
    return Finding(
        "Blank nodes",
        f"{count:,} of {len(blank):,} entities, in {among:,} of {len(facts.index):,} facts"
        + such_as(graph.entities[place] for place in np.flatnonzero(blank)[: MOST_EXAMPLES + 1]),
        "A blank node has no name outside its file, so nobody can ask about it. Give it an IRI, or write one fact for "
        "the path through it (an ontology tool can: relation graphs of ROBOT).",
        count > 0,
    )


def _self_loops(graph: KnowledgeGraph, facts: FactCounts) -> Finding:
    counts, total = facts.loops, len(facts.index)
    examples = [f"{counts[p]:,} of {graph.predicates[p]!r}" for p in np.argsort(-counts, kind="stable") if counts[p]]
    return Finding(
        "Facts of an entity and itself",
        f"{counts.sum():,} of {total:,}{such_as(examples)}",
        "If nothing can be related to itself, these facts are mistakes of the file: delete their lines.",
        bool(counts.sum() >= max(FEWEST_FACTS, LOOPS * total)),
    )
