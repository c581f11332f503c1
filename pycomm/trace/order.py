"""A forward order of a branching graph: every layer after those it reads from."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from pycomm.errors import UsageError


def forward_order(
    names: list[str], edges: list[tuple[str, str]], where: str
) -> tuple[list[str], tuple[tuple[int, int], ...]]:
    """`names` sorted so that edges point forward, and the edges as pairs of places in that order.

    Of several possible orders the one nearest to the given order of names. Raises UsageError that names the
    layers of a cycle.
    """
    place = {name: index for index, name in enumerate(names)}
    waiting_for = [0] * len(names)
    readers: list[list[int]] = [[] for _ in names]
    for source, target in edges:
        readers[place[source]].append(place[target])
        waiting_for[place[target]] += 1
    ready = [index for index, count in enumerate(waiting_for) if count == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for reader in readers[index]:
            waiting_for[reader] -= 1
            if waiting_for[reader] == 0:
                heappush(ready, reader)
    if len(order) < len(names):
        stuck = [names[index] for index, count in enumerate(waiting_for) if count > 0]
        raise UsageError(f"{where}: the edges make a cycle among {', '.join(stuck[:8])}")
    position = {names[index]: new for new, index in enumerate(order)}
    return [names[index] for index in order], tuple(
        sorted((position[source], position[target]) for source, target in edges)
    )
