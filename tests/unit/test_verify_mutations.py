"""Schedules broken on purpose, at every place of every schedule of the registry: each is refused, and says where."""

import re
from collections.abc import Iterator
from itertools import product

import pytest

from pycomm import ScheduleError, _core
from pycomm.algorithms import registry

# Fact (or what else is wrong), then rank, lane, step, segment and chunk.
PLACE = re.compile(r"(fact \d \([^)]*\)|malformed): rank \d+, lane \d+, step \d+ .*segment \d+, chunk \d+", re.DOTALL)
RANKS = (1, 2, 3, 4, 5)
OPTIONS = {"ps": ({}, {"servers": 2}, {"servers": 3}, {"dedicated": 1}, {"servers": 2, "dedicated": 1})}


def schedules(ranks: tuple[int, ...] = RANKS, segments: int = 1, only: str | None = None) -> Iterator[_core.Schedule]:
    for row in registry():
        if only is not None and row.name != only:
            continue
        for collective, count, options in product(row.collectives, ranks, OPTIONS.get(row.name, ({},))):
            servers = options.get("servers", 1)
            if servers > count or (options.get("dedicated") and servers == count):
                continue
            for in_place, root in product((False, True), (0, count - 1)):
                if root > 0 and collective not in ("broadcast", "reduce"):
                    continue
                yield _core.build_schedule(row.name, collective, count, segments, 2, in_place, root, options)


def bodies(schedule: _core.Schedule) -> Iterator[tuple[int, int, list[_core.Step]]]:
    for rank in range(schedule.ranks):
        for body in range(schedule.bodies(rank)):
            yield rank, body, schedule.body(rank, body)


def name_of(schedule: _core.Schedule) -> str:
    return (
        f"{schedule.algorithm}:{schedule.options} {schedule.collective} on {schedule.ranks}, root {schedule.root}, "
        f"in place {schedule.in_place}, {schedule.segments} segments"
    )


def refusal_of(schedule: _core.Schedule) -> str:
    try:
        schedule.verify()
    except ScheduleError as error:
        return str(error)
    return ""


def refused(schedule: _core.Schedule, what: str, fact: str = "") -> None:
    """Fails unless the schedule is refused with rank, step and chunk named (and this fact)."""
    said = refusal_of(schedule)
    assert said, f"{name_of(schedule)}: {what}: passed"
    assert PLACE.match(said), f"{name_of(schedule)}: {what}: {said}"
    assert fact in said, f"{name_of(schedule)}: {what}: {said}"


def changed(step: _core.Step, **attributes: object) -> _core.Step:
    copy = _core.Step(step)
    for name, value in attributes.items():
        setattr(copy, name, value)
    return copy


def replaced(steps: list[_core.Step], at: int, *new: _core.Step) -> list[_core.Step]:
    return [*steps[:at], *new, *steps[at + 1 :]]


def writes(step: _core.Step) -> bool:
    return step.action in ("recv", "recv_reduce", "copy", "reduce", "combine", "scale")


def reads(step: _core.Step) -> bool:
    return step.action in ("send", "copy", "reduce")


def end_of_run(steps: list[_core.Step], at: int) -> int:
    while at + 1 < len(steps) and steps[at + 1].joined:
        at += 1
    return at


def takes(step: _core.Step) -> list[int]:
    """The ranks whose messages the step takes."""
    if step.action == "combine":
        return [peer for peer, _, _ in step.operands if peer >= 0]
    return [step.peer] if step.action in ("recv", "recv_reduce") else []


@pytest.mark.parametrize(("segments", "landings"), [(1, False), (1, True), (3, False)])
def test_a_dropped_step_is_refused(segments, landings):
    dropped = 0
    for built in schedules(segments=segments):
        schedule = built.with_landings() if landings else built
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                refused(schedule.with_body(rank, body, replaced(steps, at)), f"rank {rank} drops {at} ({step.text})")
                dropped += 1
    assert dropped > 1000


def test_a_swapped_chunk_is_refused():
    swapped = 0
    for schedule in schedules():
        chunks = {"in": schedule.in_chunks, "out": schedule.out_chunks, "tmp": schedule.tmp_chunks}
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                variants: list[_core.Step] = []
                for attribute in ["to"] * writes(step) + ["source"] * reads(step):
                    buffer, chunk = getattr(step, attribute)
                    others = [other for other in range(chunks[buffer]) if other != chunk]
                    variants += [changed(step, **{attribute: (buffer, other)}) for other in others]
                for k, (peer, buffer, chunk) in enumerate(step.operands if step.action == "combine" else []):
                    for other in range(chunks[buffer] if peer < 0 else 0):
                        if other != chunk:
                            operands = list(step.operands)
                            operands[k] = (peer, buffer, other)
                            variants.append(changed(step, operands=operands))
                for variant in variants:
                    refused(schedule.with_body(rank, body, replaced(steps, at, variant)), f"{rank}: {variant.text}")
                    swapped += 1
    assert swapped > 1000


