"""The site of the documentation: `make docs`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import CHECKOUT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, written as `make docs` does, without the outputs of notebooks, which tests/docs/test_gallery.py makes.

    A link or an anchor that leads nowhere is an error.
    """
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NOTEBOOKS": "false"}
    done = subprocess.run(build, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(CHECKOUT / "docs").with_suffix("") for path in (CHECKOUT / "docs").rglob("*.md")}
    pages -= {page for page in pages if page.name == "README"}
    assert len(pages) > 50
    for page in pages:
        assert (site / page / "index.html").exists(), page
    first, listing = ((site / page / "index.html").read_text() for page in (".", "pages"))
    assert "Probabilities you can trust from knowledge graph embeddings" in first
    assert "There is one page for each job" in listing


def test_the_library_is_documented_from_its_docstrings(site: Path) -> None:
    calibrators = (site / "api" / "calibrators" / "index.html").read_text()
    assert 'id="kgcore.calibrate.isotonic.SmoothedIsotonic"' in calibrators
    assert "<li><code>by_predicate</code>: whether each predicate" in calibrators


def test_blocks_are_shown_without_what_tests_read(site: Path) -> None:
    assert "checked-by" not in (site / "how-to" / "install" / "index.html").read_text()


def test_no_file_comes_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link)[^>]*(?:src|href)=\"?(https?://[^\s\">]+)", page.read_text())
        assert loaded == [], page
