"""Run a notebook: a page of docs/gallery. Its blocks of Python and of the shell are the cells.

    python docs/scripts/site/gallery.py docs/gallery/first-probabilities.md FOLDER

It writes to FOLDER the page with the output below each cell, its pictures, and a Jupyter notebook without outputs. The
cells of a page share one namespace and one folder, which is empty at first. What the text states is computed:

    {{ f"{share:.0%}" }}            the value of an expression, after all cells
    <!-- holds: share > 0.5 -->     it must be true after all cells, or the run fails
    <!-- needs: NAME.zip -->        a file in the folder KGCAL_MIRROR; without it, the page is shown without outputs
    <!-- servers -->                the cells start servers with `kgcal up`; they are stopped after the run in any case
"""

import ast
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

CELL = re.compile(r"^```(python|sh)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VALUE = re.compile(r"\{\{ (.+?) \}\}")
HOLDS = re.compile(r"<!-- holds: (.+?) -->")
NEEDS = re.compile(r"<!-- needs: (.+?) -->")
ALIGNED = re.compile(r"\S {2,}\S|─{9}")
SERVERS = "<!-- servers -->"
WITHOUT = "This page was built without `{}`, so it has no outputs and no numbers."
QUIET = {"KGCAL_PREFECT": "off", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "COLUMNS": "92"}
PROGRESS = re.compile(r"[^\n]*\r[^\n]*\n?")  # bars that overwrite themselves
SECONDS = 900  # until a notebook is given up


class NotebookError(Exception):
    """A cell that fails, or a statement of the text that does not hold."""


@dataclass(frozen=True)
class Cell:
    """A block of a page: its language, its source, and the number of its first line."""

    language: str
    source: str
    line: int


def parts_of(text: str) -> Iterator[str | Cell]:
    """Yield the text between the cells, and the cells, in their order."""
    end = 0
    for found in CELL.finditer(text):
        yield text[end : found.start()]
        yield Cell(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)
        end = found.end()
    yield text[end:]


def missing_file(text: str) -> str | None:
    """Return the name of a file that the page needs and that KGCAL_MIRROR lacks."""
    needed, mirror = NEEDS.findall(text), os.environ.get("KGCAL_MIRROR")
    return next((name for name in needed if not (mirror and (Path(mirror) / name).is_file())), None)


def run(page: Path, folder: Path) -> None:
    """Run a page in a process and a scratch folder of its own. Raises NotebookError with the output of a failure."""
    with tempfile.TemporaryDirectory(prefix="kgcal-notebook-") as scratch:
        work, home = Path(scratch) / "work", Path(scratch) / "home"
        work.mkdir()
        paths = {
            "KGCAL_HOME": str(home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        }
        command = [sys.executable, __file__, str(page.resolve()), str(folder.resolve())]
        environment = os.environ | QUIET | paths
        if has_servers := SERVERS in page.read_text(encoding="utf-8"):
            del environment["KGCAL_PREFECT"]
        how: dict[str, Any] = {"cwd": work, "env": environment, "capture_output": True, "text": True, "check": False}
        try:
            done = subprocess.run(command, timeout=SECONDS, **how)  # noqa: S603
        except subprocess.TimeoutExpired as error:
            raise NotebookError(f"{page.name}: it runs for more than {SECONDS} seconds") from error
        finally:
            if has_servers:
                subprocess.run([sys.executable, "-m", "kgcal", "down"], **how)
    if done.returncode:
        raise NotebookError(f"{page.name}: {done.stderr.strip()}")


def blocks(printed: str) -> Iterator[str]:
    """Yield printed text as blocks: tables, whose columns are aligned, and sentences, whose lines may be broken."""
    text = PROGRESS.sub("", printed).replace(os.environ.get("KGCAL_HOME") or "\0", ".kgcal").strip()
    for aligned, lines in groupby(text.splitlines(), lambda line: bool(ALIGNED.search(line))):
        block = "\n".join(map(str.rstrip, lines)).strip("\n")
        if block:
            fenced = f"```text\n{block}\n```"
            yield f'<div class="aligned" markdown>\n\n{fenced}\n\n</div>' if aligned else fenced


class Notebook:
    """A page that is being run. Pictures and other files go to `folder`, under names that begin with the page's."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder, self._pictures = name, folder, 0
        self._namespace: dict[str, Any] = {"__name__": "__main__"}

    def output(self, cell: Cell) -> str:
        """Run a cell. Return its output as Markdown."""
        printed, value = io.StringIO(), None
        if cell.language == "sh":
            shell = ["bash", "-euo", "pipefail", "-c", cell.source]
            done = subprocess.run(shell, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                raise NotebookError(f"line {cell.line}: the commands end with {done.returncode}\n{done.stderr}")
            printed.write(done.stdout)  # the progress of commands goes to stderr
        else:
            with redirect_stdout(printed), redirect_stderr(printed):
                value = self._last_value(cell)
        shown = [*blocks(printed.getvalue())]
        shown += [self._shown(value)] if value is not None else []
        return "\n\n".join(['\n\n<div class="output" markdown>', *shown, "</div>"]) if shown else ""

    def _last_value(self, cell: Cell) -> object:
        """Run Python code. Return the value of its last statement if that is an expression."""
        code = ast.parse("\n" * (cell.line - 1) + cell.source, self._name)
        last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
        exec(compile(code, self._name, "exec"), self._namespace)  # noqa: S102
        return self._value(ast.Expression(last.value)) if last else None

    def _value(self, expression: str | ast.Expression) -> object:
        return eval(compile(expression, self._name, "eval"), self._namespace)  # noqa: S307

    def _shown(self, value: object) -> str:
        """Return a figure as a picture, a table as a table, and anything else as text."""
        if hasattr(value, "savefig"):
            self._pictures += 1
            name = f"{self._name}-{self._pictures}.png"
            value.savefig(self._folder / name, dpi=120, bbox_inches="tight")
            return f"![What the cell draws]({name})"
        if hasattr(value, "to_html"):
            named, numbers = any(value.index.names), value.index.dtype.kind == "i"
            table = value.reset_index(allow_duplicates=True) if named else value
            return str(table.to_html(border=0, index=not (named or numbers))).replace(' class="dataframe"', "")
        return "\n\n".join(blocks(repr(value)))

    def prose(self, text: str) -> str:
        """Return text with the values of its expressions. Raises NotebookError if a statement does not hold."""
        for statement in HOLDS.findall(text):
            if not self._value(statement):
                raise NotebookError(f"this does not hold: {statement}")
        return HOLDS.sub("", VALUE.sub(lambda found: str(self._value(found[1])), text))


def executed(text: str, name: str, folder: Path) -> str:
    """Run the cells of a page, and return it with their outputs and the values in its text."""
    parts, notebook = list(parts_of(text)), Notebook(name, folder)
    outputs = [notebook.output(part) if isinstance(part, Cell) else "" for part in parts]
    shown = [
        f"```{part.language}\n{part.source}```{output}" if isinstance(part, Cell) else notebook.prose(part)
        for part, output in zip(parts, outputs, strict=True)
    ]
    return "".join(shown)


def without_outputs(text: str, missing: str) -> str:
    """Return a page that was not run: its first line, why it has no outputs, and the rest."""
    title, _, rest = HOLDS.sub("", VALUE.sub("(not computed)", text)).partition("\n")
    return f"{title}\n\n!!! note\n    {WITHOUT.format(missing)}\n\n{rest}"


def jupyter(text: str) -> str:
    """Return a page as a Jupyter notebook without outputs, as JSON of nbformat 4."""
    cells: list[dict[str, object]] = []
    for part in parts_of(text):
        if isinstance(part, Cell):
            magic = "%%bash\n" if part.language == "sh" else ""
            source, kind = magic + part.source.rstrip(), {"cell_type": "code", "execution_count": None, "outputs": []}
        else:
            source = re.sub(r"<!-- .+? -->", "", VALUE.sub("…", part)).strip()
            kind = {"cell_type": "markdown"}
        if source:
            cells.append({**kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": source})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}, indent=1
    )


def main(page: Path, folder: Path) -> None:
    """Run a page in this process, and write what the site shows."""
    text = page.read_text(encoding="utf-8")
    missing = missing_file(text)
    shown = without_outputs(text, missing) if missing else executed(text, page.stem, folder)
    (folder / page.name).write_text(f"{shown}\n[Download the notebook]({page.stem}.ipynb)\n", encoding="utf-8")
    (folder / f"{page.stem}.ipynb").write_text(jupyter(text), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except NotebookError as error:
        sys.exit(str(error))
    except Exception:
        sys.exit(traceback.format_exc())
