"""GradientPacker against NumPy and ml_dtypes."""

import doctest

import ml_dtypes
import numpy as np
import pytest

import pycomm.packing
from pycomm import UsageError
from pycomm.packing import GradientPacker

BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
INTEGERS = [np.dtype(name) for name in ("int64", "int32", "int8", "uint8")]
CONVERSIONS = [(a, b) for a in (F32, F16, BF16) for b in (F32, F16, BF16)]
CONVERSIONS += [(F64, F64), (F64, F32), (F32, F64)]
# Scalars, empty tensors, one element, shapes of layers, and counts around the widths of vectors.
SHAPES = [(3, 5, 7), (), (0, 4), (1,), (2,), (15,), (16,), (17,), (31,), (33,), (63,), (64,), (65,), (1000, 3), (4099,)]


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def any_bits(dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    count = int(np.prod(shape, dtype=np.int64))
    generator = np.random.default_rng(seed)
    return np.frombuffer(generator.bytes(count * dtype.itemsize), dtype=dtype).copy().reshape(shape)


def converted(array: np.ndarray, to: np.dtype, factor: float) -> np.ndarray:
    working = F64 if F64 in (array.dtype, to) else F32
    with np.errstate(all="ignore"):
        result = (array.astype(working) * working.type(factor)).astype(to)
        nan = np.isnan(result.astype(F64))
    return np.where(nan, to.type(np.nan), result)


@pytest.mark.parametrize("isa", pycomm._core.cpu_isas())
@pytest.mark.parametrize("factor", [1.0, 0.25, 1 / 3])
@pytest.mark.parametrize(("dtype", "buffer_dtype"), CONVERSIONS, ids=str)
def test_pack_and_unpack_convert_as_numpy_does(
    dtype: np.dtype, buffer_dtype: np.dtype, factor: float, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYCOMM_CPU", isa)
    tensors = [any_bits(dtype, shape, seed) for seed, shape in enumerate(SHAPES)]
    packer = GradientPacker.like(tensors, buffer_dtype=buffer_dtype)
    buffer = packer.pack(tensors, factor=factor)
    wanted = np.concatenate([t.ravel() for t in tensors])
    if dtype != buffer_dtype or factor != 1:
        wanted = converted(wanted, buffer_dtype, factor)
    np.testing.assert_array_equal(bits(buffer), bits(wanted))

    source = any_bits(buffer_dtype, (packer.count,), 99)
    packer.unpack(source, tensors, factor=factor)
    found = np.concatenate([t.ravel() for t in tensors])
    wanted = source if dtype == buffer_dtype and factor == 1 else converted(source, dtype, factor)
    np.testing.assert_array_equal(bits(found), bits(wanted))


@pytest.mark.parametrize("isa", pycomm._core.cpu_isas())
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_rounding_to_half_is_right_for_every_upper_half_of_a_float(
    dtype: np.dtype, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYCOMM_CPU", isa)
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    lower = [0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    for low in lower:
        values = (upper | np.uint32(low)).view(F32)
        buffer = GradientPacker([values.shape], F32, buffer_dtype=dtype).pack([values])
        np.testing.assert_array_equal(bits(buffer), bits(converted(values, dtype, 1)))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_move_unchanged_and_take_no_factor(dtype: np.dtype) -> None:
    tensors = [any_bits(dtype, shape, seed) for seed, shape in enumerate(SHAPES)]
    packer = GradientPacker.like(tensors)
    buffer = packer.pack(tensors)
    assert buffer.tolist() == [value for tensor in tensors for value in tensor.ravel().tolist()]
    with pytest.raises(UsageError, match=f"{dtype} takes no factor but 1"):
        packer.pack(tensors, factor=0.5)


def test_alignment_puts_zeros_between_tensors() -> None:
    packer = GradientPacker([3, (2, 2), 1], F32, buffer_dtype=BF16, alignment_bytes=16)
    assert packer.offsets == (0, 8, 16)
    assert (packer.count, packer.bytes) == (17, 34)
    buffer = np.full(17, 7, BF16)
    packer.pack([np.full(3, 1, F32), np.full((2, 2), 2, F32), np.full(1, 3, F32)], buffer)
    assert buffer.astype(F32).tolist() == [1] * 3 + [0] * 5 + [2] * 4 + [0] * 4 + [3]


def test_nothing_outside_the_buffer_or_a_tensor_is_written() -> None:
    for count in (1, 7, 16, 31, 33):
        memory = np.full(count + 64, 9, F16)
        packer = GradientPacker([count], F32, buffer_dtype=F16)
        packer.pack([np.ones(count, F32)], memory[32 : 32 + count])
        assert memory.tolist() == [9] * 32 + [1] * count + [9] * 32
        tensors = np.full(count + 64, 9, F32)
        packer.unpack(memory[32 : 32 + count], [tensors[32 : 32 + count]])
        assert tensors.tolist() == [9] * 32 + [1] * count + [9] * 32


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([np.zeros((2, 3), F32)], "found 1 tensors, wanted 2"),
        ([np.zeros((2, 3), F32), np.zeros(4, F64)], "tensor 1: found float64, wanted float32"),
        ([np.zeros((2, 3), F32), np.zeros(4, ">f4")], "tensor 1: found >f4, wanted float32"),
        ([np.zeros((3, 2), F32), np.zeros(4, F32)], r"tensor 0: found shape \(3, 2\), wanted \(2, 3\)"),
        ([np.zeros((3, 2), F32).T, np.zeros(4, F32)], "tensor 0: not contiguous"),
        ([np.zeros((2, 3), F32), np.zeros(8, F32)[::2]], "tensor 1: not contiguous"),
        ([np.zeros((2, 3), F32), [0.0] * 4], "tensor 1: not a NumPy array"),
    ],
)
def test_other_tensors_than_planned_are_refused(tensors: list, message: str) -> None:
    packer = GradientPacker([(2, 3), 4], F32)
    with pytest.raises(UsageError, match=message):
        packer.pack(tensors)
    with pytest.raises(UsageError, match=message):
        packer.unpack(np.zeros(10, F32), tensors)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GradientPacker([2], "single-ish"), "packing: dtype: 'single-ish' is no type NumPy knows"),
        (lambda: GradientPacker([2], F32, buffer_dtype="half-ish"), "packing: buffer_dtype: 'half-ish' is no type"),
        (lambda: GradientPacker([2.5], F32), "packing: shape 2.5: 2.5 is not a whole number"),
        (lambda: GradientPacker([True], F32), "packing: shape True: True is not a whole number"),
        (lambda: GradientPacker.like([[1.0, 2.0]]), "packing: tensor 0: found a list, wanted an array"),
    ],
)
def test_what_is_no_type_shape_or_tensor_is_refused(make, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_a_shape_is_any_row_of_whole_numbers() -> None:
    assert GradientPacker([np.array([2, 3]), [4], np.int64(5), ()], F32).shapes == ((2, 3), (4,), (5,), ())


def test_other_buffers_than_planned_are_refused() -> None:
    packer = GradientPacker([4], F32)
    tensor = np.zeros(4, F32)
    for buffer, message in [
        (np.zeros(5, F32), "buffer: found 5 elements in 1 dimensions, wanted 4 in 1"),
        (np.zeros((2, 2), F32), "buffer: found 4 elements in 2 dimensions"),
        (np.zeros(4, F16), "buffer: found float16, wanted float32"),
        (np.zeros(8, F32)[::2], "buffer: not contiguous"),
        (tensor, "tensor 0: overlaps the buffer"),
    ]:
        with pytest.raises(UsageError, match=message):
            packer.pack([tensor], buffer)
        with pytest.raises(UsageError, match=message):
            packer.unpack(buffer, [tensor])
    frozen = np.zeros(4, F32)
    frozen.flags.writeable = False
    with pytest.raises(UsageError, match="buffer: read-only"):
        packer.pack([tensor], frozen)
    with pytest.raises(UsageError, match="tensor 0: read-only"):
        packer.unpack(tensor, [frozen])
    assert packer.pack([frozen]).tolist() == [0] * 4


def test_plans_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="no conversion from float64 to bfloat16"):
        GradientPacker([4], F64, buffer_dtype=BF16)
    with pytest.raises(UsageError, match="no conversion from int32 to float32"):
        GradientPacker([4], np.int32, buffer_dtype=F32)
    with pytest.raises(UsageError, match="unknown dtype 'uint16'"):
        GradientPacker([4], np.uint16)
    with pytest.raises(UsageError, match="tensor 1: found float64, wanted float32 as tensor 0"):
        GradientPacker.like([np.zeros(1, F32), np.zeros(1, F64)])
    with pytest.raises(UsageError, match="found no tensor"):
        GradientPacker.like([])
    with pytest.raises(UsageError, match=r"shape \(-1,\): negative"):
        GradientPacker([-1], F32)
    with pytest.raises(UsageError, match="too many elements"):
        GradientPacker([(1 << 40, 1 << 40)], F32)
    with pytest.raises(UsageError, match="True is not a whole number"):
        GradientPacker([True], F32)
    with pytest.raises(UsageError, match="alignment: found 12 bytes"):
        GradientPacker([4], F32, alignment_bytes=12)
    for factor in (True, "2", float("nan"), float("inf")):
        with pytest.raises(UsageError, match="factor: found"):
            GradientPacker([1], F32).pack([np.zeros(1, F32)], factor=factor)


def test_the_docstring_is_right() -> None:
    assert doctest.testmod(pycomm.packing).failed == 0
    assert doctest.testmod(pycomm.packing).attempted > 5
