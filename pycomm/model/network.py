"""Links and networks, with presets, and what an algorithm costs on them by simulation.

Preset bandwidths are the standards' data rates in one direction; latencies are what the named sources report
between two processes. Measure your own with `pycomm bench` and `pycomm fit` where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pycomm import _core
from pycomm.checks import check_bytes, check_positive, check_time, check_whole
from pycomm.errors import UsageError
from pycomm.model.costs import Measured, Piecewise


@dataclass(frozen=True, kw_only=True)
class Link:
    """One direction of a full-duplex port: pieces (from_bytes, latency_s, seconds_per_byte), the first from 0."""

    pieces: tuple[tuple[float, float, float], ...]
    source: str = ""

    @property
    def latency_s(self) -> float:
        return self.pieces[0][1]

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth of the largest messages."""
        slope = self.pieces[-1][2]
        return float("inf") if slope == 0 else 1 / slope

    def faster(self, *, bandwidth: float = 1.0, latency: float = 1.0) -> Link:
        """With `bandwidth` times the bandwidth and 1/`latency` times the latency."""
        if not (bandwidth > 0 and latency > 0):
            raise UsageError("a link is made faster by positive factors")
        return replace(
            self, pieces=tuple((size, alpha / latency, beta / bandwidth) for size, alpha, beta in self.pieces)
        )


def link(latency_s: float, bytes_per_s: float, source: str = "") -> Link:
    """A link with one latency and one bandwidth (bytes per second, one direction), which may be infinite.

    Raises UsageError for a latency that is not finite or is negative, and for a bandwidth that is not positive.
    """
    check_time(latency_s, "a link's latency_s")
    if bytes_per_s != float("inf"):
        check_positive(bytes_per_s, "a link's bytes_per_s")
    return Link(pieces=((0.0, latency_s, 1 / bytes_per_s),), source=source)


def link_from(cost: Piecewise, source: str = "") -> Link:
    """A fitted cost of one message as a link; a negative latency or slope counts 0."""
    starts = (0.0, *cost.breaks)
    return Link(
        pieces=tuple(
            (start, max(0.0, piece.latency_s), max(0.0, piece.seconds_per_byte))
            for start, piece in zip(starts, cost.pieces, strict=True)
        ),
        source=source,
    )


