"""The targets of links, anchors, pictures and cited paths exist, in the pages and in the code that cites pages."""

import re
import subprocess

import pytest

from tests.docs.pages import CHECKOUT, PAGES, name_of

LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(
    r"`((?:kgcore|tasks|flows|tests|docs|deploy|benchmarks)/[\w./*-]*|prefect\.yaml|MLproject|constraints\.txt)`"
)
CITED = re.compile(r"\b((?:docs|README)[\w/-]*\.(?:md|py|png))\b")
NAMES = [name_of(page) for page in PAGES]
LONGEST_README = 160  # lines


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("name", [*NAMES, "CHANGELOG.md"])
def test_links_and_pictures_are_there(name: str) -> None:
    page = CHECKOUT / name
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        path, _, fragment = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name} links to {target}"
        if fragment:
            assert fragment in anchors(found.read_text(encoding="utf-8")), f"{name} links to {target}"


@pytest.mark.parametrize("name", NAMES)
def test_paths_of_the_checkout_are_there(name: str) -> None:
    for path in PATH.findall((CHECKOUT / name).read_text(encoding="utf-8")):
        assert list(CHECKOUT.glob(path)), f"{name} names {path}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[str](), [CHECKOUT / "README.md"]
    while waiting:
        page = waiting.pop()
        if name_of(page) not in reached:
            reached.add(name_of(page))
            targets = [target.partition("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8"))]
            waiting += [(page.parent / t).resolve() for t in targets if t.endswith(".md") and "://" not in t]
    assert set(NAMES) <= reached


def test_pages_that_the_code_cites_are_there() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    files = [name for name in listed.stdout.splitlines() if name.endswith((".py", ".yaml", ".toml", "Makefile", ".j2"))]
    assert files
    for name in files:
        if (CHECKOUT / name).is_file() and not name.startswith("tests/"):
            for cited in CITED.findall((CHECKOUT / name).read_text(encoding="utf-8")):
                assert (CHECKOUT / cited).exists(), f"{name} cites {cited}"


def test_lines_of_pages_written_by_hand_are_at_most_120_characters() -> None:
    for name in [name for name in NAMES if not name.startswith(("docs/decisions/", "docs/reference/settings.md"))]:
        text = re.sub(r"^```.*?^```", "", (CHECKOUT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for line in text.splitlines():
            assert len(line) <= 120 or line.lstrip().startswith(("|", "!")), f"{name}: {line}"


def test_the_readme_is_short() -> None:
    assert len((CHECKOUT / "README.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_README
