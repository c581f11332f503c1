"""The reduction kernels against NumPy and ml_dtypes, on every path this CPU runs."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from pycomm import UsageError, _core

ISAS = _core.cpu_isas()
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
FLOATS = [np.dtype(np.float64), np.dtype(np.float32), *HALVES]
INTEGERS = [np.dtype(name) for name in ("int64", "int32", "int8", "uint8")]
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def every_half(dtype: np.dtype) -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def canonical(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        array[np.isnan(array.astype(np.float64))] = np.nan
    return array


def random_array(dtype: np.dtype, count: int, seed: int) -> np.ndarray:
    """Any bits: every kind of number, infinities, NaNs and subnormals among them."""
    generator = np.random.default_rng(seed)
    return np.frombuffer(generator.bytes(count * dtype.itemsize), dtype=dtype).copy()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_half_survives_widening_and_rounding(isa: str, dtype: np.dtype) -> None:
    values = every_half(dtype)
    to = np.empty_like(values)
    _core.combine_arrays("sum", [to], [values], isa=isa)
    np.testing.assert_array_equal(bits(to), bits(canonical(values)))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("other", [1.0, -0.0, 2.0**-7, 3.0, 65504.0, 2.0**-24, -1.5, 0.333, np.inf, np.nan])
@pytest.mark.parametrize("op", UFUNCS)
def test_every_half_with_another_rounds_once(isa: str, dtype: np.dtype, other: float, op: str) -> None:
    values = every_half(dtype)
    others = np.full_like(values, other)
    # The exact result, or one that rounds as it does, in float64; then one rounding by NumPy or ml_dtypes.
    with np.errstate(all="ignore"):
        wide = UFUNCS[op](values.astype(np.float64), others.astype(np.float64))
        if op in ("min", "max"):
            tie = (values.astype(np.float64) == 0) & (others.astype(np.float64) == 0)
            negative = np.signbit(values), np.signbit(others)
            either = negative[0] | negative[1] if op == "min" else negative[0] & negative[1]
            wide = np.where(tie, np.where(either, -0.0, 0.0), wide)
        wanted = canonical(wide.astype(np.float32).astype(dtype))
    to = np.empty_like(values)
    _core.reduce_arrays(op, to, values, others, isa=isa)
    np.testing.assert_array_equal(bits(to), bits(wanted))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [*FLOATS[:2], *INTEGERS], ids=str)
@pytest.mark.parametrize("op", UFUNCS)
def test_full_types_equal_numpy(isa: str, dtype: np.dtype, op: str) -> None:
    a, b = random_array(dtype, 10007, 1), random_array(dtype, 10007, 2)
    with np.errstate(all="ignore"):
        wanted = UFUNCS[op](a, b)
    if dtype.kind == "f":
        wanted = canonical(wanted)
    for streaming in (False, True):
        to = np.empty_like(a)
        _core.reduce_arrays(op, to, a, b, isa=isa, streaming=streaming)
        np.testing.assert_array_equal(bits(to), bits(wanted))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("contributors", [1, 2, 3, 7, 64, 1000])
def test_float_average_divides_the_rounded_sum_once(isa: str, dtype: np.dtype, contributors: int) -> None:
    values = every_half(dtype) if dtype.itemsize == 2 else random_array(dtype, 10007, 3)
    wide = dtype if dtype.itemsize > 2 else np.dtype(np.float32)
    with np.errstate(all="ignore"):
        wanted = canonical((values.astype(wide) / wide.type(contributors)).astype(dtype))
    scaled = values.copy()
    _core.scale_array(scaled, contributors, isa=isa)
    np.testing.assert_array_equal(bits(scaled), bits(wanted))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("contributors", [1, 2, 3, 5, 7, 127, 128, 255, 256, 1 << 40])
def test_integer_average_truncates_toward_zero(isa: str, dtype: np.dtype, contributors: int) -> None:
    values = random_array(dtype, 4099, 4)
    values[0], values[1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    # Python's integers: floor division of the magnitude, with the sign put back.
    quotients = [abs(int(v)) // contributors * (-1 if v < 0 else 1) for v in values]
    _core.scale_array(values, contributors, isa=isa)
    assert values.tolist() == quotients


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_combine_of_halves_accumulates_in_float32_and_reduce_does_not(dtype: np.dtype) -> None:
    one, small = np.ones(64, dtype), np.full(64, np.finfo(np.float32).eps * 2**13, np.float32).astype(dtype)
    if dtype == ml_dtypes.bfloat16:
        small = np.full(64, 2.0**-9, np.float32).astype(dtype)
    operands = [one] + [small] * 8
    combined = np.empty_like(one)
    _core.combine_arrays("sum", [combined], operands)
    stepwise = one.copy()
    for operand in operands[1:]:
        _core.reduce_arrays("sum", stepwise, stepwise, operand)
    wide = np.sum([operand.astype(np.float64) for operand in operands], axis=0)
    np.testing.assert_array_equal(combined, wide.astype(dtype))
    assert wide[0] > 1  # what a rounding at each step loses for bfloat16
    loops = one.copy()
    for operand in operands[1:]:
        loops = (loops + operand).astype(dtype)
    np.testing.assert_array_equal(stepwise, loops)


def test_misuse_is_refused() -> None:
    a, b = np.zeros(4, np.float32), np.zeros(5, np.float32)
    with pytest.raises(UsageError, match="a: found 5 of float32, wanted 4 of float32"):
        _core.reduce_arrays("sum", a, b, a)
    with pytest.raises(UsageError, match="to: not contiguous"):
        _core.reduce_arrays("sum", np.zeros(8, np.float32)[::2], a, a)
    with pytest.raises(UsageError, match="contributors: found 0, wanted at least 1"):
        _core.scale_array(a, 0)
    with pytest.raises(UsageError, match="contributors: found 2 for max"):
        _core.combine_arrays("max", [a], [a], contributors=2)
    with pytest.raises(UsageError, match="unknown dtype 'uint16'"):
        _core.reduce_arrays("sum", *[np.zeros(4, np.uint16)] * 3)
    with pytest.raises(UsageError, match="unknown dtype '>f4'"):
        _core.reduce_arrays("sum", *[np.zeros(4, ">f4")] * 3)
    a.flags.writeable = False
    with pytest.raises(UsageError, match="to: read-only"):
        _core.scale_array(a, 2)


@pytest.mark.parametrize(
    ("forced", "wanted"),
    [("portable", "portable"), ("sse9", "found 'sse9', wanted avx512, avx2 or portable")],
)
def test_the_environment_forces_a_path(forced: str, wanted: str) -> None:
    program = "from pycomm import _core; print(_core.cpu_isa())"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYCOMM_CPU": forced},
        cwd="/",  # not in a checkout, whose pycomm is not built
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert wanted in result.stdout + result.stderr