def test_adding_twice_is_refused():
    added = 0
    for schedule in schedules():
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                if step.action not in ("combine", "recv_reduce"):
                    continue
                variants = []
                if step.action == "combine":  # any operand once more
                    variants += [[changed(step, operands=[*step.operands, operand])] for operand in step.operands]
                own = next(((b, c) for peer, b, c in step.operands if peer < 0), None)
                if own is not None and own[0] == "in":  # one's own input again
                    variants.append([step, changed(step, action="reduce", source=own, chunk=step.chunk)])
                # what was summed so far onto itself
                variants.append([step, changed(step, action="reduce", source=step.to, chunk=step.chunk)])
                for variant in variants:
                    refused(
                        schedule.with_body(rank, body, replaced(steps, at, *variant)), f"{rank}: {variant[-1].text}"
                    )
                    added += 1
    assert added > 1000


def test_a_wrong_peer_is_refused():
    redirected = 0
    for schedule in schedules():
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                for other in range(schedule.ranks):
                    variants = []
                    if step.peer >= 0 and other not in (step.peer, rank):
                        variants.append(changed(step, peer=other))
                    for k, (peer, _, _) in enumerate(step.operands if step.action == "combine" else []):
                        if peer >= 0 and other not in (peer, rank):
                            operands = list(step.operands)
                            operands[k] = (other, "in", 0)
                            variants.append(changed(step, operands=operands))
                    for variant in variants:
                        refused(schedule.with_body(rank, body, replaced(steps, at, variant)), f"{rank}: {variant.text}")
                        redirected += 1
    assert redirected > 1000


def test_a_write_over_a_place_that_a_send_holds_is_refused():
    """A place copied onto itself: the values stay right, only that it is written is wrong."""
    written = 0
    for schedule in schedules():
        alias = schedule.in_place and schedule.in_chunks == schedule.out_chunks
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                if step.action != "send" or (step.source[0] == "in" and not alias):
                    continue  # `in` cannot be written at all
                if schedule.collective == "reduce" and rank != schedule.root and step.source[0] == "in":
                    continue  # this rank has no output
                place = ("out", step.source[1]) if step.source[0] == "in" else step.source
                write = changed(step, action="copy", to=place, source=place, chunk=step.chunk, joined=False)
                last = end_of_run(steps, at)
                refused(
                    schedule.with_body(rank, body, replaced(steps, last, steps[last], write)), f"{rank}: {at}", "fact 4"
                )
                written += 1
    assert written > 300


def test_a_receive_before_the_send_it_waits_for_round_a_circle_is_refused():
    """Before each send the sender waits for a message that its receiver sends only after having taken that one."""
    circles = 0
    for schedule in schedules():
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                if step.action != "send" or schedule.out_chunks <= step.chunk:
                    continue
                if schedule.collective == "reduce" and rank != schedule.root:
                    continue  # nowhere to receive into
                other = schedule.body(step.peer, body)
                nth = sum(s.action == "send" and s.peer == step.peer for s in steps[:at])
                taken = [k for k, s in enumerate(other) for peer in takes(s) if peer == rank][nth]
                receive = changed(step, action="recv", to=("out", step.chunk), peer=step.peer)
                answer = changed(other[taken], action="send", source=other[taken].to, peer=rank, chunk=step.chunk)
                broken = schedule.with_body(rank, body, replaced(steps, at, receive, step))
                broken = broken.with_body(step.peer, body, replaced(other, taken, other[taken], answer))
                refused(broken, f"rank {rank} receives before {at}")
                said = refusal_of(broken)
                if "fact 3" in said:  # else the answer's place is written again, or the receive meets another message
                    assert "a circle of waiting:" in said
                    assert said.count("waits for") >= 2
                    circles += 1
    assert circles > 500


@pytest.mark.parametrize("name", ["ring", "mesh", "direct", "recursive-doubling"])
def test_every_rank_receiving_before_its_first_send_is_refused(name):
    for schedule in schedules((2, 4), only=name):
        if schedule.collective != "allreduce":
            continue
        broken = schedule
        for rank, body, steps in bodies(schedule):
            first_send = next(k for k, step in enumerate(steps) if step.action == "send")
            first_take = next(k for k, step in enumerate(steps) if takes(step))
            moved = [*steps[:first_send], steps[first_take], *steps[first_send:first_take], *steps[first_take + 1 :]]
            broken = broken.with_body(rank, body, moved)
        refused(broken, "all ranks receive first", "fact 3")


