"""Iteration time on N workers: with its uncertainty, what holds it back and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pycomm.algorithms import Algorithm
from pycomm.checks import check_whole
from pycomm.errors import UsageError
from pycomm.model.costs import Cost
from pycomm.model.gradients import gradients_of
from pycomm.model.iteration import Settings
from pycomm.model.network import Network, algorithm_cost
from pycomm.model.plans import Plan, end_of_communication, optimal
from pycomm.model.strategies import strategy
from pycomm.model.tasks import Job, gains, run
from pycomm.trace.calibrate import scale_compute
from pycomm.trace.trace import Trace

_WORTH = 0.02  # a saving of less is not worth a sentence
ITERATIONS = 16
CHANGES = ("bandwidth", "latency", "compute", "input", "servers", "batch")  # what `changed` knows


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is predicted. `low` and `high` are the network at the ends of a fit's intervals, None without a fit;
    `algorithm` None is the strategy's own, `options` are its options, those of `ps:servers=2` for example."""

    trace: Trace
    network: Network
    low: Network | None = None
    high: Network | None = None
    strategy: str = "pytorch-ddp"
    algorithm: str | None = None
    options: Mapping[str, int] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Times in seconds; `low_s` and `high_s` come from the fit's intervals (None without a fit).

    `speed_up` is N · t(1) / t(N) at the same batch a worker. `twice` is what the bottleneck twice as fast saves, a
    share of the iteration. `plan` is the grouping of gradients that ends communication first.
    """

    workers: int
    strategy: str
    algorithm: str
    iteration_s: float
    low_s: float | None
    high_s: float | None
    speed_up: float
    exposed_s: float
    bottleneck: str
    twice: float
    plan: str
    advice: str


@dataclass(frozen=True)
class Faster:
    """A cost on a link of `bandwidth` times the bandwidth and 1/`latency` times the latency.

    A simulated all-reduce takes f(α, n · β), and twice as much if both double; so a changed link is the same link at
    another size. Exact for links of one piece where reducing takes no time.
    """

    cost: Cost
    bandwidth: float = 1.0
    latency: float = 1.0

    def __call__(self, sizes: ArrayLike, /) -> NDArray[np.float64]:
        return self.cost(np.asarray(sizes, float) * self.latency / self.bandwidth) / self.latency

    @property
    def start_up_s(self) -> float:
        return self.cost.start_up_s / self.latency


def cost_of(setup: Setup, workers: int, network: Network | None = None) -> Cost:
    """The all-reduce's cost among that many workers; dedicated servers come on top of them."""
    options, ranks = options_of(setup, workers), workers
    if "dedicated" in options and workers > 1:
        ranks += options.get("servers", 1)
    return algorithm_cost(algorithm_of(setup), ranks, network or setup.network, options=options)


def algorithm_of(setup: Setup) -> str:
    return setup.algorithm or strategy(setup.strategy).algorithm


def options_of(setup: Setup, workers: int) -> dict[str, int]:
    """The algorithm's options among that many workers: where workers serve, no more servers than there are."""
    options = dict(setup.options)
    if "servers" in options and ("dedicated" not in options or workers == 1):
        options["servers"] = min(options["servers"], workers)
    return options


def job_of(setup: Setup, workers: int, cost: Cost | None = None) -> Job:
    """The strategy's job on that many workers that are alike, which is run as one."""
    return strategy(setup.strategy).build(setup.trace, cost or cost_of(setup, workers), setup.settings)


def predict(setup: Setup, workers: int) -> Prediction:
    """Raises UsageError for less than one worker, an unknown strategy, or a trace that is not calibrated."""
    check_whole(workers, "workers", 1)
    cost = cost_of(setup, workers)
    job = job_of(setup, workers, cost)
    outcome = run(job, iterations=ITERATIONS)
    alone_s = run(job_of(setup, 1), iterations=ITERATIONS).period_s
    first = gains(job, iterations=ITERATIONS)[0]
    plan = optimal(gradients_of(setup.trace), cost) if workers > 1 else ()
    bounds = [
        None if network is None else run(job_of(setup, workers, cost_of(setup, workers, network))).period_s
        for network in (setup.low, setup.high)
    ]
    return Prediction(
        workers=workers,
        strategy=setup.strategy,
        algorithm=str(Algorithm(algorithm_of(setup), options_of(setup, workers))),
        iteration_s=outcome.period_s,
        low_s=bounds[0],
        high_s=bounds[1],
        speed_up=workers * alone_s / outcome.period_s,
        exposed_s=outcome.exposed_s() if workers > 1 else 0.0,
        bottleneck=first.resource if first.saved > 0 else "nothing",
        twice=first.saved,
        plan=_plan_text(setup.trace, plan),
        advice=_advice(setup, workers, cost, outcome.period_s, first.resource, first.saved, plan),
    )


