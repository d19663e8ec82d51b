"""Reads lists of entity names."""

from pathlib import Path

from kgcore.errors import InputError


def read_names(path: Path) -> list[str]:
    """Read a text file with one name per line. Empty lines and repeated names are left out.

    Raises InputError if the file cannot be read, has no name, is not UTF-8, or has a tab in a line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: save the file as UTF-8 text") from error
    for number, line in enumerate(lines, start=1):
        if "\t" in line:
            raise InputError(f"{path}, line {number}: the line has a tab: the file must have one name per line")
    names = list(dict.fromkeys(line for line in lines if line))
    if not names:
        raise InputError(f"{path} is empty: it must have one name per line")
    return names
