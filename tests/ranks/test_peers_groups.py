"""Side by side (bench/peers): groups of real processes start, answer rightly, refuse, and end. No time is judged."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
if str(BENCH) not in sys.path:
    sys.path.append(str(BENCH))  # it holds no pycomm that could be taken for the installed one

from peers.environments import build_programs  # noqa: E402
from peers.group import Group, Lost  # noqa: E402
from peers.roster import start_limits, start_pycomm  # noqa: E402
from peers.wire import Refused, Request  # noqa: E402

LARGEST = 100_000  # elements


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    build_programs()


@pytest.fixture
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Group]:
    start, ranks = request.param
    started: Group = start(ranks, LARGEST, tmp_path)
    yield started
    started.stop()
    assert not [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


def _two_and_three(start: object) -> list[tuple[object, int]]:
    return [(start, 2), (start, 3)]


@pytest.mark.parametrize("group", _two_and_three(start_limits), indirect=True)
def test_the_memory_limit_moves_and_sums_every_element(group: Group) -> None:
    for count in (16, 16 * 7, LARGEST // 16 * 16):
        wrong, samples_ns = group.ask(Request("memory", count, 1, 4, 2, check=True))
        assert (wrong, samples_ns.size) == (0, 4)
        assert (samples_ns > 0).all()


@pytest.mark.parametrize("group", [(start_limits, 2)], indirect=True)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a line is exchanged between two cores")
def test_a_line_is_exchanged_both_ways_and_to_and_fro(group: Group) -> None:
    for variant in ("line", "roundtrip", "line"):
        wrong, samples_ns = group.ask(Request(variant, 2, 1, 5, 8))
        assert (wrong, samples_ns.size) == (None, 5)
    with pytest.raises(Refused, match="memory, line and roundtrip"):
        group.ask(Request("speed", 2, 0, 1))


@pytest.mark.parametrize("group", [(start_limits, 3)], indirect=True)
def test_a_line_between_three_is_refused_and_the_group_goes_on(group: Group) -> None:
    with pytest.raises(Refused, match="between two ranks"):
        group.ask(Request("line", 2, 0, 1))
    assert group.ask(Request("memory", 48, 0, 1, check=True))[0] == 0


@pytest.mark.parametrize("group", _two_and_three(start_pycomm), indirect=True)
def test_pycomms_ranks_give_right_results_in_both_loops_and_buffers(group: Group) -> None:
    for variant in ("c/ordinary/ring", "c/symmetric/mesh", "python/ordinary/ps:servers=1", "python/symmetric/tree"):
        for count in (1, 2, 1003, LARGEST):
            wrong, samples_ns = group.ask(Request(variant, count, 1, 3, check=True))
            assert (wrong, samples_ns.size) == (0, 3), (variant, count)
    with pytest.raises(Refused, match="unknown algorithm"):
        group.ask(Request("c/ordinary/no-such", 4, 0, 1))


@pytest.mark.parametrize("group", [(start_limits, 2)], indirect=True)
def test_a_killed_group_is_lost(group: Group) -> None:
    (process,) = psutil.Process().children()
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    with pytest.raises(Lost, match="limits: a rank is gone"):
        group.ask(Request("memory", 16, 0, 1))


def test_a_program_that_ends_at_once_is_lost_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('first', flush=True); raise SystemExit('no socket today')"]
    with pytest.raises(Lost, match="short: rank 0 of 2 ended with 1: no socket today"):
        Group("short", 2, [command], os.environ, tmp_path)
