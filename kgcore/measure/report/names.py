"""What a curator would mend in the names of a graph: near-duplicates, marks of a syntax, placeholders, and values."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from html import unescape
from urllib.parse import unquote

import numpy as np

from kgcore.arrays import Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.measure.report.data import MOST_EXAMPLES, Finding, such_as

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


def name_findings(graph: KnowledgeGraph, facts: Triples) -> list[Finding]:
    """Return a finding for each kind of faulty names, whether the graph has it or not. It warns if the graph has it.

    facts  (n, 3) the facts of all splits
    """
    return [
        _near_duplicates(graph),
        _syntax_in_names(graph),
        _changed_names(graph),
        _placeholders(graph, facts),
        _values(graph, facts),
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


def last_part(name: str) -> str:
    """Return the last part of a name in lower case: `na` for `http://x.org/NA`."""
    return re.split(r"[/#:]", name.strip())[-1].casefold() if name.casefold().strip() not in PLACEHOLDERS else "na"


def _placeholders(graph: KnowledgeGraph, facts: Triples) -> Finding:
    places = [place for place, name in enumerate(graph.entities) if last_part(name) in PLACEHOLDERS]
    counts = {place: int((facts[:, [0, 2]] == place).any(axis=1).sum()) for place in places}
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


def _values(graph: KnowledgeGraph, facts: Triples) -> Finding:
    """Find values among the entities that are never subjects; whole numbers only where most entities are none."""
    numbers = sum(name.isdecimal() for name in graph.entities) > len(graph.entities) / 2
    is_object = np.ones(len(graph.entities), dtype=bool)
    is_object[facts[:, 0]] = False
    names = ((place, graph.entities[place]) for place in np.flatnonzero(is_object).tolist())
    places = [p for p, name in names if VALUE.fullmatch(name) or (name.isdecimal() and not numbers)]
    rows = facts[np.isin(facts[:, 2], places)]
    predicates = [graph.predicates[p] for p in np.argsort(-np.bincount(rows[:, 1])).tolist()[: len({*rows[:, 1]})]]
    return Finding(
        "Values as entities",
        f"{len(places):,}, in {len(rows):,} facts{such_as(repr(graph.entities[place]) for place in places)}"
        + (f" (of {', '.join(map(repr, predicates[:MOST_EXAMPLES]))})" if predicates else ""),
        "A number, a date or a text is no entity: for the model, 1.70 and 1.71 have nothing in common. Leave out these "
        "facts, as kgcal does with the literals of RDF files, or make classes of the values, such as decades.",
        bool(places),
    )
