"""What MkDocs does not know of the documentation: README.md is its first page, docs/README.md lists its pages in their
order, and the library has a page for each room. `make docs` has MkDocs call the functions of this module.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

CHECKOUT = Path(__file__).resolve().parents[3]
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
    return files


def modules_of(place: str) -> list[str]:
    """Return the modules of a package, or the one that is named."""
    folder = CHECKOUT / place.replace(".", "/")
    if "." not in place or not folder.is_dir():
        return [place]
    return [f"{place}.{path.stem}" for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave out what tests read behind the language of a block: `sh checked-by=...`. Files outside docs/ are inside."""
    return re.sub(r"^```(\w+) .+$", r"```\1", markdown.replace("](../../", "](../"), flags=re.MULTILINE)
