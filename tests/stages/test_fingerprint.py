"""The fingerprint of the code that a stage runs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kgcore.embed.models
from tasks.stages.table import STAGES
from tasks.tracking import keys
from tasks.tracking.keys import closure, code_fingerprint


def test_a_closure_has_every_import_and_its_packages() -> None:
    train = closure(["kgcore.embed.training.loop", "kgcore.embed.models.transe"])
    assert {
        "kgcore.embed.optimisers.base",
        "kgcore.embed.models.base",
        "kgcore.embed.models",
        "kgcore.data.graph",
    } <= train
    assert not {
        name
        for name in train
        if name.startswith(("kgcore.calibrate", "kgcore.measure.metrics", "kgcore.measure.report"))
    }
    assert not train & {"kgcore.config", "kgcore.embed.models.hole"}


def test_no_stage_after_the_scores_depends_on_training() -> None:
    for entry in (
        "kgcore.calibrate.fit",
        "kgcore.measure.evaluation.predictions",
        "kgcore.measure.evaluation.evaluate",
        "kgcore.measure.report.page",
    ):
        assert not {name for name in closure([entry]) if name.startswith("kgcore.embed.training")}


@pytest.mark.parametrize(
    ("module", "stages"),
    [
        ("kgcore.embed.models.transe", {"choose", "train"}),
        ("kgcore.embed.models.hole", set()),  # a model that the settings do not name
        ("kgcore.wings.fast_cpu.training", {"choose", "train"}),
        ("kgcore.calibrate.bbq", set()),  # a calibrator that the settings do not name
        ("kgcore.calibrate.beta", {"calibrate"}),
        ("kgcore.calibrate.fit", {"choose", "match", "calibrate", "evaluate", "report"}),
        ("kgcore.measure.report.page", {"report"}),
    ],
)
def test_a_module_is_part_of_the_stages_that_call_it(module: str, stages: set[str]) -> None:
    assert {stage.name for stage in STAGES if module in closure(stage.code(stage.config()))} == stages


def test_what_numba_compiles_while_a_process_runs_changes_no_fingerprint(tmp_path: Path) -> None:
    folder = Path(kgcore.embed.models.__path__[0]) / "__pycache__"
    folder.mkdir(exist_ok=True)
    compiled = folder / f"{tmp_path.name}.nbc"

    def fingerprint() -> str:
        code = "from tasks.tracking.keys import whole_code_fingerprint; print(whole_code_fingerprint())"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    before = fingerprint()
    compiled.write_bytes(b"a loop")
    try:
        assert fingerprint() == before
    finally:
        compiled.unlink()


def test_a_fingerprint_depends_on_the_modules_that_are_named() -> None:
    assert code_fingerprint(["kgcore.embed.ranking"]) == code_fingerprint(["kgcore.embed.ranking"])
    assert code_fingerprint(["kgcore.embed.ranking"]) != code_fingerprint(
        ["kgcore.embed.ranking", "kgcore.embed.models.hole"]
    )


def test_a_template_is_part_of_the_stage_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    [template] = [path for path in keys._FILES if path.name == "page.html.j2"]
    codes = {stage.name: stage.code(stage.config()) for stage in STAGES}
    before = {name: code_fingerprint(code) for name, code in codes.items()}
    monkeypatch.setitem(keys._FILES, template, b"touched")
    assert [name for name, code in codes.items() if code_fingerprint(code) != before[name]] == ["report"]


def test_a_module_beside_the_package_is_part_of_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, elsewhere = tmp_path / "beside" / "a_model.py", tmp_path / "a_lab.py"
    plugin.parent.mkdir()
    plugin.write_text("import kgcore.embed.ranking\n")
    elsewhere.write_text("import kgcore.embed.models\n")
    monkeypatch.setattr(kgcore.embed.models, "__path__", [*kgcore.embed.models.__path__, str(plugin.parent)])
    monkeypatch.syspath_prepend(str(tmp_path))
    names = (("kgcore.embed.models.a_model", plugin), ("a_lab", elsewhere))  # neither module is imported
    before = [code_fingerprint([name]) for name, _ in names]
    assert "kgcore.embed.ranking" in closure(["kgcore.embed.models.a_model"])
    for _, path in names:
        path.write_text(path.read_text() + "# touched\n")
    assert all(code_fingerprint([name]) != was for (name, _), was in zip(names, before, strict=True))


def test_a_fingerprint_loads_no_torch() -> None:
    script = (
        "import sys; from tasks.tracking.keys import code_fingerprint; "
        "code_fingerprint(['kgcore.embed.training.loop', 'kgcore.embed.models.transe']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def names_in(tree: ast.Module) -> set[str]:
    """Return the text of every import of kgcore in a syntax tree."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return {text for text in map(ast.unparse, nodes) if "kgcore" in text}


def test_the_imports_of_every_file_are_found() -> None:
    for path in Path(kgcore.embed.models.__path__[0]).parent.rglob("*.py"):
        source = path.read_bytes()
        assert names_in(keys._parsed_imports(source)) == names_in(ast.parse(source)), path


@pytest.mark.parametrize(
    "source",
    [
        "if 1: from kgcore.embed import ranking",
        "x = 1; import kgcore.embed.ranking",
        "import os, kgcore.embed.ranking",
        "from \\\n    kgcore import ranking",
        "if 1:\n    from kgcore.embed.models import (  # two (of\n        a,  # more)\n        b,\n    )\n",
        "from kgcore.embed import ranking  # (see\nfrom kgcore import graph\nprint()\n",
        "try:\n\timport kgcore.embed.ranking as r\nexcept ImportError:\n\tr = None\n",
    ],
)
def test_imports_in_unusual_places_are_found(source: str) -> None:
    expected = names_in(ast.parse(source))
    assert expected
    assert names_in(keys._parsed_imports(source.encode())) == expected
