"""The notebooks of docs/gallery: each one runs to its end, and what its text states holds."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import CHECKOUT, blocks_for

sys.path.insert(0, str(CHECKOUT / "docs" / "scripts" / "site"))
import gallery

NOTEBOOKS = sorted((CHECKOUT / "docs" / "gallery").glob("*.md"))
NAMES = [page.stem for page in NOTEBOOKS]
LONGEST = 75  # lines, blank ones left out
PAGE = """# Title

Seven is {{ seven + 0 }}.
<!-- holds: seven == 7 -->

```python run-by=tests/docs/test_gallery.py
import pandas as pd
seven = 7
print("said")
print("a bar 10%\\ra bar 100%")
pd.DataFrame({"column": [seven]})
```

```sh run-by=tests/docs/test_gallery.py
echo from the shell
echo progress >&2
```
"""


def executed(text: str, folder: Path) -> str:
    return gallery.executed(text, "page", folder)


def test_the_outputs_stand_below_their_cells(tmp_path: Path) -> None:
    shown = executed(PAGE, tmp_path)
    assert shown.index("Seven is 7.") < shown.index("print(") < shown.index("```text\nsaid") < shown.index("<td>7</td>")
    assert "```text\nfrom the shell\n```" in shown
    assert "run-by" not in shown
    assert "holds" not in shown


def test_a_figure_becomes_a_picture(tmp_path: Path) -> None:
    code = "from matplotlib.figure import Figure\nFigure(figsize=(1, 1))\n"
    assert "](page-1.png)" in executed(f"```python\n{code}```\n", tmp_path)
    assert (tmp_path / "page-1.png").read_bytes().startswith(b"\x89PNG")


def test_a_false_statement_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(gallery.NotebookError, match="this does not hold: seven == 7"):
        executed(PAGE.replace("seven = 7", "seven = 8"), tmp_path)


def test_a_failed_command_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(gallery.NotebookError, match=r"line 2: the commands end with 1\nbefore"):
        executed("```sh\necho before >&2\nfalse\necho after\n```\n", tmp_path)


def test_a_failure_names_page_and_line(tmp_path: Path) -> None:
    page = tmp_path / "broken.md"
    page.write_text("# Title\n\n```python\nx = 1\nx / 0\n```\n", encoding="utf-8")
    with pytest.raises(gallery.NotebookError, match=r"(?s)^broken\.md: .*line 5.*ZeroDivisionError"):
        gallery.run(page, tmp_path)


def test_without_its_data_a_page_has_no_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, made = tmp_path / "page.md", tmp_path / "made"
    made.mkdir()
    page.write_text(PAGE + "<!-- needs: none.zip -->\n", encoding="utf-8")
    monkeypatch.setenv("KGCAL_MIRROR", str(tmp_path))
    gallery.run(page, made)
    shown = (made / "page.md").read_text(encoding="utf-8")
    assert "built without `none.zip`" in shown
    assert "Seven is (not computed)." in shown
    assert "print(" in shown
    assert "output" not in shown.replace("has no outputs", "")


def test_a_page_is_a_jupyter_notebook_too() -> None:
    cells = json.loads(gallery.jupyter(PAGE))["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code"]
    assert cells[1]["source"].startswith("import pandas")
    assert cells[2]["source"].startswith("%%bash\necho from the shell")


@pytest.mark.parametrize("page", NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_short_and_types_no_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if line.strip()]) <= LONGEST
    assert "**Question:**" in text
    answer = text[text.index("**Answer:**") : text.index("## ")]
    assert "{{ " in answer, "the answer states nothing that was computed"
    assert "<!-- holds: " in answer, "nothing checks the answer"


def test_every_cell_is_run_by_this_test() -> None:
    in_gallery = [block for block in blocks_for(__file__) if block.page.startswith("docs/gallery/")]
    assert {Path(block.page).stem for block in in_gallery} == set(NAMES)
    for page in NOTEBOOKS:
        cells = [part for part in gallery.parts_of(page.read_text(encoding="utf-8")) if isinstance(part, gallery.Cell)]
        own = [block for block in in_gallery if Path(block.page).stem == page.stem]
        assert [(cell.line, cell.source) for cell in cells] == [(block.line + 1, block.text) for block in own]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with all notebooks, written as `make docs` does. Raises AssertionError with the output of a failure."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=CHECKOUT, env=os.environ | {"NOTEBOOKS": "true"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.pages
@pytest.mark.parametrize("page", NOTEBOOKS, ids=NAMES)
def test_the_site_shows_the_outputs(site: Path, page: Path) -> None:
    shown = (site / "gallery" / page.stem / "index.html").read_text(encoding="utf-8")
    if missing := gallery.missing_file(page.read_text(encoding="utf-8")):
        pytest.skip(f"KGCAL_MIRROR is not a folder with {missing}")
    assert 'class="output"' in shown
    assert "{{" not in shown
    pictures = re.findall(r'<img[^>]*src="([^"]+\.png)"', shown)
    assert all((site / "gallery" / page.stem / picture).resolve().is_file() for picture in pictures)
    assert json.loads((site / "gallery" / f"{page.stem}.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4
