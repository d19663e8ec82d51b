"""What evidence is made with: tables of integer keys, sums over rows, links between entities, and the words of names.

Every look-up is vectorised; nothing depends on blocks.

A name such as `__spiritual_bouquet_1` has the words `spiritual` and `bouquet`. A run of letters and digits with a digit
in it, or with one letter, is not a word: identifiers (`06845599`, `Q42`, `/m/027rn`) have no words, so that evidence
from names is not known for them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Triples, sorted_distinct

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

    from kgcore.evidence.base import Tile


Ints32: TypeAlias = npt.NDArray[np.int32]  # half of the memory of Ints


@dataclass(frozen=True)
class KeyTable:
    """Distinct integer keys in ascending order. `find` returns the place of a key.

    keys    (N,) ascending
    marks   (2^bits / 64,) the bit of a hash is 1 if some key has this hash. A look-up searches only for keys whose hash
            is marked, because a binary search costs twenty times as much as a hash
    """

    keys: Ints
    marks: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, keys: Ints) -> Self:
        """Build the table of ascending distinct keys. Memory: 8 bytes and 8 to 16 bits a key."""
        bits = max(6, len(keys).bit_length() + 3)
        marks = np.zeros(2**bits // 64, dtype=np.uint64)
        _loops().mark_keys(np.ascontiguousarray(keys), marks, bits)
        return cls(keys, marks)

    def find(self, keys: Ints) -> tuple[Ints, Ints]:
        """Find keys (n,). Return the rows of those that the table has, ascending, and their places in the table."""
        rows, places = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int64)
        bits = (64 * len(self.marks)).bit_length() - 1
        found = _loops().find_keys(self.keys, self.marks, bits, np.ascontiguousarray(keys), rows, places)
        return rows[:found].copy(), places[:found].copy()


def _loops() -> ModuleType:
    """Return the compiled loops. Numba and torch, which they load, take more than a second."""
    from kgcore.loops import evidence

    return evidence


@dataclass(frozen=True)
class Counts:
    """How often each key occurs.

    table   the keys
    counts  (N,) how often each of them occurs
    """

    table: KeyTable
    counts: Ints32

    @classmethod
    def of(cls, keys: Ints) -> Self:
        """Count keys (n,), in any order."""
        found, counts = np.unique(keys, return_counts=True)
        return cls(KeyTable.of(found), counts.astype(np.int32))

    @classmethod
    def of_matrix(cls, matrix: "csc_array | csr_array") -> Self:
        """Read counts from a matrix (n, m): the key of row i and column j is i m + j."""
        entries = matrix.tocoo()
        keys = entries.row.astype(np.int64) * entries.shape[1] + entries.col
        order = np.argsort(keys)
        return cls(KeyTable.of(keys[order]), entries.data[order].astype(np.int32))

    def __call__(self, keys: Ints) -> Ints:
        """Return how often each of the keys (n,) occurs: 0 for an unknown key."""
        result = np.zeros(len(keys), dtype=np.int64)
        rows, places = self.table.find(keys)
        result[rows] = self.counts[places]
        return result


def expanded(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """List the positions start_i, ..., start_i + length_i - 1 for every i. Return i, ascending, and the position."""
    total = int(lengths.sum())
    rows, positions = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    _loops().fill_ranges(np.ascontiguousarray(starts), np.ascontiguousarray(lengths), rows, positions)
    return rows, positions


def ones_at(rows: Ints, columns: Ints, shape: tuple[int, int]) -> "csr_array":
    """Return the matrix with 1 at places (k,) of rows (k,), and 0 elsewhere."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)


def row_sums(rows: Ints, values: Floats, count: int) -> Floats:
    """Return the sum (count,) of the values of each row, added one after the other; 0 without values."""
    sums = np.bincount(rows, weights=values, minlength=count)
    return sums.astype(np.float64)  # without rows, NumPy counts in integers


def row_maxima(rows: Ints, values: Floats, count: int) -> Floats:
    """Return the maximum (count,) of the values of each row; 0 without values. The rows ascend."""
    result: Floats = np.zeros(count)
    if len(rows):
        first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        result[rows[first]] = np.maximum.reduceat(values, first)
    return result


def best_and_any(rows: Ints, confidences: Floats, count: int) -> tuple[Floats, Floats]:
    """Combine confidences in [0, 1) by row: the maximum, and the noisy-or 1 - prod (1 - c). Both 0 without entries."""
    return row_maxima(rows, confidences, count), -np.expm1(row_sums(rows, np.log1p(-confidences), count))


def mean_and_highest(rows: Ints, values: Floats, count: int) -> Floats:
    """Return the mean and the highest value of each row (count, 2); NaN without values. The rows ascend."""
    numbers = np.bincount(rows, minlength=count)
    result = np.full((count, 2), np.nan)
    held = numbers > 0
    if len(rows):
        first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        result[held, 0] = row_sums(rows, values, count)[held] / numbers[held]
        result[held, 1] = np.maximum.reduceat(values, first)
    return result


