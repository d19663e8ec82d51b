"""The words that a header has for the columns of triples, what looks like one, and what is refused or said of it."""

import re
from collections.abc import Mapping, Sequence

from kgcore.config.base import GROUP, TIME
from kgcore.data.formats.base import (
    COLUMNS,
    CONFIDENCE,
    LABEL,
    NEGATED,
    NEO4J,
    POLARITY,
    QUALIFIER,
    TriplesFile,
    column_word,
)
from kgcore.errors import InputError

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
KEYS |= {"uri", "iri", "url"}
# columns that say whether a fact does not hold: KGX, SSSOM, BioPAX and Gene Ontology exports
NOT = {"negated", "isnegated", "negation", "predicatemodifier", "negative", "isnegative", "not", "isneg", "isnot"}
NOT |= {"negationflag", "isnegation", "negationstatus", "isnegationstatus", "refuted", "isrefuted", "isfalse"}
NOT |= {"neg", "isnegativesample", "negativesample", "isfalsepositive", "falsepositive"}
QUALIFIERS = {QUALIFIER, "qualifiers", "goqualifier", "modifier"}
# columns that may say that a fact holds no longer, or the other way round
VOIDING = {LABEL, "active", "isactive", "status", "deprecated", "isdeprecated", "obsolete", "isobsolete", "retracted"}
VOIDING |= {"withdrawn", "invalidreason", "rank", "direction", "flag", "class", "iscurrent", "current", "annotation"}
VOIDING |= {"retractionstatus", "isretracted", "isdead", "validity"}
# columns that may say which facts are true, under other names than label
LIKE_LABELS = {"labels", "truth", "istrue", "truthvalue", "correct", "iscorrect", "valid", "isvalid", "positive"}
LIKE_LABELS |= {"ispositive", "gold", "goldlabel", "groundtruth", "isfact", "evidencedirection", "stance", "assertion"}
LIKE_LABELS |= {"veracity", "holds", "verdict", "outcome", "exists", "presence", "iscorrecttriple", "isvalidtriple"}
LIKE_LABELS |= {"istruepositive", "binarylabel", "ylabel", "ytrue", "label1true", "y"}  # y beside x is a place
PANDAS = {"", "index", "Unnamed: 0", "__index_level_0__"}  # what pandas calls the index of a table
WEAK = {"value", "p", "r"}  # names that other columns often have, such as p-values
LETTERS = {("s", "p", "o"), ("h", "r", "t")}  # all three together are no such columns
# names, or their ends, of columns that describe another one
BESIDE, DESCRIBES = {"rank", "datatype", "unit", "language", "split", "graph"}, ("label", "name", "type", "category")
USUAL = {*FURTHER, *KEYS, *map(column_word, PANDAS)}
USUAL |= {*NAMES["subject"], *NAMES["predicate"], *NAMES["object"]}
# what a column that the user chooses must have
MUST_BE = {CONFIDENCE: "a column of numbers from 0 to 1", TIME: "a column of numbers or dates", GROUP: "another column"}
GEPHI = {"source", "target", "type", "label"}  # Gephi's type is Directed or Undirected

HEADER_CELL = re.compile(r"[^\W\d][\w .()-]{0,39}")
WIDE_CELL = re.compile(r"[^\W\d][\w .,()\[\]/'?*&%-]{0,39}")  # the same beside a known name
# if all three are so: of Cypher, of Neo4j's import, with alternatives, of a table without names
MARKED_CELL = re.compile(r"\w+\['\w+'\]|\w+\(\w+\)|\w+:(?:START_|END_)?(?:ID|TYPE)|[A-Za-z ]+/[A-Za-z ]+|Unnamed: \d+")
WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")  # between the words of a name


def denies(cell: str) -> str | None:
    """Return which kind of column says whether a fact is negated, by its name; None if it does not."""
    word = column_word(cell)
    return NEGATED if word in NOT else word if word == POLARITY else QUALIFIER if word in QUALIFIERS else None


def id_spaces(header: Sequence[str]) -> list[str]:
    """Return the spaces of a Neo4j header's ids, if they are not one: `:START_ID(Actor)` and `:END_ID(Movie)`."""
    spaces = sorted({found[2] or "none" for cell in header if (found := NEO4J.fullmatch(cell)) and found[1] != "TYPE"})
    return spaces if len(spaces) > 1 else []


def types_of_ids(header: Sequence[str], known: dict[str, int]) -> list[str]:
    """Return the columns with the types of subject and object, such as x_type beside x_id; none without both."""
    words = [column_word(cell) for cell in header]
    ids = [words[known[part]] for part in ("subject", "object") if part in known]
    types = [word.removesuffix("id") + "type" for word in ids if word.endswith("id")]
    return [header[words.index(word)] for word in types] if len(types) == 2 and {*types} <= {*words} else []


