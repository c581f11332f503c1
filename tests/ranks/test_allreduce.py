"""All-reduce on real ranks: every algorithm of the registry, against sums worked out with NumPy."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import pycomm
from pycomm.algorithms import registry

ALGORITHMS = [row.name for row in registry()] + ["ps:servers=2"]
COUNTS = [0, 1, 2, 3, 7, 16, 17, 127, 1000, 4099, 70001]
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"]
GUARD = 64  # elements on each side that no rank may touch


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def applies(algorithm, ranks):
    return not algorithm.startswith("ps:servers=") or int(algorithm[len("ps:servers=") :]) <= ranks


def contribution(rank, count, dtype):
    """Small whole numbers: exact in every type, also summed over 8 ranks. Neighbours and ranks differ."""
    return ((np.arange(count) * (rank + 3) + rank) % 13).astype(dtype)


def guarded(count, dtype, shift_bytes=0):
    """An array inside a larger one whose borders hold 99."""
    raw = np.empty((count + 2 * GUARD + 1) * dtype.itemsize, np.uint8)
    whole = raw[shift_bytes : shift_bytes + (count + 2 * GUARD) * dtype.itemsize].view(dtype)
    whole[:] = 99
    return whole, whole[GUARD : GUARD + count]


def mistakes_of_rank(comm, algorithms, counts, dtypes, in_place, shift_bytes):
    """Every case of one rank whose result, input or guard is not what it should be."""
    found = []
    for dtype, count in itertools.product(map(numpy_dtype, dtypes), counts):
        own = contribution(comm.rank, count, dtype)
        expected = sum(contribution(rank, count, dtype).astype(np.int64) for rank in range(comm.ranks))
        send_whole, send = guarded(count, dtype, shift_bytes % dtype.itemsize)
        receive_whole, receive = guarded(count, dtype, (shift_bytes * 3) % dtype.itemsize)
        if in_place:
            receive_whole, receive = send_whole, send
        for algorithm in filter(lambda name: applies(name, comm.ranks), algorithms):
            send[:] = own
            comm.allreduce(send, receive, algorithm=algorithm)
            good = np.array_equal(receive, expected) and (in_place or np.array_equal(send, own))
            for whole in (send_whole, receive_whole):
                good &= bool((whole[:GUARD] == 99).all() and (whole[GUARD + count :] == 99).all())
            if not good:
                found.append((comm.rank, algorithm, str(dtype), count))
            if not in_place:
                receive[:] = 99
    return found


def mistakes(ranks, transport, *args):
    return list(itertools.chain.from_iterable(pycomm.run(mistakes_of_rank, ranks, transport, args)))


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("transport", ["threads", "shm"])
@pytest.mark.parametrize("ranks", range(1, 9))
def test_every_algorithm_sums_every_count(ranks, transport, in_place):
    assert mistakes(ranks, transport, ALGORITHMS, COUNTS, ["float32"], in_place, 0) == []


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_every_type_and_misaligned_arrays(ranks, in_place):
    assert mistakes(ranks, "shm", ALGORITHMS, [1, 33, 4099, 70001], DTYPES, in_place, 1) == []


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_large_count_that_nothing_divides(ranks):
    assert mistakes(ranks, "shm", ALGORITHMS, [10556587], ["int8"], False, 0) == []
    assert mistakes(ranks, "shm", ["ring"], [10556587], ["float32"], True, 0) == []


def symmetric_mistakes(comm, algorithms, counts, in_place):
    found = []
    for count in counts:
        inputs = [[contribution(rank + call, count, np.float32) for rank in range(comm.ranks)] for call in range(3)]
        expected = [sum(of_ranks) for of_ranks in inputs]
        send = comm.empty(count, "float32")
        receive = send if in_place else comm.empty(count, "float32")
        for algorithm in filter(lambda name: applies(name, comm.ranks), algorithms):
            for call in range(3):  # the buffers are written anew between calls
                send[:] = inputs[call][comm.rank]
                if not in_place:
                    receive[:] = -1
                comm.allreduce(send, receive, algorithm=algorithm)
                if not np.array_equal(receive, expected[call]):
                    found.append((comm.rank, algorithm, count, call))
    return found


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7, 8])
def test_symmetric_buffers_are_reduced_where_they_lie(ranks, in_place):
    args = (ALGORITHMS, [0, 1, 15, 4099, 70001, 300_000], in_place)
    assert list(itertools.chain.from_iterable(pycomm.run(symmetric_mistakes, ranks, args=args))) == []


def reduce_with(comm, op, dtype, values, algorithm):
    send = values[comm.rank].astype(numpy_dtype(dtype))
    return comm.allreduce(send, np.empty_like(send), op=op, algorithm=algorithm)


OPS = {
    "sum": lambda values: values.sum(0),
    "prod": lambda values: values.prod(0),
    "min": lambda values: values.min(0),
    "max": lambda values: values.max(0),
    "avg": lambda values: np.trunc(values.sum(0) / len(values)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_op_of_every_type(algorithm, op, dtype):
    ranks = 3
    values = np.random.default_rng(7).integers(1, 5, (ranks, 1001))
    expected = OPS[op](values)
    if op == "avg" and dtype not in ("int64", "int32", "int8", "uint8"):
        working = np.float64 if dtype == "float64" else np.float32
        expected = (values.sum(0).astype(working) / working(ranks)).astype(numpy_dtype(dtype)).astype(np.float64)
    for result in pycomm.run(reduce_with, ranks, "threads", (op, dtype, values, algorithm)):
        assert np.array_equal(result.astype(np.float64), expected)


def rounded_sum(values, order):
    """Summed pairwise in that order of ranks, rounded to the type after each addition."""
    total = values[order[0]]
    for rank in order[1:]:
        total = (total.astype(np.float32) + values[rank].astype(np.float32)).astype(total.dtype)
    return total


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_ring_rounds_at_each_hop_in_the_order_of_the_ring(dtype):
    ranks, count = 4, 4 * 4096
    values = np.random.default_rng(3).normal(size=(ranks, count)).astype(numpy_dtype(dtype))
    # Chunk c starts at the rank after c and ends at rank c.
    expected = np.concatenate(
        [
            rounded_sum(
                [part[c * 4096 : (c + 1) * 4096] for part in values], [(c + 1 + hop) % ranks for hop in range(ranks)]
            )
            for c in range(ranks)
        ]
    )
    for result in pycomm.run(reduce_with, ranks, "shm", ("sum", dtype, values, "ring")):
        assert np.array_equal(result.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_mesh_rounds_once_in_the_order_of_the_ranks(dtype):
    ranks = 5
    values = np.random.default_rng(4).normal(size=(ranks, 5003)).astype(numpy_dtype(dtype))
    total = values[0].astype(np.float32)
    for rank in range(1, ranks):
        total = total + values[rank].astype(np.float32)
    expected = total.astype(numpy_dtype(dtype))
    for result in pycomm.run(reduce_with, ranks, "shm", ("sum", dtype, values, "mesh")):
        assert np.array_equal(result.view(np.uint8), expected.view(np.uint8))


def serve_or_work(comm, servers, count):
    algorithm = f"ps:servers={servers},dedicated"
    if comm.rank >= comm.ranks - servers:
        comm.serve(count, "float32", op="avg", algorithm=algorithm)
        return None
    return comm.allreduce(contribution(comm.rank, count, np.float32), op="avg", algorithm=algorithm)


@pytest.mark.parametrize(("ranks", "servers"), [(2, 1), (3, 1), (5, 2), (7, 3)])
def test_dedicated_servers_average_over_the_workers_alone(ranks, servers):
    count, workers = 10007, ranks - servers
    expected = sum(contribution(rank, count, np.float32) for rank in range(workers)) / np.float32(workers)
    results = pycomm.run(serve_or_work, ranks, args=(servers, count))
    assert results[workers:] == [None] * servers
    for result in results[:workers]:
        assert np.array_equal(result, expected)


def algorithm_of_auto(comm, count, symmetric):
    send = comm.empty(count) if symmetric else np.empty(count, np.float32)
    send[:] = comm.rank + 1
    receive = comm.empty(count) if symmetric else np.empty(count, np.float32)
    operation = comm.prepare_allreduce(send, receive, algorithm="auto")
    operation.run()
    assert (receive == comm.ranks * (comm.ranks + 1) / 2).all()
    return operation.algorithm


@pytest.mark.parametrize(
    ("ranks", "count", "symmetric", "algorithm"),
    [
        (2, 1, False, "mesh"),
        (2, 1 << 14, False, "mesh"),
        (2, (1 << 14) + 1, True, "direct"),
        (3, 1024, True, "mesh"),
        (9, 1024, False, "recursive-doubling"),
        (3, 1025, False, "direct"),
        (2, (1 << 18) + 1, False, "ring"),
        (2, (1 << 18) + 1, True, "direct"),
    ],
)
def test_auto_takes_the_algorithm_for_the_size_and_the_buffers(ranks, count, symmetric, algorithm):
    assert pycomm.run(algorithm_of_auto, ranks, args=(count, symmetric)) == [algorithm] * ranks
