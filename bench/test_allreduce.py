"""All-reduce of every algorithm, at a size of each kind: latency, the caches, memory.

These times are rank 0's, for comparing one commit with another; `pycomm bench allreduce` takes the slowest rank's.
"""

import pytest

from pycomm.algorithms import registry
from pycomm.units import format_bytes

SIZES_ROUNDS = {8: 400, 64 << 10: 200, 1 << 20: 60, 16 << 20: 10}
ALGORITHMS = [row.name for row in registry() if "allreduce" in row.collectives]


@pytest.mark.parametrize("size", SIZES_ROUNDS, ids=format_bytes)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_allreduce_float32(measure, benchmark, algorithm, size):
    benchmark.group = f"all-reduce float32 {format_bytes(size)}"
    benchmark.extra_info["bytes"] = size
    measure("allreduce", algorithm, size, "float32", "ordinary", SIZES_ROUNDS[size])


@pytest.mark.parametrize("buffers", ["ordinary", "symmetric"])
def test_allreduce_bfloat16(measure, benchmark, buffers):
    size = 1 << 20
    benchmark.group = f"all-reduce bfloat16 {format_bytes(size)}"
    benchmark.extra_info["bytes"] = size
    measure("allreduce", "ring", size, "bfloat16", buffers, SIZES_ROUNDS[size])
