"""The errors a user can cause. Each message is one sentence: what was found, where, what would be right."""


class KgcalError(Exception):
    """Base of every error that is shown to a user as a sentence, without a traceback."""


class KgcalWarning(UserWarning):
    """Something a user should know of that stops nothing."""


class InputError(KgcalError, ValueError):
    """An option, a file or an argument is not what it has to be."""


class MismatchError(KgcalError):
    """Two artifacts that do not belong together met, such as a calibrator and the scores of another model."""


class FitError(KgcalError, ArithmeticError):
    """A calibrator could not be fitted: it did not converge, or the data cannot determine it."""


SHOWN = 10


def refuse(faults: list[str]) -> None:
    """Raise InputError that lists the faults, the first `SHOWN` of them in full, if there are any."""
    if not faults:
        return
    more = f" (and {len(faults) - SHOWN:,} more)" if len(faults) > SHOWN else ""
    raise InputError("; ".join(faults[:SHOWN]) + more)


def first_line(error: BaseException) -> str:
    """What an error says, in a line; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
