"""Measuring, under a scripted clock and scripted operations: order, counts, agreement of ranks, what is reported."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from pycomm.backends import Contender
from pycomm.measure.contents import Call, make_contents
from pycomm.measure.loop import FEWEST_SAMPLES, FEWEST_TO_STOP_EARLY, MOST_SAMPLES, Policy, Timing, measure
from pycomm.measure.pattern import PERIODS
from pycomm.measure.pythonloop import time_loop
from pycomm.measure.record import CaseRecord
from pycomm.measure.row import complete
from pycomm.measure.surroundings import Surroundings, crowding_of
from pycomm.measure.verify import allocate_buffers, allocate_ordinary, count_wrong, pattern_period, settle
from pycomm.world import Meeting, SingleWorld, ThreadWorld

TICK_NS = 20
MS = 1_000_000


class Script:
    """Plays operations of given durations, one after another, and is the clock."""

    def __init__(self, *durations_ns, barrier_ns=0):
        self.durations_ns = durations_ns
        self.barrier_ns = barrier_ns
        self.calls = []  # (samples, batch, barrier before each)
        self.played = 0
        self.time_ns = 0

    def now_ns(self):
        return self.time_ns

    def time_samples(self, samples, batch, barrier_each):
        self.calls.append((samples, batch, barrier_each))
        elapsed = []
        for _ in range(samples):
            self.time_ns += self.barrier_ns if barrier_each else 0
            start = self.time_ns
            for _ in range(batch):
                self.time_ns += self.durations_ns[self.played % len(self.durations_ns)]
                self.played += 1
            elapsed.append((self.time_ns - start) // TICK_NS * TICK_NS)
        return np.array(elapsed, np.int64)


def measured(script, **policy):
    return measure(SingleWorld(), script.time_samples, Policy(**policy), TICK_NS, script.now_ns)


def test_warm_up_comes_first_and_is_not_among_the_samples():
    slow_then_fast = Script(*[90 * MS] * 7, *[MS] * 1000)
    timing = measured(slow_then_fast, warmup=7, max_seconds=0.05)
    assert slow_then_fast.calls[0] == (1, 7, True)
    assert timing.samples_s.max() == pytest.approx(1e-3)


def test_warm_up_comes_also_when_the_count_is_given():
    script = Script(MS)
    measured(script, warmup=4, iterations=3)
    assert script.calls[0] == (1, 4, True)


def test_a_given_count_is_exact():
    for iterations in (1, 2, 5, 17, 1000):
        timing = measured(Script(10_000), iterations=iterations)
        assert timing.samples_s.shape == (iterations,)


def test_a_steady_operation_stops_early():
    script = Script(MS)
    timing = measured(script, target_ci=0.02, max_seconds=10)
    assert len(timing.samples_s) == FEWEST_TO_STOP_EARLY
    assert script.time_ns < 100 * MS


def test_a_noisy_operation_takes_its_budget_and_no_more():
    script = Script(*np.random.default_rng(1).integers(MS, 9 * MS, 999))
    timing = measured(script, target_ci=0.0001, max_seconds=1)
    assert 0.8 < timing.samples_s.sum() <= 1.05


def test_a_looser_target_stops_sooner():
    counts = [
        len(measured(Script(*range(MS, 2 * MS, 7919)), target_ci=share, max_seconds=5).samples_s)
        for share in (0.2, 0.02, 0.005)
    ]
    assert counts[0] < counts[1] < counts[2]


def test_a_larger_budget_takes_more():
    counts = [len(measured(Script(MS, 3 * MS), target_ci=1e-9, max_seconds=s).samples_s) for s in (0.05, 0.5, 2)]
    assert counts[0] < counts[1] < counts[2]


def test_at_least_five_samples_whatever_the_budget():
    timing = measured(Script(2000 * MS), max_seconds=0.001)
    assert len(timing.samples_s) == FEWEST_SAMPLES >= 5


def test_barriers_count_towards_the_budget():
    script = Script(MS, 2 * MS, barrier_ns=99 * MS)
    measured(script, target_ci=1e-9, max_seconds=1)
    assert script.time_ns < 3000 * MS


def test_there_is_an_end_to_very_short_operations():
    timing = measured(Script(2000, 9000), target_ci=1e-9, max_seconds=1000)
    assert len(timing.samples_s) <= MOST_SAMPLES


@pytest.mark.parametrize("duration_ns", [1, 10, 150, 1999, 2000, MS])
def test_what_is_shorter_than_100_ticks_is_measured_in_batches(duration_ns):
    script = Script(duration_ns)
    timing = measured(script, max_seconds=0.01)
    assert timing.batch & (timing.batch - 1) == 0
    assert timing.batch * duration_ns >= 100 * TICK_NS
    assert timing.batch == 1 or timing.batch * duration_ns < 2.2 * 100 * TICK_NS  # and no longer than need be
    assert timing.samples_s == pytest.approx(duration_ns * 1e-9, rel=0.02)


def test_the_first_slow_calls_do_not_choose_the_batch():
    timing = measured(Script(*[500_000] * 5, *[10] * 10_000_000), max_seconds=0.01, warmup=5)
    assert timing.batch == 256


def test_the_barrier_policy_reaches_the_loop():
    for policy, each in (("each", True), ("none", False)):
        script = Script(MS)
        measured(script, barrier=policy)
        assert {call[2] for call in script.calls} == {each}


def test_without_barriers_a_sample_is_a_batch():
    assert measured(Script(MS), barrier="none").batch == 16
    assert measured(Script(MS), barrier="each").batch == 1
    # Not where a batch of 16 would eat the budget: 6 samples of 4 calls of 40 ms fit into a second, of 8 do not.
    assert measured(Script(40 * MS), barrier="none", max_seconds=1).batch == 4


def on_threads(ranks, function):
    """The results of function(world) on ranks that are threads."""
    meeting, results = Meeting(ranks), [None] * ranks

    def live(rank):
        results[rank] = function(ThreadWorld(rank, ranks, meeting, 20.0))

    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return results


@pytest.mark.parametrize("policy", [Policy(max_seconds=0.02), Policy(iterations=9), Policy(barrier="none")])
def test_ranks_with_clocks_of_their_own_run_the_same_loops(policy):
    scripts = [Script(10), Script(3 * MS, 7 * MS), Script(1234, 99_999, 5)]

    def rank_of(world):
        script = scripts[world.rank]
        return measure(world, script.time_samples, policy, TICK_NS * 3**world.rank, script.now_ns)

    timings = on_threads(3, rank_of)
    assert scripts[0].calls == scripts[1].calls == scripts[2].calls
    assert timings[0].by_rank_s.shape[1] == 3
    assert timings[1] is timings[2] is None


def test_an_iteration_takes_as_long_as_on_its_slowest_rank():
    scripts = [Script(1 * MS, 4 * MS), Script(3 * MS, 2 * MS)]
    timings = on_threads(
        2,
        lambda world: measure(
            world, scripts[world.rank].time_samples, Policy(iterations=4, warmup=1), TICK_NS, scripts[world.rank].now_ns
        ),
    )
    assert timings[0].samples_s == pytest.approx([3e-3, 4e-3, 3e-3, 4e-3])


def test_the_loop_in_python_keeps_the_barrier_outside():
    log, now = [], [0]

    def advance(name, by):
        log.append(name)
        now[0] += by

    def clock():
        log.append("t")
        return now[0]

    for barrier_each, batch, wanted in ((True, 1, "btotbtot"), (True, 3, "btooot" * 2), (False, 2, "btoot" + "toot")):
        log.clear()
        samples = np.zeros(2, np.int64)
        time_loop(lambda: advance("o", 7), lambda: advance("b", 500), barrier_each, samples, batch, clock)
        assert "".join(log) == wanted
        assert list(samples) == [7 * batch] * 2


BLANK = CaseRecord(
    benchmark="allreduce", backend="native", algorithm="ring", options="", transport="shm", device="cpu",
    dtype="float32", op="sum", in_place=False, buffers="ordinary", ranks=4, workers=4, hosts=1,
    link="shared memory", bytes=4_000_000, count=1_000_000, status="failed",
)  # fmt: skip
SURROUNDINGS = Surroundings(("anna", "anna", "bert", "bert"), (), TICK_NS)


def test_rates_are_those_of_the_definitions():
    timing = Timing(np.full((8, 4), 2e-3), 1)
    case = complete(replace(BLANK, wrong=0), timing, Policy(), SURROUNDINGS, "c++")
    assert case.status == "ok"
    assert case.algbw_Bps == pytest.approx(2e9)  # 4 MB in 2 ms
    assert case.busbw_Bps == pytest.approx(3e9)  # × 2 × 3 / 4
    assert (case.iterations, case.loop.batch, case.loop.language) == (8, 1, "c++")


@pytest.mark.parametrize(
    ("command", "busbw_Bps"),
    [
        # 2 GB/s on 4 ranks: × 2 × 3/4, × 3/4 or × 1 (nccl-tests, doc/PERFORMANCE.md).
        ("allreduce", 3e9),
        ("reduce-scatter", 1.5e9),
        ("allgather", 1.5e9),
        ("alltoall", 1.5e9),
        ("broadcast", 2e9),
        ("reduce", 2e9),
    ],
)
def test_busbw_has_the_factor_of_its_collective(command, busbw_Bps):
    timing = Timing(np.full((8, 4), 2e-3), 1)
    case = complete(replace(BLANK, benchmark=command), timing, Policy(), SURROUNDINGS, "c++")
    assert case.algbw_Bps == pytest.approx(2e9)
    assert case.busbw_Bps == pytest.approx(busbw_Bps)


def test_servers_do_not_count_in_busbw():
    case = complete(replace(BLANK, workers=2), Timing(np.full((8, 4), 2e-3), 1), Policy(), SURROUNDINGS, "c++")
    assert case.busbw_Bps == pytest.approx(2e9)  # × 2 × 1 / 2


def test_one_rank_has_no_busbw():
    case = complete(replace(BLANK, ranks=1, workers=1), Timing(np.full((8, 1), 2e-3), 1), Policy(), SURROUNDINGS, "c++")
    assert case.algbw_Bps == pytest.approx(2e9)
    assert case.busbw_Bps is None


def test_a_noisy_row_says_so():
    noisy = Timing(np.linspace(1e-3, 3e-3, 40).reshape(-1, 1), 1)
    steady = Timing(np.full((40, 1), 1e-3), 1)
    warned = complete(BLANK, noisy, Policy(), SURROUNDINGS, "c++").warnings
    assert len(warned) == 1
    assert warned[0].startswith("noisy: the median is known to ±")
    assert complete(BLANK, steady, Policy(), SURROUNDINGS, "c++").warnings == ()


def test_the_slowest_rank_is_named():
    by_rank_s = np.full((40, 4), 1e-3)
    by_rank_s[:, 2] = 1.5e-3
    (warning,) = complete(BLANK, Timing(by_rank_s, 1), Policy(), SURROUNDINGS, "c++").warnings
    assert warning == "rank 2 on host bert is the slowest in 100% of iterations, by 50%"


def test_ranks_that_outnumber_cores_are_warned_of_by_host():
    two, other = frozenset({0, 1}), frozenset({4})
    assert crowding_of([("anna", two), ("anna", two)]) == ()
    # mpirun binds each rank to a core of its own: together they have two.
    assert crowding_of([("anna", frozenset({0})), ("anna", frozenset({1}))]) == ()
    (warning,) = crowding_of([("anna", two)] * 3 + [("bert", other)])
    assert warning.startswith("3 ranks share 2 cores of host anna")


class Allreduce:
    """A single rank's all-reduce that can be told to go wrong."""

    def __init__(self, buffers, contents, mistake=lambda out, buffers: None):
        self.buffers, self.contents, self.mistake = buffers, contents, mistake

    def __call__(self):
        out = self.buffers.receive.inner
        (expected,) = self.contents.after
        out[:] = np.resize(expected.period, out.size)
        self.mistake(out, self.buffers)


