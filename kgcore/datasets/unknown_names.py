"""Unknown entities and predicates: names that the training split does not have.

An unknown name has no embedding, so that its triples cannot be scored or calibrated. Therefore these triples are
dropped. This module writes the text that tells a user which triples they are.
"""

from collections.abc import Collection

import pandas as pd

MOST_EXAMPLES = 3


def examples_of_unknown_names(
    frame: pd.DataFrame, entities: Collection[str], predicates: Collection[str]
) -> tuple[str, ...]:
    """Return the unknown names of the first MOST_EXAMPLES triples, each as `line 17: unknown entity 'x'`.

    frame                 triples with at least one unknown name each, in columns subject, predicate, object. The index
                          is the line number, or a text such as `row 17`
    entities, predicates  the known names
    """
    known = {"subject": set(entities), "predicate": set(predicates)}
    known["object"] = known["subject"]
    kinds = {"subject": "entity", "predicate": "predicate", "object": "entity"}
    examples = []
    for line, row in frame.head(MOST_EXAMPLES).iterrows():
        names = [
            f"unknown {kind} {row[column]!r}" for column, kind in kinds.items() if row[column] not in known[column]
        ]
        place = line if isinstance(line, str) else f"line {line}"
        examples.append(f"{place}: {' and '.join(dict.fromkeys(names))}")
    return tuple(examples)


def describe_unknown_names(count: int, examples: Collection[str]) -> str:
    """Return text with the count of the triples and examples: `2 with a name that is not in train (line 3: ...)`."""
    shown = "; ".join(examples) + ("; ..." if count > len(examples) else "")
    return f"{count:,} with a name that is not in train" + (f" ({shown})" if examples else "")
