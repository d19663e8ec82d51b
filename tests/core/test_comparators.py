"""L1 distances in compiled tiles, as ranking uses them."""

import pytest
import torch

from kgcore.models import comparators


@pytest.mark.parametrize("compiler", [True, False])
def test_l1_in_tiles_equals_l1(monkeypatch: pytest.MonkeyPatch, compiler: bool) -> None:
    if not compiler:
        monkeypatch.setattr(
            comparators, "_l1_kernel", lambda width: lambda queries, columns: torch.cdist(queries, columns.T, p=1)
        )
    monkeypatch.setattr(comparators, "TILED_FROM", 0)
    queries, entities = torch.randn(300, 6), torch.randn(comparators.TILE_ENTITIES + 5, 6)
    with torch.inference_mode():
        tiled = comparators.NegativeDistance(1).outer(queries, entities)
        torch.testing.assert_close(tiled, -torch.cdist(queries, entities, p=1))