@dataclass(frozen=True)
class Links:
    """The links of every entity. A fact (s, p, o) links s to o by the kind p, and o to s by the kind p + R.

    Facts with s = o give no link.

    num_entities, num_predicates
                 E and R
    starts       (E + 1,) where the links of each entity start in `others` and `kinds`
    others       (2m,) int32: the entity at the other end. The links of an entity are in ascending order of the number
                 of links of the other entity, so that a walk with a limit leaves out the hubs
    kinds        (2m,) int32 in 0, ..., 2R - 1
    pairs        the distinct keys a E + b of linked pairs (a, b)
    pair_starts  (N + 1,) where the links of each pair start in `pair_kinds`
    pair_kinds   (2m,) int32
    """

    num_entities: int
    num_predicates: int
    starts: Ints
    others: Ints32
    kinds: Ints32
    pairs: KeyTable
    pair_starts: Ints
    pair_kinds: Ints32

    @classmethod
    def of(cls, facts: Triples, num_entities: int, num_predicates: int) -> Self:
        """Build the links of distinct facts (n, 3)."""
        s, p, o = facts[facts[:, 0] != facts[:, 2]].T.astype(np.int32)
        ends, others, kinds = np.r_[s, o], np.r_[o, s], np.r_[p, p + np.int32(num_predicates)]
        degrees = np.bincount(ends, minlength=num_entities)
        order = np.lexsort((kinds, others, degrees.astype(np.int32)[others], ends))
        by_degree = others[order], kinds[order]
        order = np.lexsort((kinds, others, ends))
        keys = ends[order].astype(np.int64) * num_entities + others[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        return cls(
            num_entities,
            num_predicates,
            np.concatenate([[0], np.cumsum(degrees)]),
            *by_degree,
            KeyTable.of(keys[first]),
            np.append(first, len(kinds)),
            kinds[order],
        )

    @property
    def degrees(self) -> Ints:
        """The number (E,) of links of each entity."""
        return np.diff(self.starts)

    def inverse(self, kinds: Ints) -> Ints:
        """Return the kinds in the other direction."""
        return (kinds + self.num_predicates) % (2 * self.num_predicates)

    def leaving(self, entities: Ints, most: int, apart_from: Ints) -> tuple[Ints, Ints, Ints]:
        """Follow at most `most` links of each entity (n,) that do not lead to the entity `apart_from` (n,).

        Return row, other entity and kind of each; rows ascend. A link to `apart_from` does not change the result.
        """
        direct = self.number(entities, apart_from)
        rows, places = expanded(self.starts[entities], np.minimum(self.degrees[entities], most + direct))
        if direct.any():
            away = self.others[places] != apart_from[rows]
            rows, places = rows[away], places[away]
            rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(entities)))[rows]
            rows, places = rows[rank < most], places[rank < most]
        return rows, self.others[places].astype(np.int64), self.kinds[places].astype(np.int64)

    def number(self, ends: Ints, others: Ints) -> Ints:
        """Return the number (n,) of links of each of n pairs."""
        result = np.zeros(len(ends), dtype=np.int64)
        rows, places = self.pairs.find(ends * self.num_entities + others)
        result[rows] = np.diff(self.pair_starts)[places]
        return result

    def between(self, ends: Ints, others: Ints) -> tuple[Ints, Ints]:
        """Find all links of n pairs. Return row and kind of each; rows ascend."""
        rows, places = self.pairs.find(ends * self.num_entities + others)
        inner, positions = expanded(self.pair_starts[places], np.diff(self.pair_starts)[places])
        return rows[inner], self.pair_kinds[positions].astype(np.int64)

    @cached_property
    def matrix(self) -> "csr_array":
        """The number of links between any two entities (E, E)."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self.others), dtype=np.float32)
        return csr_array((ones, self.others, self.starts), shape=(self.num_entities,) * 2)

    def first(self, entities: Ints, most: int) -> "csr_array":
        """Return where the first `most` links of entities (n,) lead: (n, E)."""
        rows, places = expanded(self.starts[entities], np.minimum(self.degrees[entities], most))
        return ones_at(rows, self.others[places].astype(np.int64), (len(entities), self.num_entities))

    def linked(self, tile: "Tile") -> Bools:
        """Return which pairs of a tile (n, m) have a link."""
        linked = np.zeros(tile.shape, dtype=bool)
        rows, places = expanded(self.starts[tile.subjects], self.degrees[tile.subjects])
        tile.mark(linked, rows, self.others[places].astype(np.int64))
        return linked

    def near(self, tile: "Tile") -> Bools:
        """Return which pairs of a tile (n, m) have a link or a common neighbour."""
        return self.linked(tile) | meeting(self.matrix[tile.subjects], self.matrix[tile.objects])


def meeting(left: "csr_array", right: "csr_array") -> Bools:
    """Return which rows of two matrices (n, c) and (m, c) of positive numbers have a column in common: (n, m)."""
    product = (left @ right.T.tocsr()).tocoo()
    met = np.zeros(product.shape, dtype=bool)
    met[product.row, product.col] = True
    return met


RUN = re.compile(r"[^\W_]+")
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # the boundary in `spiritualBouquet`
LONGEST = 12  # words of a name that count; the first ones. It bounds the work for a name that is a sentence
ENDINGS = (2, 3, 4)  # letters
BEGINNING = 4  # letters


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case, in their order; at most LONGEST. An empty name has no words."""
    last = name.rstrip("/#>").rsplit("/", 1)[-1].rsplit("#", 1)[-1]  # of an IRI, the part that names
    runs = RUN.findall(unicodedata.normalize("NFKC", HUMP.sub(" ", last)).casefold())
    return tuple([run for run in runs if len(run) > 1 and (run.isalpha() or not any(map(str.isdigit, run)))][:LONGEST])


