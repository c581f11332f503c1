"""pycomm.GradientPacker over arrays on (emulated) GPUs: the bits of its CPU twin."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pycomm import GradientPacker
from pycomm.cuda import DeviceBuffer
from pycomm.errors import Unavailable, UsageError

Emulate = Callable[..., Any]
SHAPES = [(2, 3), (1,), (), (0, 4), (700,), (5, 5, 5)]


def put(module: Any, array: np.ndarray, device: int = 0) -> DeviceBuffer:
    memory = module.DeviceMemory(device, max(array.nbytes, 1))
    memory.write(array.reshape(-1).view(np.uint8))
    buffer = DeviceBuffer(memory, array.dtype, array.size)
    buffer.shape = array.shape
    return buffer


def get(buffer: Any) -> np.ndarray:
    array = np.empty(buffer.count, buffer.dtype)
    buffer.memory.read(array.view(np.uint8))
    return array.reshape(buffer.shape)


@pytest.mark.parametrize(
    ("dtype", "buffer_dtype", "factor"),
    [("float32", "bfloat16", 0.25), ("float32", "float16", 1.0), ("float32", "float32", 1 / 3),
     ("float64", "float32", 1.0), ("int64", "int64", 1.0), ("bfloat16", "float32", 1.0)],
)  # fmt: skip
@pytest.mark.parametrize("alignment_bytes", [None, 64])
def test_packing_on_a_device_gives_the_bits_of_the_cpu(
    dtype: str, buffer_dtype: str, factor: float, alignment_bytes: int | None, emulated_gpus: Emulate
) -> None:
    module = emulated_gpus(1)
    stream = module.DeviceStream(0)
    kinds = [np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in (dtype, buffer_dtype)]
    rng = np.random.default_rng(7)
    host = [np.asarray(rng.standard_normal(shape) * 100).astype(kinds[0]) for shape in SHAPES]
    packer = GradientPacker(SHAPES, kinds[0], buffer_dtype=kinds[1], alignment_bytes=alignment_bytes)
    expected = packer.pack(host, factor=factor)

    there = [put(module, tensor) for tensor in host]
    buffer = packer.pack(there, factor=factor, stream=stream)
    stream.synchronize()
    assert get(buffer).tobytes() == expected.tobytes()

    back = [np.zeros_like(tensor) for tensor in host]
    packer.unpack(expected, back, factor=factor)
    there = [put(module, np.zeros_like(tensor)) for tensor in host]
    packer.unpack(buffer, there, factor=factor, stream=stream)
    stream.synchronize()
    for found, wanted in zip(there, back, strict=True):
        assert get(found).tobytes() == wanted.tobytes()


def test_a_packer_like_device_tensors_has_their_type_and_shapes(emulated_gpus: Emulate) -> None:
    module = emulated_gpus(1)
    tensors = [put(module, np.zeros(shape, ml_dtypes.bfloat16)) for shape in ((2, 3), (4,))]
    packer = GradientPacker.like(tensors)
    assert (packer.shapes, packer.dtype, packer.count) == (((2, 3), (4,)), np.dtype(ml_dtypes.bfloat16), 10)
    with pytest.raises(UsageError, match="tensor 1: found float32, wanted bfloat16"):
        GradientPacker.like([tensors[0], put(module, np.zeros(3, np.float32))])


def test_arrays_in_two_places_are_refused_by_name(emulated_gpus: Emulate) -> None:
    module = emulated_gpus(2)
    host = np.zeros(4, np.float32)
    here, elsewhere = put(module, host), put(module, host, device=1)
    packer = GradientPacker([4, 4], np.float32)
    for tensors, buffer, message in [
        ([here, host], None, "tensor 0 is on a GPU and tensor 1 is not: wanted all arrays in one place"),
        ([host, host], put(module, np.zeros(8, np.float32)), "the buffer is on a GPU and tensor 0 is not"),
        ([here, elsewhere], None, "tensor 1: found it on device 1, wanted 0 as tensor 0"),
        ([here, here], put(module, np.zeros(8, np.float32), 1), "buffer: found it on device 1, wanted 0"),
        ([here, here], put(module, np.zeros(7, np.float32)), "buffer: found 7 elements, wanted 8"),
        ([here, here], put(module, np.zeros(8, np.float16)), "buffer: found float16, wanted float32"),
        ([here], None, "found 1 tensors, wanted 2"),
        ([here, put(module, host.reshape(2, 2))], None, r"tensor 1: found shape \(2, 2\), wanted \(4,\)"),
        ([here, put(module, host.view(np.int32))], None, "tensor 1: found int32, wanted float32"),
    ]:
        with pytest.raises(UsageError, match=message):
            packer.pack(tensors, buffer)
    with pytest.raises(UsageError, match="stream: found one, wanted none for arrays in host memory"):
        packer.pack([host, host], stream=module.DeviceStream(0))


def test_integers_take_no_factor_on_a_device_either(emulated_gpus: Emulate) -> None:
    module = emulated_gpus(1)
    packer = GradientPacker([4], np.int32)
    with pytest.raises(UsageError, match="takes no factor but 1"):
        packer.pack([put(module, np.zeros(4, np.int32))], factor=0.5)


def test_device_arrays_without_a_device_say_why(emulated_gpus: Emulate) -> None:
    module = emulated_gpus(1)
    tensor = put(module, np.zeros(4, np.float32))
    emulated_gpus(0)
    with pytest.raises(Unavailable, match="the NVIDIA driver shows no device"):
        GradientPacker([4], np.float32).pack([tensor])
