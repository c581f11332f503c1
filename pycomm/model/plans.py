"""Bucket plans: which gradients travel in one message. No tensor is split, no types are mixed.

A plan is a tuple of buckets, a bucket a tuple of places in the given sequence of gradients, which must stand
in the order they appear. A bucket can leave when its last gradient is ready; buckets leave in the order of
the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pycomm.checks import check_bytes, check_time
from pycomm.errors import UsageError
from pycomm.model.gradients import Gradient, check_order

Plan = tuple[tuple[int, ...], ...]
Cost = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # bytes of a message -> seconds, element by element

MIB = 1 << 20


def one_each(gradients: Sequence[Gradient]) -> Plan:
    """Wait-free backward: every gradient travels alone (Poseidon, arXiv 1706.03292)."""
    check_order(gradients)
    return tuple((index,) for index in range(len(gradients)))


def one_for_all(gradients: Sequence[Gradient]) -> Plan:
    """All gradients of a type in one message."""
    check_order(gradients)
    buckets: dict[str, list[int]] = {}
    for index, gradient in enumerate(gradients):
        buckets.setdefault(gradient.dtype, []).append(index)
    return tuple(tuple(bucket) for bucket in buckets.values())


def horovod(gradients: Sequence[Gradient], *, threshold_bytes: int = 128 * MIB, cycle_s: float = 1e-3) -> Plan:
    """Tensor fusion: at every tick of the cycle the ready tensors are packed, up to the threshold a bucket.

    A tensor that does not fit, or has another type, is passed over as long as bucket and passed-over tensors
    together stay within the threshold; it then opens a later bucket of the same tick. A tensor above the
    threshold travels alone. Ticks are counted from the start of the backward pass.

    Source: Horovod docs/tensor-fusion.rst and horovod/common/controller.cc, FuseResponses.
    """
    threshold = check_bytes(threshold_bytes, "threshold_bytes")
    cycle = check_time(cycle_s, "cycle_s")
    check_order(gradients)
    ticks: dict[float, list[int]] = {}
    for index, gradient in enumerate(gradients):
        tick = float(np.ceil(gradient.ready_s / cycle)) if cycle else gradient.ready_s
        ticks.setdefault(tick, []).append(index)
    plan: list[tuple[int, ...]] = []
    for waiting in ticks.values():
        while waiting:
            bucket, waiting = _fuse(gradients, waiting, threshold)
            plan.append(bucket)
    return tuple(plan)


def _fuse(gradients: Sequence[Gradient], waiting: list[int], threshold: int) -> tuple[tuple[int, ...], list[int]]:
    first, rest = waiting[0], waiting[1:]
    bucket, size, passed_over, left = [first], gradients[first].bytes, 0, []
    for place, index in enumerate(rest):
        gradient = gradients[index]
        if gradient.dtype == gradients[first].dtype and size + gradient.bytes <= threshold:
            bucket.append(index)
            size += gradient.bytes
            continue
        passed_over += gradient.bytes
        if size + passed_over > threshold:
            left.extend(rest[place:])
            break
        left.append(index)
    return tuple(bucket), left


def pytorch_ddp(gradients: Sequence[Gradient], *, first_bucket_bytes: int = MIB, bucket_bytes: int = 25 * MIB) -> Plan:
    """DistributedDataParallel: a bucket closes once it holds at least its limit; the first limit is smaller.

    Each type fills buckets of its own, each with its own small first one. Buckets stand in the order of their
    first gradient.

    Source: PyTorch torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size.
    """
    limits = (
        check_bytes(first_bucket_bytes, "first_bucket_bytes"),
        check_bytes(bucket_bytes, "bucket_bytes"),
    )
    check_order(gradients)
    open_buckets: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    closed: dict[str, int] = {}
    plan: list[tuple[int, ...]] = []
    for index, gradient in enumerate(gradients):
        kind = gradient.dtype
        open_buckets.setdefault(kind, []).append(index)
        sizes[kind] = sizes.get(kind, 0) + gradient.bytes
        if sizes[kind] >= limits[min(closed.get(kind, 0), 1)]:
            plan.append(tuple(open_buckets.pop(kind)))
            sizes[kind] = 0
            closed[kind] = closed.get(kind, 0) + 1
    plan.extend(tuple(bucket) for bucket in open_buckets.values())
    return tuple(sorted(plan))


def mg_wfbp_greedy(gradients: Sequence[Gradient], cost: Cost, start_up_s: float) -> Plan:
    """Merge a bucket with the next gradient if that is ready before the bucket could start, or if waiting for
    it costs less than the start-up it saves.

    `cost(bytes)` is the time of one message, `start_up_s` the part of it that does not grow with the size.
    Source: MG-WFBP, arXiv 1811.11141, algorithm 1.
    """
    start_up = check_time(start_up_s, "start_up_s")
    check_order(gradients)
    if not gradients:
        return ()
    plan: list[tuple[int, ...]] = []
    bucket = [0]
    channel_free_s = 0.0
    for index in range(1, len(gradients)):
        last, following = gradients[bucket[-1]], gradients[index]
        starts_s = max(channel_free_s, last.ready_s)
        if following.dtype == last.dtype and following.ready_s - starts_s < start_up:
            bucket.append(index)
        else:
            size = sum(gradients[place].bytes for place in bucket)
            channel_free_s = starts_s + float(cost(np.array([float(size)]))[0])
            plan.append(tuple(bucket))
            bucket = [index]
    return (*plan, tuple(bucket))


def optimal(gradients: Sequence[Gradient], cost: Cost) -> Plan:
    """The grouping of neighbours that ends communication first, by dynamic programming, in O(n²).

    F(j) = min over i of max(F(i), ready(j)) + cost(bytes i+1..j), where a group holds one type. Of equally
    good groupings the one whose last group is largest.
    """
    check_order(gradients)
    count = len(gradients)
    sums = np.concatenate([[0.0], np.cumsum([float(gradient.bytes) for gradient in gradients])])
    ends = np.zeros(count + 1)
    cut = [0] * (count + 1)
    first = 0  # of the neighbours of one type that end at the current gradient
    for last in range(1, count + 1):
        if last > 1 and gradients[last - 1].dtype != gradients[last - 2].dtype:
            first = last - 1
        starts = np.maximum(ends[first:last], gradients[last - 1].ready_s)
        candidates = starts + cost(sums[last] - sums[first:last])
        best = int(np.argmin(candidates))
        ends[last] = candidates[best]
        cut[last] = first + best
    plan: list[tuple[int, ...]] = []
    last = count
    while last:
        plan.append(tuple(range(cut[last], last)))
        last = cut[last]
    return tuple(reversed(plan))


def end_of_communication(gradients: Sequence[Gradient], plan: Plan, cost: Cost) -> float:
    """When the last bucket is done, in seconds after the start of backward, on one channel in the plan's order.

    Raises UsageError unless the plan holds every gradient once.
    """
    places = sorted(index for bucket in plan for index in bucket)
    if places != list(range(len(gradients))):
        raise UsageError(f"a plan holds each of {len(gradients)} gradients once")
    sizes = np.array([float(sum(gradients[index].bytes for index in bucket)) for bucket in plan])
    clock_s = 0.0
    for bucket, time_s in zip(plan, cost(sizes), strict=True):
        clock_s = max(clock_s, *(gradients[index].ready_s for index in bucket)) + float(time_s)
    return clock_s
