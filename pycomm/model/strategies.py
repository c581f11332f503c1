"""Strategies of synchronous SGD: what overlaps what. Each is a short function that returns a job.

A new one is a function here and a row in STRATEGIES; `predict` and the model tests pick it up.
Each row names its source; the graph is that of arXiv 1805.03812.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pycomm.errors import UsageError
from pycomm.model.costs import Cost, LatencyBandwidth
from pycomm.model.gradients import gradients_of
from pycomm.model.iteration import Iteration, Settings, times_of, with_plan
from pycomm.model.plans import Plan, horovod, mg_wfbp_greedy, one_each, one_for_all, optimal, pytorch_ddp
from pycomm.model.tasks import After, Job
from pycomm.trace.trace import Trace

Builder = Callable[[Trace, Cost, Settings], Job]
_FREE = LatencyBandwidth(0.0, 0.0)


def single(trace: Trace, cost: Cost = _FREE, settings: Settings | None = None) -> Job:
    """One worker, everything in turn: t_io + t_h2d + t_f + t_b + t_u."""
    iteration = Iteration(trace, settings or Settings(), prefetch=False)
    iteration.build()
    iteration.update([])
    return iteration.job()


def naive(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """Everything in turn, each gradient's exchange after the whole backward pass."""
    return _after_backward(trace, cost, settings, one_each(gradients_of(trace)), prefetch=False)


