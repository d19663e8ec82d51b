"""Row-wise Adagrad, compared with its formula and with PyTorch's Adagrad."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.config import PipelineConfigs, TrainConfig, presets
from kgcore.embed.optimisers.base import RowAdagrad
from kgcore.embed.training.loop import bytes_of_tables, check_memory
from kgcore.errors import InputError


def by_formula(table: np.ndarray, sums: np.ndarray, rows: np.ndarray, gradient: np.ndarray, rate: float) -> None:
    """Do a step in float64, row by row."""
    for row, g in zip(rows, gradient, strict=True):
        sums[row] += np.mean(g.astype(np.float64) ** 2)
        table[row] -= rate * g / (np.sqrt(sums[row]) + 1e-10)


@given(seed=st.integers(0, 99), rows=st.integers(1, 9), width=st.integers(1, 40), steps=st.integers(1, 4))
def test_a_step_is_that_of_the_formula(seed: int, rows: int, width: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(9, width)).astype(np.float32)
    ours = RowAdagrad(torch.from_numpy(start.copy()))
    table, sums = start.astype(np.float64), np.zeros(9)
    for step in range(1, steps + 1):
        numbers = np.sort(rng.choice(9, rows, replace=False))
        gradient = rng.normal(size=(rows, width)).astype(np.float32)
        ours.step(torch.from_numpy(numbers), torch.from_numpy(gradient), step, 0.1)
        by_formula(table, sums, numbers, gradient, 0.1)
    np.testing.assert_allclose(ours.table, table, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.sums, sums, rtol=1e-5)


def test_rows_of_one_number_have_the_adagrad_of_pytorch() -> None:
    start = torch.randn(7, 1, generator=torch.Generator().manual_seed(0))
    ours, parameter = RowAdagrad(start.clone()), torch.nn.Parameter(start.clone())
    theirs = torch.optim.Adagrad([parameter], lr=0.05)
    for step in range(1, 20):
        gradient = torch.randn(7, 1, generator=torch.Generator().manual_seed(step))
        ours.step(torch.arange(7), gradient, step, 0.05)
        parameter.grad = gradient
        theirs.step()
    torch.testing.assert_close(ours.table, parameter.detach(), rtol=1e-4, atol=1e-5)


def test_tables_of_more_dimensions_have_a_number_for_each_row() -> None:
    found = RowAdagrad(torch.ones(4, 2, 3))
    found.step(torch.tensor([1, 3]), torch.full((2, 2, 3), 2.0), 1, 0.1)
    torch.testing.assert_close(found.table[1], torch.full((2, 3), 0.9))
    torch.testing.assert_close(found.table[0], torch.ones(2, 3))
    torch.testing.assert_close(found.sums, torch.tensor([0.0, 4.0, 0.0, 4.0]))


def test_tables_that_do_not_fit_are_refused_with_the_way_out() -> None:
    adam, lean = TrainConfig(k=100), TrainConfig(k=100, optimiser="adagrad")
    assert bytes_of_tables(1000, adam) == 3 * 4 * 1000 * 100
    assert bytes_of_tables(1000, lean) == 4 * 1000 * 101
    check_memory(1000, adam, 1_200_000)
    with pytest.raises(InputError, match=r"1,000 entities .* adam need 0\.0 GB.*--optimiser adagrad needs 0\.0 GB"):
        check_memory(1000, adam, 1_199_999)
    with pytest.raises(InputError, match="a smaller --k needs less, and --partitions 5 --optimiser adagrad fits"):
        check_memory(1000, lean, 400_000)
    check_memory(1000, lean.replace(partitions=5), 400_000)
    with pytest.raises(InputError, match=r"of 800 entities .* and --partitions 17 --optimiser adagrad fits"):
        check_memory(1000, lean.replace(partitions=5), 200_000, buckets=2)
    check_memory(1000, lean.replace(partitions=17), 200_000, buckets=2)


def test_a_learning_rate_that_is_not_given_is_that_of_the_optimiser() -> None:
    def rate(preset: str | None, **train: object) -> float:
        return presets.resolve(preset, PipelineConfigs(train=TrainConfig(**train))).configs.train.learning_rate

    assert rate("default", optimiser="adagrad") == presets.LEARNING_RATES["adagrad"]
    assert rate("none", optimiser="adagrad") == presets.LEARNING_RATES["adagrad"]
    assert rate("none", optimiser="adagrad", learning_rate=0.3) == 0.3
    assert rate("none", optimiser="adam") == rate("none") == TrainConfig().learning_rate
