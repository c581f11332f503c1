"""Bandwidth of the reduction kernels as a ratio to a plain copy of the same bytes, past the cache.

    python bench/reduce_kernels.py [--mebibytes 64] [--rounds 15] [--isa avx2]

Each kernel and two copies of as many bytes (reads and writes counted) are asked in turn, so that a slow moment hits
all, and the least time of each counts. `copy` is memcpy; `streamed copy` stores past the cache, the most a core can do.
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


def least_ns(actions: list[Callable[[], None]], rounds: int) -> list[int]:
    """The least time of each action, all asked in turn."""
    least = [2**62] * len(actions)
    for _ in range(rounds):
        for index, action in enumerate(actions):
            begin = time.perf_counter_ns()
            action()
            least[index] = min(least[index], time.perf_counter_ns() - begin)
    return least


def operands_of(dtype: np.dtype, count: int) -> list[Array]:
    """Numbers near 1 (any, for integers): sums and products round and none is subnormal."""
    generator = np.random.default_rng(0)
    values = generator.integers(64, 127, 4096)
    pattern = (values / 64).astype(dtype) if dtype.kind not in "iu" else values.astype(dtype)
    return [np.resize(np.roll(pattern, shift), count) for shift in range(3)]


def row(dtype: np.dtype, op: str, buffer_bytes: int, rounds: int, isa: str) -> list[float]:
    """GB/s of the streamed copy, its ratio to memcpy, then the kernels' ratios to the streamed copy."""
    count = buffer_bytes // dtype.itemsize
    a, b, c = operands_of(dtype, count)
    to = np.zeros_like(a)
    source, target = np.zeros(2 * buffer_bytes, np.uint8), np.ones(2 * buffer_bytes, np.uint8)

    def copy(tenths: int, streaming: bool) -> Callable[[], None]:
        size = tenths * buffer_bytes // 10
        return lambda: _core.copy_array(target[:size], source[:size], streaming=streaming)

    def combine(operands: list[Array], contributors: int = 0) -> Callable[[], None]:
        return lambda: _core.combine_arrays(op, [to], operands, contributors=contributors, streaming=True, isa=isa)

    actions = [
        copy(15, streaming=True),
        copy(15, streaming=False),
        copy(20, streaming=True),
        lambda: _core.reduce_arrays(op, to, a, b, streaming=True, isa=isa),
        combine([a, b, c]),
    ]
    if op == "avg":
        actions += [combine([a, b], contributors=2), combine([a, b], contributors=3)]
    streamed, plain, streamed_4, reduce, combine_3, *averages = least_ns(actions, rounds)
    ratios = [streamed / reduce, streamed_4 / combine_3, *(streamed / t for t in averages)]
    return [3 * buffer_bytes / streamed, plain / streamed, plain / reduce, *ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64, help="of each operand (64)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--isa", choices=_core.cpu_isas(), default=_core.cpu_isa())
    options = parser.parse_args()
    print(f"{options.isa}, {options.mebibytes} MiB an operand; ratios of bandwidth")
    print("| dtype | op | streamed copy (GB/s) | reduce / memcpy | reduce | combine 3 | avg ÷ 2 | avg ÷ 3 |")
    print("|---|---|---|---|---|---|---|---|")
    for scalar in DTYPES:
        dtype = np.dtype(scalar)
        for op in ("sum", "prod", "min", "max", "avg"):
            copy_gbps, _, plain, *ratios = row(dtype, op, options.mebibytes << 20, options.rounds, options.isa)
            cells = [f"{copy_gbps:.1f}", f"{plain:.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
            print(f"| {dtype} | {op} | {' | '.join(cells + [''] * (6 - len(cells)))} |", flush=True)


if __name__ == "__main__":
    main()
