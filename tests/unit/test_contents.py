"""What the verification of each collective holds its buffers to, and that it shows planted faults."""

import numpy as np
import pytest

from pycomm.buffers import DTYPES
from pycomm.collectives import COLLECTIVES
from pycomm.measure.contents import Call, count_wrong_elements, fill_pieces, make_contents
from pycomm.measure.elements import bits_of, element_type
from pycomm.measure.pattern import make_walk
from pycomm.measure.verify import allocate_buffers, allocate_ordinary, count_wrong

NAMES = list(COLLECTIVES)
SHORT = 2039  # a prime: the tests' period, so that they are quick
every_collective = pytest.mark.parametrize("collective", NAMES)


def array_of(pieces, dtype):
    array = np.empty(sum(piece.count for piece in pieces), element_type(dtype))
    fill_pieces(array, pieces)
    return array


def case_of(collective, dtype="float32", ranks=4, block=64, root=0):
    return Call(collective, dtype, "sum" if COLLECTIVES[collective].reduces else "", ranks, block, root)


def inputs_of(case, period=SHORT):
    return [array_of(make_contents(case, rank, period, False).send, case.dtype) for rank in range(case.ranks)]


def result_of(case, inputs, rank):
    """By NumPy; None where the rank gets nothing."""
    if case.collective == "allgather":
        return np.concatenate(inputs)
    if case.collective == "broadcast":
        return inputs[case.root]
    if case.collective == "alltoall":
        return np.concatenate([np.split(each, case.ranks)[rank] for each in inputs])
    total = sum(each.astype(np.float64) for each in inputs).astype(inputs[0].dtype)
    if case.collective == "reduce_scatter":
        return np.split(total, case.ranks)[rank]
    return total if case.collective == "allreduce" or rank == case.root else None


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", DTYPES)
@every_collective
def test_what_must_come_out_is_what_numpy_makes_of_what_goes_in(collective, dtype, ranks):
    for block in (0, 1, 5, 64, 5000):
        case = case_of(collective, dtype, ranks, block, root=ranks - 1)
        inputs = inputs_of(case)
        assert all(each.size == COLLECTIVES[collective].send_count(block, ranks) for each in inputs)
        for rank in range(ranks):
            contents, wanted = make_contents(case, rank, SHORT, False), result_of(case, inputs, rank)
            before, after = array_of(contents.before, dtype), array_of(contents.after, dtype)
            if wanted is None:
                assert np.array_equal(bits_of(before), bits_of(after))
            else:
                assert np.array_equal(bits_of(after), bits_of(wanted))
                assert not np.any(bits_of(before) == bits_of(after))  # what is never written is wrong everywhere


@pytest.mark.parametrize("ranks", [1, 2, 5])
@every_collective
def test_in_place_one_memory_holds_the_input_before_and_the_result_after(collective, ranks):
    for block in (0, 1, 5, 64, 5000):
        case = case_of(collective, "int32", ranks, block, root=ranks - 1)
        inputs = inputs_of(case)
        for rank in range(ranks):
            contents, wanted = make_contents(case, rank, SHORT, True), result_of(case, inputs, rank)
            before, after = array_of(contents.before, "int32"), array_of(contents.after, "int32")
            own = slice(rank * block, (rank + 1) * block)
            assert contents.send is None
            assert before.size == after.size == COLLECTIVES[collective].total(block, ranks)
            if collective == "allgather":
                assert np.array_equal(before[own], inputs[rank])
                assert np.array_equal(after, wanted)
                assert np.count_nonzero(before == after) == block
            elif collective == "broadcast":
                assert np.array_equal(after, wanted)
                assert np.array_equal(before, after) if rank == case.root else not np.any(before == after)
            else:
                assert np.array_equal(before, inputs[rank])
                if collective == "reduce_scatter":  # only this rank's block changes
                    before[own] = wanted
                    wanted = before
                assert np.array_equal(after, inputs[rank] if wanted is None else wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_moved_elements_differ_from_their_neighbours_and_the_first_251_from_each_other(dtype):
    walk = bits_of(make_walk(dtype, SHORT))
    assert np.count_nonzero(walk == np.roll(walk, 1)) == 0
    assert len(set(walk[:251].tolist())) == 251
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([walk, walk[:15]]), 16)
    assert len({window.tobytes() for window in windows}) == SHORT


# Planted faults: what a rank gets instead of the right result, made from what all ranks put in.


