"""``pycomm bench allreduce --device cuda``, all of it, on emulated GPUs; ranks are threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pycomm
from pycomm.algorithms import registry
from pycomm.cli import main
from pycomm.cuda.collective import SHOTS, DeviceOperation, resolve_on_device
from pycomm.cuda.memory import DeviceBuffer, device_stream, keep_memory
from pycomm.cuda.placement import device_of
from pycomm.errors import TransportError, Unavailable, UsageError
from pycomm.measure.record import CaseRecord

Bench = Callable[..., list[CaseRecord]]
Emulate = Callable[..., Any]


@pytest.mark.parametrize(("ranks", "devices"), [(1, 1), (2, 1), (2, 2), (3, 1), (4, 2)])
def test_every_algorithm_runs_and_its_results_are_right(
    ranks: int, devices: int, emulated_gpus: Emulate, bench: Bench
) -> None:
    emulated_gpus(devices, seed=ranks)
    cases = bench("--ranks", str(ranks), "--sizes", "4,260")
    names = [row.name for row in registry() if "allreduce" in row.collectives]
    assert {case.algorithm for case in cases} >= {"ring", "ps", *SHOTS}
    assert {case.algorithm for case in cases} <= {*names, *SHOTS}
    for case in cases:
        assert (case.status, case.wrong, case.reason) == ("ok", 0, ""), case
        assert (case.device, case.link, case.ranks) == ("cuda", "peer memory", ranks)
        assert case.iterations == 5
        assert any("share a GPU" in warning for warning in case.warnings) == (ranks > devices)


@pytest.mark.parametrize(
    "options",
    [
        ("--in-place",),
        ("--op", "avg", "--dtypes", "bfloat16,int32"),
        ("--op", "max", "--dtypes", "float64,uint8"),
        ("--graph", "--barrier", "none"),
        ("--algorithms", "ps:servers=1,dedicated,auto,two-shot", "--in-place"),
    ],
    ids=" ".join,
)
def test_options_hold_on_a_device_too(options: tuple[str, ...], emulated_gpus: Emulate, bench: Bench) -> None:
    emulated_gpus(1, seed=5)
    if "--algorithms" not in options:
        options = (*options, "--algorithms", "ring,one-shot")
    for case in bench("--ranks", "3", "--sizes", "96", *options):
        assert (case.status, case.wrong) == ("ok", 0), case
        assert case.loop is not None
        assert case.loop.graph == ("--graph" in options)
        assert case.workers == (2 if "dedicated" in case.options else 3)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("collective", ["reduce-scatter", "allgather", "broadcast", "reduce", "alltoall"])
def test_every_collective_runs_on_a_device(collective: str, ranks: int, emulated_gpus: Emulate, bench: Bench) -> None:
    emulated_gpus(1, seed=ranks)
    root = ("--root", "1") if collective in ("broadcast", "reduce") else ()
    options = ("--ranks", str(ranks), "--sizes", "240", "--in-place", "both", *root)
    cases = bench(*options, collective=collective)
    assert {case.in_place for case in cases} == {False, True}
    assert not {case.algorithm for case in cases} & set(SHOTS)
    ran = [case for case in cases if case.status != "skipped"]
    assert len(ran) >= len(cases) / 2
    for case in ran:
        assert (case.benchmark, case.status, case.wrong) == (collective, "ok", 0), case


def test_times_are_by_events_and_by_the_hosts_clock(
    emulated_gpus: Emulate, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated_gpus(1)
    asked = []

    def time(self: Any, stream: Any, samples: int, batch: int, **given: Any) -> Any:
        asked.append(batch)
        slower = 1 + self._comm.rank  # the time of an iteration is that of its slowest rank
        return np.full(samples, 4000 * batch * slower), np.full(samples, 9000 * batch * slower)

    monkeypatch.setattr(DeviceOperation, "time", time)
    (case,) = bench("--ranks", "2", "--sizes", "4000", "--algorithms", "two-shot")
    assert case.loop is not None
    assert (case.loop.language, case.loop.clock) == ("c++", "events")
    assert case.time_s is not None
    assert case.host_time_s is not None
    assert case.time_s.median == pytest.approx(8e-6)
    assert case.host_time_s.median == pytest.approx(18e-6)
    assert case.algbw_Bps == pytest.approx(4000 / 8e-6)
    # A sample shorter than 100 ticks of an event, 500 ns each, is a batch: 8 calls of 8 µs are the first past 50 µs.
    assert case.loop.batch == asked[-1] == 8


def test_wire_bytes_of_the_shots_are_those_of_their_schedules(emulated_gpus: Emulate, bench: Bench) -> None:
    emulated_gpus(1)
    cases = bench("--ranks", "4", "--sizes", "1K", "--algorithms", "one-shot,two-shot")
    # One-shot sends all to 3 peers; two-shot 3 quarters twice.
    assert [case.wire_bytes_busiest_rank for case in cases] == [3 * 1024, 2 * 3 * 256]


def test_a_wrong_result_is_found_and_not_timed(
    emulated_gpus: Emulate, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = emulated_gpus(1)
    right = module.EngineOperation

    def wrong(**given: Any) -> Any:  # rank 1 takes the maximum
        return right(**{**given, "op": "max"} if given["rank"] == 1 else given)

    monkeypatch.setattr(module, "EngineOperation", wrong)
    broken, well = bench("--ranks", "2", "--sizes", "400", "--algorithms", "mesh,one-shot", status=1)
    assert (broken.status, broken.wrong, broken.time_s) == ("wrong", 100, None)  # every element of that rank
    assert (well.status, well.wrong) == ("ok", 0)


def test_a_kernel_that_waits_in_vain_fails_its_row_and_names_whom(
    emulated_gpus: Emulate, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated_gpus(1)
    launch = DeviceOperation.launch

    def launch_but_not_mesh_on_rank_1(self: Any, stream: Any) -> None:
        if (self.algorithm, self._comm.rank) != ("mesh", 1):
            launch(self, stream)

    monkeypatch.setattr(DeviceOperation, "launch", launch_but_not_mesh_on_rank_1)
    # 1 ms are a million switches of the emulator.
    monkeypatch.setattr("pycomm.cuda.collective.patience_of", lambda world: 0.001)
    before, broken, after = bench("--ranks", "2", "--sizes", "64", "--algorithms", "ring,mesh,tree", status=1)
    assert (before.status, broken.status, after.status) == ("ok", "failed", "ok")
    assert "rank 0 of 2: allreduce: the kernel gave up waiting for a message from rank 1 (lane 0, step" in broken.reason


@pytest.fixture
def tma(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYCOMM_TMA", "1")


def test_bulk_copies_move_what_fills_a_stage_where_they_are_asked_for(
    emulated_gpus: Emulate, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wish, size, moved in (("0", 131072, False), ("1", 400, False), ("1", 131072, True), ("1", 131076, True)):
        module = emulated_gpus(1)
        monkeypatch.setenv("PYCOMM_TMA", wish)
        for case in bench("--ranks", "2", "--sizes", str(size), "--algorithms", "ring,mesh"):
            assert (case.status, case.wrong, case.reason) == ("ok", 0, ""), case
        assert (module.bulk_copies() > 0) == moved


@pytest.mark.usefixtures("tma")
def test_stages_of_bulk_copies_count_for_what_can_be_resident(emulated_gpus: Emulate, bench: Bench) -> None:
    # 228 KiB of shared memory hold the 64 KiB of three blocks, one of 65 KiB less than the threads would allow.
    emulated_gpus(1, processors=1)
    (case,) = bench("--ranks", "4", "--sizes", "128K", "--algorithms", "mesh")
    assert case.status == "skipped"
    assert "1 lanes × 4 ranks cannot be resident together, at most 3 blocks of 512 threads can" in case.reason


@pytest.mark.usefixtures("tma")
def test_a_gpu_without_bulk_copies_says_so(emulated_gpus: Emulate, bench: Bench) -> None:
    emulated_gpus(1, major=8)
    (case,) = bench("--ranks", "2", "--sizes", "128K", "--algorithms", "mesh")
    assert (case.status, case.reason) == (
        "skipped",
        "device 0 runs the kernel for sm_80, and bulk copies need sm_90: unset PYCOMM_TMA",
    )


def test_a_wish_for_bulk_copies_is_yes_or_no(
    emulated_gpus: Emulate, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated_gpus(1)
    monkeypatch.setenv("PYCOMM_TMA", "yes")
    (case,) = bench("--ranks", "2", "--sizes", "4", "--algorithms", "mesh", status=1)
    assert "PYCOMM_TMA is 'yes', needs 0 or 1" in case.reason


def test_lanes_are_as_many_as_can_be_resident_on_every_rank(
    emulated_gpus: Emulate, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = emulated_gpus(2)
    right = module.EngineOperation
    made: dict[int, int] = {}

    def crowded_on_rank_1(**given: Any) -> Any:
        if given["rank"] == 1 and given["lanes"] > 4:
            raise Unavailable("no room")
        made[given["rank"]] = given["lanes"]
        return right(**given)

    monkeypatch.setattr(module, "EngineOperation", crowded_on_rank_1)
    (case,) = bench("--ranks", "2", "--sizes", "64", "--algorithms", "ring")
    assert (case.status, case.wrong) == ("ok", 0)
    assert made == {0: 4, 1: 4}


def test_ranks_of_which_no_lane_can_be_resident_are_skipped_with_the_numbers(
    emulated_gpus: Emulate, bench: Bench
) -> None:
    emulated_gpus(1, processors=1)
    for case in bench("--ranks", "8", "--sizes", "128K", "--algorithms", "ring,two-shot"):
        assert case.status == "skipped"
        assert "1 lanes × 8 ranks cannot be resident together, at most 4 blocks of 512 threads can" in case.reason


def test_a_message_too_long_for_an_inbox_is_skipped_with_the_numbers(
    emulated_gpus: Emulate, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulated_gpus(1)
    monkeypatch.setattr("pycomm.cuda.collective.QUEUE_BYTES", 4000)
    one, two = bench("--ranks", "2", "--sizes", "1000,1004", "--algorithms", "one-shot")
    assert (one.status, two.status) == ("ok", "skipped")  # two halves for two ranks each
    assert "4016 bytes of inbox a rank, more than the 4000" in two.reason


def test_without_a_device_every_row_says_why(emulated_gpus: Emulate, bench: Bench) -> None:
    emulated_gpus(0)
    cases = bench("--ranks", "2", "--sizes", "4")
    assert len(cases) > 5
    assert {(case.status, case.reason) for case in cases} == {
        ("skipped", "the NVIDIA driver shows no device (CUDA_VISIBLE_DEVICES hides them, or there is none)")
    }


def test_ranks_take_the_devices_of_their_host_in_turn(emulated_gpus: Emulate) -> None:
    emulated_gpus(2)
    assert pycomm.run(device_of, ranks=5, transport="threads") == [0, 1, 0, 1, 0]


def _as_processes(comm: pycomm.Communicator) -> list[float]:
    comm.transport = "shm"  # so that arenas are mapped by their handles
    buffers = []
    for name in ("send", "receive"):
        memory = keep_memory(comm, name, 0, 400)
        memory.write(np.full(100, comm.rank + 1, np.float32))
        buffers.append(DeviceBuffer(memory, np.dtype(np.float32), 100))
    operation = DeviceOperation(comm, *buffers, device=0, algorithm="ring")
    operation.time(device_stream(comm, 0), 1, 1)
    found = np.empty(100, np.float32)
    buffers[1].memory.read(found)
    operation.close()
    return [float(found.min()), float(found.max())]


def test_memory_is_mapped_by_handles_between_processes(emulated_gpus: Emulate) -> None:
    emulated_gpus(1)
    assert pycomm.run(_as_processes, ranks=3, transport="threads") == [[6.0, 6.0]] * 3


def _refused(comm: pycomm.Communicator) -> str:
    memory = keep_memory(comm, "send", 0, 400)
    dtype = np.dtype(np.float32 if comm.rank else np.uint16)
    with pytest.raises((UsageError, TransportError, Unavailable)) as error:
        DeviceOperation(comm, DeviceBuffer(memory, dtype, 100), device=0)
    return f"{type(error.value).__name__}: {error.value}"


def test_a_mistake_of_one_rank_is_told_to_all(emulated_gpus: Emulate) -> None:
    emulated_gpus(1)
    mine, theirs = pycomm.run(_refused, ranks=2, transport="threads", timeout=20)
    assert mine.startswith("UsageError: rank 0 of 2: allreduce: send has dtype uint16")
    assert theirs == mine.replace("UsageError: ", "UsageError: rank 0: ")


def test_auto_takes_one_hop_while_it_sends_little_more_than_two() -> None:
    # 8 ranks: 2n · 7 · 6/8 ≤ 450 kB up to 42857 bytes; 2 ranks: one hop sends no more than two.
    assert [resolve_on_device("auto", 8, size) for size in (42857, 42858)] == ["one-shot", "two-shot"]
    assert resolve_on_device("auto", 2, 16 << 20) == "one-shot"
    assert [resolve_on_device("auto", 8, size) for size in (16 << 20, (16 << 20) + 1)] == ["two-shot", "direct"]
    assert resolve_on_device("ring", 8, 4) == "ring"


def test_a_graph_needs_a_device() -> None:
    assert main(["bench", "allreduce", "--graph", "--sizes", "4"]) == 2
