"""The timed loop of csrc/timing/loop.hpp for operations that Python calls."""

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt


def time_loop(
    operation: Callable[[], object],
    barrier: Callable[[], object],
    barrier_each: bool,
    samples_ns: npt.NDArray[np.int64],
    batch: int,
    clock: Callable[[], int] = time.monotonic_ns,
) -> None:
    """Fill `samples_ns` with the nanoseconds of `batch` calls each, the barrier outside the sample.

    Without `barrier_each`, one barrier goes before the first sample. `clock` is read twice a sample.
    """
    if not barrier_each and samples_ns.size:
        barrier()
    calls = range(batch)
    for sample in range(samples_ns.size):
        if barrier_each:
            barrier()
        start_ns = clock()
        for _ in calls:
            operation()
        samples_ns[sample] = clock() - start_ns