def _plan_text(trace: Trace, plan: Plan) -> str:
    if not plan:
        return "-"
    gradients = gradients_of(trace)
    sizes = [sum(gradients[index].bytes for index in bucket) / 1e6 for bucket in plan]
    buckets = "bucket" if len(plan) == 1 else "buckets"
    return f"{len(plan)} {buckets}, {min(sizes):.3g} to {max(sizes):.3g} MB"


def _advice(setup: Setup, workers: int, cost: Cost, period_s: float, bottleneck: str, saved: float, plan: Plan) -> str:
    """One sentence on what to do, from what each change would bring when simulated."""
    if workers == 1 or setup.strategy == "single":
        return _alone(setup, bottleneck, saved)
    if bottleneck == "input" and saved > _WORTH:
        return f"Input sets the pace: a reader twice as fast, or more of them, saves {saved:.0%}."
    exposed_saving = _exposed_saving(setup, workers, cost, period_s, plan)
    best, what = max(exposed_saving, key=lambda pair: pair[0])
    if best < _WORTH:
        return "Communication is hidden: computing sets the pace, and more workers still pay."
    if bottleneck in ("compute", "copy"):
        return f"Computing sets the pace; of what is left, {what} saves {best:.0%}."
    return f"Communication sets the pace: {what} saves {best:.0%}."


def _alone(setup: Setup, bottleneck: str, saved: float) -> str:
    if bottleneck in ("input", "copy") and saved > _WORTH:
        return f"One worker waits for its {bottleneck}: twice as fast saves {saved:.0%}."
    who = "Strategy single" if setup.strategy == "single" else "One worker"
    return f"{who} exchanges nothing: only faster computing helps."


def _exposed_saving(setup: Setup, workers: int, cost: Cost, period_s: float, plan: Plan) -> list[tuple[float, str]]:
    """(share of the iteration saved, what does it), each simulated or by the recurrence of wait-free backward."""

    def saving(other: Job) -> float:
        return 1 - run(other, iterations=ITERATIONS).period_s / period_s

    changes = [
        (saving(job_of(setup, workers, Faster(cost, bandwidth=2.0))), "twice the bandwidth"),
        (saving(job_of(setup, workers, Faster(cost, latency=2.0))), "half the latency"),
    ]
    if setup.strategy not in ("optimal", "priority", "byteps", "dear"):
        gradients = gradients_of(setup.trace)
        exposed_s = end_of_communication(gradients, plan, cost) - setup.trace.backward_s
        merged_s = max(
            (setup.trace.input_s or 0.0) + (setup.trace.copy_s or 0.0), setup.trace.compute_s + max(0.0, exposed_s)
        )
        many = "one message" if len(plan) == 1 else f"{len(plan)} buckets"
        changes.append((1 - merged_s / period_s, f"grouping the gradients in {many} (strategy optimal)"))
    if setup.strategy not in ("priority", "byteps"):
        pieces = strategy("priority").build(setup.trace, cost, setup.settings)
        changes.append((saving(pieces), "sending the first layers first (strategy priority)"))
    return changes


def changed(setup: Setup, what: Mapping[str, float]) -> Setup:
    """The setup with `bandwidth`, `latency`, `compute`, `input` times as fast, `servers` many, or another `batch`.

    Raises UsageError for anything else, and for a batch where the trace does not say its own.
    """
    trace, network, options = setup.trace, setup.network, dict(setup.options)
    for name, value in what.items():
        if not value > 0:
            raise UsageError(f"what-if {name}={value:g}: it must be positive")
        if name in ("servers", "batch") and not float(value).is_integer():
            raise UsageError(f"what-if {name}={value:g}: a whole number is wanted")
        if name in ("bandwidth", "latency"):
            factors = {name: value}
            inside = None if network.inside is None else network.inside.faster(**factors)
            network = replace(network, between=network.between.faster(**factors), inside=inside)
        elif name == "servers":
            options["servers"] = int(value)
        elif name == "batch":
            trace = _with_batch(trace, int(value))
        elif name == "compute":
            trace = scale_compute(trace, 1 / value)
        elif name == "input":
            if not trace.input_s:
                raise UsageError("what-if input: the trace reads no input, so it would change nothing")
            trace = replace(trace, input_s=trace.input_s / value)
        else:
            raise UsageError(f"what-if {name!r}: one of {', '.join(CHANGES)}")
    return replace(setup, trace=trace, network=network, low=None, high=None, options=options)


def _with_batch(trace: Trace, batch: int) -> Trace:
    """All but the update takes as much longer as the batch is larger."""
    if not trace.batch or batch < 1:
        raise UsageError("what-if batch: it must be at least 1, and the trace must say its own")
    factor = batch / trace.batch
    input_s, copy_s = (None if time_s is None else time_s * factor for time_s in (trace.input_s, trace.copy_s))
    scaled = scale_compute(trace, factor)
    return replace(scaled, batch=batch, input_s=input_s, copy_s=copy_s, update_s=trace.update_s)
