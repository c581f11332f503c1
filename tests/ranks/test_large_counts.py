"""More than 2^31 elements and bytes: 64 bits throughout, seen without the memory for them.

A buffer is one small memory mapped again and again, so its contents repeat with a period. The period divides no power
of two, so an offset that lost its upper bits would show.
"""

import ctypes
import mmap
import os

import numpy as np
import pytest

import pycomm
from pycomm.schedules import schedule

PERIOD = 4096 * 4099  # bytes: whole pages, a prime number of them
REPEATS = -(-(5 << 29) // PERIOD)  # 2.5 GiB, so that many a message begins beyond 2^31

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000


def repeated(contents):
    """An int8 array of more than 2^31 elements that repeats `contents`, in the memory of one period."""
    memory = os.memfd_create("period")
    os.ftruncate(memory, PERIOD)
    size = PERIOD * REPEATS
    # The array's own, and given back by nobody: the test ends with its processes.
    start = libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    for place in range(start, start + size, PERIOD):
        mapped = libc.mmap(place, PERIOD, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, memory, 0)
        assert mapped == place
    os.close(memory)
    array = np.frombuffer((ctypes.c_int8 * size).from_address(start), np.int8)
    array[:PERIOD] = contents
    return array


def contribution(rank):
    return ((np.arange(PERIOD, dtype=np.int64) * (rank + 3) + rank) % 61).astype(np.int8)


def reduce_large(comm):
    send, receive = repeated(contribution(comm.rank)), repeated(np.full(PERIOD, 99, np.int8))
    comm.allreduce(send, receive, algorithm="ring")
    return send.size, bool((receive[:PERIOD] == contribution(0) + contribution(1)).all())


def test_more_than_2_to_the_31_elements_are_summed():
    assert pycomm.run(reduce_large, 2) == [(PERIOD * REPEATS, True)] * 2


@pytest.mark.parametrize("size", [2**31, 2**33, 2**42])
def test_bytes_on_the_wire_are_counted_in_64_bits(size):
    # ring of 4: every rank sends 2 (p - 1) chunks of a quarter
    assert schedule("ring", ranks=4).wire_bytes(size) == 6 * (size // 4)
    assert schedule("mesh", ranks=3).wire_bytes(size) == 2 * size