def refuse_provenance(source: TriplesFile, cells: Sequence[str], known: dict[str, int]) -> None:
    """Raise InputError if the subject is a word of PROVENANCE after the object, and the first column has no known name.

    `entity,property,value,source` has its subject in the first column, and so has `drug,target,interaction,source`, but
    `key,target,source,relation` has a pair. Of `company,relation,owner,from,to`, the last two may be limits of time.
    """
    first, subject, thing = (column_word(cells[place]) for place in (0, known["subject"], known["object"]))
    s, p, o = (known[part] for part in COLUMNS)
    is_pair = (subject, thing) in zip(NAMES["subject"], NAMES["object"], strict=True) and o + 1 == s < p
    unknown = [cell for place, cell in enumerate(cells[:s]) if place != p and column_word(cell) not in USUAL]
    limits = (subject, thing) in VALIDITY and p < s and len(unknown) > 1  # company,relation,owner,from,to
    if first not in USUAL and (limits or (subject in PROVENANCE and s > o and not is_pair)):
        raise InputError(
            f"{source.path} may have its subject in the column {cells[0]} or {cells[known['subject']]}: --columns must "
            f"name three of {', '.join(cells)}"
        )


def refuse_weak_names(source: TriplesFile, cells: Sequence[str], known: dict[str, int]) -> None:
    """Raise InputError if a part has a name of WEAK, and a column that may be this part stands before it.

    In `source,interaction,gene,value` the object may be `gene`, and in `source,target,effect,p` the predicate `effect`.
    """
    if tuple(column_word(cells[known[part]]) for part in COLUMNS) in LETTERS:
        return
    for part in COLUMNS[1:]:
        place = known[part]
        start = max((other + 1 for other in known.values() if other < place), default=0)
        words = {cell: column_word(cell) for cell in cells[start:place]}
        rivals = [cell for cell, word in words.items() if word not in USUAL | BESIDE and not word.endswith(DESCRIBES)]
        if column_word(cells[place]) in WEAK and rivals:
            raise InputError(
                f"{source.path} may have its {part} in the column {rivals[-1]} or {cells[place]}: --columns must name "
                f"three of {', '.join(cells)}"
            )


def in_order(names: Sequence[str]) -> list[str]:
    """Return three names of columns in the order subject, predicate, object, as far as they tell it."""
    words = {column_word(name): name for name in names}
    ends = [next((words[word] for word in words if word in NAMES[part]), "") for part in ("subject", "object")]
    middle = [name for name in names if name not in ends]
    return [ends[0], *middle, ends[1]] if len(middle) == 1 else list(names)


def may_be_limits(cells: Sequence[str], known: dict[str, int]) -> bool:
    """Return whether subject and object may be the limits of a fact, such as in `gene,type,start,end`.

    Then another column, which is no key of the rows, has the entity.
    """
    words = [column_word(cell) for cell in cells]
    others = [word for place, word in enumerate(words) if place not in known.values()]
    rivals = [word for word in others if word not in USUAL and not word.endswith("id")]
    return (words[known["subject"]], words[known["object"]]) in VALIDITY and bool(rivals)


def refuse_like_labels(source: TriplesFile, cells: Sequence[str], known: dict[str, int], chosen: Sequence[int]) -> None:
    """Raise InputError if there is no column of labels, but one that may be. chosen: places that the user chose."""
    words = [column_word(cell) for cell in cells]
    meant = LIKE_LABELS - ({"y"} if "x" in words else set())
    like = next((cell for n, cell in enumerate(cells) if words[n] in meant and n not in chosen), None)
    if like is None or LABEL in known or source.further or source.labelled is not None:
        return
    given = "--columns " + ",".join(cells[known[column]] for column in COLUMNS)
    raise InputError(
        f"{source.path} has the column {like}, which may say which facts are true: give {given},{like} if it does (1, "
        f"true: true; 0, -1, false: false), or {given} to leave it out"
    )


def place_of_choice(
    source: TriplesFile,
    cells: Sequence[str],
    known: Mapping[str, int],
    header: bool,
    name: str,
    option: str,
    wanted: str,
) -> int:
    """Return the place of a column of confidences, times or groups that the user chooses by an option + `wanted`.

    known   column -> place, of the columns that were found
    header  whether the cells are the names of the columns
    name    confidence, time or group

    Raises InputError if there is no such column, or if it has another part.
    """
    given = f"{option}{wanted}"
    if name == CONFIDENCE and LABEL in known:
        raise InputError(
            f"{source.path} has a column of labels, and {given} is given: a triple has a label or a confidence, so "
            "give --columns without the label, or leave out --confidence"
        )
    if header and wanted in cells:
        place = cells.index(wanted)
    elif wanted.isdecimal() and 1 <= int(wanted) <= len(cells):
        place = int(wanted) - 1
    else:
        names = f"one of {', '.join(cells)}, or " if header else ""
        raise InputError(
            f"{source.path} has no column {wanted}: {option.strip(': ')} must be {names}a position from 1 to "
            f"{len(cells)}"
        )
    for column, other in known.items():
        if other == place:
            raise InputError(f"{source.path}: {given} is the column of the {column}: it must be {MUST_BE[name]}")
    return place
