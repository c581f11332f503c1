"""Side by side (bench/peers): the arithmetic of its tables and what is said over its sockets. No timing here."""

import io
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pycomm.machine import Machine
from pycomm.measure.record import SCHEMA, CaseRecord, Loop, RunRecord, WorldRecord
from pycomm.measure.statistics import summarise

BENCH = Path(__file__).resolve().parents[2] / "bench"
if str(BENCH) not in sys.path:
    sys.path.append(str(BENCH))  # it holds no pycomm that could be taken for the installed one

from peers import phases, ratios, summary, surroundings, turns, wire  # noqa: E402
from peers.group import Lost  # noqa: E402
from peers.rank import contribution, time_calls, wrong_elements  # noqa: E402


def test_the_ratio_is_the_fastest_peers_time_over_ours() -> None:
    assert ratios.ratio([6.0, 3.0, 9.0], 1.5) == 2.0
    assert ratios.ratio([1.0], 4.0) == 0.25


@pytest.mark.parametrize(("peers_s", "own_s"), [([], 1.0), ([1.0], 0.0), ([0.0], 1.0), ([1.0], -1.0)])
def test_a_ratio_without_a_peer_or_of_no_time_is_refused(peers_s: list[float], own_s: float) -> None:
    with pytest.raises(ValueError, match=r"empty|above zero"):
        ratios.ratio(peers_s, own_s)


def test_the_geometric_mean_lets_twice_and_half_cancel() -> None:
    assert ratios.geometric_mean([2.0, 0.5]) == pytest.approx(1.0, rel=1e-15)
    assert ratios.geometric_mean([1.0, 10.0, 100.0]) == pytest.approx(10.0, rel=1e-14)
    assert ratios.geometric_mean([3.0]) == pytest.approx(3.0, rel=1e-15)
    with pytest.raises(ValueError, match="no ratios"):
        ratios.geometric_mean([])


def test_the_smallest_ratio_comes_with_its_size() -> None:
    assert ratios.smallest({4: 3.0, 64: 1.25, 1024: 7.0}) == (64, 1.25)


def test_a_request_reads_as_it_was_written() -> None:
    request = wire.Request("c/symmetric/ps:servers=2", 1 << 26, 3, 17, 16, check=True)
    assert request.line() == b"c/symmetric/ps:servers=2 67108864 3 17 16 1\n"
    assert wire.Request.parse(request.line()) == request


def test_an_answer_reads_as_a_rank_in_c_writes_it() -> None:
    content = b"ok 5 2\n" + (1500).to_bytes(8, sys.byteorder) + (70_000_000_000).to_bytes(8, sys.byteorder)
    answer = wire.read_answer(io.BytesIO(content))
    assert (answer.wrong, answer.samples_ns.tolist()) == (5, [1500, 70_000_000_000])
    assert wire.read_answer(io.BytesIO(b"ok -1 0\n")).wrong is None
    with pytest.raises(wire.Refused, match="no such limit"):
        wire.read_answer(io.BytesIO(b"error no such limit\n"))
    for cut in (b"", b"ok 5", b"ok 5 2\n\0\0\0"):
        with pytest.raises(EOFError):
            wire.read_answer(io.BytesIO(cut))


def test_a_rank_answers_refuses_and_ends_when_hung_up_on(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")

    def measure(request: wire.Request) -> wire.Answer:
        if request.variant == "odd":
            raise ValueError("nothing\nodd here")
        return wire.Answer(None, np.arange(request.iterations, dtype=np.int64))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=wire.serve, args=(path, 3, "version 1", measure))
        thread.start()
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            assert stream.readline() == b"3 version 1\n"
            for variant in ("even", "odd", "even"):
                stream.write(wire.Request(variant, 1, 0, 4).line())
                stream.flush()
                if variant == "odd":
                    with pytest.raises(wire.Refused, match=r"^nothing odd here$"):
                        wire.read_answer(stream)
                else:
                    assert wire.read_answer(stream).samples_ns.tolist() == [0, 1, 2, 3]
        thread.join(10)
        assert not thread.is_alive()


def test_the_batch_is_the_power_of_two_that_fills_a_hundred_ticks() -> None:
    assert turns.batch_for(3000.0, 30.0) == 1
    assert turns.batch_for(2999.0, 30.0) == 2
    assert turns.batch_for(150.0, 30.0) == 32  # 16 × 150 = 2400 is short of 3000


def test_a_turn_has_at_least_three_samples_and_an_end() -> None:
    assert turns.samples_for(0.05, 1_000_000.0, 1) == 50
    assert turns.samples_for(0.05, 200_000_000.0, 1) == 3
    assert turns.samples_for(0.05, 700_000_000.0, 1) == 1
    assert turns.samples_for(0.05, 100.0, 1) == 5000
    assert turns.samples_for(0.05, 1000.0, 50) == 1000


