"""The packing kernels in the emulator against NumPy: every type pair, both ways, awkward sizes and alignments."""

import ml_dtypes
import numpy as np
import pytest

from pycomm import _emulator

PAIRS = [
    ("float64", "float64"),
    ("float64", "float32"),
    ("float32", "float64"),
    ("float32", "float32"),
    ("float32", "float16"),
    ("float32", "bfloat16"),
    ("float16", "float32"),
    ("float16", "float16"),
    ("float16", "bfloat16"),
    ("bfloat16", "float32"),
    ("bfloat16", "float16"),
    ("bfloat16", "bfloat16"),
]
SIZES = [1, 0, 7, 64, 3, 0, 130, 2, 5]  # elements of each tensor
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-8, -6e-8, 65504.0, 65519.9, 65520.0, 3.4e38, 1e-40]


def numpy_type(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def values_of(rng: np.random.Generator, count: int, dtype: np.dtype) -> np.ndarray:
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-8, 6, count)
    values[rng.random(count) < 0.2] = rng.choice(SPECIAL)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def converted(values: np.ndarray, dtype: np.dtype, factor: float) -> np.ndarray:
    """NumPy's answer: a product in float32 (float64 if either type is), rounded once; NaNs made canonical."""
    if values.dtype == dtype and factor == 1:
        return values
    working = np.float64 if np.float64 in (values.dtype, dtype) else np.float32
    with np.errstate(over="ignore"):
        result = (values.astype(working) * working(factor)).astype(dtype)
    result[np.isnan(result.astype(np.float64))] = np.array(np.nan, dtype)
    return result


def begins_of(sizes: list[int], alignment: int) -> tuple[list[int], int]:
    begins, end = [], 0
    for size in sizes:
        end = -(-end // alignment) * alignment
        begins.append(end)
        end += size
    return begins, end


@pytest.mark.parametrize("factor", [1.0, 0.25, 1 / 3])
@pytest.mark.parametrize(("to", "from_"), PAIRS)
def test_packing_and_unpacking_give_numpys_bits(to: str, from_: str, factor: float) -> None:
    rng = np.random.default_rng(7)
    for i, alignment in enumerate((1, 16)):
        begins, count = begins_of(SIZES, alignment)
        tensors = [values_of(rng, size, numpy_type(from_)) for size in SIZES]
        packed = np.zeros(count, numpy_type(to))
        for begin, tensor in zip(begins, tensors, strict=True):
            packed[begin : begin + len(tensor)] = converted(tensor, packed.dtype, factor)
        given = {"factor": factor, "count": count, "begins": begins, "shift": i, "threads": 4, "seeds": 3}
        outcome = _emulator.attempt_pack(
            to=to, from_=from_, to_buffer=True, blocks=3, first_seed=i,
            inputs=[t.tobytes() for t in tensors], expected=[packed.tobytes()], **given,
        )  # fmt: skip
        assert outcome.failed == 0, outcome.first_failure

        buffer = values_of(rng, count, numpy_type(from_))
        unpacked = [
            converted(buffer[begin : begin + size], numpy_type(to), factor)
            for begin, size in zip(begins, SIZES, strict=True)
        ]
        outcome = _emulator.attempt_pack(
            to=to, from_=from_, to_buffer=False, blocks=2, first_seed=i,
            inputs=[buffer.tobytes()], expected=[u.tobytes() for u in unpacked], **given,
        )  # fmt: skip
        assert outcome.failed == 0, outcome.first_failure


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8", "float16"])
@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_one_type_and_factor_one_copies_bytes(dtype: str, blocks: int) -> None:
    rng = np.random.default_rng(3)
    begins, count = begins_of(SIZES, 1)
    raw = rng.integers(0, 256, count * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
    parts = [raw[b : b + s].tobytes() for b, s in zip(begins, SIZES, strict=True)]
    for shift in (0, 1):
        outcome = _emulator.attempt_pack(
            to=dtype, from_=dtype, to_buffer=True, factor=1.0, count=count, begins=begins, inputs=parts,
            expected=[raw.tobytes()], shift=shift, blocks=blocks, threads=3, first_seed=0, seeds=3,
        )  # fmt: skip
        assert outcome.failed == 0, outcome.first_failure


def test_a_thousand_interleavings_give_one_buffer() -> None:
    rng = np.random.default_rng(5)
    sizes = [3, 0, 20, 1, 9]
    begins, count = begins_of(sizes, 4)
    tensors = [values_of(rng, size, np.dtype("float32")) for size in sizes]
    packed = np.zeros(count, ml_dtypes.bfloat16)
    for begin, tensor in zip(begins, tensors, strict=True):
        packed[begin : begin + len(tensor)] = converted(tensor, packed.dtype, 0.5)
    outcome = _emulator.attempt_pack(
        to="bfloat16", from_="float32", to_buffer=True, factor=0.5, count=count, begins=begins,
        inputs=[t.tobytes() for t in tensors], expected=[packed.tobytes()], shift=1, blocks=4, threads=4,
        first_seed=0, seeds=1000,
    )  # fmt: skip
    assert (outcome.seeds, outcome.failed) == (1000, 0), outcome.first_failure


def test_a_wrong_expectation_is_noticed() -> None:
    data = np.arange(40, dtype=np.float32)
    wrong = data.copy()
    wrong[17] += 1
    outcome = _emulator.attempt_pack(
        to="float32", from_="float32", to_buffer=True, factor=1.0, count=40, begins=[0],
        inputs=[data.tobytes()], expected=[wrong.tobytes()], shift=0, blocks=2, threads=4, first_seed=0, seeds=5,
    )  # fmt: skip
    assert outcome.first_failure == "output 0: element 17 is wrong"
