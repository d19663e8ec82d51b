"""Which words go together: words of the subject's name and of the object's name in facts of the predicate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.evidence.base import Feature, PairColumn, Source, Tile, Tiled
from kgcore.evidence.lookup import Counts, mean_and_highest, meeting, ones_at
from kgcore.evidence.words import Tokens, parts_of, words_of
from kgcore.registries import EVIDENCE

Lifts = Callable[..., tuple[Ints, Floats]]
SMOOTHING = 0.1  # facts that are added to a count and to its expectation


@dataclass(frozen=True)
class PairCounts:
    """In how many training facts of a predicate two tokens occur: one of subjects, one of objects.

    A token is a word of the name, or the entity itself.

    sizes  numbers of tokens of subjects and of objects
    pairs  counts of (p, token of the subject, token of the object); lefts: of (p, token of the subject)
    """

    sizes: tuple[int, int]
    pairs: Counts
    lefts: Counts
    rights: Counts

    @classmethod
    def of(cls, left: Tokens, right: Tokens, facts: Triples) -> Self:
        """Count the tokens of distinct training facts (n, 3)."""
        sizes, predicates = (left.size + 1, right.size + 1), facts[:, 1]
        fact, first, second = pairs_of(left, right, facts)
        row, token = left.expand(facts[:, 0])
        other_row, other = right.expand(facts[:, 2])
        return cls(
            sizes,
            Counts.of((predicates[fact] * sizes[0] + first) * sizes[1] + second),
            Counts.of(predicates[row] * sizes[0] + token),
            Counts.of(predicates[other_row] * sizes[1] + other),
        )

    def both(self, predicates: Ints, first: Ints, second: Ints) -> Ints:
        """Return in how many facts of each predicate (m,) the two tokens (m,) occur."""
        return self.pairs((predicates * self.sizes[0] + first) * self.sizes[1] + second)

    def left(self, predicates: Ints, first: Ints) -> Ints:
        """Return in how many facts of each predicate (m,) the subject has the token (m,)."""
        return self.lefts(predicates * self.sizes[0] + first)

    def right(self, predicates: Ints, second: Ints) -> Ints:
        """Return in how many facts of each predicate (m,) the object has the token (m,)."""
        return self.rights(predicates * self.sizes[1] + second)

    def joined(self, left: Tokens, right: Tokens, tile: Tile) -> Bools:
        """Return the pairs of a tile (n, m) with a token of the subject and one of the object in one training fact."""
        size = self.sizes[0] * self.sizes[1]
        keys = self.pairs.table.keys
        first, last = np.searchsorted(keys, [tile.predicate * size, (tile.predicate + 1) * size])
        facts = ones_at(*np.divmod(keys[first:last] % size, self.sizes[1]), self.sizes)
        return meeting(left.matrix(tile.subjects, self.sizes[0]) @ facts, right.matrix(tile.objects, self.sizes[1]))


def pairs_of(left: Tokens, right: Tokens, triples: Triples) -> tuple[Ints, Ints, Ints]:
    """Return three arrays of equal length: row, token of its subject, token of its object; for each pair of tokens."""
    row, first = left.expand(triples[:, 0])
    place, second = right.expand(triples[row, 2])
    return row[place], first[place], second


@EVIDENCE.register("name_pairs")
@dataclass(frozen=True)
class NamePairs(Feature):
    """pair_words_mean, pair_words_highest: log lift of pairs of a word of the subject and a word of the object.

        log lift of (v, w) = log((n(v, w) + a) / (n(v) n(w) / n + a)), a = SMOOTHING

    Of the training facts of p without the subject s and without the object o, which are n: n(v, w) have both words,
    n(v) have v in the subject's name, n(w) have w in the object's name. Positive: the words go together. `mean` and
    `highest` are over the pairs of words that at least two entities have; NaN: a name has no such word.

    pair_subject_name_*: the same for a part of the subject's name and the object o itself, of facts without s.
    pair_object_name_*:  the same for the subject s itself and a part of the object's name, of facts without o.
    Parts are words, ends of words and more: kgcore/evidence/words.py.

    So all counts are of other facts: a training fact is never evidence for itself.

    Cost: W^2 look-ups a triple, for W words of a name; the tables have up to W^2 numbers for each training fact.
    Misleading where the names of the true triples come from one source and those of the false ones from another.
    """

    words: Tokens
    parts: Tokens
    ids: Tokens
    word_word: PairCounts
    word_id: PairCounts
    id_word: PairCounts
    part_id: PairCounts
    id_part: PairCounts
    id_id: PairCounts
    facts: Ints

    sees_unseen = True
    names = tuple(
        f"pair_{way}_{what}" for way in ("words", "subject_name", "object_name") for what in ("mean", "highest")
    )

    @classmethod
    def of(cls, source: Source) -> Self:
        graph = source.graph
        words, parts = Tokens.of(words_of(name) for name in graph.entities), source.parts
        ids = Tokens.identities(len(graph.entities))
        facts = np.unique(graph.train.positives, axis=0)
        counts = np.bincount(facts[:, 1], minlength=len(graph.predicates))
        kinds = (words, words), (words, ids), (ids, words), (parts, ids), (ids, parts), (ids, ids)
        ww, wi, iw, pi, ip, ii = (PairCounts.of(left, right, facts) for left, right in kinds)
        return cls(words, parts, ids, ww, wi, iw, pi, ip, ii, counts)

    def extended(self, names: Sequence[str]) -> Self:
        words = self.words.extended(words_of(name) for name in names)
        return replace(self, words=words, parts=self.parts.extended(parts_of(name) for name in names))

    def needs(self, side: int) -> tuple[str, ...]:
        way = ("pair_object_name", "pair_subject_name")[side]  # with the entity itself, and words of the other one
        return tuple(name for name in self.names if name.startswith(way))

    def values(self, triples: Triples) -> Floats:
        lifts = self._words(triples), self._subject_name(triples), self._object_name(triples)
        return np.concatenate([mean_and_highest(row, lift, len(triples)) for row, lift in lifts], axis=1)

    def tile(self, tile: Tile) -> Tiled:
        """See `Feature.tile`. Where no fact joins tokens of both sides, only counts of each side are left."""
        s, o, words, ids = tile.subjects, tile.objects, self.words, self.ids
        apart = self.word_word.joined(words, words, tile)
        apart |= self.part_id.joined(self.parts, ids, tile) | self.id_part.joined(ids, self.parts, tile)
        by_subject = _alike(self.id_id.left, self.word_word.left, words, tile.predicate, s)
        by_object = _alike(self.id_id.right, self.word_word.right, words, tile.predicate, o)
        facts_of = _alike(self.id_id.left, self.word_word.left, None, tile.predicate, s)
        facts_to = _alike(self.id_id.right, self.word_word.right, None, tile.predicate, o)
        return Tiled(
            [
                *self._apart(self._words, tile, s[by_subject[0]], by_subject[1], o[by_object[0]], by_object[1]),
                *self._apart(self._subject_name, tile, s, None, o[facts_to[0]], facts_to[1]),
                *self._apart(self._object_name, tile, s[facts_of[0]], facts_of[1], o, None),
            ],
            apart,
        )

    def _apart(
        self, lifts: Lifts, tile: Tile, subjects: Ints, rows: Ints | None, objects: Ints, columns: Ints | None
    ) -> list[PairColumn]:
        """Return the columns of lifts that are computed for some subjects and objects that stand for the others."""
        shape = len(subjects), len(objects)
        row, lift = lifts(tile.triples(np.repeat(subjects, shape[1]), np.tile(objects, shape[0])), joined=False)
        table = mean_and_highest(row, lift, shape[0] * shape[1])
        return [PairColumn.of(values.reshape(shape), rows, columns) for values in table.T]

    def _words(self, triples: Triples, joined: bool = True) -> tuple[Ints, Floats]:
        """Return row and log lift of each pair of words. joined: whether a fact may have tokens of both sides."""
        row, v, w = pairs_of(self.words, self.words, triples)
        s, p, o = self._columns(triples[row])
        with_s, with_o, own = self.id_id.left(p, s), self.id_id.right(p, o), self.id_id.both(p, s, o) if joined else 0
        v_o, s_w = (self.word_id.both(p, v, o), self.id_word.both(p, s, w)) if joined else (0, 0)
        both = self.word_word.both(p, v, w) - s_w - v_o + own if joined else np.zeros_like(row)
        lefts = self.word_word.left(p, v) - with_s - v_o + own
        rights = self.word_word.right(p, w) - with_o - s_w + own
        return row, _lift(both, lefts, rights, self.facts[p] - with_s - with_o + own)

    def _subject_name(self, triples: Triples, joined: bool = True) -> tuple[Ints, Floats]:
        row, v, _ = pairs_of(self.parts, self.ids, triples)
        s, p, o = self._columns(triples[row])
        with_s, own = self.id_id.left(p, s), self.id_id.both(p, s, o) if joined else 0
        both = self.part_id.both(p, v, o) - own if joined else np.zeros_like(row)
        lefts = self.part_id.left(p, v) - with_s
        return row, _lift(both, lefts, self.part_id.right(p, o) - own, self.facts[p] - with_s)

    def _object_name(self, triples: Triples, joined: bool = True) -> tuple[Ints, Floats]:
        row, _, w = pairs_of(self.ids, self.parts, triples)
        s, p, o = self._columns(triples[row])
        with_o, own = self.id_id.right(p, o), self.id_id.both(p, s, o) if joined else 0
        both = self.id_part.both(p, s, w) - own if joined else np.zeros_like(row)
        rights = self.id_part.right(p, w) - with_o
        return row, _lift(both, self.id_part.left(p, s) - own, rights, self.facts[p] - with_o)

    def _columns(self, triples: Triples) -> tuple[Ints, Ints, Ints]:
        """Return subjects, predicates, objects. An entity that training lacks has the number E, which no fact has."""
        last = len(self.ids)
        return np.minimum(triples[:, 0], last), triples[:, 1], np.minimum(triples[:, 2], last)


def _alike(
    of_entity: Callable[[Ints, Ints], Ints],
    of_token: Callable[[Ints, Ints], Ints],
    tokens: Tokens | None,
    predicate: int,
    entities: Ints,
) -> tuple[Ints, Ints]:
    """Divide entities (n,) into classes with the same counts of facts, of the entity and of each of its tokens.

    Return the position of one entity of each class, and the class (n,) of each entity.
    """
    row, token = tokens.expand(entities) if tokens else (entities[:0], entities[:0])
    sizes = np.bincount(row, minlength=len(entities))
    counts = np.full((len(entities), 1 + int(sizes.max(initial=0))), -1)
    counts[:, 0] = of_entity(np.full(len(entities), predicate), entities)
    place = np.arange(len(row)) - (np.cumsum(sizes) - sizes)[row]
    counts[row, 1 + place] = of_token(np.full(len(row), predicate), token)
    _, first, classes = np.unique(counts, axis=0, return_index=True, return_inverse=True)
    return first, classes.ravel()


def _lift(both: Ints, lefts: Ints, rights: Ints, facts: Ints) -> Floats:
    expected = lefts * (rights / np.maximum(facts, 1))
    return np.log((both + SMOOTHING) / (expected + SMOOTHING))