def first_changed(array, by=1):
    array[0] += by


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        (lambda out, buffers: None, 0),
        (lambda out, buffers: first_changed(out), 1),
        (lambda out, buffers: first_changed(buffers.receive.whole), 1),
        (lambda out, buffers: first_changed(buffers.receive.whole[-2:], 3), 1),
    ],
)
def test_wrong_elements_are_counted_with_those_outside_the_result(dtype, in_place, mistake, wrong):
    buffers = allocate_buffers(1000, 1000, dtype, in_place, allocate_ordinary)
    contents = make_contents(Call("allreduce", dtype, "sum", 4, 1000), 1, PERIODS[0], in_place)
    assert count_wrong(Allreduce(buffers, contents, mistake), buffers, contents) == wrong


def test_a_changed_input_is_wrong():
    contents = make_contents(Call("allreduce", "float32", "sum", 4, 1000), 1, PERIODS[0], False)
    buffers = allocate_buffers(1000, 1000, "float32", False, allocate_ordinary)
    change = Allreduce(buffers, contents, lambda out, buffers: first_changed(buffers.send.inner))
    assert count_wrong(change, buffers, contents) == 1


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "uint8"])
def test_a_result_that_was_never_written_is_wrong_everywhere(dtype):
    contents = make_contents(Call("allreduce", dtype, "max", 4, 777), 1, PERIODS[0], False)
    buffers = allocate_buffers(777, 777, dtype, False, allocate_ordinary)
    for _ in range(2):  # also when the right result of an earlier row lies there
        Allreduce(buffers, contents)()
        assert count_wrong(lambda: None, buffers, contents) == 777


