"""Cases for the tests of models: scoring functions with options and with non-zero shared numbers."""

import numpy as np
import torch

from kgcore.embed.models.base import Model
from kgcore.registries import MODELS
from kgcore.registry import build
from tests.core.second_formulas import K

Options = dict[str, float | bool]

FEW: dict[str, Options] = {name: {"filters": 3} for name in ("capse", "conve", "convkb", "kbgat")}  # tests are fast
OPTIONS: list[tuple[str, Options]] = [
    ("transe", {"norm": 2}),
    ("toruse", {"norm": 2}),
    ("kg2e", {"likelihood": True}),
    ("tucker", {"predicate_size": 3}),
    ("conve", {"filters": 3, "kernel": 1}),  # no row of the map sees both halves of the image
    ("conve", {"filters": 3, "kernel": 4}),  # every row does
    ("capse", {"filters": 3, "routings": 3}),
    ("capse", {"filters": 3, "log_odds": False}),
]
CASES = [(name, FEW.get(name, {})) for name in MODELS.names()] + OPTIONS


def bound(name: str, options: Options | None = None, k: int = K) -> Model:
    """Return the model in double precision. If it has shared numbers, they are not zero."""
    model: Model = build(MODELS.get(name), options or {}, k)
    rng = np.random.default_rng(3)
    start = model.initial_shared(rng)
    shared = {key: torch.from_numpy(value + rng.normal(0, 0.1, value.shape)) for key, value in start.items()}
    return model.bound(shared)


def rows(model: Model, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw the embeddings of n subjects, predicates and objects, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    widths = (model.entity_width, model.predicate_width, model.entity_width)
    s, p, o = (torch.randn(n, width, generator=generator, dtype=torch.float64) for width in widths)
    return s, p, o
