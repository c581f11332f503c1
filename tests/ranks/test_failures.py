"""What happens when a rank is wrong, dies, or is silent: every rank ends, and the message says who and why."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Pipe

import numpy as np
import psutil
import pytest

import pycomm
from pycomm import _core

BOTH = pytest.mark.parametrize("transport", ["threads", "shm"])


def test_results_come_back_by_rank():
    assert pycomm.run(lambda comm, power: comm.rank**power, ranks=5, args=(2,)) == [0, 1, 4, 9, 16]


@BOTH
def test_an_exception_on_one_rank_ends_all_and_names_the_rank(transport):
    def function(comm):
        if comm.rank == 1:
            raise KeyError("no such thing")
        comm.allreduce(np.zeros(1000, np.float32))

    with pytest.raises(pycomm.RankError, match=r"rank 1 of 3 raised KeyError: 'no such thing'") as caught:
        pycomm.run(function, ranks=3, transport=transport)
    assert isinstance(caught.value.__cause__, KeyError)


@BOTH
def test_a_usage_error_on_one_rank_stays_a_usage_error(transport):
    def function(comm):
        comm.allreduce(np.zeros(10, np.float32), np.zeros(9 + (comm.rank != 2), np.float32))

    with pytest.raises(pycomm.UsageError, match="rank 2 of 3: allreduce: receive has 36 bytes, needs 40"):
        pycomm.run(function, ranks=3, transport=transport)


def test_a_killed_rank_is_named():
    def function(comm):
        if comm.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            comm.allreduce(np.zeros(1000, np.float32))

    start = time.monotonic()
    with pytest.raises(pycomm.TransportError, match=r"rank 2 of 4 .*killed by signal 9 \(SIGKILL\); .*memory"):
        pycomm.run(function, ranks=4)
    assert time.monotonic() - start < 10


def test_survivors_learn_of_a_death_themselves():
    def function(comm):
        if comm.rank == 1:
            os._exit(7)
        try:
            comm.allreduce(np.zeros(1000, np.float32))
        except pycomm.TransportError as error:
            with open(record, "a") as file:
                file.write(f"{error}\n")
            raise

    record = f"/tmp/pycomm-test-{os.getpid()}"
    try:
        with pytest.raises(pycomm.TransportError, match=r"rank 1 of 3 .*died: exit 7"):
            pycomm.run(function, ranks=3)
        with open(record) as file:
            told = file.read().splitlines()
    finally:
        os.unlink(record)
    assert len(told) == 2
    assert all("rank 1 (host" in line for line in told)


@BOTH
def test_a_silent_rank_is_named_after_the_timeout(transport):
    def function(comm):
        if comm.rank == 0:
            time.sleep(2.5)
            return
        comm.allreduce(np.zeros(1000, np.float32), algorithm="ring")

    message = r"heard nothing from rank \d .* for 1 s in allreduce of 1000 float32 by ring.*lane 0, step \d+ \("
    with pytest.raises(pycomm.TransportError, match=message):
        pycomm.run(function, ranks=2, transport=transport, timeout=1)


def test_a_stopped_rank_is_named_by_those_that_wait_for_others_in_between():
    def function(comm):
        if comm.rank == 1:
            time.sleep(3)
            return
        try:
            comm.allreduce(np.zeros(1000, np.float32), algorithm="ring")
        except pycomm.TransportError as error:
            messages.send((comm.rank, str(error)))

    told, messages = Pipe(duplex=False)
    pycomm.run(function, ranks=3, timeout=1)
    for rank, message in (told.recv(), told.recv()):
        if "heard nothing" in message:  # the first to give up; the other may have been told by it
            assert "rank 1 (host" in message, rank


@BOTH
@pytest.mark.parametrize(
    "calls",
    [
        [("sum", "ring", 100), ("max", "ring", 100)],
        [("sum", "ring", 100), ("sum", "ring", 101)],
        [("sum", "ring", 100), ("sum", "mesh", 100)],
        [("sum", "ring", 100), ("sum", "tree", 100)],
    ],
    ids=["op", "count", "algorithm", "tree"],
)
def test_different_calls_are_refused_with_both_in_words(transport, calls):
    def function(comm):
        op, algorithm, count = calls[comm.rank]
        comm.allreduce(np.zeros(count, np.float32), op=op, algorithm=algorithm)

    with pytest.raises(pycomm.TransportError, match="the ranks call different collectives") as caught:
        pycomm.run(function, ranks=2, transport=transport)
    for op, algorithm, count in calls:
        assert f"allreduce of {count} float32 by {algorithm}, op {op}" in str(caught.value)


@pytest.mark.parametrize("missing", ["send", "receive"])
def test_a_buffer_that_the_schedule_uses_and_the_rank_lacks_is_refused(missing):
    def function(comm):
        given = {"send": np.zeros(4, np.float32), "receive": np.zeros(4, np.float32)} | {missing: None}
        call = ("allreduce", "ring", {}, "sum", "float32", 4, 0, False, False)
        _core.Operation(comm.memory, *call, given["send"], given["receive"])

    place = {"send": "in", "receive": "out"}[missing]
    with pytest.raises(pycomm.UsageError, match=rf"uses {place}\[\d\], and this rank was given no such buffer"):
        pycomm.run(function, ranks=2)


def test_a_broken_world_says_so_at_the_next_call():
    def function(comm):
        with pytest.raises(pycomm.TransportError):
            comm.allreduce(np.zeros(100 + comm.rank, np.float32))
        with pytest.raises(pycomm.TransportError, match="earlier failure"):
            comm.allreduce(np.zeros(100, np.float32))
        return True

    assert pycomm.run(function, ranks=2, transport="threads") == [True, True]


def test_a_closed_communicator_says_so_at_the_next_call():
    def function(comm):
        step = comm.prepare_allreduce(np.zeros(4, np.float32))
        comm.close()
        for call in (step.run, lambda: comm.allreduce(np.zeros(4, np.float32))):
            with pytest.raises(pycomm.UsageError, match=r"allreduce of 4 float32 .*: the communicator is closed"):
                call()
        return True

    assert pycomm.run(function, ranks=2, transport="threads") == [True, True]


def interrupt_itself():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # Python handles a signal between two of its instructions


def test_a_rank_is_interrupted_once():
    def function(comm):
        with pytest.raises(KeyboardInterrupt):
            interrupt_itself()
        interrupt_itself()
        os.kill(os.getpid(), signal.SIGTERM)
        return "ended in order"

    assert pycomm.run(function, ranks=2) == ["ended in order"] * 2


class InterruptedReport(Exception):
    """The process that reports it is interrupted while it does."""

    def __reduce__(self):
        if os.getpid() != self.args[0]:
            interrupt_itself()
        return InterruptedReport, self.args


def test_an_interrupt_does_not_spoil_the_report_of_an_error(capfd):
    launcher = os.getpid()

    def function(comm):
        raise InterruptedReport(launcher)

    with pytest.raises(pycomm.RankError, match="raised InterruptedReport"):
        pycomm.run(function, ranks=2)
    assert capfd.readouterr().err == ""


# One write a line: print makes two where Python is told not to buffer, and those of three ranks mix.
ENDLESS = """
import os, numpy as np, pycomm
def function(comm):
    os.write(1, f"{comm.world.members[comm.rank]['pid']}\\n".encode())
    while True:
        comm.allreduce(np.zeros(1000, np.float32))