def test_the_fastest_way_takes_the_turns_and_all_are_asked_in_turn() -> None:
    asked: list[str] = []

    def group(name: str, times_ns: dict[str, int], wrong: int = 0) -> SimpleNamespace:
        def ask(request: wire.Request) -> tuple[int | None, wire.Nanoseconds]:
            if request.variant not in times_ns:
                raise wire.Refused("not built")
            if request.warmup == 3 and request.iterations == 30:  # the turns of this pace
                asked.append(name)
            samples_ns = np.full(request.iterations, times_ns[request.variant] * request.batch, np.int64)
            return (wrong if request.check else None), samples_ns

        return SimpleNamespace(name=name, ask=ask)

    contenders = [
        turns.Contender("A", group("A", {"c": 2_000_000}, wrong=4), ("c",)),  # type: ignore[arg-type]
        turns.Contender("B", group("B", {"slow": 1_500_000, "fast": 1_000_000}), ("slow", "gone", "fast")),  # type: ignore[arg-type]
        turns.Contender("C", group("C", {}), ("gone",)),  # type: ignore[arg-type]
    ]
    pace = turns.Pace(rounds=3, turn_s=0.03, trial_s=0.001)
    first, second, third = turns.measure(contenders, 1024, pace, 30.0, {})
    assert asked == ["B", "B", "B"]
    assert (second.variant, second.reason, dict(second.refused)) == ("fast", "", {"gone": "not built"})
    assert second.samples_s.tolist() == pytest.approx([0.001] * 90)
    assert (first.wrong, first.samples_ns.size) == (4, 45)
    assert (third.reason, third.samples_ns.size) == ("not built", 0)


def test_who_is_too_slow_is_left_out_from_there_on() -> None:
    asked: list[int] = []

    def ask(request: wire.Request) -> tuple[int | None, wire.Nanoseconds]:
        asked.append(request.count)
        return 0, np.full(request.iterations, 3_000_000 * request.count, np.int64)

    contender = turns.Contender("slow", SimpleNamespace(name="slow", ask=ask), ("c",))  # type: ignore[arg-type]
    retired: dict[str, turns.Retired] = {}
    reasons = [turns.measure([contender], count, turns.Pace(rounds=1), 30.0, retired)[0] for count in (1, 1024, 4096)]
    assert [outcome.skipped for outcome in reasons] == [False, True, True]
    assert reasons[1].reason == reasons[2].reason == "one call on 4 KiB took 3.1 s, more than 2 s"
    assert set(asked) == {1, 1024}


@pytest.mark.parametrize("needed", [False, True])
def test_a_lost_peer_loses_its_column_and_a_lost_pycomm_ends_the_run(needed: bool) -> None:
    def ask(request: wire.Request) -> tuple[int | None, wire.Nanoseconds]:
        if request.iterations == 50:  # a turn
            raise Lost("gone")
        return 0, np.full(request.iterations, 1_000_000, np.int64)

    contender = turns.Contender("peer", SimpleNamespace(name="peer", ask=ask), ("c",), needed=needed)  # type: ignore[arg-type]
    retired: dict[str, turns.Retired] = {}
    pace = turns.Pace(rounds=1, turn_s=0.05)
    if needed:
        with pytest.raises(Lost, match="gone"):
            turns.measure([contender], 4, pace, 30.0, retired)
        return
    for _ in range(2):
        (outcome,) = turns.measure([contender], 4, pace, 30.0, retired)
        assert (outcome.reason, outcome.skipped, outcome.samples_ns.size) == ("gone", False, 0)


def test_calls_are_timed_in_batches_behind_a_barrier_each() -> None:
    order: list[str] = []
    request = wire.Request("python", 8, warmup=1, iterations=2, batch=3)
    samples_ns = time_calls(request, lambda: order.append("|"), lambda: order.append("x"))
    assert "".join(order) == "|xxx|xxx|xxx"
    assert samples_ns.size == 2


def test_the_check_counts_wrong_elements() -> None:
    count = 3000
    send, receive = np.empty(count, np.float32), np.empty(count, np.float32)

    def right_but_for_two() -> None:
        receive[:] = send + (np.arange(count) + 7) % 251
        receive[17] += 1
        receive[2999] = -1

    assert send is not receive
    assert wrong_elements(send, receive, 0, 2, right_but_for_two) == 2
    assert contribution(1, 253)[[0, 243, 244, 252]].tolist() == [7.0, 250.0, 0.0, 8.0]


