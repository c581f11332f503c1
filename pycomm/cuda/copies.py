"""Copies between host and GPUs, measured: pinned and pageable memory, within a device and between two."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pycomm.cuda.probe import cuda_module, missing_device
from pycomm.errors import DeviceError, Unavailable
from pycomm.measure.alone import blank_row, timed_row
from pycomm.measure.record import CaseRecord, Loop

KINDS: Final = ("h2d", "d2h", "d2d", "p2p")
MEMORIES: Final = ("pinned", "pageable")
CLOCKS: Final = ("events", "host")
WARMUP: Final = 3
_LINKS: Final = {
    "h2d": "host to device", "d2h": "device to host", "d2d": "device memory", "p2p": "peer access",
}  # fmt: skip

# (kind, device, peer, pinned, bytes, samples) -> nanoseconds of each sample by events, and by the host's clock
TimeCopies = Callable[[str, int, int, bool, int, int], tuple[Any, Any]]


@dataclass(frozen=True)
class Copy:
    """A kind of copy: `memory` is that of the host, "" where none takes part; `peer` is the other device of p2p."""

    kind: str
    device: int
    memory: str = ""
    peer: int = -1


def find_copies(kinds: tuple[str, ...], memories: tuple[str, ...], devices: int) -> list[Copy]:
    """Every copy that `devices` devices allow; with none, those of device 0, so that each can say why not."""
    found = []
    for kind, device in itertools.product(kinds, range(max(1, devices))):
        if kind in ("h2d", "d2h"):
            found += [Copy(kind, device, memory) for memory in memories]
        elif kind == "d2d":
            found.append(Copy(kind, device))
        else:
            peers = [peer for peer in range(devices) if peer != device]
            found += [Copy(kind, device, peer=peer) for peer in peers] or [Copy(kind, device)]
    return found


def measure_copies(
    copies: list[Copy], sizes: tuple[int, ...], samples: int, time_copies: TimeCopies | None = None
) -> Iterator[CaseRecord]:
    """Two records a copy and size: by events on the stream, and by the host's clock.

    A copy that cannot be made is skipped with the reason. ``time_copies`` stands for the device in tests.
    """
    reason = missing_device() if time_copies is None else ""
    measure = time_copies or _time_on_device
    for copy, size in itertools.product(copies, sizes):
        why = reason or ("needs two devices" if copy.kind == "p2p" and copy.peer < 0 else "")
        blank = _blank(copy, size)
        if why:
            yield from (replace(_by(blank, clock), status="skipped", reason=why) for clock in CLOCKS)
            continue
        try:
            pinned = copy.memory != "pageable"
            elapsed = measure(copy.kind, copy.device, copy.peer, pinned, size, samples + WARMUP)
        except Unavailable as error:
            yield from (replace(_by(blank, clock), status="skipped", reason=str(error)) for clock in CLOCKS)
            continue
        except DeviceError as error:
            yield from (replace(_by(blank, clock), reason=str(error)) for clock in CLOCKS)
            continue
        for clock, elapsed_ns in zip(CLOCKS, elapsed, strict=True):
            loop = Loop("c++", "each", 1, clock)
            yield timed_row(_by(blank, clock), np.asarray(elapsed_ns)[WARMUP:], WARMUP, loop)


def _time_on_device(kind: str, device: int, peer: int, pinned: bool, size: int, samples: int) -> tuple[Any, Any]:
    module: Any = cuda_module()
    times: tuple[Any, Any] = module.time_copies(
        kind=kind, device=device, peer=max(peer, 0), pinned=pinned, bytes=size, samples=samples, batch=1
    )
    return times


def _blank(copy: Copy, size: int) -> CaseRecord:
    return blank_row(
        benchmark="copy",
        backend="cuda",
        algorithm=copy.kind,
        options=copy.memory,
        transport="copy engine",
        device=f"cuda:{copy.device}" if copy.peer < 0 else f"cuda:{copy.device}->cuda:{copy.peer}",
        dtype="uint8",
        link=_LINKS[copy.kind],
        bytes=size,
        count=size,
    )


def _by(blank: CaseRecord, clock: str) -> CaseRecord:
    return replace(blank, options=",".join(filter(None, (blank.options, clock))))
