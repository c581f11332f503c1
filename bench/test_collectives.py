"""Reduce-scatter, all-gather, broadcast, reduce and all-to-all by every algorithm that has them.

As in test_allreduce.py the times are rank 0's: of the root, in a broadcast and a reduce.
"""

import pytest

from pycomm.algorithms import registry
from pycomm.collectives import COLLECTIVES
from pycomm.units import format_bytes

SIZES_ROUNDS = {1 << 10: 400, 1 << 20: 60, 16 << 20: 10}
ROWS = [
    (collective, row.name)
    for collective in COLLECTIVES
    for row in registry()
    if collective in row.collectives and collective != "allreduce"
]


@pytest.mark.parametrize("size", SIZES_ROUNDS, ids=format_bytes)
@pytest.mark.parametrize(("collective", "algorithm"), ROWS)
def test_float32(measure, benchmark, collective, algorithm, size):
    benchmark.group = f"{COLLECTIVES[collective].title} float32 {format_bytes(size)}"
    benchmark.extra_info["bytes"] = size
    measure(collective, algorithm, size, "float32", "ordinary", SIZES_ROUNDS[size])


@pytest.mark.parametrize(("collective", "algorithm"), ROWS)
def test_float32_in_symmetric_buffers(measure, benchmark, collective, algorithm):
    size = 1 << 20
    benchmark.group = f"{COLLECTIVES[collective].title} float32 {format_bytes(size)}, symmetric"
    benchmark.extra_info["bytes"] = size
    measure(collective, algorithm, size, "float32", "symmetric", SIZES_ROUNDS[size])
