"""The times of triples: numbers, such as years, or ISO dates."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kgcore.arrays import Floats
from kgcore.errors import InputError

MUST_BE = "a number or an ISO date such as 2024-05-17 or 2024-05-17T08:30"


def read_times(texts: Sequence[str]) -> Floats:
    """Return the times (n,) of the texts (n,): all are numbers, or all are dates, which become seconds since 1970.

    A date is a year, a month, a day, or a moment, with or without a time zone (UTC without). A text that is
    neither a number nor a date becomes NaN. Raises InputError if some are only numbers and others are only dates.
    """
    numbers, dates = _numbers(texts), _dates(texts)
    if not np.isnan(numbers).any():
        return numbers
    number, date = (
        np.flatnonzero(~np.isnan(one) & np.isnan(other)) for one, other in ((numbers, dates), (dates, numbers))
    )
    if len(number) and len(date):
        raise InputError(
            f"some times are numbers, such as {texts[number[0]]}, and others are dates, such as {texts[date[0]]}: all "
            "must be of one kind"
        )
    return numbers if len(number) else dates


def is_time(texts: Sequence[str]) -> "pd.Series":
    """Return whether each text is a number or a date."""
    return pd.Series(~np.isnan(_numbers(texts)) | ~np.isnan(_dates(texts)))


def _numbers(texts: Sequence[str]) -> Floats:
    found = pd.to_numeric(pd.Series(texts, dtype="str"), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(found), found, np.nan)


def _dates(texts: Sequence[str]) -> Floats:
    found = pd.to_datetime(pd.Series(texts, dtype="str"), format="ISO8601", utc=True, errors="coerce")
    moments = found.dt.tz_localize(None).to_numpy("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)
