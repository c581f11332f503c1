"""The schedule simulator meets the exact rows of FORMULAS.md, and hand-made cases of ports and pieces."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomm import _core
from pycomm.errors import UsageError
from pycomm.model import PRESETS, Link, Network, algorithm_cost, link, preset, simulate

EXACT = 1e-9
PROFILE = settings(max_examples=40, deadline=None, derandomize=True)
latency = st.floats(0, 1e-3, allow_subnormal=False)
slope = st.floats(1e-12, 1e-7)
modes = st.booleans()


def network(alpha, beta, gamma, startup) -> Network:
    return Network(between=Link(pieces=((0.0, alpha, beta),)), gamma_s_per_byte=gamma, alpha_occupies_port=startup)


def seconds(name, ranks, size, net, **options) -> float:
    return simulate(name, ranks, [size], net, options=options)[0].seconds


def divisible(ranks: int, blocks: int) -> int:
    """Bytes of float32 that fall into equal chunks on this many ranks."""
    return 4 * ranks * blocks


@PROFILE
@given(st.integers(2, 17), st.integers(1, 5000), latency, slope, slope, modes)
def test_ring_is_exact(ranks, blocks, a, b, g, startup):
    n = divisible(ranks, blocks)
    share = (ranks - 1) / ranks
    wanted = 2 * (ranks - 1) * a + 2 * n * share * b + n * share * g
    assert seconds("ring", ranks, n, network(a, b, g, startup)) == pytest.approx(wanted, rel=EXACT)


@PROFILE
@given(st.sampled_from([2, 4, 8, 16, 32]), st.integers(1, 5000), latency, slope, slope, modes)
def test_binomial_tree_is_exact_on_powers_of_two(ranks, blocks, a, b, g, startup):
    n, lg = divisible(ranks, blocks), int(math.log2(ranks))
    wanted = 2 * lg * (a + n * b) + lg * n * g
    assert seconds("tree", ranks, n, network(a, b, g, startup)) == pytest.approx(wanted, rel=EXACT)


@PROFILE
@given(st.integers(3, 31), st.integers(1, 500), latency, slope, slope, modes)
def test_binomial_tree_stays_within_its_bound(ranks, blocks, a, b, g, startup):
    n, lg = divisible(ranks, blocks), math.ceil(math.log2(ranks))
    assert seconds("tree", ranks, n, network(a, b, g, startup)) <= (2 * lg * (a + n * b) + lg * n * g) * (1 + EXACT)


@PROFILE
@given(st.sampled_from([2, 4, 8, 16, 32]), st.integers(1, 5000), latency, slope, slope, modes)
def test_recursive_doubling_is_exact_on_powers_of_two(ranks, blocks, a, b, g, startup):
    n, lg = divisible(ranks, blocks), int(math.log2(ranks))
    wanted = lg * a + n * lg * (b + g)
    assert seconds("recursive-doubling", ranks, n, network(a, b, g, startup)) == pytest.approx(wanted, rel=EXACT)


@PROFILE
@given(st.integers(2, 65), st.integers(1, 3000), latency, slope, slope, modes)
def test_halving_doubling_is_exact_unless_some_ranks_fold_and_some_neighbours_do_not(ranks, blocks, a, b, g, startup):
    core = 1 << int(math.log2(ranks))
    n, lg, share = divisible(core, blocks), int(math.log2(ranks)), (core - 1) / core
    if core == ranks:
        wanted = 2 * lg * a + 2 * n * share * b + n * share * g
    else:
        wanted = (2 * lg + 2) * a + (2 * share + 2) * n * b + n * (1 + share) * g
    ratio = seconds("halving-doubling", ranks, n, network(a, b, g, startup)) / wanted
    # Ranks that do not fold run ahead, and what they send early takes its turn at the port of a rank that still waits
    # for something else. That cannot be where none runs ahead for long: at powers of two and one below.
    if ranks & (ranks - 1) == 0 or ranks & (ranks + 1) == 0:
        assert ratio == pytest.approx(1, rel=EXACT)
    else:
        assert 1 - EXACT <= ratio < 1.2


@PROFILE
@given(st.integers(2, 12), st.integers(1, 3000), slope)
def test_mesh_is_exact_in_its_bandwidth(ranks, blocks, b):
    n = divisible(ranks, blocks)
    assert seconds("mesh", ranks, n, network(0, b, 0, False)) == pytest.approx((ranks - 1) * n * b, rel=EXACT)


@PROFILE
@given(st.integers(2, 12), st.integers(1, 3000), slope)
def test_direct_is_exact_in_its_bandwidth(ranks, blocks, b):
    n = divisible(ranks, blocks)
    wanted = 2 * n * (ranks - 1) / ranks * b
    assert seconds("direct", ranks, n, network(0, b, 0, False)) == pytest.approx(wanted, rel=EXACT)


@PROFILE
@given(st.integers(2, 12), st.data(), st.integers(1, 300), slope)
def test_shared_servers_are_exact_in_their_bandwidth(ranks, data, blocks, b):
    servers = data.draw(st.integers(1, ranks))
    n = divisible(servers, blocks)
    push = n * (ranks - 1) / ranks if servers == ranks else max(n, (ranks - 1) * n / servers)
    found = simulate("ps", ranks, [n], network(0, b, 0, False), options={"servers": servers})[0]
    assert found.seconds == pytest.approx(2 * push * b, rel=EXACT)
    if servers < ranks:
        assert found.busiest_bytes == (ranks + servers - 2) * n // servers


@PROFILE
@given(st.integers(1, 9), st.data(), st.integers(1, 300), slope)
def test_dedicated_servers_are_exact_while_workers_outnumber_them(workers, data, blocks, b):
    servers = data.draw(st.integers(1, workers))
    n = divisible(servers, blocks)
    wanted = 2 * max(n, workers * n / servers) * b
    found = seconds("ps", workers + servers, n, network(0, b, 0, False), servers=servers, dedicated=1)
    assert found == pytest.approx(wanted, rel=EXACT)


@pytest.mark.parametrize("name", ["ring", "tree", "mesh", "ps"])
def test_the_same_simulation_gives_the_same_bits(name):
    runs = {seconds(name, 13, 12345 * 4, network(3e-6, 1e-9, 3e-10, True)).hex() for _ in range(3)}
    assert len(runs) == 1


@pytest.mark.parametrize(("ranks", "lg"), [(1024, 10), (8192, 13)])
def test_thousands_of_ranks_are_simulated(ranks, lg):
    a, b, g, n = 1e-6, 1e-9, 1e-10, 4 << 20
    net = network(a, b, g, False)
    assert seconds("tree", ranks, n, net) == pytest.approx(2 * lg * (a + n * b) + lg * n * g, rel=EXACT)
    assert seconds("recursive-doubling", ranks, n, net) == pytest.approx(lg * a + n * lg * (b + g), rel=EXACT)
    with pytest.raises(UsageError, match="ranks must be 1 to 8192, got 8193"):
        seconds("tree", 8193, n, net)


def test_no_rank_beats_the_lower_bounds():
    a, b = 1e-6, 1e-9
    for ranks in (2, 3, 5, 8):
        for name in ("ring", "tree", "mesh", "ps"):
            n = divisible(ranks, 840)
            found = seconds(name, ranks, n, network(a, b, 0, False))
            assert found >= max(2 * n * (ranks - 1) / ranks * b, math.ceil(math.log2(ranks)) * a) * (1 - EXACT)


def test_ranks_of_a_host_share_its_card():
    # ring in host order on 2 hosts x 2: a card sends one hop of the ring, as every rank would alone
    n = divisible(4, 1000)
    between, inside = Link(pieces=((0.0, 0.0, 1e-9),)), Link(pieces=((0.0, 0.0, 0.0),))
    net = Network(between=between, inside=inside, ranks_a_host=2)
    assert seconds("ring", 4, n, net) == pytest.approx(1.5 * n * 1e-9, rel=EXACT)
    # mesh: both ranks of a host send n to both of the other: 4 n through each card
    assert seconds("mesh", 4, n, net) == pytest.approx(4 * n * 1e-9, rel=EXACT)


def test_messages_take_the_piece_of_their_size():
    pieces = ((0.0, 1e-6, 0.0), (1000.0, 5e-6, 1e-9))
    net = Network(between=Link(pieces=pieces))
    assert seconds("ring", 2, 1992, net) == pytest.approx(2 * 1e-6)  # two messages of 996
    assert seconds("ring", 2, 4000, net) == pytest.approx(2 * (5e-6 + 2000 * 1e-9))


def test_cost_by_simulation_is_a_line_where_the_algorithm_is():
    cost = algorithm_cost("ring", 8, network(2e-6, 1e-9, 0, False))
    sizes = [1 << 14, 3 << 15, 5 << 20]
    for size, found in zip(sizes, cost(sizes), strict=True):
        assert found == pytest.approx(14 * 2e-6 + 2 * size * 7 / 8 * 1e-9, rel=1e-3)
    assert float(algorithm_cost("ring", 1, network(1, 1, 1, False))(100.0)) == 0.0


# Bytes per second of one direction, from the standards: transfers × lanes × coding / 8, links × 25 GB/s, bits / 8.
BANDWIDTHS = {
    "pcie3": 8e9 * 16 * 128 / 130 / 8,
    "pcie4": 16e9 * 16 * 128 / 130 / 8,
    "pcie5": 32e9 * 16 * 128 / 130 / 8,
    "nvlink2": 6 * 25e9,
    "nvlink3": 12 * 25e9,
    "nvlink4": 18 * 25e9,
    "1gbe": 1e9 / 8,
    "10gbe": 10e9 / 8,
    "25gbe": 25e9 / 8,
    "100gbe": 100e9 / 8,
    "ib-fdr": 14.0625e9 * 4 * 64 / 66 / 8,
    "ib-edr": 25.78125e9 * 4 * 64 / 66 / 8,
    "ib-hdr": 50e9 * 4 / 8,
    "ib-ndr": 100e9 * 4 / 8,
}


def test_presets_have_the_standards_bandwidths_and_say_where_they_come_from():
    assert list(PRESETS) == list(BANDWIDTHS)
    for name, bytes_per_s in BANDWIDTHS.items():
        assert preset(name.upper()).bytes_per_s == pytest.approx(bytes_per_s, rel=1e-3)
        assert 1e-6 <= preset(name).latency_s <= 50e-6
        assert preset(name).source
    with pytest.raises(UsageError, match="unknown network 'token-ring'"):
        preset("token-ring")


@pytest.mark.parametrize("pieces", [[], [(5.0, 0.0, 0.0)], [(0.0, -1.0, 0.0)], [(0.0, 0.0, float("inf"))]])
def test_a_network_needs_a_link_with_finite_figures(pieces):
    with pytest.raises(UsageError):
        _core.simulate_schedule(algorithm="ring", ranks=2, counts=[4], between=pieces)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: link(float("nan"), 1e9), "latency_s is nan"),
        (lambda: link(float("inf"), 1e9), "latency_s is inf"),
        (lambda: link(1e-6, 0), "bytes_per_s is 0"),
        (lambda: link(True, 1e9), "latency_s is True"),
        (lambda: Network(between=link(0, 1), ranks_a_host=0), "ranks_a_host is 0"),
        (lambda: simulate("ring", 2.5, [4], Network(between=link(0, 1))), "ranks is 2.5"),
        (lambda: simulate("ring", 2, [2**70], Network(between=link(0, 1))), "a size is 1180591620717411303424"),
        (lambda: simulate("ring", 2, [-4], Network(between=link(0, 1))), "a size is -4"),
    ],
)
def test_links_networks_and_sizes_are_checked(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_a_link_may_be_without_limit_but_not_without_latency_figure():
    # 2 steps of 1 us, nothing for the bytes
    assert seconds("ring", 2, 8000, Network(between=link(1e-6, float("inf")))) == pytest.approx(2e-6)


@PROFILE
@given(st.integers(2, 5), st.integers(2, 5), st.integers(1, 300), slope, slope, modes)
def test_hierarchical_stays_within_its_bandwidth_bound(local, many, blocks, inside, between, startup):
    ranks, n = local * many, divisible(local * many, blocks)
    net = Network(
        between=Link(pieces=((0.0, 0.0, between),)),
        inside=Link(pieces=((0.0, 0.0, inside),)),
        ranks_a_host=local,
        alpha_occupies_port=startup,
    )
    bound = 2 * n * (local - 1) / local * inside + 2 * n * (many - 1) / many * between
    assert seconds("hierarchical", ranks, n, net) <= bound * (1 + EXACT)