def other_orders(schedule: _core.Schedule) -> Iterator[_core.Schedule]:
    """The schedule with a sum in another order on one rank: really another one, not b + a for a + b."""
    for rank, body, steps in bodies(schedule):
        for at, step in enumerate(steps):
            if step.action == "combine" and len(step.operands) > 2:
                yield schedule.with_body(rank, body, replaced(steps, at, changed(step, operands=step.operands[::-1])))
        sums = [at for at, step in enumerate(steps) if step.action == "recv_reduce"]
        if len(sums) > 1 and steps[sums[0]].to == steps[sums[1]].to:
            first, second = (steps[at] for at in sums[:2])
            yield schedule.with_body(rank, body, replaced(replaced(steps, sums[0], second), sums[1], first))


@pytest.mark.parametrize("ranks", [3, 4, 5, 8])
def test_another_order_of_the_sum_on_one_rank_is_refused_where_each_rank_sums_for_itself(ranks):
    tried = 0
    for schedule in schedules((ranks,), only="mesh"):
        if schedule.collective == "allreduce":
            for other in other_orders(schedule):
                refused(other, "another order", "fact 2")
                tried += 1
    assert tried == 2 * ranks


@pytest.mark.parametrize(("name", "ranks"), [("tree", 8), ("ps", 4), ("ps", 5), ("direct", 4), ("double-tree", 8)])
def test_another_order_of_the_sum_is_accepted_where_one_rank_sums_and_the_others_copy(name, ranks):
    tried = 0
    for schedule in schedules((ranks,), only=name):
        if schedule.collective == "allreduce":
            for other in other_orders(schedule):
                other.verify()
                tried += 1
    assert tried > 0


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_another_order_of_the_sum_is_accepted_on_the_ring(ranks):
    """It adds two at a time: the other order of a step is the same sum."""
    for schedule in schedules((ranks,), only="ring"):
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                if step.action == "combine":
                    swapped = changed(step, operands=step.operands[::-1])
                    schedule.with_body(rank, body, replaced(steps, at, swapped)).verify()


def test_a_run_that_one_end_parts_is_refused():
    parted = 0
    for schedule in schedules():
        for rank, body, steps in bodies(schedule):
            for at, step in enumerate(steps):
                if not step.joined:
                    continue
                other = schedule.with_body(rank, body, replaced(steps, at, changed(step, joined=False)))
                refused(other, f"rank {rank} parts the run at {at} ({step.text})")
                parted += 1
    assert parted > 90


def test_a_run_in_a_message_a_chunk_waits_round_a_circle():
    """Partners that each send two chunks before they take one: what halving-doubling needs runs for."""
    schedule = _core.build_schedule("halving-doubling", "allreduce", 4, 1, 1, False, 0, {})
    for rank, body, steps in list(bodies(schedule)):
        schedule = schedule.with_body(rank, body, [changed(step, joined=False) for step in steps])
    refused(schedule, "every step alone", "fact 3")


def test_a_join_to_another_chunk_or_peer_or_action_is_refused():
    schedule = _core.build_schedule("halving-doubling", "allreduce", 4, 1, 1, False, 0, {})
    for rank, body, steps in bodies(schedule):
        for at in range(1, len(steps)):
            step, before = steps[at], steps[at - 1]
            if not step.joined and (step.action != before.action or step.peer != before.peer):
                joined = schedule.with_body(rank, body, replaced(steps, at, changed(step, joined=True)))
                refused(joined, f"rank {rank} joins {at}", "malformed")


def test_a_run_that_reads_what_it_writes_is_refused():
    """Done as one array, it would read a chunk before or after another step of the run has written it."""
    schedule = _core.build_schedule("halving-doubling", "allreduce", 4, 1, 1, False, 0, {})
    steps = schedule.body(0, 0)
    at = next(k for k, step in enumerate(steps) if step.action == "combine" and steps[k + 1].joined)
    first, second = steps[at], steps[at + 1]
    shifted = [
        changed(step, operands=[(own, buffer, chunk + 1 if own < 0 else chunk) for own, buffer, chunk in step.operands])
        for step in (first, second)
    ]
    refused(schedule.with_body(0, 0, [*steps[:at], *shifted, *steps[at + 2 :]]), "operands one chunk on", "malformed")
