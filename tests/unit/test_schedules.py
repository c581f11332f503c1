"""What a schedule costs, against closed forms worked out by hand, and how it is drawn."""

import itertools
import math
import xml.etree.ElementTree

import pytest

import pycomm
from pycomm import UsageError
from pycomm.schedules import schedule

MIB = 1 << 20  # divides by every power of two used here, so that chunks are equal


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 64])
@pytest.mark.parametrize(
    ("name", "bytes_each", "rounds"),
    [
        # n = 1 MiB, p ranks: FORMULAS "All-reduce costs"
        ("ring", lambda p: 2 * MIB * (p - 1) // p, lambda p: 2 * (p - 1)),
        ("tree", lambda p: int(math.log2(p)) * MIB, lambda p: 2 * int(math.log2(p))),  # the root's
        ("recursive-doubling", lambda p: int(math.log2(p)) * MIB, lambda p: int(math.log2(p))),
        ("mesh", lambda p: (p - 1) * MIB, lambda p: 1),
        ("direct", lambda p: 2 * MIB * (p - 1) // p, lambda p: 2),
        ("ps", lambda p: (p - 1) * MIB, lambda p: 2),
    ],
)
def test_bytes_of_the_busiest_rank_and_rounds_are_the_closed_forms(name, bytes_each, rounds, ranks):
    counted = schedule(name, ranks=ranks)
    assert counted.wire_bytes(MIB) == bytes_each(ranks)
    assert counted.verify().depth == rounds(ranks)


@pytest.mark.parametrize(("ranks", "servers"), [(4, 1), (4, 2), (8, 2), (8, 4), (16, 8)])
def test_shared_servers_move_p_plus_k_minus_2_kths_of_the_buffer(ranks, servers):
    counted = schedule("ps", ranks=ranks, servers=servers)
    assert counted.wire_bytes(MIB) == (ranks + servers - 2) * MIB // servers
    sent, received = counted.traffic(MIB)
    assert sent[0] == received[0] == (ranks + servers - 2) * MIB // servers  # rank 0 serves
    assert sent[-1] == received[-1] == MIB  # the last rank only works


@pytest.mark.parametrize(("ranks", "servers"), [(3, 1), (6, 2), (12, 4)])
def test_a_dedicated_server_moves_w_kths_of_the_buffer_and_a_worker_all_of_it(ranks, servers):
    counted = schedule("ps:dedicated", ranks=ranks, servers=servers)
    workers = ranks - servers
    sent, received = counted.traffic(MIB)
    assert sent == received == [MIB] * workers + [workers * MIB // servers] * servers
    assert counted.wire_bytes(MIB) == max(MIB, workers * MIB // servers)


def test_chunks_of_unequal_size_are_counted_as_they_are():
    # 100 floats on 3 ranks: 34 each, up to a cache line of 16: 48, 48 and 4, which are 192, 192 and 16 bytes.
    # The ring: rank r sends every chunk twice but r and r + 1, which it sends once.
    counted = schedule("ring", ranks=3)
    sent, received = counted.traffic(400)
    assert sent == [800 - 192 - 192, 800 - 192 - 16, 800 - 16 - 192]
    assert received == [sent[2], sent[0], sent[1]]
    assert counted.wire_bytes(400) == 592


@pytest.mark.parametrize("segments", [2, 3, 5])
def test_cutting_chunks_into_segments_leaves_the_bytes_and_multiplies_the_messages(segments):
    whole, cut = schedule("ring", ranks=5), schedule("ring", ranks=5, segments=segments)
    for count in (0, 1, 7, 250, 10556587):
        assert cut.traffic(4 * count) == whole.traffic(4 * count)
    assert len(cut.messages) == segments * len(whole.messages) == segments * 5 * 8


@pytest.mark.parametrize(
    ("name", "collective", "ranks", "bytes_each", "rounds"),
    [
        ("ring", "reduce_scatter", 8, 7 * MIB // 8, 7),
        ("ring", "allgather", 8, 7 * MIB // 8, 7),
        ("ring", "broadcast", 8, MIB, 7),
        ("tree", "broadcast", 8, 3 * MIB, 3),
        ("tree", "reduce", 8, 3 * MIB, 3),
        ("mesh", "reduce_scatter", 8, 7 * MIB // 8, 1),
        ("mesh", "allgather", 8, 7 * MIB // 8, 1),
        ("mesh", "alltoall", 8, 7 * MIB // 8, 1),
        ("mesh", "broadcast", 8, 7 * MIB, 1),
        ("mesh", "reduce", 8, 7 * MIB, 1),
        ("direct", "broadcast", 8, 2 * 7 * MIB // 8, 2),  # the root's, which gives out chunks and its own
        ("direct", "reduce", 8, 2 * 7 * MIB // 8, 2),  # the root's, which sums one chunk and takes the others
    ],
)
def test_bytes_and_rounds_of_the_other_collectives(name, collective, ranks, bytes_each, rounds):
    counted = schedule(name, ranks=ranks, collective=collective)
    assert counted.wire_bytes(MIB) == bytes_each
    assert counted.verify().depth == rounds


def test_double_tree_moves_twice_the_buffer_whatever_the_ranks():
    # Inside one tree a rank has at most two children and a parent for its half, and in the other it is a leaf:
    # (2 + 1 + 1) halves sent and received at most. A rank of two has half of that.
    assert schedule("double-tree", ranks=2).wire_bytes(MIB) == MIB
    for ranks in (3, 4, 5, 8, 13, 64):
        assert schedule("double-tree", ranks=ranks).wire_bytes(MIB) <= 2 * MIB
    assert schedule("double-tree", ranks=64).wire_bytes(MIB) == 2 * MIB


def test_one_rank_sends_nothing():
    for name in ("ring", "tree", "ps", "mesh", "direct", "double-tree", "recursive-doubling"):
        alone = schedule(name, ranks=1)
        assert alone.wire_bytes(MIB) == 0
        assert alone.messages == ()


def test_temporary_memory_is_what_is_needed():
    def tmp(name: str, **world: object) -> int:
        return schedule(name, **world)._native.tmp_chunks  # type: ignore[arg-type]

    for in_place in (False, True):
        assert tmp("ring", ranks=5, in_place=in_place) == 0
        assert tmp("tree", ranks=5, in_place=in_place) == 0
        assert tmp("direct", ranks=5, in_place=in_place) == 0
        assert tmp("ps", ranks=5, servers=2, in_place=in_place) == 0
        assert tmp("ps:dedicated", ranks=5, in_place=in_place) == 1
        assert tmp("ring", ranks=5, in_place=in_place, collective="reduce_scatter") == 2
        assert tmp("tree", ranks=5, in_place=in_place, collective="reduce") == 1
        assert tmp("direct", ranks=5, in_place=in_place, collective="reduce") == 1
        assert tmp("mesh", ranks=5, in_place=in_place, collective="reduce") == 0
    assert tmp("mesh", ranks=5) == 0
    assert tmp("mesh", ranks=5, in_place=True) == 1


# ---- sends rotate ----


@pytest.mark.parametrize("name", ["mesh", "direct", "ps:servers=6"])
def test_sends_rotate_so_that_no_rank_is_hit_by_all_at_once(name):
    """The k-th messages of all ranks go to different ranks."""
    native = schedule(name, ranks=6)._native
    targets = [[step.peer for step in native.body(rank, 0) if step.action == "send"] for rank in range(6)]
    for turn in range(len(targets[0])):
        assert len({sends[turn] for sends in targets}) == 6


# ---- pictures ----


def test_the_text_says_who_sends_what_when():
    lines = schedule("ring", ranks=3).text().splitlines()
    assert lines[0] == "ring, 3 ranks, all-reduce, out of place, 1 segment"
    assert lines[1] == "12 messages in 4 rounds"
    assert [line.split() for line in lines[3:9] if "─" not in line] == [
        ["round", "rank", "0", "rank", "1", "rank", "2"],
        ["1", "+2", "→", "1", "+0", "→", "2", "+1", "→", "0"],
        ["2", "+1", "→", "1", "+2", "→", "2", "+0", "→", "0"],
        ["3", "=0", "→", "1", "=1", "→", "2", "=2", "→", "0"],
        ["4", "=2", "→", "1", "=0", "→", "2", "=1", "→", "0"],
    ]
    assert "    1  combine out[1] = in[1] + rank 2" in lines


def test_the_text_lists_messages_where_ranks_are_too_many_for_a_table():
    lines = schedule("tree", ranks=40).text().splitlines()
    assert "round 1" in lines
    assert "    39  +all → 38" in lines


@pytest.mark.parametrize(("name", "ranks"), [("ring", 4), ("ps:servers=2,dedicated", 6), ("mesh", 5), ("tree", 13)])
def test_the_diagram_has_a_line_for_each_rank_and_an_arrow_for_each_message(name, ranks):
    drawn = schedule(name, ranks=ranks)
    root = xml.etree.ElementTree.fromstring(drawn.svg())
    lines = root.findall("{http://www.w3.org/2000/svg}line")
    arrows = [line for line in lines if "marker-end" in line.attrib]
    assert len(lines) - len(arrows) == ranks
    assert len(arrows) == len(drawn.messages)
    assert sum("stroke-dasharray" not in arrow.attrib for arrow in arrows) == sum(m.adds for m in drawn.messages)


def test_the_arrows_of_a_rank_s_messages_in_one_round_leave_room_for_their_numbers():
    drawn = schedule("ps", ranks=6, segments=3)  # the server answers five ranks, three segments each
    root = xml.etree.ElementTree.fromstring(drawn.svg())
    lines = root.findall("{http://www.w3.org/2000/svg}line")
    arrows = [(float(line.get("x1")), float(line.get("y1"))) for line in lines if "marker-end" in line.attrib]
    answers = [y for x, y in arrows if x == min(arrows)[0]]
    assert len(answers) == 15
    assert {round(after - before, 1) for before, after in itertools.pairwise(answers)} == {12.0}
    assert answers[-1] < float(root.get("height"))


def test_what_is_too_large_to_draw_says_so():
    with pytest.raises(UsageError, match="too many to draw"):
        schedule("mesh", ranks=1024).text()
    with pytest.raises(UsageError, match="at most 64 ranks"):
        schedule("tree", ranks=65).svg()


# ---- arguments ----


def test_schedule_is_a_public_name_and_takes_options_either_way():
    one = pycomm.schedule("ps:servers=2,dedicated", ranks=5)
    other = pycomm.schedule("ps", ranks=5, servers=2, dedicated=True)
    assert one.options == other.options == "servers=2,dedicated"
    assert (one.algorithm, one.ranks, one.workers, one.chunks) == ("ps", 5, 3, 2)
    assert pycomm.schedule("p2p", ranks=3).algorithm == "mesh"
    assert repr(other) == "<Schedule: ps (servers=2,dedicated), 5 ranks, all-reduce, out of place, 1 segment>"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"algorithm": "ringg", "ranks": 4}, "unknown algorithm 'ringg'"),
        ({"algorithm": "ring", "ranks": 0}, "ranks must be 1 to 1024, got 0"),
        ({"algorithm": "ring", "ranks": 1025}, "ranks must be 1 to 1024, got 1025"),
        ({"algorithm": "ring", "ranks": 4, "segments": 0}, "segments must be at least 1, got 0"),
        ({"algorithm": "ring", "ranks": 4, "servers": 2}, "unknown option 'servers'"),
        ({"algorithm": "ps", "ranks": 4, "servers": 5}, "'servers' must be at most the 4 ranks, got 5"),
        ({"algorithm": "ps", "ranks": 4, "servers": 0}, "'servers' must be at least 1, got 0"),
        ({"algorithm": "ps", "ranks": 4, "dedicated": 2}, "'dedicated' is a flag"),
        ({"algorithm": "ps:servers=2,dedicated", "ranks": 2}, "needs a worker"),
        ({"algorithm": "tree", "ranks": 4, "collective": "alltoall"}, "tree: has no alltoall"),
        ({"algorithm": "tree", "ranks": 4, "collective": "gossip"}, "unknown collective 'gossip'"),
        ({"algorithm": "tree", "ranks": 4, "collective": "reduce", "root": 4}, "root must be a rank"),
        ({"algorithm": "ring", "ranks": True}, "ranks is True, not a whole number"),
        ({"algorithm": "ring", "ranks": 2.5}, "ranks is 2.5, not a whole number"),
        ({"algorithm": "ring", "ranks": "4"}, "ranks is '4', not a whole number"),
        ({"algorithm": "ring", "ranks": 4, "lanes": 0}, "lanes must be at least 1, got 0"),
        ({"algorithm": "tree", "ranks": 4, "collective": "reduce", "root": True}, "root is True, not a whole number"),
        ({"algorithm": "ring", "ranks": 4, "hosts": (0, 0, -1, 1)}, r"hosts\[2\] is -1"),
        ({"algorithm": "ps", "ranks": 4, "servers": 2.5}, "option 'servers' is 2.5, not a whole number"),
        ({"algorithm": "ps", "ranks": 4, "servers": True}, "option 'servers' is True, not a whole number"),
        ({"algorithm": "ps", "ranks": 4, "servers": "2"}, "option 'servers' is '2', not a whole number"),
        ({"algorithm": 3, "ranks": 4}, "algorithm: 3: wanted text"),
        ({"algorithm": "auto", "ranks": 4}, "'auto' has no schedule"),
        ({"algorithm": "ring,tree", "ranks": 4}, "wanted one algorithm, got 2"),
    ],
)
def test_what_cannot_be_built_is_a_usage_error(arguments, wanted):
    with pytest.raises(UsageError, match=wanted):
        pycomm.schedule(**arguments)


def test_a_flag_is_given_as_true():
    assert schedule("ps", ranks=4, dedicated=True).workers == 3


@pytest.mark.parametrize(("bytes", "itemsize"), [(-1, 4), (1.5, 4), (True, 4), (8, 0)])
def test_traffic_is_of_whole_bytes(bytes, itemsize):
    with pytest.raises(UsageError, match=r"is (-1|1\.5|True|0)[;,]"):
        schedule("ring", ranks=4).traffic(bytes, itemsize)
