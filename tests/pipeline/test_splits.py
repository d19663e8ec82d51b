"""A pipeline on a graph that is split by cold entities, and one that is split by time."""

from pathlib import Path

import numpy as np
import pytest

from kgcore.measure.evaluation.groups import METRICS_OF_GROUPS
from kgcore.storage.folders import read_graph
from kgcore.storage.tables import read_corruptions
from tests.core.split_graphs import NAMES, graph_with_twins, lines_of
from tests.pipeline.command import Kgcal, client_of

OPTIONS = ("--preset", "default", "--k", "8", "--epochs", "2", "--calibrators", "platt", "--calibration-eta", "5")
SHARES = ("--valid-share", "0.2", "--test-share", "0.2")


@pytest.fixture(scope="module")
def kgcal(tmp_path_factory: pytest.TempPathFactory) -> Kgcal:
    folder = tmp_path_factory.mktemp("splits")
    rows = graph_with_twins(0, negatives=0)
    years = np.random.default_rng(0).integers(2000, 2020, len(rows))
    lines = [f"e{s}\t{NAMES[p]}\te{o}\t{year}" for (s, p, o, _), year in zip(rows.tolist(), years, strict=True)]
    (folder / "mine.tsv").write_text(lines_of(["subject\tpredicate\tobject\tyear", *lines]))
    return Kgcal(folder)


def test_a_pipeline_on_cold_entities(kgcal: Kgcal, tmp_path: Path) -> None:
    data = ("--dataset", str(kgcal.home.parent / "mine.tsv"))
    found = kgcal.results(*data, "--split", "cold:object:in", *SHARES, *OPTIONS)
    client, runs = client_of(kgcal), found["runs"]
    graph = read_graph(Path(client.download_artifacts(runs["prepare"], "graph", str(tmp_path))))
    cold = {split: set(getattr(graph, split).triples[:, 2].tolist()) for split in ("valid", "test")}
    of_in = graph.train.triples[:, 1] == list(graph.predicates).index("in")
    assert not set(graph.train.triples[of_in, 2].tolist()) & (cold["valid"] | cold["test"])
    path = client.download_artifacts(runs["corrupt"], "corruptions.parquet", str(tmp_path))
    for split, made in read_corruptions(Path(path)).items():
        assert set(made.triples[:, 2].tolist()) <= cold[split]  # corruptions keep the cold entity
    assert client.get_run(runs["calibrate"]).data.metrics["syn.hidden_share"] == 0  # test is about other entities
    [note] = [note for note in found["notes"] if note.startswith("The data set has no splits")]
    assert "by `cold:object:in`" in note
    assert {group["name"].partition(" has ")[0] for group in found["knowledge"]} == {"train", "the rarer entity"}
    assert all(set(METRICS_OF_GROUPS) & set(fit) for g in found["knowledge"] for fit in g["calibrators"].values())
    assert "What training knows" in Path(found["report"]).read_text()
    page = Path(client.download_artifacts(runs["prepare"], "data.html", str(tmp_path))).read_text()
    assert "objects of in are only in valid" in page


def test_a_split_by_time_is_said_and_re_used(kgcal: Kgcal) -> None:
    path = str(kgcal.home.parent / "mine.tsv")
    done = kgcal("prepare", path, "--split", "time:year", *SHARES)
    assert done.returncode == 0, done.stderr
    assert "Valid begins at" in done.stderr
    again = kgcal("prepare", path, "--split", "time:year", *SHARES)
    assert again.stdout == done.stdout
    other = kgcal("prepare", path, "--split", "time:4", *SHARES)
    assert other.returncode == 0
    refused = kgcal("prepare", "--dataset", "family", "--split", "time:year")
    assert refused.returncode != 0
    assert "the data set family has splits: leave out `split`" in refused.stderr
