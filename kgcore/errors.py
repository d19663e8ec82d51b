"""The errors that a user can cause. A message is one sentence: what is wrong, where it is, and what would be right."""

import errno
import re
from collections.abc import Mapping
from types import UnionType

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}  # how an OSError says that the disk is full
MOST_FAULTS = 10  # a message lists this many faults, and only counts the others


class KgcalError(Exception):
    """The base class of the errors whose message a user sees without a traceback."""


class KgcalWarning(UserWarning):
    """A warning that a user should read. The program continues."""


class InputError(KgcalError, ValueError):
    """An option, a file or an argument has an invalid value."""


class MismatchError(KgcalError):
    """Two artifacts do not belong together, such as a calibrator and the scores of another model."""


class OutageError(KgcalError):
    """The MLflow store does not answer."""


class FitError(KgcalError, ArithmeticError):
    """A model or a calibrator cannot be fitted: the fit did not converge, or the data do not determine it."""


def raise_faults(faults: list[str]) -> None:
    """Raise InputError with the first `MOST_FAULTS` faults and the number of the others. Do nothing without faults."""
    if not faults:
        return
    more = f" (and {len(faults) - MOST_FAULTS:,} more)" if len(faults) > MOST_FAULTS else ""
    raise InputError("; ".join(faults[:MOST_FAULTS]) + more)


def check_type(name: str, value: object, kind: type | UnionType, must_be: str) -> None:
    """Raise InputError if an argument of a function that users call from Python is of another type."""
    if not isinstance(value, kind):
        raise InputError(f"{name} is of the type {type(value).__name__}: it must be {must_be}")


def check_format(what: str, data: Mapping[str, object], expected: int) -> None:
    """Raise InputError unless the key `format` of a JSON object is the one format that this version reads.

    what  what the object is, in the plural, such as `calibrators`
    """
    if data.get("format") != expected:
        raise InputError(
            f"this version of kgcal reads {what} of format {expected}, not {data.get('format')!r}: run the stage that "
            "made them again"
        )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of the error's class if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def masked(text: str) -> str:
    """Return the text with *** in place of the password of every address in it.

    Addresses, and errors that may contain addresses, are printed only in this form.
    """
    text = re.sub(r"(://[^:/?#@\s]*:)(?:\S*|[^/\n]*)@", r"\1***@", text)
    return re.sub(r"([?&][a-z_]*password=)[^&\s]*", r"\1***", text, flags=re.IGNORECASE)