def swapped(right, case, inputs, rank):
    chunk = max(1, right.size // 4)
    wrong = right.copy()
    wrong[:chunk], wrong[chunk : 2 * chunk] = right[chunk : 2 * chunk], right[:chunk]
    return wrong


def repeated(right, case, inputs, rank):
    chunk = max(1, right.size // 4)
    wrong = right.copy()
    wrong[2 * chunk : 3 * chunk] = right[:chunk]
    return wrong


def one_element(right, case, inputs, rank):
    wrong = right.copy()
    bits_of(wrong)[-1] ^= 1
    return wrong


def from_the_next_rank(right, case, inputs, rank):
    """What another rank should get, or as if another were the root."""
    turned = inputs[1:] + inputs[:1] if case.collective in ("broadcast", "allgather") else inputs
    return result_of(case, turned, (rank + 1) % case.ranks if case.collective != "reduce" else rank)


def without_a_rank(right, case, inputs, rank):
    zeros = np.zeros_like(inputs[0])
    return result_of(case, [*inputs[:1], zeros, *inputs[2:]], rank)


def a_rank_twice(right, case, inputs, rank):
    return result_of(case, [*inputs[:1], inputs[2], *inputs[2:]], rank)


def inputs_shifted(right, case, inputs, rank):
    return result_of(case, [np.roll(each, 1) for each in inputs], rank)


FAULTS = [
    *((name, fault) for name in NAMES for fault in (swapped, repeated, one_element, inputs_shifted)),
    *((name, fault) for name in NAMES if name not in ("broadcast",) for fault in (without_a_rank, a_rank_twice)),
    *((name, from_the_next_rank) for name in ("reduce_scatter", "allgather", "broadcast", "alltoall")),
]


def wrong_after(fault, case, rank, in_place):
    """Verify a call that leaves what `fault` makes of the right result."""
    facts = COLLECTIVES[case.collective]
    contents = make_contents(case, rank, SHORT, in_place)
    counts = facts.send_count(case.block, case.ranks), facts.receive_count(case.block, case.ranks)
    buffers = allocate_buffers(*counts, case.dtype, in_place, allocate_ordinary)
    inputs = inputs_of(case)
    right = result_of(case, inputs, rank)
    result = buffers.receive.inner
    if in_place and case.collective == "reduce_scatter":
        result = result[rank * case.block : (rank + 1) * case.block]

    def run():
        if right is not None:
            result[:] = right if fault is None else fault(right, case, inputs, rank)

    return count_wrong(run, buffers, contents)


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@every_collective
def test_a_right_call_has_nothing_wrong(collective, in_place):
    for ranks, block in ((1, 1), (2, 1), (3, 64), (4, 3000)):
        for rank in range(ranks):
            assert wrong_after(None, case_of(collective, "bfloat16", ranks, block, ranks - 1), rank, in_place) == 0


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
@pytest.mark.parametrize(("collective", "fault"), FAULTS)
def test_a_planted_fault_shows(collective, fault, dtype, in_place):
    for block in (16, 100, 6000):
        case = case_of(collective, dtype, 4, block, root=0)
        for rank in (0, 2) if collective != "reduce" else (0,):
            wrong = wrong_after(fault, case, rank, in_place)
            assert wrong == 1 if fault is one_element else wrong > block // 8


@pytest.mark.parametrize("collective", ["allgather", "alltoall", "broadcast"])
def test_even_blocks_of_one_element_show_where_they_come_from(collective):
    for ranks in (2, 3, 8):
        case = case_of(collective, "int8", ranks, block=1)
        inputs = inputs_of(case)
        everything = np.concatenate(inputs).tolist()
        assert len(set(everything)) == len(everything)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_rank_that_is_not_the_root_of_a_reduce_keeps_its_buffers(in_place):
    case = case_of("reduce", block=100, root=3)
    buffers = allocate_buffers(100, 100, "float32", in_place, allocate_ordinary)
    total = sum(inputs_of(case))

    def writes():
        buffers.receive.inner[:] = total

    assert count_wrong(lambda: None, buffers, make_contents(case, 1, SHORT, in_place)) == 0
    assert count_wrong(writes, buffers, make_contents(case, 1, SHORT, in_place)) > 90


def test_in_place_the_blocks_of_a_reduce_scatter_that_are_not_the_ranks_own_must_stay():
    case = case_of("reduce_scatter", "float32", 4, 10)
    contents = make_contents(case, 1, SHORT, True)
    buffers = allocate_buffers(40, 10, "float32", True, allocate_ordinary)
    own = array_of(contents.after, "float32")[10:20]

    def leaves_it_first_too():  # as MPI does
        buffers.receive.inner[10:20] = own
        buffers.receive.inner[:10] = own

    assert 0 < count_wrong(leaves_it_first_too, buffers, contents) <= 10


def test_pieces_are_counted_where_they_begin():
    walk = make_walk("float32", SHORT)
    contents = make_contents(case_of("allgather", ranks=3, block=5000), 0, SHORT, False)
    array = array_of(contents.after, "float32")
    assert [array[place] for place in (0, 4999, 5000, 14999)] == [
        walk[place % SHORT] for place in (0, 4999, 5000, 14999)
    ]
    array[[3, 5001, 14998]] += 1
    assert count_wrong_elements(array, contents.after) == 3
