"""Changes one operator or number of kgcore at a time, and reports the changes that tests/core does not notice.

    python -m tests.mutants --seed 0 --count 40

A copy of the project runs tests/core once and records which test files execute which lines. Then each change is tried
against the files that execute its line, the fastest first, until a test fails. Changes with few tests come first. Where
no line is recorded (numbers at the head of a module, compiled loops), the files are those that execute the module or a
module that imports it.
"""

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SELECTED = ("-q", "-p", "no:cacheprovider", "-m", "not kills and not long")
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
WITHOUT_VALUES = {"annotation", "returns"}  # the fields of a node that only annotate


@dataclass(frozen=True)
class Mutant:
    """A change of a file: the node at `line` becomes `text`. at_head: no function contains it."""

    path: str
    node: ast.expr | ast.stmt
    text: str
    at_head: bool

    @property
    def line(self) -> int:
        return self.node.lineno

    def source(self, source: str) -> str:
        """Return the file with the change. Positions of nodes count bytes of UTF-8."""
        lines = source.encode().splitlines(keepends=True)
        node, end = self.node, (self.node.end_lineno or 0) - 1
        tail = lines[end][node.end_col_offset :]
        changed = lines[node.lineno - 1][: node.col_offset] + self.text.encode() + tail
        return b"".join([*lines[: node.lineno - 1], changed, *lines[end + 1 :]]).decode()


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """Yield every change of one operator or number in a file. Text, annotations and formatted strings stay."""
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(source), True)]
    while waiting:
        node, at_head = waiting.pop()
        if isinstance(node, ast.JoinedStr | ast.pattern):
            continue
        if isinstance(node, ast.expr | ast.stmt):
            yield from (Mutant(path, node, text, at_head) for text in _changes(node))
        inside = at_head and not isinstance(node, ast.FunctionDef | ast.Lambda)
        for name, value in ast.iter_fields(node):
            if name not in WITHOUT_VALUES:
                children = value if isinstance(value, list) else [value]
                waiting += [(child, inside) for child in children if isinstance(child, ast.AST)]


def _changes(node: ast.expr | ast.stmt) -> Iterator[str]:
    """Yield the changed texts of a node, without its parts."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield str(not node.value)
        elif isinstance(node.value, int):
            yield f"({node.value + 1})"
        elif isinstance(node.value, float):
            yield f"({node.value * 2 if node.value else 1.0})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[place] = OPERATORS[type(operator)]()
            yield f"({ast.unparse(changed)})"
    elif type(getattr(node, "op", None)) in OPERATORS:
        changed = copy.deepcopy(node)
        changed.op = OPERATORS[type(node.op)]()
        yield ast.unparse(changed) if isinstance(node, ast.AugAssign) else f"({ast.unparse(changed)})"


def record(file: Path) -> None:
    """Run tests/core of the current folder. Write path -> line -> test files, test file -> seconds, and failures."""
    import coverage

    cover = coverage.Coverage(data_file=None, source_pkgs=["kgcore"])
    seconds: dict[str, float] = {}
    failed: set[str] = set()

    class Recorder:
        def pytest_runtest_logstart(self, nodeid: str) -> None:
            cover.switch_context(nodeid.split("::")[0])

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            name = report.nodeid.split("::")[0]
            seconds[name] = seconds.get(name, 0.0) + report.duration
            if report.failed:
                failed.add(name)

    cover.start()
    pytest.main([*SELECTED, "tests/core"], plugins=[Recorder()])
    cover.stop()
    lines = {}
    for path in cover.get_data().measured_files():
        contexts = cover.get_data().contexts_by_lineno(path)
        lines[Path(path).relative_to(Path.cwd()).as_posix()] = {
            line: sorted(names - {""}) for line, named in contexts.items() if (names := set(named))
        }
    file.write_text(json.dumps({"lines": lines, "seconds": seconds, "failed": sorted(failed)}))


@dataclass(frozen=True)
class Record:
    """What `record` wrote."""

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]
    failed: list[str]

    def tests(self, mutant: Mutant, importers: dict[str, set[str]]) -> list[str]:
        """Return the test files that may notice a change, the fastest first."""
        last = mutant.node.end_lineno or mutant.line
        of_file = self.lines.get(mutant.path, {})
        names = {name for line in range(mutant.line, last + 1) for name in of_file.get(str(line), [])}
        if mutant.at_head or not names:
            paths = (mutant.path, *importers.get(mutant.path, ()))
            names = {name for path in paths for tests in self.lines.get(path, {}).values() for name in tests}
        return sorted(names - set(self.failed), key=lambda name: self.seconds[name])


def importers_of(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return path -> the paths of the modules that import it."""
    importers: dict[str, set[str]] = {}
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                for name in named:
                    importers.setdefault(f"{name.replace('.', '/')}.py", set()).add(path)
    return importers


def noticed(folder: Path, mutant: Mutant, tests: list[str], limit: float) -> bool:
    """Return whether a test of the copy fails, or takes longer than `limit` seconds, with the change."""
    file = folder / mutant.path
    original, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(mutant.source(original), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", *SELECTED, *tests]
    try:
        done = subprocess.run(command, cwd=folder, env=_environment(folder), capture_output=True, timeout=limit)
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(original, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that its compiled file serves again


def _environment(folder: Path) -> dict[str, str]:
    """Return the variables of a run in the copy. The compiled files of the original sources are not replaced."""
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the draw")
    parser.add_argument("--count", type=int, default=40, help="how many changes are drawn")
    parser.add_argument("--record", type=Path, help="the file of an earlier record; it is written if it is missing")
    options = parser.parse_args()
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.glob("kgcore/**/*.py")
    }
    every = [mutant for path, source in sorted(sources.items()) for mutant in mutants_of(path, source)]
    drawn = random.Random(options.seed).sample(every, min(options.count, len(every)))
    importers = importers_of(sources)
    with tempfile.TemporaryDirectory(prefix="kgcal-mutants-") as temporary:
        folder = Path(temporary, "kgcal")
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".kgcal", ".hypothesis", "build"))
        file = (options.record or Path(temporary, "record.json")).resolve()
        if not file.exists():
            code = f"import pathlib, tests.mutants as m; m.record(pathlib.Path({str(file)!r}))"
            subprocess.run([sys.executable, "-c", code], cwd=folder, env=_environment(folder), check=True)
        known = Record(**json.loads(file.read_text()))
        if known.failed:
            print(f"without a change, too, these fail and are left out: {', '.join(known.failed)}")
        tests_of = {mutant: known.tests(mutant, importers) for mutant in drawn}
        seconds = {mutant: sum(known.seconds[name] for name in tests) for mutant, tests in tests_of.items()}
        survived = 0
        for number, mutant in enumerate(sorted(drawn, key=seconds.__getitem__), start=1):
            tests, limit = tests_of[mutant], 120 + 5 * seconds[mutant]
            seen = bool(tests) and noticed(folder, mutant, tests, limit)
            survived += not seen
            before = sources[mutant.path].splitlines()[mutant.line - 1].strip()
            after = mutant.source(sources[mutant.path]).splitlines()[mutant.line - 1].strip()
            print(
                f"{number:3} {'noticed' if seen else 'SURVIVED'} {mutant.path}:{mutant.line} ({len(tests)} test files)"
            )
            print(f"      - {before}\n      + {after}", flush=True)
    print(f"{len(drawn) - survived} of {len(drawn)} changes were noticed (seed {options.seed})")


if __name__ == "__main__":
    main()
