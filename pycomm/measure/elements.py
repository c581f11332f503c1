"""The element types by name, and how far each holds every whole number exactly."""

from typing import Any, Final

import ml_dtypes
import numpy as np

_SIGNIFICAND_BITS: Final = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def element_type(name: str) -> "np.dtype[Any]":
    """The NumPy type of that name; bfloat16 is ml_dtypes'."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def is_float(name: str) -> bool:
    """Whether the type rounds (and does not wrap)."""
    return name in _SIGNIFICAND_BITS


def exact_limit(name: str) -> int:
    """Every whole number from 0 to this one is exact in the type."""
    return 2 ** _SIGNIFICAND_BITS[name] if is_float(name) else int(np.iinfo(name).max)


def bits_of(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The same memory as unsigned whole numbers, to compare bit by bit whatever the type."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))
