"""Unknown entities and predicates: names that the training split does not have.

A triple with an unknown name has no embedding and cannot be scored or calibrated. Therefore it is dropped. This module
makes the texts about such triples for users.
"""

from collections.abc import Collection

import pandas as pd

MOST_EXAMPLES = 3


def examples_of_unknown_names(
    frame: pd.DataFrame, entities: Collection[str], predicates: Collection[str]
) -> tuple[str, ...]:
    """The unknown names of the first MOST_EXAMPLES triples, each as `line 17: unknown entity 'x'`.

    frame                 triples that each have an unknown name, in columns subject, predicate, object. The index is
                          the line number
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
        examples.append(f"line {line}: {' and '.join(dict.fromkeys(names))}")
    return tuple(examples)


def describe_unknown_names(count: int, examples: Collection[str]) -> str:
    """The count of triples with an unknown name, and examples: `2 with a name that is not in train (line 3: ...)`."""
    shown = "; ".join(examples) + ("; ..." if count > len(examples) else "")
    return f"{count:,} with a name that is not in train" + (f" ({shown})" if examples else "")
