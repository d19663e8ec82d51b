"""The same graph in several formats gives the same figures to the digit, and a refused file leaves nothing."""

import json
from pathlib import Path

import pytest

from tests.core.graph_files import LAYOUTS, write_splits
from tests.folders import TEST, TRAIN, VALID
from tests.pipeline.command import Kgcal
from tests.pipeline.refusals import refused, written

NAMES = {"train": TRAIN, "valid": VALID, "test": TEST}
SPLITS = {
    split: [tuple(f"http://x.org/{name}" for name in row.split("\t")) for row in rows] for split, rows in NAMES.items()
}
SMALL = ("--preset", "default", "--epochs", "1", "--k", "4", "--training-eta", "2", "--bootstrap-replicates", "50")


@pytest.fixture(scope="module")
def kgcal(tmp_path_factory: pytest.TempPathFactory) -> Kgcal:
    return Kgcal(tmp_path_factory.mktemp("formats"))


def figures(kgcal: Kgcal, place: Path, target: Path) -> dict[str, object]:
    done = kgcal("run", "--dataset", str(place), *SMALL, "--json", str(target))
    assert done.returncode == 0, done.stderr
    found = json.loads(target.read_text())
    return {name: found[name] for name in ("dataset", "metrics", "intervals", "ranks", "relations", "notes")}


def graph_files(kgcal: Kgcal, run_id: str) -> dict[str, bytes]:
    """Return the content of the files of the graph that a prepare run logged."""
    [folder] = (kgcal.home / "artifacts").glob(f"**/{run_id}/artifacts/graph")
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.long
def test_every_format_gives_the_same_figures(kgcal: Kgcal, tmp_path: Path) -> None:
    endings = (".tsv", ".csv", ".parquet", ".nt")
    tsv, *tables = (write_splits(tmp_path / ending / "mine", SPLITS, ending) for ending in endings)
    pykeen = LAYOUTS["triples_factory"](tmp_path / "pykeen" / "mine", SPLITS)
    first, other = (figures(kgcal, place, tmp_path / f"{place.parent.name}.json") for place in (tsv, pykeen))
    assert first["metrics"]
    assert other == first
    graphs = [graph_files(kgcal, kgcal("prepare", "--dataset", str(place)).stdout.strip()) for place in (tsv, *tables)]
    assert graphs[0]
    assert all(graph == graphs[0] for graph in graphs)  # the later stages read nothing else


def test_prepare_takes_paths_and_says_how_it_split_them(kgcal: Kgcal, tmp_path: Path) -> None:
    folder = write_splits(tmp_path / "mine", {"a": SPLITS["train"], "b": SPLITS["test"]}, ".nt")
    done = kgcal("prepare", str(folder / "a.nt"), str(folder / "b.nt"), "--valid-share", "0.2")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    total = len(TRAIN) + len(TEST)
    assert f"The data set has no splits, so its {total:,} rows" in said
    assert "Every entity and predicate is in train." in said
    [page] = (kgcal.home / "artifacts").rglob(f"{done.stdout.strip()}/artifacts/data.html")
    assert "Inverse and duplicate predicates" in page.read_text()
    assert "Facts per entity" not in said  # nothing to warn of
    refused(kgcal, "the data set is named twice", "prepare", str(folder / "a.nt"), "--dataset", "wn11")


@pytest.mark.parametrize("command", [("prepare",), ("prepare", "--dataset"), ("run", "--dataset")])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.nt", "<http://x.org/a> <http://x.org/p> .\n", "mine.nt, line 1: "),
        ("mine.csv.gz", "a,p,b\n", "mine.csv.gz is damaged, incomplete or not gzip"),
        ("mine.json", "{}", "mine.json is of an unknown kind: its name must end in .tsv, .txt, .csv, .parquet"),
    ],
)
def test_a_refused_file_leaves_nothing(
    kgcal: Kgcal, tmp_path: Path, command: tuple[str, ...], name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    before = written(kgcal)
    refused(kgcal, message, *command, str(tmp_path / name))
    assert written(kgcal) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--columns", "a,b"), "columns is 'a,b': it must be auto, or three or four names"),
        (("--columns", "1,2,2"), "columns is '1,2,2': it must name every column once"),
        (("--valid-share", "0.6"), "valid_share is 0.6: it must be above 0 and below 0.5"),
    ],
)
def test_impossible_settings_are_refused(kgcal: Kgcal, options: tuple[str, ...], message: str) -> None:
    refused(kgcal, message, "prepare", *options)