def test_buffers_begin_on_a_cache_line_and_are_as_long_as_asked():
    for count in (0, 1, 5, 4097):
        for dtype in ("int8", "float64", "bfloat16"):
            buffers = allocate_buffers(count, count, dtype, False, allocate_ordinary)
            assert buffers.send.inner.size == buffers.receive.inner.size == count
            assert buffers.receive.inner.ctypes.data % 64 == 0 or count == 0
            assert not np.shares_memory(buffers.send.whole, buffers.receive.whole)


def test_in_place_there_is_one_buffer():
    buffers = allocate_buffers(10, 10, "float32", True, allocate_ordinary)
    assert buffers.in_place
    assert buffers.send is buffers.receive


@pytest.mark.parametrize(("op", "value"), [("sum", 0), ("avg", 0), ("prod", 1)])
def test_in_place_the_timed_contents_stay_what_they_are(op, value):
    buffers = allocate_buffers(10, 10, "float32", True, allocate_ordinary)
    settle(buffers, op)
    assert np.all(buffers.receive.inner == value)


def test_the_period_of_a_row_divides_no_chunk_or_segment():
    # 16 chunks of 65521 × 16 elements: the first prime would divide them.
    assert pattern_period(65521 * 16 * 4, 4, 4) == 65519
    assert pattern_period(10556587, 4, 4) == 65521
    # Blocks of 65521 elements, which are not rounded to cache lines.
    assert pattern_period(65521 * 3, 1, 3) == 65519


def test_a_contender_is_written_as_on_the_command_line():
    assert Contender("native", "ps", "servers=2", 2, lambda size, itemsize: None).text == "ps:servers=2"
    assert Contender("native", "ring", "", 2, lambda size, itemsize: None).text == "ring"