def prefetched(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """As naive, with the next batch read and copied meanwhile."""
    return _after_backward(trace, cost, settings, one_each(gradients_of(trace)), prefetch=True)


def one_message(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """All gradients in one message after backward; input prefetched."""
    return _after_backward(trace, cost, settings, one_for_all(gradients_of(trace)), prefetch=True)


def _after_backward(trace: Trace, cost: Cost, settings: Settings, plan: Plan, *, prefetch: bool) -> Job:
    iteration = Iteration(trace, settings, prefetch=prefetch)
    iteration.build()
    gradients = gradients_of(trace)
    sizes = np.array([float(sum(gradients[index].bytes for index in bucket)) for bucket in plan])
    everything = [After(f"b{layer}") for layer in range(len(trace.layers))]
    names = []
    for number, time_s in enumerate(times_of(cost, sizes)):
        iteration.exchange(f"c{number}", float(time_s), everything)
        names.append(After(f"c{number}"))
    iteration.update(names)
    return iteration.job()


def _overlapped(trace: Trace, cost: Cost, settings: Settings, plan: Plan, *, cycle_s: float | None = None) -> Job:
    iteration = Iteration(trace, settings)
    iteration.build()
    with_plan(iteration, gradients_of(trace), plan, cost, cycle_s=cycle_s)
    return iteration.job()


def wfbp(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """Wait-free backward: each gradient leaves as soon as it is ready on every worker."""
    return _overlapped(trace, cost, settings, one_each(gradients_of(trace)))


def mg_wfbp(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """Wait-free backward with neighbouring gradients merged, greedily."""
    return _overlapped(trace, cost, settings, mg_wfbp_greedy(gradients_of(trace), cost, max(0.0, cost.start_up_s)))


def best_merged(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """Wait-free backward with the grouping of neighbours that ends communication first."""
    return _overlapped(trace, cost, settings, optimal(gradients_of(trace), cost))


def tensor_fusion(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """Horovod: at every tick the ready tensors, packed up to the threshold."""
    plan = horovod(gradients_of(trace), threshold_bytes=settings.threshold_bytes, cycle_s=settings.cycle_s)
    return _overlapped(trace, cost, settings, plan, cycle_s=settings.cycle_s)


def buckets(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """PyTorch DDP: a first bucket of 1 MiB, then 25 MiB, each leaving when full."""
    plan = pytorch_ddp(
        gradients_of(trace),
        first_bucket_bytes=settings.first_bucket_bytes,
        bucket_bytes=settings.bucket_bytes,
    )
    return _overlapped(trace, cost, settings, plan)


def priority(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """Gradients cut in pieces, those of the layer nearest the input first; a layer's next forward waits for its own.

    There is no barrier between iterations.
    """
    iteration = Iteration(trace, settings, channel="priority", update_in_forward=True)
    pieces: dict[int, list[str]] = {}
    sends: list[tuple[str, float, int]] = []  # name, bytes, layer
    for place, gradient in enumerate(gradients_of(trace)):
        whole, rest = divmod(gradient.bytes, settings.partition_bytes)
        sizes = [float(settings.partition_bytes)] * whole + ([float(rest)] if rest or not whole else [])
        for number, size in enumerate(sizes):
            name = f"c{place}.{number}"
            pieces.setdefault(gradient.layer, []).append(name)
            sends.append((name, size, gradient.layer))
    times = times_of(cost, np.array([size for _, size, _ in sends]))
    iteration.build(lambda layer: [After(name, later=1) for name in pieces.get(layer, ())])
    for (name, _, layer), time_s in zip(sends, times, strict=True):
        iteration.exchange(name, float(time_s), [After(f"b{layer}")], priority=layer)
    return iteration.job(marker="b0")


def dear(trace: Trace, cost: Cost, settings: Settings) -> Job:
    """Reduce-scatter of each gradient with backward, all-gather with the next forward, nearest layer first.

    Each half takes half the all-reduce's time, which is exact for ring, direct and halving-doubling where
    reducing takes no time.
    """
    iteration = Iteration(trace, settings, update_in_forward=True)
    gradients = gradients_of(trace)
    halves = times_of(cost, np.array([float(gradient.bytes) for gradient in gradients])) / 2
    gathers: dict[int, list[str]] = {}
    for place, gradient in enumerate(gradients):
        gathers.setdefault(gradient.layer, []).append(f"ag{place}")
    iteration.build(lambda layer: [After(name, later=1) for name in gathers.get(layer, ())])
    for place, gradient in enumerate(gradients):
        iteration.exchange(f"rs{place}", float(halves[place]), [After(f"b{gradient.layer}")])
    scattered = [After(f"rs{place}") for place in range(len(gradients))]
    before: list[After] = []
    for place in range(len(gradients) - 1, -1, -1):
        iteration.exchange(f"ag{place}", float(halves[place]), [*scattered, *before])
        before = [After(f"ag{place}")]
        scattered = []
    return iteration.job(marker="b0")


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A row of the table. `algorithm`: the registry's all-reduce it uses unless told otherwise."""

    build: Builder
    overlaps: str
    source: str
    algorithm: str = "ring"


STRATEGIES: dict[str, Strategy] = {
    "single": Strategy(build=single, overlaps="nothing, and nothing is exchanged", source="arXiv 1805.03812"),
    "naive": Strategy(build=naive, overlaps="nothing", source="arXiv 1805.03812"),
    "prefetch": Strategy(build=prefetched, overlaps="input", source="arXiv 1805.03812"),
    "one-message": Strategy(build=one_message, overlaps="input", source="SyncEASGD, arXiv 1708.02983"),
    "wfbp": Strategy(build=wfbp, overlaps="input; exchange with backward", source="Poseidon, arXiv 1706.03292"),
    "mg-wfbp": Strategy(
        build=mg_wfbp, overlaps="input; merged exchange with backward", source="MG-WFBP, arXiv 1811.11141"
    ),
    "optimal": Strategy(
        build=best_merged,
        overlaps="input; best merged exchange with backward",
        source="dynamic programming, derived",
    ),
    "priority": Strategy(
        build=priority,
        overlaps="input; exchange with backward and the next forward, nearest layer first",
        source="P3, arXiv 1905.03960; ByteScheduler, SOSP 2019",
    ),
    "dear": Strategy(
        build=dear,
        overlaps="input; reduce-scatter with backward, all-gather with the next forward",
        source="DeAR, arXiv 2302.12445",
    ),
    "caffe-mpi": Strategy(
        build=wfbp,
        overlaps="input; exchange with backward",
        source="Inspur Caffe-MPI 2.0 (NCCL), arXiv 1805.03812",
    ),
    "cntk": Strategy(
        build=prefetched,
        overlaps="input",
        source="CNTK 2.3 documentation: gradients exchanged after the mini-batch",
    ),
    "mxnet": Strategy(
        build=wfbp,
        overlaps="input; exchange with backward, through the engine",
        source="MXNet 1.0 documentation: kvstore",
        algorithm="ps",
    ),
    "tensorflow": Strategy(
        build=wfbp,
        overlaps="input; exchange with backward",
        source="TensorFlow 1.x performance guide: parameter servers over gRPC",
        algorithm="ps",
    ),
    "horovod": Strategy(
        build=tensor_fusion,
        overlaps="input; fused exchange with backward",
        source="Horovod docs/tensor-fusion.rst",
    ),
    "pytorch-ddp": Strategy(
        build=buckets,
        overlaps="input; bucketed exchange with backward",
        source="PyTorch DDP, arXiv 2006.15704",
    ),
    "byteps": Strategy(
        build=priority,
        overlaps="input; exchange with backward and the next forward, nearest layer first",
        source="BytePS docs/rationale.md, OSDI 2020",
        algorithm="ps",
    ),
}


def strategy(name: str) -> Strategy:
    """The row of a strategy, by its name in either case. Raises UsageError for an unknown one."""
    if name.lower() not in STRATEGIES:
        raise UsageError(f"unknown strategy {name!r}: one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name.lower()]