@dataclass(frozen=True, kw_only=True)
class Network:
    """Ranks on links: `between` hosts, `inside` one, with `ranks_a_host` ranks sharing a host's network card.

    With `ranks_a_host` 1 every rank has a card of its own and `inside` is not used. `gamma_s_per_byte`: a
    reduced byte. `alpha_occupies_port`: the latency is start-up, during which the port can do nothing else.
    """

    between: Link
    inside: Link | None = None
    ranks_a_host: int = 1
    gamma_s_per_byte: float = 0.0
    alpha_occupies_port: bool = False

    def __post_init__(self) -> None:
        check_whole(self.ranks_a_host, "ranks_a_host", 1)

    def hosts(self, ranks: int) -> list[int]:
        return [] if self.ranks_a_host == 1 else [rank // self.ranks_a_host for rank in range(ranks)]


@dataclass(frozen=True)
class Simulated:
    """An all-reduce on a network: seconds until the last rank is done, wire bytes of the busiest rank."""

    bytes: int
    seconds: float
    busiest_bytes: int


ELEMENT_BYTES = 4


def simulate(
    algorithm: str,
    ranks: int,
    sizes: list[int],
    network: Network,
    *,
    options: dict[str, int] | None = None,
    segments: int = 1,
    lanes: int = 1,
    align_bytes: int = ELEMENT_BYTES,
) -> tuple[Simulated, ...]:
    """The registry's all-reduce `algorithm` of each of `sizes` bytes of float32, message by message.

    `ranks` counts dedicated servers too. Raises UsageError as the registry does.
    """
    check_whole(ranks, "ranks")
    results = _core.simulate_schedule(
        algorithm=algorithm,
        ranks=ranks,
        counts=[-(-check_bytes(size, "a size") // ELEMENT_BYTES) for size in sizes],
        between=list(network.between.pieces),
        inside=[] if network.inside is None else list(network.inside.pieces),
        gamma_s_per_byte=network.gamma_s_per_byte,
        alpha_occupies_port=network.alpha_occupies_port,
        hosts=network.hosts(ranks),
        options=dict(options or {}),
        segments=segments,
        lanes=lanes,
        element_bytes=ELEMENT_BYTES,
        align=max(1, align_bytes // ELEMENT_BYTES),
    )
    return tuple(
        Simulated(size, max(finish), max(max(pair) for pair in zip(sent, received, strict=True)))
        for size, (finish, sent, received) in zip(sizes, results, strict=True)
    )


# Sizes at which an algorithm is simulated; between them its cost is a straight line.
_SAMPLES = tuple(1 << power for power in range(10, 31, 2))
_SEGMENTED = {"tree": (1, 4, 16, 64), "double-tree": (1, 4, 16, 64), "ps": (1, 8)}


def algorithm_cost(algorithm: str, ranks: int, network: Network, *, options: dict[str, int] | None = None) -> Measured:
    """Seconds of the all-reduce by its size, from simulations at sizes a factor four apart.

    Algorithms that pipeline over segments are simulated with several numbers of them, and the best counts, as
    a tuned run would choose. One rank costs nothing.
    """
    if ranks == 1:
        return Measured(((0.0, 0.0), (float(_SAMPLES[-1]), 0.0)))
    sizes = [4, *_SAMPLES]
    tried = [
        [one.seconds for one in simulate(algorithm, ranks, sizes, network, options=options, segments=s, lanes=s)]
        for s in _SEGMENTED.get(algorithm, (1,))
    ]
    best = np.min(tried, axis=0)
    return Measured(tuple((float(size), float(time_s)) for size, time_s in zip(sizes, best, strict=True)))


_PCI = "PCI-SIG base specification, x16, after line coding; latency of a device-to-device copy under CUDA"
_NVLINK = "NVIDIA's data sheets, all links of one GPU, one direction; latency of a peer copy under CUDA"
_ETHERNET = "IEEE 802.3 data rate; latency of TCP with the kernel's stack"
_RDMA_ETHERNET = "IEEE 802.3 data rate; latency of RoCE"
_INFINIBAND = "InfiniBand Trade Association roadmap, 4 lanes, data rate; MPI latency as OSU publishes it"
_GBIT = 1e9 / 8

PRESETS: dict[str, Link] = {
    "pcie3": link(5e-6, 15.75e9, _PCI + " (8 GT/s, V100: data sheet)"),
    "pcie4": link(5e-6, 31.5e9, _PCI + " (16 GT/s, A100: data sheet)"),
    "pcie5": link(5e-6, 63e9, _PCI + " (32 GT/s, H100: data sheet)"),
    "nvlink2": link(3e-6, 150e9, _NVLINK + " (V100: 6 x 25 GB/s)"),
    "nvlink3": link(3e-6, 300e9, _NVLINK + " (A100: 12 x 25 GB/s)"),
    "nvlink4": link(3e-6, 450e9, _NVLINK + " (H100: 18 x 25 GB/s)"),
    "1gbe": link(50e-6, 1 * _GBIT, _ETHERNET),
    "10gbe": link(30e-6, 10 * _GBIT, _ETHERNET),
    "25gbe": link(15e-6, 25 * _GBIT, _ETHERNET),
    "100gbe": link(3e-6, 100 * _GBIT, _RDMA_ETHERNET),
    "ib-fdr": link(1.5e-6, 54.5 * _GBIT, _INFINIBAND + " (14.0625 Gb/s a lane, 64b/66b)"),
    "ib-edr": link(1.2e-6, 100 * _GBIT, _INFINIBAND + " (25 Gb/s a lane)"),
    "ib-hdr": link(1.1e-6, 200 * _GBIT, _INFINIBAND + " (50 Gb/s a lane)"),
    "ib-ndr": link(1.0e-6, 400 * _GBIT, _INFINIBAND + " (100 Gb/s a lane)"),
}


def preset(name: str) -> Link:
    """A preset link by its name in either case. Raises UsageError for an unknown one."""
    if name.lower() not in PRESETS:
        raise UsageError(f"unknown network {name!r}: one of {', '.join(PRESETS)}")
    return PRESETS[name.lower()]
