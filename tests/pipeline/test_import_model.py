"""`kgcal import`: models of other libraries become train runs, on which every later stage works."""

import gzip
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.pipeline.command import Kgcal, client_of, models_of, runs_of, tags_of

EPOCHS = "5"
# what a pickle of PyKEEN's TransE with p = 1 offers to kgcal's script; the code runs while it is loaded
MODEL = """
import torch
class TransEInteraction: p, power_norm = 1, False
class TransE:
    interaction, use_inverse_triples = TransEInteraction(), {inverse}
    def __init__(self):
        self.entity_representations = [lambda indices: torch.tensor({entities})]
        self.relation_representations = [lambda indices: torch.tensor({relations})]
    def eval(self): return self
"""


@dataclass(frozen=True)
class Trained:
    """A home with a model that kgcal has trained, its tables, and their names in the order of the rows."""

    kgcal: Kgcal
    run_id: str
    entities: np.ndarray
    relations: np.ndarray

    @property
    def folder(self) -> Path:
        return self.kgcal.home.parent

    def imported(self, *arguments: str) -> str:
        """Run `kgcal import`, which must succeed, and return the id of the train run."""
        done = self.kgcal("import", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]


class Pickled:
    """An object whose pickle runs code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return eval, (f"(lambda space: (exec({self.code!r}, space), space['TransE']())[1])({{}})",)


def fingerprint(kgcal: Kgcal, run_id: str) -> str:
    [model] = models_of(kgcal, run_id)
    return str(model.tags["fingerprint"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    kgcal = Kgcal(tmp_path_factory.mktemp("imports"))
    folder = kgcal.home.parent
    (folder / "graph").mkdir(parents=True)
    rng = np.random.default_rng(0)
    people = [f"p{number}" for number in range(60)]
    lines = [f"{s}\t{p}\t{o}\n" for p in ("knows", "likes") for s in people for o in people if rng.random() < 0.2]
    rng.shuffle(lines)
    cuts = {"train": lines[:-200], "valid": lines[-200:-100], "test": lines[-100:]}
    for split, rows in cuts.items():
        (folder / "graph" / f"{split}.txt").write_text("".join(rows))
    for stage in (("prepare", "--dataset", "graph"), ("train", "--epochs", EPOCHS, "--k", "4", "--data")):
        more = [runs_of(kgcal, "prepare")[0].info.run_id] if stage[0] == "train" else []
        done = kgcal(*stage, *more)
        assert done.returncode == 0, done.stderr
    run_id = runs_of(kgcal, "train")[0].info.run_id
    [model] = models_of(kgcal, run_id)
    tables = load_file(next(Path(model.artifact_location.removeprefix("file://")).rglob("embeddings.safetensors")))
    shuffled = rng.permutation(len(people))  # the other library has another order
    np.save(folder / "e.npy", tables["entities"].numpy()[shuffled])
    np.save(folder / "r.npy", tables["predicates"].numpy()[::-1])
    (folder / "e.txt").write_text("".join(f"{sorted(people)[row]}\n" for row in shuffled))
    (folder / "r.txt").write_text("0\tlikes\n1\tknows\n")
    return Trained(kgcal, run_id, np.load(folder / "e.npy"), np.load(folder / "r.npy"))


TABLES = ("embeddings", "e.npy", "r.npy", "--entities", "e.txt", "--relations", "r.txt", "--dataset", "graph")


def test_an_imported_model_is_the_one_that_was_exported_and_is_re_used(trained: Trained) -> None:
    run_id = trained.imported(*TABLES)
    assert run_id != trained.run_id
    assert fingerprint(trained.kgcal, run_id) == fingerprint(trained.kgcal, trained.run_id)
    assert trained.imported(*TABLES) == run_id
    run = client_of(trained.kgcal).get_run(run_id)
    assert run.data.params == {"model": "transe", "model_options": "none", "k": "4"}
    assert tags_of(run).note == "Not trained by kgcal: imported from e.npy and r.npy."


@pytest.mark.long
def test_every_later_stage_works_on_it_also_with_new_labels(trained: Trained) -> None:
    run_id = trained.imported(*TABLES)
    (trained.folder / "labels.tsv").write_text("".join(f"p{n}\tknows\tp{n + 20}\t{n % 2 * 2 - 1}\n" for n in range(40)))
    for options in (("--base-rate", "0.2"), ("--labels", "labels.tsv", "--exam-share", "0")):
        done = trained.kgcal("recalibrate", run_id, *options)
        assert done.returncode == 0, done.stderr
    adopted = tags_of(runs_of(trained.kgcal, "train")[-1])
    assert adopted.adopted == run_id
    assert set(adopted.config) == {"model", "model_options", "k"}
    shown = done.stdout + trained.kgcal("compare").stdout
    assert "imported" in shown
    assert "self_adversarial" not in shown
    for made in runs_of(trained.kgcal, "pipeline"):
        assert {"loss", "epochs", "training_strategy"}.isdisjoint(made.data.params)
    for model in models_of(trained.kgcal, runs_of(trained.kgcal, "calibrate")[-1].info.run_id):
        assert (model.params["loss"], model.params["training_strategy"]) == ("imported", "")
    assert trained.kgcal("promote").returncode == 0
    asked = trained.kgcal("predict", "p1", "knows", "p2")
    assert asked.returncode == 0, asked.stderr


def test_nothing_is_made_of_tables_that_do_not_fit(trained: Trained) -> None:
    before = len(runs_of(trained.kgcal, "train"))
    (trained.folder / "few.txt").write_text("p1\np2\n")
    np.save(trained.folder / "few.npy", np.ones((2, 4)))
    few = ("few.npy", "r.npy", "--entities", "few.txt", "--relations", "r.txt", "--dataset", "graph")
    for arguments, words in (
        (("embeddings", *few), "few.npy has no row for 58 of 60 entities of the graph, such as 'p0'"),
        ((*TABLES, "--model", "rotate", "--layout", "pairs"), "modulus that differs from 1"),
        ((*TABLES, "--model-options", "norm=3"), "norm is 3: it must be 1 or 2"),
        (("embeddings", "--dataset", "graph"), "give two files"),
    ):
        done = trained.kgcal("import", *arguments)
        assert done.returncode == 2
        assert words in " ".join(done.stderr.split())
    assert len(runs_of(trained.kgcal, "train")) == before


def write_checkpoint(folder: Path, trained: Trained, inverse: bool = False) -> None:
    """Write a folder in PyKEEN's layout, with the names of the tables' rows."""
    (folder / "training_triples").mkdir(parents=True)
    tables = {"entities": trained.entities.tolist(), "relations": trained.relations.tolist()}
    code = MODEL.format(inverse=inverse, **tables)
    torch.save(Pickled(code), folder / "trained_model.pkl")
    names = {"entity": (trained.folder / "e.txt").read_text().split(), "relation": ["likes", "knows"]}
    for word, rows in names.items():
        text = "id\tlabel\n" + "".join(f"{number}\t{name}\n" for number, name in enumerate(rows))
        (folder / "training_triples" / f"{word}_to_id.tsv.gz").write_bytes(gzip.compress(text.encode()))


def test_a_checkpoint_in_pykeens_layout_is_loaded_by_another_process(trained: Trained) -> None:
    write_checkpoint(trained.folder / "peer", trained)
    run_id = trained.imported("pykeen", "peer", "--trust", "--dataset", "graph")
    # the norm is stated here, and is the default of the model that kgcal trained
    run = client_of(trained.kgcal).get_run(run_id)
    assert run.data.params == {"model": "transe", "model_options": "norm=1", "k": "4"}
    assert tags_of(run).note == "Not trained by kgcal: imported from the PyKEEN folder peer."
    norm = trained.imported(*TABLES, "--model-options", "norm=1")
    assert fingerprint(trained.kgcal, run_id) == fingerprint(trained.kgcal, norm)


@pytest.mark.long
def test_checkpoints_that_cannot_be_imported_are_refused(trained: Trained) -> None:
    write_checkpoint(trained.folder / "inverse", trained, inverse=True)
    write_checkpoint(trained.folder / "broken", trained)
    (trained.folder / "broken" / "trained_model.pkl").write_bytes(b"no pickle")
    for name, trust, words in (
        ("inverse", ["--trust"], "was trained with inverse triples"),
        ("broken", ["--trust"], "broken/trained_model.pkl cannot be loaded with"),
        ("inverse", [], "add --trust if you trust its source"),
    ):
        done = trained.kgcal("import", "pykeen", name, *trust, "--dataset", "graph")
        assert done.returncode == 2
        assert words in " ".join(done.stderr.split())


def test_a_checkpoint_of_libkge_becomes_the_same_model(trained: Trained) -> None:
    """LibKGE's TransE with l_norm = 1 has the formula of the model that kgcal trained."""
    peer = trained.folder / "peers"
    peer.mkdir()
    tables = {"_entity_": trained.entities, "_relation_": trained.relations}
    state = {f"{word}embedder._embeddings.weight": torch.from_numpy(table.copy()) for word, table in tables.items()}
    settings = SimpleNamespace(options={"model": "transe", "transe": {"l_norm": 1.0}})
    torch.save({"model": [state, {}], "config": settings}, peer / "best.pt")
    files = ("--entities", "e.txt", "--relations", "r.txt")
    refused = trained.kgcal("import", "libkge", "peers/best.pt", *files, "--dataset", "graph")
    assert refused.returncode == 2
    assert "add --trust if you trust its source" in " ".join(refused.stderr.split())
    run_id = trained.imported("libkge", "peers/best.pt", *files, "--trust", "--dataset", "graph")
    norm = trained.imported(*TABLES, "--model-options", "norm=1")
    assert fingerprint(trained.kgcal, run_id) == fingerprint(trained.kgcal, norm)
