"""`hierarchical` on hosts of every kind: proved, and what crosses between hosts counted."""

from __future__ import annotations

import pytest

from pycomm import UsageError
from pycomm.schedules import prove, schedule

LAYOUTS = {
    "one host": [0] * 5,
    "two of two": [0, 0, 1, 1],
    "two of two, alternating": [0, 1, 0, 1],
    "two of three": [0, 0, 0, 1, 1, 1],
    "three of two": [0, 0, 1, 1, 2, 2],
    "four of four": [rank // 4 for rank in range(16)],
    "five of eight": [rank // 8 for rank in range(40)],
    "each its own": [0, 1, 2, 3, 4],
    "three and one": [0, 0, 0, 1],
    "one and three": [0, 1, 1, 1],
    "one, two and three": [0, 1, 1, 2, 2, 2],
    "seven and five, mixed": [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0],
    "numbered as it comes": [7, 7, 3, 3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_is_proved(layout):
    hosts = LAYOUTS[layout]
    assert (
        prove("hierarchical", ranks=len(hosts), hosts=hosts).schedules >= 8
    )  # in place or not, with 1, 2, 3 and 5 segments; more with landings


def test_it_is_proved_for_every_even_split_of_24():
    for local in (1, 2, 3, 4, 6, 8, 12, 24):
        prove("hierarchical", ranks=24, hosts=[rank // local for rank in range(24)])


def leaving(name: str, hosts: list[int]) -> list[float]:
    """Bytes out of each host, in units of the buffer."""
    made = schedule(name, ranks=len(hosts), hosts=hosts)
    chunks = made.chunks
    out = dict.fromkeys(hosts, 0.0)
    for _, sender, receiver, *_ in made._native.messages():
        if hosts[sender] != hosts[receiver]:
            out[hosts[sender]] += 1 / chunks
    return list(out.values())


def test_what_leaves_a_host_of_two_by_two():
    # FORMULAS: hierarchical n, ring in host order 1.5 n, ring alternating 3 n
    assert leaving("hierarchical", [0, 0, 1, 1]) == pytest.approx([1.0, 1.0])
    assert leaving("ring", [0, 0, 1, 1]) == pytest.approx([1.5, 1.5])
    assert leaving("ring", [0, 1, 0, 1]) == pytest.approx([3.0, 3.0])


def test_what_leaves_a_host_does_not_grow_with_its_ranks():
    for local in (1, 2, 4, 8):
        hosts = [rank // local for rank in range(4 * local)]
        assert leaving("hierarchical", hosts) == pytest.approx([1.5] * 4)  # 2 (N - 1) / N


def test_uneven_hosts_go_through_a_leader():
    hosts = [0, 0, 0, 1, 1]
    made = schedule("hierarchical", ranks=5, hosts=hosts)
    crossing = {
        (sender, receiver) for _, sender, receiver, *_ in made._native.messages() if hosts[sender] != hosts[receiver]
    }
    assert crossing == {(0, 3), (3, 0)}


def test_hosts_must_name_every_rank():
    with pytest.raises(UsageError, match="hosts must name one a rank"):
        schedule("hierarchical", ranks=4, hosts=[0, 1])
