"""Compare the values of two objects, also of the arrays and tensors in them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import torch

from kgcore.combiners.base import Combiner


def assert_same(one: object, other: object, where: str = "") -> None:
    """Raise AssertionError if two objects differ in a type, a dtype or a value. The message names the place."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        assert one.dtype == other.dtype, where
        assert torch.equal(one, other), where
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        assert one.dtype.kind == other.dtype.kind, where
        assert one.dtype.kind == "U" or one.dtype == other.dtype, where
        np.testing.assert_array_equal(one, other, err_msg=where)
    elif isinstance(one, pd.DataFrame) and isinstance(other, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        assert list(one) == list(other), where
        for key, value in one.items():
            assert_same(value, other[key], f"{where}[{key}]")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        assert len(one) == len(other), where
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, f"{where}[{number}]")
    elif isinstance(one, Combiner) and isinstance(other, Combiner):
        assert_same(one.parameters(), other.parameters(), where)
    elif is_dataclass(one) and is_dataclass(other):
        assert type(one) is type(other), where
        for item in fields(one):
            assert_same(getattr(one, item.name), getattr(other, item.name), f"{where}.{item.name}")
    elif type(one) is type(other) and hasattr(one, "__dict__"):
        assert_same(vars(one), vars(other), where)
    else:
        assert one == other, where