pycomm.run(function, ranks=3)
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_rank_outlives_its_launcher(sent):
    files_before = shared_files()
    launcher = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
    )
    try:
        pids = [int(launcher.stdout.readline()) for _ in range(3)]
        launcher.send_signal(sent)
        assert launcher.wait(10) != 0
    finally:
        launcher.kill()
        launcher.wait()
    deadline = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, pids))
    assert shared_files() == files_before


def shared_files():
    """Names of shared memory, but those of an MPI that other tests may run beside this one."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sm_segment")}


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class OnDevice:
    """An array whose address means nothing to the CPU."""

    def __init__(self):
        self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}


@pytest.mark.parametrize(
    ("send", "receive", "message"),
    [
        ([1.0], None, "send is a list, needs a NumPy array"),
        (OnDevice(), None, "send is a OnDevice, needs a NumPy array"),
        (np.zeros(4, np.float32), OnDevice(), "receive is a OnDevice, needs a NumPy array"),
        (np.zeros(4, np.uint16), None, "send has dtype uint16"),
        (np.zeros(4, ">f4"), None, "send has dtype >f4"),
        (np.zeros((4, 4), np.float32)[:, 1], None, "send has strides"),
        (np.zeros(4, np.float32), np.zeros(4, np.float64), "receive has dtype float64, needs float32"),
        (np.zeros(4, np.float32), np.zeros(3, np.float32), "receive has 12 bytes, needs 16"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused_before_any_message(send, receive, message):
    def function(comm):
        with pytest.raises(pycomm.UsageError, match=message):
            comm.allreduce(send, receive)
        return comm.allreduce(np.ones(3, np.float32))[0]

    assert pycomm.run(function, ranks=2, transport="threads") == [2.0, 2.0]


def test_partly_overlapping_and_read_only_arrays_are_refused():
    def function(comm):
        whole = np.zeros(10, np.float32)
        with pytest.raises(pycomm.UsageError, match="overlap in part"):
            comm.allreduce(whole[:8], whole[2:])
        frozen = np.zeros(4, np.float32)
        frozen.flags.writeable = False
        with pytest.raises(pycomm.UsageError, match="read-only"):
            comm.allreduce(frozen)
        return True

    assert pycomm.run(function, ranks=2, transport="threads") == [True, True]


@pytest.mark.parametrize("ranks", [0, -1, 1.5, True, "2"])
def test_a_number_of_ranks_that_is_none_is_refused(ranks):
    with pytest.raises(pycomm.UsageError, match="ranks is"):
        pycomm.run(print, ranks=ranks)


@pytest.mark.parametrize("args", [5, "text", None])
def test_arguments_that_are_no_sequence_are_refused(args):
    with pytest.raises(pycomm.UsageError, match=r"run: args is .*needs a tuple"):
        pycomm.run(lambda comm, *more: None, ranks=1, args=args)


def test_a_timeout_that_is_none_is_refused_for_one_rank_too():
    with pytest.raises(pycomm.UsageError, match="timeout is nan"):
        pycomm.run(lambda comm: None, ranks=1, timeout=float("nan"))


def test_a_result_that_cannot_be_pickled_is_named():
    with pytest.raises(pycomm.UsageError, match="result must be picklable, and this Communicator is not"):
        pycomm.run(lambda comm: comm, ranks=2)


def test_an_unknown_transport_is_refused():
    with pytest.raises(pycomm.UsageError, match="transport is 'carrier pigeon'"):
        pycomm.run(print, ranks=2, transport="carrier pigeon")
