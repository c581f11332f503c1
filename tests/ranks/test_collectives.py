"""Reduce-scatter, all-gather, broadcast, reduce and all-to-all on real ranks, against results worked out with NumPy."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import pycomm
from pycomm import _core
from pycomm.algorithms import registry
from pycomm.collectives import COLLECTIVES

ROWS = [(name, row.name) for name in COLLECTIVES for row in registry() if name in row.collectives]
OTHERS = [(collective, algorithm) for collective, algorithm in ROWS if collective != "allreduce"]
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"]
ROOTED = ("broadcast", "reduce")
GUARD = 64  # elements on each side that no rank may touch


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def inputs_of(collective, ranks, block, call):
    """What each rank puts in: small whole numbers, exact in every type, also summed over 8 ranks."""
    blocks = ranks if collective in ("reduce_scatter", "alltoall") else 1
    place = np.arange(block * blocks)
    return [(place * (rank + 3) + place // 7 + rank + 5 * call) % 13 for rank in range(ranks)]


def result_of(collective, inputs, rank, root):
    """What a rank gets; None if it gets nothing."""
    ranks = len(inputs)
    if collective == "allgather":
        return np.concatenate(inputs)
    if collective == "broadcast":
        return inputs[root]
    if collective == "alltoall":
        return np.concatenate([np.split(each, ranks)[rank] for each in inputs])
    total = sum(inputs)
    if collective == "reduce_scatter":
        return np.split(total, ranks)[rank]
    return total if rank == root else None


def call(comm, collective, send, receive, root, algorithm):
    """Through the method that users call."""
    if collective == "broadcast":
        return comm.broadcast(send, root, algorithm, receive=receive)
    more = {"root": root} if collective == "reduce" else {}
    return getattr(comm, collective)(send, receive, algorithm=algorithm, **more)


class Memory:
    """An array inside a larger one whose borders hold 99."""

    def __init__(self, comm, count, dtype, symmetric):
        whole = comm.empty(count + 2 * GUARD, dtype) if symmetric else np.empty(count + 2 * GUARD, dtype)
        self.borders = whole[:GUARD], whole[GUARD + count :]
        self.array = whole[GUARD : GUARD + count]
        whole[:] = 99

    @property
    def good(self):
        return all((border == 99).all() for border in self.borders)


def good_apart(comm, collective, algorithm, block, dtype, root, symmetric):
    inputs = inputs_of(collective, comm.ranks, block, 0)
    send = Memory(comm, inputs[0].size, dtype, symmetric)
    receive = Memory(comm, COLLECTIVES[collective].receive_count(block, comm.ranks), dtype, symmetric)
    for turn in range(2):
        inputs = inputs_of(collective, comm.ranks, block, turn)
        send.array[:] = inputs[comm.rank]
        receive.array[:] = 77
        wanted = result_of(collective, inputs, comm.rank, root)
        returned = call(comm, collective, send.array, receive.array, root, algorithm)
        good = returned is (None if wanted is None else receive.array)
        good &= np.array_equal(receive.array, np.full(block, 77) if wanted is None else wanted)
        if not (good and np.array_equal(send.array, inputs[comm.rank]) and send.good and receive.good):
            return False
    return True


def good_in_place(comm, collective, algorithm, block, dtype, root, symmetric):
    facts = COLLECTIVES[collective]
    memory = Memory(comm, facts.total(block, comm.ranks), dtype, symmetric)
    own = slice(comm.rank * block, (comm.rank + 1) * block)
    for turn in range(2):
        inputs = inputs_of(collective, comm.ranks, block, turn)
        wanted = result_of(collective, inputs, comm.rank, root)
        after = memory.array.copy()
        if collective == "allgather":
            memory.array[:] = 77
            memory.array[own] = inputs[comm.rank]
            after[:] = wanted
        else:
            memory.array[:] = 77 if collective == "broadcast" and comm.rank != root else inputs[comm.rank]
            after[:] = memory.array if wanted is None or collective == "reduce_scatter" else wanted
        if collective == "reduce_scatter":
            after[own] = wanted
        returned = call(comm, collective, memory.array, None, root, algorithm)
        good = np.array_equal(memory.array, after) and memory.good
        good &= returned is None if wanted is None else np.array_equal(returned, wanted)
        if not good:
            return False
    return True


def mistakes_of_rank(comm, rows, blocks, dtypes, in_place, symmetric):
    found = []
    for (collective, algorithm), block, dtype in itertools.product(rows, blocks, dtypes):
        for root in {0, comm.ranks - 1} if collective in ROOTED else {0}:
            good = good_in_place if in_place else good_apart
            if not good(comm, collective, algorithm, block, numpy_dtype(dtype), root, symmetric):
                found.append((comm.rank, collective, algorithm, block, dtype, root))
    return found


def mistakes(ranks, transport, *args):
    return list(itertools.chain.from_iterable(pycomm.run(mistakes_of_rank, ranks, transport, args)))


in_place_or_not = pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])


@in_place_or_not
@pytest.mark.parametrize(("transport", "symmetric"), [("threads", True), ("shm", False), ("shm", True)])
@pytest.mark.parametrize("ranks", range(1, 6))
def test_every_algorithm_at_every_block(ranks, transport, symmetric, in_place):
    blocks = [0, 1, 2, 3, 7, 16, 17, 127, 1000, 4099, 70001]
    assert mistakes(ranks, transport, OTHERS, blocks, ["float32"], in_place, symmetric) == []


@in_place_or_not
@pytest.mark.parametrize("symmetric", [False, True], ids=["ordinary", "symmetric"])
def test_every_type(in_place, symmetric):
    assert mistakes(3, "shm", OTHERS, [1, 33, 4099, 70001], DTYPES, in_place, symmetric) == []


@in_place_or_not
@pytest.mark.parametrize("ranks", [2, 4])
def test_many_segments_of_symmetric_buffers(ranks, in_place):
    assert mistakes(ranks, "shm", OTHERS, [300_007], ["float32"], in_place, True) == []


@in_place_or_not
def test_a_large_block_that_nothing_divides(in_place):
    assert mistakes(2, "shm", OTHERS, [1055659], ["int8"], in_place, False) == []


REDUCTIONS = {
    "sum": lambda values: values.sum(0),
    "prod": lambda values: values.prod(0),
    "min": lambda values: values.min(0),
    "max": lambda values: values.max(0),
    "avg": lambda values: np.trunc(values.sum(0) / len(values)),
}


def reduce_with(comm, collective, algorithm, op, dtype, values, root):
    send = values[comm.rank].astype(numpy_dtype(dtype))
    if collective == "reduce":
        return comm.reduce(send, np.empty_like(send), op=op, root=root, algorithm=algorithm)
    return comm.reduce_scatter(send, np.empty(send.size // comm.ranks, send.dtype), op=op, algorithm=algorithm)


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize(("collective", "algorithm"), [row for row in OTHERS if row[0] in ("reduce", "reduce_scatter")])
def test_every_op_of_every_type(collective, algorithm, op):
    ranks, root = 3, 1
    values = np.random.default_rng(7).integers(1, 5, (ranks, 3 * 367))
    for dtype in DTYPES:
        total = REDUCTIONS[op](values)
        if op == "avg" and dtype not in ("int64", "int32", "int8", "uint8"):
            working = np.float64 if dtype == "float64" else np.float32
            total = (values.sum(0).astype(working) / working(ranks)).astype(numpy_dtype(dtype)).astype(np.float64)
        results = pycomm.run(reduce_with, ranks, "threads", (collective, algorithm, op, dtype, values, root))
        if collective == "reduce":
            assert results[0] is None
            assert results[2] is None
            assert np.array_equal(results[root].astype(np.float64), total)
        else:
            assert np.array_equal(np.concatenate(results).astype(np.float64), total)


# Buffers that are passed in other ways.


def two_arrays_that_lie_in_place(comm):
    whole = np.full(4 * comm.ranks, comm.rank + 1, np.float32)
    mine = whole[4 * comm.rank : 4 * comm.rank + 4]
    total = comm.ranks * (comm.ranks + 1) / 2
    assert comm.reduce_scatter(whole, mine, algorithm="ring") is mine
    assert (mine == total).all()
    mine[:] = comm.rank
    assert comm.allgather(mine, whole, algorithm="ring") is whole
    assert (whole.reshape(comm.ranks, 4) == np.arange(comm.ranks)[:, None]).all()
    return True


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_block_of_the_other_array_is_in_place(ranks):
    assert all(pycomm.run(two_arrays_that_lie_in_place, ranks))


def only_the_root_has_both(comm, root, symmetric):
    mine = comm.rank == root
    send = comm.empty(3) if symmetric else np.empty(3, np.float32)
    send[:] = comm.rank + 1
    # The root's output of a reduce may lie anywhere; the others need none.
    total = comm.reduce(send, np.empty(3, np.float32) if mine else None, root=root)
    assert (total == 6).all() if mine else total is None
    # In place at the root, and the others cannot know.
    assert (comm.reduce(send.copy(), root=root) is None) != mine
    received = comm.broadcast(send if mine else None, root, receive=np.empty(3, np.float32))
    assert (received == root + 1).all()
    return True


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("root", [0, 2])
def test_ranks_other_than_the_root_need_not_pass_what_they_do_not_use(root, symmetric):
    assert all(pycomm.run(only_the_root_has_both, 3, args=(root, symmetric)))


@pytest.mark.parametrize(("collective", "algorithm"), [row for row in OTHERS if row[0] == "reduce"])
@pytest.mark.parametrize("segments", [1, 5])
def test_what_other_ranks_do_in_a_reduce_is_the_same_in_place_and_out_of_place(collective, algorithm, segments):
    """The engine relies on it: they do not know which it is."""
    for ranks, root in ((2, 0), (5, 3), (8, 0)):
        apart, together = (
            _core.build_schedule(algorithm, collective, ranks, segments, 4, in_place, root, {})
            for in_place in (False, True)
        )
        for rank in set(range(ranks)) - {root}:
            assert apart.lanes(rank) == together.lanes(rank)
            for body in range(apart.bodies(rank)):
                texts = [[step.text for step in each.body(rank, body)] for each in (apart, together)]
                assert texts[0] == texts[1]


def arrays_of_two_dimensions(comm):
    blocks = np.arange(6, dtype=np.int32).reshape(2, 3) + 10 * comm.rank
    return comm.alltoall(blocks, np.empty_like(blocks)).tolist(), comm.allgather(blocks[1], np.empty_like(blocks))[0, 0]


def test_arrays_may_have_any_shape():
    assert pycomm.run(arrays_of_two_dimensions, 2) == [
        ([[0, 1, 2], [10, 11, 12]], 3), ([[3, 4, 5], [13, 14, 15]], 3),
    ]  # fmt: skip


def prepared_runs_again(comm):
    send, block = np.full(2 * comm.ranks, 1.0), np.zeros(2)
    step = comm.prepare_reduce_scatter(send, block, algorithm="mesh")
    everywhere = comm.prepare_allgather(block, np.zeros(2 * comm.ranks), algorithm="ring")
    for value in (1.0, 5.0):
        send[:] = value
        step.run()
        everywhere.run()
        assert (everywhere.native.buffers.receive == value * comm.ranks).all()
    pieces = np.arange(comm.ranks, dtype=np.int64) + 10 * comm.rank
    operations = [
        comm.prepare_broadcast(np.full(3, comm.rank), comm.ranks - 1),
        comm.prepare_reduce(np.full(3, 2), op="prod", root=1),
        comm.prepare_alltoall(pieces),
    ]
    for operation in operations:
        operation.run()
    assert (operations[0].native.buffers.receive == comm.ranks - 1).all()
    assert comm.rank != 1 or (operations[1].native.buffers.receive == 2**comm.ranks).all()
    assert pieces.tolist() == [10 * peer + comm.rank for peer in range(comm.ranks)]
    return [operation.algorithm for operation in operations]


def test_prepared_operations_run_again_and_again():
    assert pycomm.run(prepared_runs_again, 3) == [["mesh", "mesh", "mesh"]] * 3


def algorithms_of_auto(comm, block, symmetric):
    def array(count):
        return comm.empty(count) if symmetric else np.empty(count, np.float32)

    block, whole = array(block), array(block * comm.ranks)
    return [
        comm.prepare_reduce_scatter(whole, block).algorithm,
        comm.prepare_allgather(block, whole).algorithm,
        comm.prepare_broadcast(whole).algorithm,
    ]


@pytest.mark.parametrize(
    ("block", "symmetric", "algorithms"),
    [
        (100, False, ["mesh", "mesh", "mesh"]),
        (1 << 17, False, ["mesh", "mesh", "mesh"]),  # 1 MiB of both blocks
        ((1 << 17) + 1, False, ["ring", "ring", "ring"]),
        ((1 << 17) + 1, True, ["mesh", "mesh", "mesh"]),
    ],
)
def test_auto_takes_an_algorithm_by_the_size_of_the_whole_and_the_buffers(block, symmetric, algorithms):
    assert pycomm.run(algorithms_of_auto, 2, args=(block, symmetric)) == [algorithms] * 2


# What is refused, before any message: a collective afterwards works.


def refuses(function, message):
    def rank(comm):
        with pytest.raises(pycomm.UsageError, match=message):
            function(comm)
        return comm.allreduce(np.ones(3, np.float32))[0]

    assert pycomm.run(rank, ranks=2, transport="threads") == [2.0, 2.0]


FIVE, FOUR, TWO = np.zeros(5, np.float32), np.zeros(4, np.float32), np.zeros(2, np.float32)
FROZEN = np.zeros(4, np.float32)
FROZEN.flags.writeable = False


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda comm: comm.reduce_scatter(FIVE, TWO), "of 2: reduce_scatter: send has 5 elements, needs a multiple of"),
        (lambda comm: comm.reduce_scatter(FIVE), "send has 5 elements, needs a multiple of the 2 ranks"),
        (lambda comm: comm.reduce_scatter(FOUR, FIVE), "receive has 20 bytes, needs 16 / 2"),
        (lambda comm: comm.allgather(FOUR, FIVE), "allgather: receive has 20 bytes, needs 2 × 16"),
        (lambda comm: comm.allgather(FIVE), "send has 5 elements, needs a multiple of the 2 ranks"),
        (lambda comm: comm.alltoall(FIVE), "send has 5 elements"),
        (lambda comm: comm.alltoall(FIVE, FIVE.copy()), "send has 5 elements"),
        (lambda comm: comm.alltoall(FOUR, TWO), "receive has 8 bytes, needs 16 as send has"),
        (lambda comm: comm.allgather(TWO, FOUR.astype(np.int32)), "receive has dtype int32, needs float32"),
        (lambda comm: comm.broadcast(FOUR, root=2), "broadcast: root is 2, needs a rank, 0 to 1"),
        (lambda comm: comm.broadcast(FOUR, root=-1), "root is -1"),
        (lambda comm: comm.reduce(FOUR, root=True), "reduce: root is True"),
        (lambda comm: comm.reduce(FOUR, root="0"), "root is '0'"),
        (lambda comm: comm.reduce(FOUR, op="mean"), "op is 'mean'"),
        (lambda comm: comm.broadcast(FOUR, algorithm="double-tree"), "double-tree: has no broadcast"),
        (lambda comm: comm.broadcast([1, 2]), "buffer is a list, needs a NumPy array"),
        (lambda comm: comm.broadcast(None), "buffer is a NoneType"),
        (lambda comm: comm.broadcast(FROZEN), "broadcast: buffer is read-only"),
        (lambda comm: comm.broadcast(np.zeros((4, 2))[:, 0]), "buffer has strides"),
        (lambda comm: comm.allgather(TWO, FROZEN), "receive is read-only"),
        (lambda comm: comm.allgather(FROZEN), "send is read-only"),
        (lambda comm: comm.allgather(np.zeros(2, "S1")), "has dtype"),
        (lambda comm: comm.alltoall((whole := np.zeros(6))[:4], whole[2:]), "overlap in part: one needs to be one arr"),
        (
            lambda comm: comm.allgather((whole := np.zeros(4))[2 - 2 * comm.rank :][:2], whole),
            "overlap in part: one needs to be block [01] of the other",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_before_any_message(function, message):
    refuses(function, message)


def different_roots(comm):
    comm.broadcast(np.zeros(4), root=comm.rank // 2)


def test_ranks_that_name_different_roots_are_told_both():
    with pytest.raises(pycomm.TransportError, match="the ranks call different collectives") as told:
        pycomm.run(different_roots, 3)
    assert "root 0" in str(told.value)
    assert "root 1" in str(told.value)


def test_what_is_printed_of_a_communicator_and_an_operation_says_what_they_are():
    def shown(comm):
        operation = comm.prepare_reduce_scatter(np.zeros(6, np.float32), algorithm="ring")
        servers = comm.prepare_allreduce(np.zeros(6), algorithm="ps:servers=2")
        return repr(comm), repr(operation), repr(servers)

    assert pycomm.run(shown, ranks=2, transport="threads")[1] == (
        "<Communicator: rank 1 of 2, transport threads>",
        "<Operation: reduce_scatter of 6 float32, ring>",
        "<Operation: allreduce of 6 float64, ps (servers=2)>",
    )
