"""The five facts: proved for every row of the registry, and refused one by one on schedules of a few steps."""

import random
from collections import defaultdict
from itertools import product

import pytest

from pycomm import ScheduleError, _core
from pycomm.algorithms import registry
from pycomm.schedules import prove, schedule

ROWS = [(row.name, collective) for row in registry() for collective in row.collectives]
SPREAD = (65, 96, 127, 128, 200, 255, 256, 341)


def options_of(name: str, ranks: int) -> list[str]:
    if name != "ps":
        return [name]
    chosen = ["ps"] + [f"ps:servers={servers}" for servers in {2, 3, ranks // 2, ranks} if 1 < servers <= ranks]
    return chosen + [f"ps:servers={servers},dedicated" for servers in {1, 2, ranks // 2} if 0 < servers < ranks]


@pytest.mark.parametrize(("name", "collective"), ROWS)
def test_every_algorithm_is_proved_for_1_to_64_ranks(name, collective):
    for ranks in range(1, 65):
        for algorithm in options_of(name, ranks):
            assert prove(algorithm, ranks=ranks, collective=collective, root=ranks // 3).schedules >= 8


@pytest.mark.parametrize(("name", "collective"), ROWS)
def test_every_algorithm_is_proved_for_a_spread_of_ranks(name, collective):
    for ranks in SPREAD:
        prove(name, ranks=ranks, collective=collective, root=ranks - 1)


@pytest.mark.parametrize("name", ["tree", "ps", "ps:servers=3,dedicated", "mesh", "double-tree", "recursive-doubling"])
def test_algorithms_of_few_steps_are_proved_for_1024_ranks(name):
    prove(name, ranks=1024)


@pytest.mark.parametrize(("name", "collective"), ROWS)
def test_following_every_segment_of_two_calls_says_the_same_as_one_segment_of_each_kind(name, collective):
    for ranks, segments, in_place, lanes in product((1, 2, 3, 5, 8), (1, 2, 3, 5), (False, True), (1, 2, 3)):
        for algorithm in options_of(name, ranks):
            native = schedule(
                algorithm, ranks=ranks, segments=segments, in_place=in_place, collective=collective, lanes=lanes
            )._native
            every, kinds = native.verify(all=True), native.verify()
            assert (every["segments_followed"], every["calls"]) == (segments, 2)
            assert kinds["segments_followed"] == 1
            assert {key: every[key] for key in ("steps", "messages")} == {
                key: kinds[key] for key in ("steps", "messages")
            }


# ---- an interpreter of its own: numbers instead of expressions, a random order, messages read as late as can be ----


def run_by_hand(native: _core.Schedule, values: list[list[int]], order: random.Random) -> list[dict[int, int]]:
    """Run a schedule of one segment with one slot a queue; a message is read only when it is taken."""
    ranks = range(native.ranks)
    memory: list[dict[tuple[str, int], int]] = [{} for _ in ranks]

    def key(rank: int, place: tuple[str, int]) -> tuple[str, int]:
        if native.in_place and place[0] == "in":
            return ("out", rank if native.collective == "allgather" else place[1])
        if native.in_place and native.collective == "reduce_scatter" and place[0] == "out":
            return ("out", rank)
        return place

    for rank in ranks[: native.workers]:
        for chunk, value in enumerate(values[rank]):
            memory[rank][key(rank, ("in", chunk))] = value
    lanes = [(rank, number) for rank in ranks for number in range(len(native.lanes(rank)))]
    steps = {(rank, lane): native.body(rank, native.lanes(rank)[lane][0]) for rank, lane in lanes}
    at = dict.fromkeys(lanes, 0)
    # (from, to, lane): where the sender's message lies, of a run each chunk
    slots: dict[tuple[int, int, int], list[tuple[str, int]]] = defaultdict(list)

    def take(peer: int, rank: int, lane: int) -> int:
        return memory[peer][slots[peer, rank, lane].pop(0)]

    def step_once(rank: int, lane: int) -> bool:
        step, mine = steps[rank, lane][at[rank, lane]], memory[rank]
        to, source = key(rank, step.to), key(rank, step.source)
        if step.action in ("send", "wait"):
            if slots[rank, step.peer, lane] and not step.joined:
                return False
            if step.action == "send":
                slots[rank, step.peer, lane].append(source)
        elif step.action == "after":
            if at[rank, step.after[0]] <= step.after[1]:
                return False
        elif step.action in ("recv", "recv_reduce"):
            if not slots[step.peer, rank, lane]:
                return False
            mine[to] = take(step.peer, rank, lane) + (mine[to] if step.action == "recv_reduce" else 0)
        elif step.action == "combine":
            if any(peer >= 0 and not slots[peer, rank, lane] for peer, _, _ in step.operands):
                return False
            mine[to] = sum(
                take(peer, rank, lane) if peer >= 0 else mine[key(rank, (buffer, chunk))]
                for peer, buffer, chunk in step.operands
            )
        elif step.action == "copy":
            mine[to] = mine[source]
        return True

    while open_lanes := [lane for lane in lanes if at[lane] < len(steps[lane])]:
        order.shuffle(open_lanes)
        for lane in open_lanes:
            if step_once(*lane):
                at[lane] += 1
                while at[lane] < len(steps[lane]) and steps[lane][at[lane]].joined:  # the rest of a run, at once
                    assert step_once(*lane)
                    at[lane] += 1
                break
        else:
            raise AssertionError(f"stuck at {at}")
    return [
        {chunk: memory[r].get(key(r, ("out", chunk)), 0) for chunk in range(native.out_chunks)}
        for r in ranks[: native.workers]
    ]


def wanted(collective: str, inputs: list[list[int]], rank: int, chunk: int) -> int:
    if collective in ("allreduce", "reduce"):
        return sum(given[chunk] for given in inputs)
    if collective == "reduce_scatter":
        return sum(given[rank] for given in inputs)
    return {
        "allgather": lambda: inputs[chunk][0],
        "broadcast": lambda: inputs[0][chunk],
        "alltoall": lambda: inputs[chunk][rank],
    }[collective]()


@pytest.mark.parametrize(("name", "collective"), ROWS)
def test_what_is_proved_gives_the_right_numbers_in_any_order_and_with_late_reads(name, collective):
    order = random.Random(name + collective)
    for ranks, in_place in product((1, 2, 3, 4, 5, 6, 7, 8), (False, True)):
        for algorithm in options_of(name, ranks):
            native = schedule(algorithm, ranks=ranks, in_place=in_place, collective=collective)._native
            native.verify()
            workers = native.workers
            inputs = [[order.randrange(1 << 40) for _ in range(native.in_chunks)] for _ in range(workers)]
            for _ in range(3):
                got = run_by_hand(native, inputs, order)
                holders = range(1 if collective == "reduce" else workers)
                for rank, chunk in product(holders, range(native.out_chunks)):
                    assert got[rank][chunk] == wanted(collective, inputs, rank, chunk), (algorithm, ranks, in_place)


# ---- the facts one by one ----


def two_rank_ps(in_place: bool = False) -> _core.Schedule:
    """Rank 0 serves: rank 1 sends, rank 0 combines, scales and sends back, rank 1 receives."""
    native = _core.build_schedule("ps", "allreduce", 2, 1, 1, in_place, 0, {})
    assert [step.action for step in native.body(0, 0)] == ["combine", "scale", "send"]
    assert [step.action for step in native.body(1, 0)] == ["send", "recv"]
    return native


def changed(step: _core.Step, **attributes: object) -> _core.Step:
    copy = _core.Step(step)
    for name, value in attributes.items():
        setattr(copy, name, value)
    return copy


def test_a_missing_division_and_a_second_one_are_fact_1():
    native = two_rank_ps()
    combine, scale, send = native.body(0, 0)
    with pytest.raises(ScheduleError, match=r"fact 1 .* avg: the result was not divided"):
        native.with_body(0, 0, [combine, send]).verify()
    with pytest.raises(ScheduleError, match=r"fact 1 .* avg: divided more than once"):
        native.with_body(0, 0, [combine, scale, scale, send]).verify()


def test_a_lost_contribution_is_fact_1_and_names_whose():
    native = two_rank_ps()
    combine, scale, send = native.body(0, 0)
    receive = changed(combine, action="recv", peer=1, chunk=0)
    with pytest.raises(ScheduleError, match=r"fact 1 .* lacks rank 0's contribution: it has 1 of 2"):
        native.with_body(0, 0, [receive, scale, send]).verify()


def test_a_circle_names_who_waits_for_whom():
    native = two_rank_ps()
    send, receive = native.body(1, 0)
    with pytest.raises(ScheduleError) as refusal:
        native.with_body(1, 0, [receive, send]).verify()
    assert str(refusal.value).split("\n")[1:] == [
        "  rank 0, lane 0, step 0 (combine out[0] = in[0] + rank 1), segment 0, chunk 0, waits for a message of rank 1",
        "  rank 1, lane 0, step 0 (recv out[0] from rank 0), segment 0, chunk 0, waits for a message of rank 0",
    ]


def test_a_message_nobody_takes_in_its_call_is_refused():
    native = two_rank_ps()
    send, receive = native.body(1, 0)
    with pytest.raises(ScheduleError) as refusal:
        native.with_body(1, 0, [send, receive, send]).verify()
    # Rank 0 is in its next call by then and takes the message for that call's.
    assert "the result has chunk 0, segment 0 of rank 1" in str(refusal.value)


def test_a_receive_that_no_send_meets_is_fact_3():
    native = two_rank_ps()
    send, receive = native.body(1, 0)
    with pytest.raises(ScheduleError, match=r"(?s)fact 3 .*rank 1, lane 0, step 2 .*waits for a message of rank 0"):
        native.with_body(1, 0, [send, receive, receive]).verify()


def test_two_messages_one_behind_the_other_in_a_queue_of_one_slot_are_fact_3():
    """Both send twice before they receive: with two slots it would pass."""
    native = _core.build_schedule("recursive-doubling", "allreduce", 2, 1, 1, False, 0, {})
    broken = native
    for rank in range(2):
        send, combine, scale = native.body(rank, 0)
        again = changed(combine, operands=[(-1, "out", 0), (1 - rank, "in", 0)])
        broken = broken.with_body(rank, 0, [send, send, combine, again, scale])
    with pytest.raises(ScheduleError, match=r"fact 3 .*a circle of waiting"):
        broken.verify()


def test_lanes_that_nothing_orders_may_not_share_a_place():
    native = _core.build_schedule("tree", "allreduce", 3, 1, 1, False, 0, {})
    after, *sends = native.body(0, 1)
    assert after.action == "after"
    native.verify()
    with pytest.raises(ScheduleError, match=r"fact [14] .*rank 0, lane 1"):
        native.with_body(0, 1, sends).verify()


def test_a_message_that_went_round_orders_no_writes_of_two_lanes():
    """Rank 2 sums its child's part in `out` on the up lane; what comes down the other lane must not be stored before.

    The message down follows from the message up, but on a GPU it may be seen while the sum's store is still on its way.
    """
    native = _core.build_schedule("tree", "allreduce", 4, 1, 1, False, 0, {})
    after, *others = native.body(2, 1)
    assert (after.action, after.after) == ("after", (0, 1))
    with pytest.raises(ScheduleError, match=r"fact 4 .*rank 2, lane 1, step 0 \(recv out\[0\].*no `after`"):
        native.with_body(2, 1, others).verify()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_landed_message_is_accepted_where_the_sender_knows_that_the_place_is_free(in_place):
    native = two_rank_ps(in_place)  # in place, the server took what lay there
    combine, scale, reply = native.body(0, 0)
    send, receive = native.body(1, 0)
    by_hand = native.with_body(0, 0, [combine, scale, changed(reply, landed=True)])
    by_hand = by_hand.with_body(1, 0, [send, changed(receive, landed=True)])
    assert by_hand.verify()["landings"] == 1
    assert native.with_landings().verify()["landings"] == 1
    assert native.verify()["landings"] == 0


@pytest.mark.parametrize("use", ["write", "read", "hold"])
def test_a_landed_message_is_fact_5_where_an_earlier_use_may_still_go_on(use):
    native = two_rank_ps().with_landings()
    combine, scale, reply = native.body(0, 0)
    send, receive = native.body(1, 0)
    assert reply.landed
    assert receive.landed
    copy = changed(receive, action="copy", to=("out", 0), source=("in", 0), chunk=0, landed=False)
    broken = native
    if use == "write":  # before the push the server knows of it, after the push it does not
        broken = native.with_body(1, 0, [send, copy, receive])
        native.with_body(1, 0, [copy, send, receive]).verify()
    elif use == "read":  # `out` is written before the push and read after it
        broken = native.with_body(1, 0, [copy, send, changed(copy, source=("out", 0)), receive])
    else:  # rank 1 sends `out` once more after the push; rank 0 takes that only after its reply
        into = changed(combine, action="recv", to=("out", 0), peer=1, chunk=0)
        broken = native.with_body(1, 0, [copy, send, changed(send, source=("out", 0)), receive])
        broken = broken.with_body(0, 0, [combine, scale, reply, into])
    with pytest.raises(ScheduleError, match=r"fact 5 .*rank 1.*rank 0 may store into out\[0\] while"):
        broken.verify()


def test_a_message_lands_by_the_combine_just_before_it_or_not_at_all():
    native = two_rank_ps().with_landings()
    combine, scale, reply = native.body(0, 0)
    send, receive = native.body(1, 0)
    between = changed(combine, action="copy", to=("out", 0), source=("out", 0), chunk=0)
    with pytest.raises(ScheduleError, match=r"fact 5 .*rank 0.*no combine just before made it"):
        native.with_body(0, 0, [combine, scale, between, reply]).verify()
    for broken in (
        native.with_body(0, 0, [combine, scale, changed(reply, landed=False)]),
        native.with_body(1, 0, [send, changed(receive, landed=False)]),
    ):
        with pytest.raises(ScheduleError, match=r"fact 5 .*one end of the message says that it landed"):
            broken.verify()


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_all_of_the_second_half_of_direct_lands(ranks):
    for in_place in (False, True):
        native = schedule("direct", ranks=ranks, in_place=in_place)._native
        assert native.with_landings().verify(all=True)["landings"] == ranks * (ranks - 1)


def test_places_and_peers_that_do_not_exist_are_refused():
    native = two_rank_ps()
    send, receive = native.body(1, 0)
    for broken, wanted in [
        (changed(send, source=("in", 7)), "no such place"),
        (changed(send, source=("tmp", 0)), "no such place"),
        (changed(receive, to=("in", 0)), "read only"),
        (changed(send, peer=1), "another rank"),
        (changed(send, peer=2), "another rank"),
    ]:
        steps = [broken, receive] if broken.action == "send" else [send, broken]
        with pytest.raises(ScheduleError, match=f"malformed: rank 1.*{wanted}"):
            native.with_body(1, 0, steps).verify()


def test_a_dedicated_server_has_no_buffers_to_touch():
    native = _core.build_schedule("ps", "allreduce", 3, 1, 1, False, 0, {"dedicated": 1})
    combine, scale, *sends = native.body(2, 0)
    with pytest.raises(ScheduleError, match=r"malformed: rank 2.*no such place"):
        native.with_body(2, 0, [changed(combine, to=("out", 0)), scale, *sends]).verify()
