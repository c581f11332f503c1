"""What the ranks in Python share: their core, the buffers' content, the check, the barrier and the loop."""

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from peers.wire import Answer, Nanoseconds, Request

Floats = npt.NDArray[np.float32]
_PERIOD = 251
_PIECE = _PERIOD * 4096  # elements compared at a time: every piece holds the same
_PATTERN_STEP = 7


def pin_to_core(rank: int) -> int:
    """Rank r of every group runs on the r-th core, round and round. Returns how many cores there are."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    return len(cores)


def load_barrier(library: str, page: str, rank: int, ranks: int, cores: int) -> Callable[[], Any]:
    """The barrier of native/barrier.c over the page that all ranks of the group open."""
    barrier = ctypes.CDLL(library)
    if barrier.peers_barrier_open(page.encode(), rank, ranks, cores) != 0:
        raise OSError(f"{page} cannot be mapped")
    wait: Callable[[], Any] = barrier.peers_barrier_wait
    return wait


def contribution(rank: int, count: int) -> Floats:
    """What `rank` puts into its first `count` elements: as in native/rank.h, sums exact in float32."""
    return ((np.arange(count) + _PATTERN_STEP * rank) % _PERIOD).astype(np.float32)


def wrong_elements(send: Floats, receive: Floats, rank: int, ranks: int, call: Callable[[], object]) -> int:
    """How many elements of `receive` one call leaves wrong."""
    piece = min(_PIECE, send.size)
    mine = contribution(rank, piece)
    total: Floats = np.sum([contribution(peer, piece) for peer in range(ranks)], axis=0)
    places = [(first, min(first + piece, send.size)) for first in range(0, send.size, piece)]
    for first, end in places:
        send[first:end] = mine[: end - first]
    receive.fill(-1)
    call()
    return sum(int(np.count_nonzero(receive[first:end] != total[: end - first])) for first, end in places)


def time_calls(request: Request, barrier: Callable[[], object], call: Callable[[], object]) -> Nanoseconds:
    """The loop: every sample begins as this rank leaves the barrier, and holds `batch` calls in a row."""
    samples = np.empty(request.warmup + request.iterations, np.int64)
    calls = range(request.batch)
    clock = time.monotonic_ns
    for sample in range(samples.size):
        barrier()
        start_ns = clock()
        for _ in calls:
            call()
        samples[sample] = clock() - start_ns
    kept: Nanoseconds = samples[request.warmup :].copy()
    return kept


def measure_calls(
    request: Request, buffers: tuple[Floats, Floats], place: tuple[int, int], barrier: Any, call: Callable[[], object]
) -> Answer:
    """Check if asked, then time; `buffers` are send and receive, `place` rank and ranks."""
    wrong = wrong_elements(*buffers, *place, call) if request.check else None
    return Answer(wrong, time_calls(request, barrier, call))
