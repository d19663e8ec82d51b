"""The result of a search of all pairs, and the same by scoring and sorting every pair."""

from collections import Counter

import numpy as np

from kgcore.answer.pairs import PairSearch, best_pairs, search_pairs
from kgcore.embed.models.scorer import Scorer


def every_pair(trained: Scorer, search: PairSearch) -> list[tuple[int, int, int]]:
    """Return the result of a search by scoring and sorting every pair."""
    grid = np.stack(np.meshgrid(search.subjects, search.objects, indexing="ij"), axis=-1).reshape(-1, 2)
    triples = search.triples(grid)
    scores = trained.score(triples)
    rows = [
        (group, -score, tuple(triple))
        for group, score, triple in zip(search.groups(grid), scores, triples.tolist(), strict=True)
        if score >= search.lowest
    ]
    if search.leave_out is not None:
        rows = [row for row in rows if not search.leave_out.contains(np.array([row[2]]))[0]]
    if not search.reflexive:
        rows = [row for row in rows if row[2][0] != row[2][2]]
    kept, counts = [], Counter[int]()
    for group, _, triple in sorted(rows):
        counts[group] += 1
        if not search.top or counts[group] <= search.top:
            kept.append(triple)
    return kept


def found(trained: Scorer, search: PairSearch, parts: int = 1) -> list[tuple[int, int, int]]:
    divided = [search_pairs(trained, search, part) for part in np.array_split(search.subjects, parts)]
    return [tuple(triple) for triple in best_pairs(trained, search, np.concatenate(divided)).tolist()]
