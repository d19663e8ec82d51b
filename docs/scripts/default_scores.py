"""Score tables for docs/scripts/defaults.py: many graphs, two models each, and several kinds of labelled negatives.

    python docs/scripts/default_scores.py CACHE wn11 fb13 family:2000:0 umls     # KGCAL_MIRROR has the archives

Labelled negatives are those of the data set; of PPI5K they are the triples with a confidence below .25, and those from
.4 on are facts. Other negatives are constructed. They are false only if the graph has all facts, so they are stand-ins
for real mistakes. For every positive of valid and of test, each kind draws NEGATIVES triples that no split has as a
fact:

random      typed and uniform corruptions, half each
relational  corruptions of another predicate's entities
plausible   of 5 typed corruptions, the one with the highest score of the *other* model
hard        the same, of 100 typed corruptions
mixed       equal parts of the last four

The negatives that a calibrator may use, the corruptions of valid, are drawn by each strategy. A table is written once.
It also has the share of each strategy's corruptions that are facts of test.
"""

import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from kgcore.arrays import Triples
from kgcore.config import TrainConfig
from kgcore.config.presets import preset
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, Strategy, corrupt, subject_shares
from kgcore.embed.corruptions.near_miss import NearMiss
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train

STRATEGIES = ("relational", "uniform", "typed", "similar", "nearest", "near_miss")
MODELS = ("transe", "complex")
POSITIVES, NEGATIVES, ETA = 3_000, 9, 20  # at most so many positives of a split; negatives and corruptions of each
FACT, WEAK = 0.4, 0.25  # confidences of PPI5K


def graph_of(name: str, cache: Path) -> KnowledgeGraph:
    """Return a graph: `family:SIZE:SEED`, `umls`, `ppi5k`, or a registered name."""
    name, _, rest = name.partition(":")
    size, seed = (int(part) for part in (rest or "0:0").split(":"))
    mirror = os.environ.get("KGCAL_MIRROR")
    if name in ("umls", "ppi5k"):
        folder = cache / name
        if not folder.is_dir():
            zipfile.ZipFile(Path(mirror or "") / f"{name}.zip").extractall(cache)
            if name == "ppi5k":
                _threshold(folder)
        name = str(folder)
    spec = find_dataset(name)
    return prepare(spec, fetch(spec, cache / "datasets", mirror, size, seed)).graph


def _threshold(folder: Path) -> None:
    """Turn confidences into facts, and in valid and test into labels."""
    for split in ("train", "valid", "test"):
        rows = [line.split("\t") for line in (folder / f"{split}.txt").read_text().splitlines()]
        kept = [(*row[:3], "1") for row in rows if float(row[3]) >= FACT]
        if split == "train":
            kept = [row[:3] for row in kept]
        else:
            kept += [(*row[:3], "-1") for row in rows if float(row[3]) < WEAK]
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in kept))


def config_of(graph: KnowledgeGraph, model: str) -> TrainConfig:
    """Return settings that train in a few minutes."""
    if model == "transe":
        config = preset("default", graph.name, model, "self_adversarial")
        most = {"wn18rr": 60, "fb15k-237": 20, "ppi5k": 50}.get(graph.name, 100)
        return config.replace(epochs=min(config.epochs, most))
    if graph.name in ("wn11", "fb13"):
        return preset("default", graph.name, model, "multiclass_nll").replace(epochs=16)
    return TrainConfig(model=model, loss="multiclass_nll", learning_rate=0.1, lp_weight=0.1, lp_power=3.0, epochs=12)


def some(triples: Triples, rng: np.random.Generator) -> Triples:
    """Return at most POSITIVES of the triples."""
    return triples[np.sort(rng.permutation(len(triples))[:POSITIVES])]


def table(graph: KnowledgeGraph, models: dict[str, TrainedModel], name: str) -> dict[str, np.ndarray]:
    """Score the positives, the labelled negatives and the corruptions for one model.

    A key is SPLIT.positives, SPLIT.KIND or corruptions.STRATEGY, followed by scores, predicates, source (the row of the
    positive from which a triple was made) or facts (the share of test facts).
    """
    rng = np.random.default_rng(0)
    model, [other] = models[name], [models[key] for key in models if key != name]
    shares, test = subject_shares(graph, "bernoulli"), graph.index(graph.test.positives)
    found: dict[str, np.ndarray] = {}
    made: dict[str, Triples] = {}

    def put(key: str, triples: Triples, source: np.ndarray | None = None) -> None:
        found[f"{key}.scores"], found[f"{key}.predicates"] = model.score(triples), triples[:, 1]
        if source is not None:
            found[f"{key}.source"] = source

    def put_corrupted(
        key: str, positives: Triples, strategy: Strategy, seen: TrainedModel, eta: int, final: bool
    ) -> None:
        strategy.see(seen)
        corrupted = corrupt(positives, eta, strategy, rng, shares, graph.all_known if final else graph.known)
        made[key] = corrupted.triples
        put(key, corrupted.triples, corrupted.source)

    for split, part in (("valid", graph.valid), ("test", graph.test)):
        positives = some(part.positives, rng)
        put(f"{split}.positives", positives)
        if graph.labelled:
            put(f"{split}.labelled", some(part.negatives, rng))
        drawing = {
            "random": Mixture(graph, {"typed": 0.5, "uniform": 0.5}),
            "relational": Mixture(graph, {"relational": 1}),
        }
        for kind, strategy in (drawing | {"plausible": NearMiss(graph, 5), "hard": NearMiss(graph, 100)}).items():
            put_corrupted(f"{split}.{kind}", positives, strategy, other, NEGATIVES, final=True)
        if split == "valid":
            for kind in STRATEGIES:
                put_corrupted(f"corruptions.{kind}", positives, Mixture(graph, {kind: 1}), model, ETA, final=False)
                found[f"corruptions.{kind}.facts"] = test.contains(made[f"corruptions.{kind}"]).mean()
    return found


def main(cache: Path, names: list[str]) -> None:
    """Write the tables that do not exist yet."""
    for name in names:
        paths = {model: cache / f"{name.replace(':', '-')}.{model}.npz" for model in MODELS}
        if all(path.exists() for path in paths.values()):
            continue
        graph = graph_of(name, cache)
        models = {model: train(graph, config_of(graph, model), torch.device("cpu")).model for model in MODELS}
        for model, path in paths.items():
            np.savez_compressed(path, **table(graph, models, model))
            print(path, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
