"""Every closed form of synchronous SGD (FORMULAS.md, arXiv 1805.03812) equals the simulator on random
layers."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomm.model import LatencyBandwidth, Settings, run, strategy
from pycomm.trace import Layer, Tensor, Trace

EXACT = 1e-9
duration = st.floats(0, 0.05, allow_subnormal=False)
layer = st.tuples(duration, duration, st.integers(0, 4_000_000))
layers = st.lists(layer, min_size=1, max_size=12).filter(lambda rows: sum(row[0] + row[1] for row in rows) > 1e-3)
stage = st.floats(0, 0.3, allow_subnormal=False)
PROFILE = settings(max_examples=60, deadline=None, derandomize=True)


def trace_of(rows: list[tuple[float, float, int]], io: float, h2d: float, update: float) -> Trace:
    return Trace(
        name="random",
        layers=tuple(
            Layer(
                name=f"layer{index}",
                forward_s=forward,
                backward_s=backward,
                tensors=(Tensor(name=f"t{index}", bytes=size),) if size else (),
            )
            for index, (forward, backward, size) in enumerate(rows)
        ),
        input_s=io,
        copy_s=h2d,
        update_s=update,
    )


def period(name: str, trace: Trace, cost: LatencyBandwidth, **told: object) -> float:
    outcome = run(strategy(name).build(trace, cost, Settings(**told)), iterations=32)  # type: ignore[arg-type]
    assert outcome.settled
    return outcome.period_s


def end_of_all(rows: list[tuple[float, float, int]], cost: LatencyBandwidth) -> float:
    """max over l of [sum of t_b(k) for k >= l, plus sum of t_c(k) for k <= l], from the start of backward."""
    exchange = [float(cost(float(size))) if size else 0.0 for _, _, size in rows]
    below = list(accumulate(exchange))
    behind = list(accumulate(row[1] for row in reversed(rows)))[::-1]
    ends = [behind[index] + below[index] for index, row in enumerate(rows) if row[2]]
    return max([*ends, behind[0]])


@PROFILE
@given(layers, stage, stage, stage)
def test_one_worker_does_everything_in_turn(rows, io, h2d, update):
    computing = sum(row[0] + row[1] for row in rows)
    trace = trace_of(rows, io, h2d, update)
    assert period("single", trace, LatencyBandwidth(0, 0)) == pytest.approx(io + h2d + computing + update, rel=EXACT)


@PROFILE
@given(layers, stage, stage, stage, duration, st.floats(0, 1e-8))
def test_naive_adds_all_communication(rows, io, h2d, update, latency, slope):
    cost = LatencyBandwidth(latency, slope)
    talking = sum(float(cost(float(row[2]))) for row in rows if row[2])
    wanted = io + h2d + sum(row[0] + row[1] for row in rows) + talking + update
    assert period("naive", trace_of(rows, io, h2d, update), cost) == pytest.approx(wanted, rel=EXACT)


@PROFILE
@given(layers, stage, stage, stage, duration, st.floats(0, 1e-8), st.booleans())
def test_prefetching_hides_the_shorter_of_input_and_the_rest(rows, io, h2d, update, latency, slope, separate):
    cost = LatencyBandwidth(latency, slope)
    talking = sum(float(cost(float(row[2]))) for row in rows if row[2])
    rest = sum(row[0] + row[1] for row in rows) + talking + update
    wanted = max(io, h2d, rest) if separate else max(io + h2d, rest)
    found = period("prefetch", trace_of(rows, io, h2d, update), cost, separate_input=separate)
    assert found == pytest.approx(wanted, rel=EXACT)


@PROFILE
@given(layers, stage, stage, stage, duration, st.floats(0, 1e-8))
def test_wait_free_backward_exposes_what_the_recurrence_says(rows, io, h2d, update, latency, slope):
    cost = LatencyBandwidth(latency, slope)
    trace = trace_of(rows, io, h2d, update)
    forward, backward = sum(row[0] for row in rows), sum(row[1] for row in rows)
    exposed = end_of_all(rows, cost) - backward
    assert period("wfbp", trace, cost) == pytest.approx(max(io + h2d, forward + backward + exposed + update), rel=EXACT)
    outcome = run(strategy("wfbp").build(trace, cost, Settings()), iterations=32)
    assert outcome.exposed_s() == pytest.approx(exposed, abs=1e-9)


@PROFILE
@given(layers, duration, st.floats(0, 1e-8))
def test_exposure_lies_between_the_first_layers_exchange_and_all_of_it(rows, latency, slope):
    rows = [(forward, backward, size + 1) for forward, backward, size in rows]
    cost = LatencyBandwidth(latency, slope)
    exposed = run(strategy("wfbp").build(trace_of(rows, 0, 0, 0), cost, Settings())).exposed_s()
    exchange = [float(cost(float(size))) for _, _, size in rows]
    assert exchange[0] - 1e-9 <= exposed <= sum(exchange) + 1e-9
    hidden = all(
        sum(exchange[1:place]) <= sum(row[1] for row in rows[: place - 1]) for place in range(2, len(rows) + 1)
    )
    if hidden:
        assert exposed == pytest.approx(exchange[0], abs=1e-9)
    elif exposed == pytest.approx(exchange[0], abs=1e-12):
        slack = [sum(exchange[1:place]) - sum(row[1] for row in rows[: place - 1]) for place in range(2, len(rows) + 1)]
        assert max(slack) < 1e-9


@PROFILE
@given(layers, st.integers(2, 6), duration, st.floats(0, 1e-8))
def test_workers_that_are_alike_make_the_same_iteration_as_one(rows, workers, latency, slope):
    job = strategy("wfbp").build(trace_of(rows, 0.01, 0.0, 0.0), LatencyBandwidth(latency, slope), Settings())
    assert run(job, workers=workers).period_s == pytest.approx(run(job).period_s, rel=EXACT)


@PROFILE
@given(layers, st.floats(1, 4), st.integers(2, 5))
def test_the_slowest_worker_sets_the_pace(rows, slow, workers):
    job = strategy("wfbp").build(trace_of(rows, 0, 0, 0), LatencyBandwidth(0, 0), Settings())
    computing = sum(row[0] + row[1] for row in rows)
    found = run(job, workers=workers, slowness=[1.0] * (workers - 1) + [slow]).period_s
    assert found == pytest.approx(computing * slow, rel=EXACT)


def test_workers_of_a_host_share_its_reader():
    trace = trace_of([(0.01, 0.02, 100)], io=0.02, h2d=0.0, update=0.0)
    job = strategy("prefetch").build(trace, LatencyBandwidth(0, 0), Settings(shared_input=True))
    # four workers read 0.02 s each from two readers: 0.04 s an iteration, longer than the 0.03 s of computing
    assert run(job, workers=4, workers_per_host=2, iterations=40).period_s == pytest.approx(0.04)
    assert run(job, workers=4, workers_per_host=1, iterations=40).period_s == pytest.approx(0.03)


def test_concurrent_exchanges_share_the_rate():
    # two gradients ready together, 1 s of channel each: both end after 2 s, as one after the other
    rows = [(0.0, 0.0, 1_000_000), (0.0, 1.0, 1_000_000)]
    trace = trace_of(rows, 0, 0, 0)
    cost = LatencyBandwidth(0, 1e-6)
    outcome = run(strategy("wfbp").build(trace, cost, Settings(concurrent=True)), iterations=4)
    for name in ("c0", "c1"):
        assert outcome.finishes(name)[0] == pytest.approx(3.0)
    in_turn = run(strategy("wfbp").build(trace, cost, Settings()), iterations=4)
    assert in_turn.finishes("c0")[0] == pytest.approx(2.0)


def test_priority_lets_the_first_layer_go_before_the_rest():
    # worked out by hand: backward of layers 2, 1, 0 ends at 4, 5, 6 (forward 3 x 1); exchanges take 4 each.
    # in order of arrival 2 [4,8], 1 [8,12], 0 [12,16]: the next forward starts at 16 and ends at 19.
    # by priority in one piece: 2 [4,8], 0 [8,12], 1 [12,16]: forward 0 [12,13], 1 [16,17], 2 [17,18].
    rows = [(1.0, 1.0, 4), (1.0, 1.0, 4), (1.0, 1.0, 4)]
    trace = trace_of(rows, 0, 0, 0)
    cost = LatencyBandwidth(0, 1.0)
    outcome = run(strategy("priority").build(trace, cost, Settings(partition_bytes=4)), iterations=4)
    assert list(outcome.starts("c0.0")[:1]) == [4.0]
    assert list(outcome.starts("c2.0")[:1]) == [8.0]
    assert list(outcome.starts("c1.0")[:1]) == [12.0]
    assert [float(outcome.starts(f"f{index}")[1]) for index in range(3)] == [12.0, 16.0, 17.0]
    cut = run(strategy("priority").build(trace, cost, Settings(partition_bytes=1)), iterations=4)
    # cut in pieces of 1: layer 2 sends [4,5], gives way to layer 1 [5,6], then layer 0 [6,10] goes to its end
    assert float(cut.starts("f0")[1]) == 10.0


def test_dear_gathers_while_the_next_forward_runs():
    # one layer: backward ends at 2, reduce-scatter [2,4], all-gather [4,6], next forward at 6: 1 + 1 + 4
    cost = LatencyBandwidth(0, 1.0)
    trace = trace_of([(1.0, 1.0, 4)], 0, 0, 0)
    assert run(strategy("dear").build(trace, cost, Settings()), iterations=4).period_s == pytest.approx(6.0)
    # two layers, exchanges of 4: rs1 [3,5], rs0 [5,7], ag0 [7,9], ag1 [9,11]; forward 0 [9,10], 1 [11,12]
    trace = trace_of([(1.0, 1.0, 4), (1.0, 1.0, 4)], 0, 0, 0)
    outcome = run(strategy("dear").build(trace, cost, Settings()), iterations=4)
    assert [float(outcome.starts(name)[1]) for name in ("f0", "f1")] == [9.0, 11.0]


def test_fusion_leaves_at_ticks():
    # gradients ready at 1.0 and 2.5 s of backward, ticks of 2 s: buckets leave at 2 and at 4
    trace = trace_of([(1.0, 1.5, 100), (1.0, 1.0, 100)], 0, 0, 0)
    job = strategy("horovod").build(trace, LatencyBandwidth(0.5, 0), Settings(cycle_s=2.0))
    outcome = run(job, iterations=4)
    assert float(outcome.starts("c0")[0]) == 2.0 + 2.0
    assert float(outcome.starts("c1")[0]) == 2.0 + 4.0
    assert outcome.period_s == pytest.approx(6.5)


def test_input_prefetch_is_not_unbounded():
    trace = trace_of([(0.5, 0.5, 0)], io=0.1, h2d=0.0, update=0.0)
    outcome = run(strategy("prefetch").build(trace, LatencyBandwidth(0, 0), Settings()), iterations=10)
    ahead = outcome.starts("f0") - outcome.finishes("io")
    assert max(ahead) <= 2.0
    assert outcome.period_s == pytest.approx(1.0)
