"""What MkDocs does not know of the documentation: README.md is its first page, docs/README.md lists its pages in their
order, and the library has a page for each room. `make docs` has MkDocs call the functions of this module.
"""

import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import gallery

CHECKOUT = Path(__file__).resolve().parents[3]
AT_ONCE = 2  # notebooks that run at the same time
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md")  # pages outside docs/
# page -> title, and the modules or packages whose public names it has
ROOMS = {
    "library": ("The library", ["kgcore", "kgcore.answer.loaded"]),
    "data": ("Graphs", ["kgcore.data.graph", "kgcore.data.datasets.prepare"]),
    "models": ("Models", ["kgcore.embed.models"]),
    "losses": ("Losses", ["kgcore.embed.losses"]),
    "corruptions": ("Corruptions", ["kgcore.embed.corruptions"]),
    "calibrators": ("Calibrators", ["kgcore.calibrate"]),
    "evidence": ("Evidence", ["kgcore.evidence"]),
    "mixture": ("Candidates without labels", ["kgcore.mixture"]),
    "metrics": ("Metrics", ["kgcore.measure.metrics"]),
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Order the pages as the tables of docs/README.md do."""
    nav: list[Any] = [{"kgcal": "index.md"}, {"Tutorial": "tutorial.md"}]
    for section in re.split(r"^## ", (CHECKOUT / "docs" / "README.md").read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        nav.append({title: re.findall(r"\]\(([\w/-]+\.md)\)", text)})
    decisions = [f"decisions/{path.name}" for path in sorted((CHECKOUT / "docs" / "decisions").glob("0*.md"))]
    library = [f"api/{room}.md" for room in ROOMS]
    config.nav = [*nav, {"Decisions": decisions}, {"Library": library}, {"All pages": ["README.md", *OUTSIDE]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page and the pages of the library. docs/README.md, the first page of a folder to MkDocs, moves."""
    listing = files.get_file_from_path("README.md")
    assert listing is not None
    listing.dest_uri = "pages/index.html"
    for name, place in ({"README.md": "index.md"} | {name: name for name in (*OUTSIDE, "deploy/Caddyfile")}).items():
        text = (CHECKOUT / name).read_text().replace("](docs/", "](").replace("](README.md", "](index.md")
        files.append(File.generated(config, place, content=text))
    for room, (title, places) in ROOMS.items():
        names = [f"::: {module}" for place in places for module in modules_of(place)]
        files.append(File.generated(config, f"api/{room}.md", content="\n\n".join([f"# {title}", *names])))
    if config.extra["notebooks"]:
        run_notebooks(files, config)
    return files


def run_notebooks(files: Files, config: MkDocsConfig) -> None:
    """Replace the pages of the gallery by what they are after a run: with outputs, pictures, and notebooks beside them.

    Raises PluginError if one fails, which ends the build.
    """
    pages = sorted((CHECKOUT / "docs" / "gallery").glob("*.md"))
    with tempfile.TemporaryDirectory(prefix="kgcal-gallery-") as made, ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            list(pool.map(lambda page: gallery.run(page, Path(made)), pages))
        except gallery.NotebookError as error:
            raise PluginError(str(error)) from error
        for path in sorted(Path(made).iterdir()):
            place = f"gallery/{path.name}"
            if source := files.get_file_from_path(place):
                files.remove(source)
            files.append(File.generated(config, place, content=path.read_bytes()))


def modules_of(place: str) -> list[str]:
    """Return the modules of a package, or the one that is named."""
    folder = CHECKOUT / place.replace(".", "/")
    if "." not in place or not folder.is_dir():
        return [place]
    return [f"{place}.{path.stem}" for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave out what tests read behind the language of a block: `sh checked-by=...`. Files outside docs/ are inside."""
    return re.sub(r"^```(\w+) .+$", r"```\1", markdown.replace("](../../", "](../"), flags=re.MULTILINE)