def test_sizes_whose_buffers_would_not_fit_are_left_out() -> None:
    # 5 groups × 2 ranks × input and output = 20 buffers, of 80 % of what is free
    assert phases.sizes_that_fit([4, 1000, 1001], 2, 25_000) == [4, 1000]


def _case(backend: str, size: int, median_s: float, buffers: str = "ordinary", **changes: object) -> CaseRecord:
    fields: dict[str, object] = {
        "benchmark": "allreduce c", "backend": backend, "algorithm": "library", "options": "", "transport": "shm",
        "device": "cpu", "dtype": "float32", "op": "sum", "in_place": False, "buffers": buffers, "ranks": 2,
        "workers": 2, "hosts": 1, "link": "shared memory", "bytes": size, "count": size // 4, "status": "ok",
        "loop": Loop("c", "each", 1), "time_s": summarise(np.array([median_s])),
    }  # fmt: skip
    return CaseRecord(**(fields | changes))  # type: ignore[arg-type]


def test_the_tables_say_what_the_rows_say() -> None:
    cases = [
        _case("openmpi", 8, 4e-7),
        _case("native", 8, 2e-7, "symmetric", algorithm="mesh"),
        _case("limits", 8, 1.6e-7, benchmark="limit line"),
        _case("openmpi", 1 << 20, 2e-4),
        _case("mpich", 1 << 20, 1e-4),
        _case("native", 1 << 20, 5e-5, algorithm="ps", options="servers=2"),
        _case("native", 1 << 20, 2.5e-5, "symmetric", algorithm="direct"),
        _case("limits", 1 << 20, 2e-5, benchmark="limit memory"),
        _case("openmpi", 4 << 20, 1e-3),
        _case("mpich", 4 << 20, 5e-4, status="wrong"),
        _case("native", 4 << 20, 5e-4, "symmetric", algorithm="ring"),
    ]
    run = RunRecord(SCHEMA, "now", {"pycomm": "1"}, Machine("h", "Linux", "CPU X", 2, 1 << 34), WorldRecord("", "", ()),
                    (), {})  # fmt: skip
    page = summary.summary(run, summary.sheets(cases, [1 << 20, 4 << 20]), {"MPICH": "5"}, {"L2": "512K"}, ["a note"])
    cells = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
             for line in page.splitlines() if line.startswith("|")}  # fmt: skip
    assert cells["Size"][:6] == ["Open MPI", "MPICH", "pycomm ordinary", "pycomm symmetric", "ratio ordinary",
                                 "ratio symmetric"]  # fmt: skip
    assert cells["1 MiB"] == ["200 µs", "100 µs", "50.0 µs ps:servers=2", "25.0 µs direct", "2.00", "4.00", "20.0 µs",
                              "80%"]  # fmt: skip
    assert cells["4 MiB"][:2] == ["1.00 ms", "–"]  # a wrong result has no time
    assert cells["4 MiB"][5] == "2.00"
    assert cells["8 B *"][5] == "2.00"
    # √(4 × 2), the starred size left out
    assert "symmetric buffers: geometric mean 2.83 over 2 sizes; the smallest ratio is 2.00, at 4 MiB" in page
    assert "8 B, symmetric buffers: 1.25 times the exchange of a line both ways, which takes 160 ns" in page
    assert all(words in page for words in ("CPU X, 2 cores, 16 GiB of memory", "L2 512K", "MPICH: 5", "a note"))


def test_what_a_call_from_python_adds_is_taken_from_the_same_turns() -> None:
    row = {"benchmark": "allreduce python", "algorithm": "mesh"}
    cases = [
        _case("gloo", 1024, 1e-4, benchmark="allreduce python", loop=Loop("python", "each", 1)),
        _case("native", 1024, 9e-7, loop=Loop("python", "each", 1), **row),
        _case("native", 1024, 5e-7, loop=Loop("c", "each", 1), **row),
    ]
    (sheet,) = summary.sheets(cases, [1024])
    assert sheet.ratios("ordinary") == {1024: pytest.approx(1e-4 / 9e-7)}
    page = "\n".join(summary._table(sheet))
    assert "+0.40 µs" in page


def test_the_machines_folder_is_made_of_its_cpu_and_cores() -> None:
    machine = Machine("h", "Linux", "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", 40, None)
    assert surroundings.folder_name(machine) == "intel-xeon-gold-6148-cpu-40-cores"


def test_caches_and_free_memory_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "32K"), ("1", "Instruction", "32K"), ("2", "Unified", "1M")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    assert surroundings.cache_sizes(tmp_path) == {"L1d": "32K", "L2": "1M"}
    assert surroundings.cache_sizes(tmp_path / "none") == {}
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       2048 kB\nMemAvailable:   1024 kB\n")
    assert surroundings.available_bytes(meminfo) == 1 << 20
