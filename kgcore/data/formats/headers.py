"""The words that a header has for the columns of triples, and the triple that a row of such words names."""

import re
from collections.abc import Sequence

from kgcore.data.formats.base import COLUMNS, LABEL, NEGATED, POLARITY, QUALIFIER

# A header is a first row that has one of these names for each part of a triple, whatever its case, blanks and marks. An
# earlier name has priority, and subject and object with the same place here (some have two) come before a mixture.
# Beside common words: Neo4j (startid), APOC (start), PrimeKG (xindex), KGTK (node1), SSSOM (subjectid), Pathway
# Commons, SNOMED CT (destinationid)
_SUBJECTS = """
    subject head source source subj src src s h startid xindex xid xname node1 subjectid headid sourceid sourceid fromid
    entity1 id1 participanta protein1 startnode sourcenode fromnode headentity item nodea entitya subjectname sourcename
    from start
"""
_PREDICATES = """
    predicate relation rel pred property edge edgelabel edgetype p r metaedge predicateid relationid relationship
    relationshiptype relationtype reltype interaction interactiontype displayrelation predicatename relationname
    linktype type
"""
_OBJECTS = """
    object tail destination target obj tgt dst o t endid yindex yid yname node2 objectid tailid destinationid targetid
    toid entity2 id2 participantb protein2 endnode targetnode tonode tailentity value nodeb entityb objectname
    targetname to end
"""
NAMES = {"subject": _SUBJECTS.split(), "predicate": _PREDICATES.split(), "object": _OBJECTS.split()}
# columns that are often beside a triple: the database that has it, and the times or places between which it holds
PROVENANCE = {"source", "src", "from", "start"}
VALIDITY = {("from", "to"), ("start", "end")}
FURTHER = {"weight", "score", "confidence", "label", "id", "count", "year", "date", "time", "evidence", "distance"}
KEYS = {"key", "uid", "uuid", "edgekey", "edgeid", "rowid", "row", "number", "nr", "rev", "created"}  # of rows
# columns that say whether a fact does not hold: KGX, SSSOM, BioPAX and Gene Ontology exports
NOT = {"negated", "isnegated", "negation", "predicatemodifier", "negative", "isnegative", "not", "isneg", "isnot"}
NOT |= {"negationflag"}
QUALIFIERS = {QUALIFIER, "qualifiers", "goqualifier"}
# columns that may say that a fact holds no longer, or the other way round
VOIDING = {LABEL, "active", "isactive", "status", "deprecated", "isdeprecated", "obsolete", "isobsolete", "retracted"}
VOIDING |= {"withdrawn", "invalidreason", "rank", "direction"}
# columns that may say which facts are true, under other names than label
LIKE_LABELS = {"labels", "truth", "istrue", "truthvalue", "correct", "iscorrect", "valid", "isvalid", "positive"}
LIKE_LABELS |= {"ispositive", "gold", "goldlabel", "groundtruth", "isfact"}
GEPHI = {"source", "target", "type", "label"}  # Gephi's type is Directed or Undirected
NEO4J = re.compile(r"(?:[^:]*:)?(START_ID|END_ID|TYPE)(?:\((.*)\))?")  # (...): the space of the ids


def column_word(cell: str) -> str:
    """Return the name of a column without case, blanks and marks: `startid` for `:START_ID(Person)`."""
    neo4j = NEO4J.fullmatch(cell)
    return re.sub(r"[\W_]", "", neo4j[1] if neo4j else cell).lower()


def is_column(name: str, part: str) -> bool:
    """Return whether a name is that of the column of a part of a triple, in more than one letter."""
    return len(name) > 1 and column_word(name) in (*NAMES[part], LABEL)


def denies(cell: str) -> str | None:
    """Return which kind of column says whether a fact is negated, by its name; None if it does not."""
    word = column_word(cell)
    return NEGATED if word in NOT else word if word == POLARITY else QUALIFIER if word in QUALIFIERS else None


def id_spaces(header: Sequence[str]) -> list[str]:
    """Return the spaces of a Neo4j header's ids, if they are not one: `:START_ID(Actor)` and `:END_ID(Movie)`."""
    spaces = sorted({found[2] or "none" for cell in header if (found := NEO4J.fullmatch(cell)) and found[1] != "TYPE"})
    return spaces if len(spaces) > 1 else []


def known_columns(cells: Sequence[str]) -> dict[str, int] | None:
    """Return the positions of the columns by the names in NAMES, or None if a part of a triple has no such column.

    `label` is the predicate if no other column is. A pair of VALIDITY or a word of PROVENANCE comes after all others.
    """
    words = [column_word(cell) for cell in cells]
    found = {part: next((name for name in names if name in words), None) for part, names in NAMES.items()}
    both = next(((s, o) for s, o in zip(NAMES["subject"], NAMES["object"], strict=True) if {s, o} <= {*words}), None)
    if both in VALIDITY:
        limits = {name for pair in VALIDITY for name in pair}
        limits |= {name for name in PROVENANCE & {*words} if words.index(name) > words.index(both[0])}
        s, o = (
            next((name for name in NAMES[part] if name in {*words} - limits), None) for part in ("subject", "object")
        )
        both = (s, o) if s and o else both
    if both:
        found |= dict(zip(("subject", "object"), both, strict=True))
    elif found["subject"] in PROVENANCE:
        others = (name for name in NAMES["subject"] if name in words and name not in PROVENANCE)
        found["subject"] = next(others, found["subject"])
    if found["predicate"] is None or (found["predicate"] == "type" and set(words) >= GEPHI):
        found["predicate"] = LABEL if LABEL in words else None
    places = {part: words.index(name) for part, name in found.items() if name is not None}
    if len(places) < len(COLUMNS):
        return None
    return places | ({LABEL: words.index(LABEL)} if LABEL in words and found["predicate"] != LABEL else {})


def looks_like_names(cells: Sequence[str]) -> bool:
    """Return whether a first row is a header without a subject, a predicate or an object.

    It has a word of NAMES for the predicate, and one for the subject or the object; or for these two, and one of
    FURTHER. Words for these two alone, such as head and tail, can be a triple.
    """
    words = {column_word(cell) for cell in cells if len(cell) > 1}
    subject, predicate, thing = (not words.isdisjoint(names) for names in NAMES.values())
    further = not FURTHER.isdisjoint(word for cell in cells for word in re.split(r"[\W_]+", cell.lower()))
    return (predicate and (subject or thing)) or (subject and thing and further)
