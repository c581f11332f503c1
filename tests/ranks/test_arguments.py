"""What a caller gives a communicator and gets refused for, before any message is sent: numbers, types, roles, time."""

import re

import numpy as np
import pytest

import pycomm
from pycomm import Unavailable, UsageError

ONES = np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1,), "rank 0 of 1: empty: count is -1, needs a whole number from 0"),
        ((True,), "count is True, needs a whole number from 0"),
        ((1.5,), "count is 1.5, needs a whole number from 0"),
        (("3",), "count is '3', needs a whole number from 0"),
        (((2, 3),), r"count is \(2, 3\), needs a whole number from 0"),
        ((3, "single-ish"), "dtype is 'single-ish', needs one of float64"),
        ((3, None), "dtype is None, needs one of float64"),
        ((3, object), "dtype is <class 'object'>, needs one of float64"),
    ],
)
def test_empty_refuses_what_is_no_count_or_type(arguments, message):
    with pytest.raises(UsageError, match=message):
        pycomm.run(lambda comm: comm.empty(*arguments), 1)


def test_empty_takes_the_numbers_of_numpy_and_says_how_much_it_lacks():
    assert pycomm.run(lambda comm: comm.empty(np.int64(3)).size, 1) == [3]
    with pytest.raises(Unavailable, match=f"{2**64} bytes are more than any memory has"):
        pycomm.run(lambda comm: comm.empty(2**62), 1)


@pytest.mark.parametrize("transport", ["threads", "shm"])
@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e300, "30", None])
def test_a_timeout_is_a_number_of_seconds_above_0(transport, timeout):
    with pytest.raises(UsageError, match=f"timeout is {re.escape(repr(timeout))}"):
        pycomm.run(lambda comm: comm.rank, 2, transport, timeout=timeout)


def test_init_refuses_such_a_timeout_too():
    with pytest.raises(UsageError, match="timeout is -1"):
        pycomm.init(timeout=-1)


@pytest.mark.parametrize("algorithm", [None, 3, ["ring"]])
def test_an_algorithm_is_a_text(algorithm):
    with pytest.raises(UsageError, match=f"algorithm: {re.escape(repr(algorithm))}: wanted text"):
        pycomm.run(lambda comm: comm.allreduce(ONES.copy(), algorithm=algorithm), 2, "threads")


def test_an_op_is_a_text():
    with pytest.raises(UsageError, match=r"op is \['sum'\], needs one of sum"):
        pycomm.run(lambda comm: comm.allreduce(ONES.copy(), op=["sum"]), 2, "threads")


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_a_dedicated_server_cannot_pass_a_buffer_that_nobody_would_add(transport):
    with pytest.raises(UsageError, match=r"rank 2 of 3: allreduce by ps:servers=1,dedicated: .*server and passes no"):
        pycomm.run(lambda comm: comm.allreduce(ONES.copy(), algorithm="ps:dedicated"), 3, transport)


@pytest.mark.parametrize("algorithm", ["ring", "ps:dedicated"])
def test_a_worker_cannot_serve(algorithm):
    with pytest.raises(UsageError, match=r"rank [01] of 2: allreduce by .* is no dedicated server"):
        pycomm.run(lambda comm: comm.serve(4, "float32", algorithm=algorithm), 2, "threads")


def test_a_server_takes_the_count_of_numpy_and_names_a_type_that_is_none():
    def train(comm, count, dtype):
        if comm.rank == 0:
            return comm.allreduce(ONES.copy(), algorithm="ps:dedicated").tolist()
        comm.serve(count, dtype)
        return None

    assert pycomm.run(train, 2, "threads", (np.int64(4), "float32")) == [[1.0] * 4, None]
    with pytest.raises(UsageError, match="dtype is 'single-ish', needs one of float64"):
        pycomm.run(train, 2, "threads", (4, "single-ish"))
