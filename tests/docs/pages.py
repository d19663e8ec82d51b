"""The pages of the documentation, and the fenced blocks in them.

A block of commands starts with ```sh. A mark after it says who runs it:

    ```sh                         tests/docs runs it as written, top to bottom of the page
    ```sh run-by=tests/FILE       that test runs it: it needs servers
    ```sh checked-by=tests/FILE   that test checks its files, targets and options: it installs or needs a cluster

Output and file samples are ```text; sources have their language.
"""

import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
LANGUAGES = ("sh", "text", "python", "yaml")
MARKS = ("run-by", "checked-by")
PROGRAMS = frozenset(
    [
        "kgcal",
        "python",
        "pip",
        "make",
        "docker",
        "kubectl",
        "psql",
        "createdb",
        "pg_dump",
        "pytest",
        "source",
        "export",
        "cd",
        "cp",
        "curl",
        "git",
    ]
)
_FENCE = re.compile(r"^```(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    language, mark  the words after the fence
    line            line number of the fence in the page
    """

    page: str
    line: int
    language: str
    mark: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runner(self) -> tuple[str, str]:
        """Return kind and file of the mark; two empty texts if tests/docs runs the block."""
        kind, _, file = self.mark.partition("=")
        return kind, file


def name_of(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page. Raises ValueError for a fence that is not closed."""
    found: list[Block] = []
    opened: tuple[int, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line.strip()) if opened or line.startswith("```") else None
        if fence is None:
            lines.append(line)
        elif opened is None:
            opened, lines = (number, fence[1]), []
        else:
            language, _, mark = opened[1].strip().partition(" ")
            found.append(Block(name_of(page), opened[0], language, mark.strip(), "\n".join(lines) + "\n"))
            opened = None
    if opened is not None:
        raise ValueError(f"{name_of(page)}:{opened[0]}: the fence is not closed")
    return found


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def blocks_for(file: str) -> list[Block]:
    """Return the blocks that are marked for the test file with this `__file__`."""
    own = name_of(Path(file).resolve())
    return [block for block in all_blocks() if block.runner[1] == own]


def looks_like_a_command(text: str) -> bool:
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return bool(first) and first.split()[0] in PROGRAMS


def pages_with_commands() -> list[str]:
    """Return the pages that have command blocks without a mark, which tests/docs runs."""
    return [name_of(page) for page in PAGES if any(b.language == "sh" and not b.mark for b in blocks_of(page))]


def _halves() -> tuple[list[str], list[str]]:
    """Divide the pages with commands into two parts with about equally many commands, for two pytest workers."""
    parts: tuple[list[str], list[str]] = ([], [])
    counts = [0, 0]
    sizes = {name: sum(b.text.count("kgcal ") for b in blocks_of(CHECKOUT / name)) for name in pages_with_commands()}
    for name, size in sorted(sizes.items(), key=lambda entry: -entry[1]):
        smaller = int(counts[1] < counts[0])
        parts[smaller].append(name)
        counts[smaller] += size
    return parts


HALVES = _halves()
