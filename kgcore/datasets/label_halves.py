"""The division of newly labelled triples between the exam and calibration."""

from hashlib import blake2b

import numpy as np
import pandas as pd

from kgcore.arrays import Bools
from kgcore.datasets.formats.base import COLUMNS
from kgcore.errors import InputError


def for_exam(names: pd.DataFrame, share: float) -> Bools:
    """Return a mask (n,) of the triples that belong to the exam. The others belong to calibration.

    names  n rows, columns subject, predicate, object
    share  expected share of the triples for the exam, in [0, 1); 0: none

    A triple belongs to the exam if h / 2^64 < share, where h is the BLAKE2b hash of 8 bytes, big-endian, of the UTF-8
    text `subject<tab>predicate<tab>object`. So the answer depends on the triple alone: not on its label, on the order
    of the file, or on other triples. A triple keeps its place when the file grows. A larger share moves triples only
    from calibration to the exam. Raises InputError for a share out of range.
    """
    if not 0 <= share < 1:
        raise InputError(f"exam_share is {share:g}: it must be at least 0 and below 1")
    rows = zip(*(names[column] for column in COLUMNS), strict=True)
    hashes = [int.from_bytes(blake2b("\t".join(row).encode(), digest_size=8).digest(), "big") for row in rows]
    return np.array(hashes, dtype=np.float64) / 2.0**64 < share
