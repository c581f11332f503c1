"""Bandwidth of the reduction kernels as a ratio to a plain copy of the same bytes, past the cache.

    python bench/reduce_kernels.py [--mebibytes 64] [--rounds 4] [--isa avx2]

Each kernel and two copies of as many bytes (reads and writes counted) are asked in turn for one slice of the buffers
after another, each on a slice that has long left the cache; medians over all slices are compared. So a slow moment
hits all. `memcpy` is the plain copy; `streamed copy` stores past the cache, as the kernels do here.
A ratio of 1.00 is the copy's bandwidth. Columns: `reduce` (2 reads, 1 write), `combine` of 3 operands (3 reads, 1
write) and, for avg, `combine` of 2 operands divided by 2 and by 3.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt

from pycomm import _core

Array = npt.NDArray[np.generic]
DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int32, np.int8, np.uint8]


SLICE_BYTES = 1 << 20  # of one operand


def median_ns(actions: list[Callable[[int], None]], slices: int, rounds: int) -> list[float]:
    """The median time of each action over all slices; action(slice) gets one far from the others'."""
    times = np.empty((len(actions), rounds * slices))
    for turn in range(rounds * slices):
        for index, action in enumerate(actions):
            where = (turn + index * slices // len(actions)) % slices
            begin = time.perf_counter_ns()
            action(where)
            times[index, turn] = time.perf_counter_ns() - begin
    return [float(median) for median in np.median(times, axis=1)]


def operands_of(dtype: np.dtype, count: int) -> list[Array]:
    """Numbers near 1 (any, for integers): sums and products round and none is subnormal."""
    generator = np.random.default_rng(0)
    values = generator.integers(64, 127, 4096)
    pattern = (values / 64).astype(dtype) if dtype.kind not in "iu" else values.astype(dtype)
    return [np.resize(np.roll(pattern, shift), count) for shift in range(3)]


def row(dtype: np.dtype, op: str, buffer_bytes: int, rounds: int, isa: str) -> list[float]:
    """GB/s of the streamed copy, then ratios: reduce to memcpy, and the kernels to the streamed copy."""
    slices, count = buffer_bytes // SLICE_BYTES, SLICE_BYTES // dtype.itemsize
    a, b, c = (operand.reshape(slices, count) for operand in operands_of(dtype, slices * count))
    to = np.ones_like(a)
    source, target = np.ones((slices, 2 * SLICE_BYTES), np.uint8), np.ones((slices, 2 * SLICE_BYTES), np.uint8)

    def copy(half_slices: int, streaming: bool) -> Callable[[int], None]:
        size = half_slices * SLICE_BYTES // 2
        return lambda i: _core.copy_array(target[i, :size], source[i, :size], streaming=streaming)

    def combine(operands: list[Array], contributors: int = 0) -> Callable[[int], None]:
        return lambda i: _core.combine_arrays(
            op, [to[i]], [x[i] for x in operands], contributors=contributors, streaming=True, isa=isa
        )

    actions = [
        copy(3, streaming=True),
        copy(3, streaming=False),
        copy(4, streaming=True),
        lambda i: _core.reduce_arrays(op, to[i], a[i], b[i], streaming=True, isa=isa),
        combine([a, b, c]),
    ]
    if op == "avg":
        actions += [combine([a, b], contributors=2), combine([a, b], contributors=3)]
    streamed, plain, streamed_4, reduce, combine_3, *averages = median_ns(actions, slices, rounds)
    ratios = [streamed / reduce, streamed_4 / combine_3, *(streamed / t for t in averages)]
    return [3 * SLICE_BYTES / streamed, plain / reduce, *ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64, help="of each operand (64)")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--isa", choices=_core.cpu_isas(), default=_core.cpu_isa())
    options = parser.parse_args()
    print(f"{options.isa}, {options.mebibytes} MiB an operand; ratios of bandwidth")
    print("| dtype | op | streamed copy (GB/s) | reduce / memcpy | reduce | combine 3 | avg ÷ 2 | avg ÷ 3 |")
    print("|---|---|---|---|---|---|---|---|")
    for scalar in DTYPES:
        dtype = np.dtype(scalar)
        for op in ("sum", "prod", "min", "max", "avg"):
            copy_gbps, plain, *ratios = row(dtype, op, options.mebibytes << 20, options.rounds, options.isa)
            cells = [f"{copy_gbps:.1f}", f"{plain:.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
            print(f"| {dtype} | {op} | {' | '.join(cells + [''] * (6 - len(cells)))} |", flush=True)


if __name__ == "__main__":
    main()