def parts_of(name: str) -> tuple[str, ...]:
    """Return what may tell the type of a named thing: its words, the last word as such, and its ends.

    A sign shows the kind of a part: `bouquet`, `$bouquet`, `^spiritual`, `=spiritual bouquet`, `-uet`, `+bouq`.
    """
    words = words_of(name)
    if not words:
        return ()
    last = words[-1]
    ends = [f"-{last[-size:]}" for size in ENDINGS if len(last) > size]
    start = [f"+{last[:BEGINNING]}"] if len(last) > BEGINNING else []
    whole = [f"={' '.join(words)}", f"^{words[0]}"] if len(words) > 1 else [f"={last}"]
    return (*dict.fromkeys(words), f"${last}", *ends, *start, *whole)


def trigrams_of(name: str) -> tuple[str, ...]:
    """Return the distinct trigrams of letters of a name's words; each word has one space at both ends."""
    return tuple(
        dict.fromkeys(
            padded[i : i + 3] for word in words_of(name) for padded in [f" {word} "] for i in range(len(word))
        )
    )


@dataclass(frozen=True)
class Tokens:
    """The tokens of N names: of name i, `numbers[starts[i] : starts[i + 1]]`, increasing.

    vocabulary  token -> number. A token that it lacks is left out
    """

    vocabulary: Mapping[str, int]
    starts: Ints
    numbers: Ints

    @classmethod
    def of(cls, names: Iterable[Sequence[str]], fewest: int = 2) -> Self:
        """Build the vocabulary: the tokens that at least `fewest` of the names have. names: the tokens of each name."""
        lists = list(names)
        counts = Counter(chain.from_iterable(lists))
        kept = sorted(token for token, count in counts.items() if count >= fewest)
        vocabulary = {token: number for number, token in enumerate(kept)}
        return cls(vocabulary, *_rows(vocabulary, lists))

    @classmethod
    def identities(cls, count: int) -> Self:
        """Return tokens of N names where name i has the one token i."""
        return cls({}, np.arange(count + 1), np.arange(count))

    def extended(self, names: Iterable[Sequence[str]]) -> "Tokens":
        """Return the same with further names, which have the tokens of this vocabulary only."""
        starts, numbers = _rows(self.vocabulary, list(names))
        return Tokens(self.vocabulary, np.r_[self.starts, self.starts[-1] + starts[1:]], np.r_[self.numbers, numbers])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def size(self) -> int:
        """One more than the highest number of a token."""
        return max(len(self.vocabulary), int(self.numbers.max(initial=-1)) + 1)

    def expand(self, entities: Ints) -> tuple[Ints, Ints]:
        """Return two arrays of equal length: position in `entities` (n,), and token; one element for each token.

        An entity beyond the N names has no tokens.
        """
        known = entities < len(self)
        places = np.where(known, entities, 0)
        counts = np.where(known, self.starts[places + 1] - self.starts[places], 0)
        rows, positions = expanded(self.starts[places], counts)
        return rows, self.numbers[positions]

    def matrix(self, entities: Ints, width: int) -> "csr_array":
        """Return which tokens entities (n,) have: (n, width), with a width of at least `size`."""
        return ones_at(*self.expand(entities), (len(entities), width))


def _rows(vocabulary: Mapping[str, int], lists: Sequence[Sequence[str]]) -> tuple[Ints, Ints]:
    lengths, size = np.fromiter(map(len, lists), np.int64, len(lists)), max(len(vocabulary), 1)
    found = (vocabulary.get(token, -1) for token in chain.from_iterable(lists))
    numbers = np.fromiter(found, np.int64, int(lengths.sum()))
    rows = np.repeat(np.arange(len(lists)), lengths)
    keys = sorted_distinct((rows * size + numbers)[numbers >= 0])
    return np.searchsorted(keys, np.arange(len(lists) + 1) * size), keys % size
