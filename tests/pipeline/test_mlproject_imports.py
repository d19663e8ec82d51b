"""The entry points of MLproject that import models: `import-pykeen` is the command `kgcal import pykeen`."""

import pytest
import yaml

from flows.cli.mlproject import translated
from kgcore.config import PrepareConfig
from tests.pipeline.command import CHECKOUT

FILES = {
    "embeddings": {"entity_table", "relation_table", "entities", "relations"},
    "pykeen": {"folder", "python"},
    "libkge": {"checkpoint", "entities", "relations", "python"},
}


@pytest.mark.parametrize("library", FILES)
def test_an_entry_point_has_the_files_of_its_library_and_the_settings_of_the_graph(library: str) -> None:
    declared = yaml.safe_load((CHECKOUT / "MLproject").read_text())["entry_points"][f"import-{library}"]["parameters"]
    defaults = dict.fromkeys(FILES[library], "") | {"force": "false"}
    if library == "embeddings":
        defaults |= {"model": "transe", "model_options": "", "layout": "halves"}
    if library in ("pykeen", "libkge"):
        defaults["trust"] = "false"
    assert set(declared) == set(defaults) | set(PrepareConfig.model_fields)
    assert {name: declared[name]["default"] for name in defaults} == defaults


@pytest.mark.parametrize(
    ("library", "values", "arguments"),
    [
        (
            "embeddings",
            ["--entity_table", "/e.npy", "--relation_table", "/r.npy", "--entities", "/e.txt", "--model", "complex"],
            ["/e.npy", "/r.npy", "--entities=/e.txt", "--model=complex"],
        ),
        ("pykeen", ["--folder", "/m", "--trust", "true", "--python", ""], ["/m", "--trust"]),
        ("libkge", ["--checkpoint", "/c.pt", "--trust", "false"], ["/c.pt"]),
    ],
)
def test_values_become_the_words_of_the_command(library: str, values: list[str], arguments: list[str]) -> None:
    assert translated(f"import-{library}", values) == ["import", library, *arguments]
