"""The words of names: what evidence from names is made of.

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
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Ints, sorted_distinct
from kgcore.evidence.lookup import expanded, ones_at

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
