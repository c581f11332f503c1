"""Packing a network's gradients into one buffer and back, measured beside a copy of as many bytes."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from pycomm.cuda.probe import cuda_module, missing_device
from pycomm.errors import Error, Unavailable, UsageError
from pycomm.measure.alone import blank_row, timed_row
from pycomm.measure.elements import element_type
from pycomm.measure.record import CaseRecord, Loop
from pycomm.model.tables import ModelTable
from pycomm.packing import GradientPacker

STEPS: Final = ("pack", "unpack", "copy")
WARMUP: Final = 3
BATCH: Final = 8  # on a GPU: a launch alone takes a tenth of what a network's gradients do

# (step, samples) -> nanoseconds of each
TimeStep = Callable[[str, int], Any]


def measure_packing(
    network: ModelTable, dtype: str, buffer_dtypes: tuple[str, ...], device: str, samples: int
) -> Iterator[CaseRecord]:
    """Three records a buffer type: pack, unpack, and the copy they are held against.

    Their `bytes` are half of what is read and written, so that rates compare. Sums of both ways that do not come back
    as they were count as `wrong`; where the buffer's type is narrower only what it can hold is packed.
    """
    shapes = [shape for layer in network.layers for _, shape in layer.tensors]
    for buffer_dtype in buffer_dtypes:
        moved = network.parameters * (element_type(dtype).itemsize + element_type(buffer_dtype).itemsize) // 2
        blanks = [_blank(step, network, dtype, buffer_dtype, device, moved) for step in STEPS]
        reason = missing_device() if device == "cuda" else ""
        try:
            packer = GradientPacker(shapes, element_type(dtype), buffer_dtype=element_type(buffer_dtype))
        except UsageError as error:  # no such conversion
            reason = str(error)
        if reason:
            yield from (replace(blank, status="skipped", reason=reason) for blank in blanks)
            continue
        try:
            prepare = _on_device if device == "cuda" else _on_host
            time_step, wrong = prepare(packer, moved)
            for blank, step in zip(blanks, STEPS, strict=True):
                if wrong:
                    yield replace(blank, status="wrong", wrong=wrong, reason=f"{wrong} wrong elements; not timed")
                    continue
                elapsed_ns = time_step(step, samples + WARMUP)[WARMUP:]
                yield timed_row(replace(blank, wrong=0 if step != "copy" else None), elapsed_ns, WARMUP, _loop(device))
        except (Error, MemoryError) as error:
            status = "skipped" if isinstance(error, Unavailable) else "failed"
            yield from (replace(blank, status=status, reason=str(error) or type(error).__name__) for blank in blanks)


def _values(packer: GradientPacker) -> list[np.ndarray[Any, Any]]:
    """Tensors whose every value is exact in all types: the numbers 0 to 96 in turn, going on from tensor to tensor."""
    flat = (np.arange(packer.count) % 97).astype(packer.dtype)
    ends = np.cumsum([math.prod(shape) for shape in packer.shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), packer.shapes, strict=True)]


def _on_host(packer: GradientPacker, moved: int) -> tuple[TimeStep, int]:
    tensors = _values(packer)
    back = [np.full_like(tensor, 99) for tensor in tensors]
    buffer = packer.pack(tensors)
    packer.unpack(buffer, back)
    wrong = sum(int(np.count_nonzero(a != b)) for a, b in zip(tensors, back, strict=True))
    source, target = np.ones(moved, np.uint8), np.ones(moved, np.uint8)
    calls: dict[str, Callable[[], object]] = {
        "pack": lambda: packer.pack(tensors, buffer),
        "unpack": lambda: packer.unpack(buffer, back),
        "copy": lambda: np.copyto(target, source),
    }

    def time_step(step: str, samples: int) -> Any:
        elapsed_ns = np.empty(samples, np.int64)
        for sample in range(samples):
            start_ns = time.monotonic_ns()
            calls[step]()
            elapsed_ns[sample] = time.monotonic_ns() - start_ns
        return elapsed_ns

    return time_step, wrong


def _on_device(packer: GradientPacker, moved: int) -> tuple[TimeStep, int]:
    from pycomm.cuda.memory import DeviceBuffer, read_bytes, write_bytes

    module: Any = cast(Any, cuda_module())
    device = 0
    values = _values(packer)

    def put(array: Any) -> DeviceBuffer:
        memory = module.DeviceMemory(device, max(array.nbytes, 1))
        write_bytes(memory, array.reshape(-1))
        buffer = DeviceBuffer(memory, array.dtype, array.size)
        buffer.shape = array.shape
        return buffer

    stream = module.DeviceStream(device)
    tensors = [put(value) for value in values]
    back = [put(np.full_like(value, 99)) for value in values]
    buffer = packer.pack(tensors, stream=stream)
    packer.unpack(buffer, back, stream=stream)
    stream.synchronize()
    wrong = 0
    for tensor, value in zip(back, values, strict=True):
        found = np.empty(value.size, value.dtype)
        read_bytes(tensor.memory, found)
        wrong += int(np.count_nonzero(found != value.reshape(-1)))
    del back

    def time_step(step: str, samples: int) -> Any:
        if step != "copy":
            return packer.time_on_device(tensors, buffer, step == "pack", samples, BATCH) / BATCH
        times = module.time_copies(
            kind="d2d", device=device, peer=0, pinned=True, bytes=moved, samples=samples, batch=BATCH
        )
        return times[0] / BATCH

    return time_step, wrong


def _blank(step: str, network: ModelTable, dtype: str, buffer_dtype: str, device: str, moved: int) -> CaseRecord:
    return blank_row(
        benchmark="packing",
        backend="native",
        algorithm=step,
        options=f"{network.name},buffer={buffer_dtype}",
        transport="",
        device="cuda:0" if device == "cuda" else "cpu",
        dtype=dtype,
        link="device memory" if device == "cuda" else "memory",
        bytes=moved,
        count=network.parameters,
    )


def _loop(device: str) -> Loop:
    return Loop("c++", "each", BATCH, "events") if device == "cuda" else Loop("python", "each", 1, "host")
