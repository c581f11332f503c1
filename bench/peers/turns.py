"""The same size for all, in turn: A B C A B C …, so that a slow moment of the machine hits every contender."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from peers.group import Group, Lost
from peers.wire import Nanoseconds, Refused, Request
from pycomm.units import NANOSECONDS_A_SECOND, format_bytes

TICKS_A_SAMPLE: Final = 100  # a shorter sample is a batch of calls
FEWEST_SAMPLES: Final = 3  # in a turn, but one of calls that take half a second
_MOST_SAMPLES: Final = 5000
_MOST_WARMUP: Final = 100
_LONG_NS: Final = 5e8
_HOPELESS: Final = 2.0  # times the fastest estimate: not tried again
_QUICK_NS: Final = 1_000_000  # faster calls are estimated again once they are warm


@dataclass(frozen=True)
class Contender:
    """One column of a table: a group and its ways to do the same; of several the fastest takes the turns.

    Without one that is `needed` there is nothing to compare: its loss ends the run, another's only its own column.
    `limit` marks what is timed beside the all-reduces and does not decide how long their samples are.
    """

    name: str
    group: Group
    variants: tuple[str, ...]
    needed: bool = False
    limit: bool = False


@dataclass(frozen=True)
class Retired:
    """Why a contender is asked no more: too slow, or `lost`."""

    reason: str
    lost: bool = False


@dataclass(frozen=True)
class Pace:
    """`rounds` turns for each, of `turn_s` seconds or three samples; `trial_s` for each way in each of two trials.

    A contender whose call takes longer than `patience_s` is left out from that size on.
    """

    rounds: int = 5
    turn_s: float = 0.05
    trial_s: float = 0.01
    patience_s: float = 2.0


@dataclass(frozen=True)
class Outcome:
    """What became of a contender at one size: samples of `batch` calls in nanoseconds, or the `reason` for none."""

    contender: Contender
    variant: str = ""
    batch: int = 1
    warmup: int = 0
    samples_ns: Nanoseconds = field(default_factory=lambda: np.empty(0, np.int64))
    wrong: int | None = None
    reason: str = ""
    skipped: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)  # why variants were not tried, even if another was

    @property
    def samples_s(self) -> npt.NDArray[np.float64]:
        """Seconds of one call."""
        return self.samples_ns / (self.batch * NANOSECONDS_A_SECOND)


@dataclass
class _Entry:
    """A contender while its size is measured."""

    contender: Contender
    estimates_ns: dict[str, float] = field(default_factory=dict)  # of one call, by variant
    wrong: dict[str, int | None] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    retired: Retired | None = None
    variant: str = ""
    warmup: int = 0
    rounds: list[Nanoseconds] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return bool(self.estimates_ns)

    def ask(self, request: Request) -> Nanoseconds | None:
        """The samples; None, and out of the race with this variant or altogether, when there are none."""
        try:
            wrong, samples_ns = self.contender.group.ask(request)
        except Refused as error:
            self.estimates_ns.pop(request.variant, None)
            self.refused[request.variant] = str(error)
            return None
        except Lost as error:
            if self.contender.needed:
                raise
            self.estimates_ns.clear()
            self.retired = Retired(str(error), lost=True)
            return None
        if request.check:
            self.wrong[request.variant] = wrong
        return samples_ns

    def outcome(self, batch: int) -> Outcome:
        if self.retired:
            return Outcome(self.contender, reason=self.retired.reason, skipped=not self.retired.lost)
        if not self.rounds or not self.alive:
            return Outcome(self.contender, self.variant, reason="; ".join(self.refused.values()), refused=self.refused)
        return Outcome(
            self.contender,
            self.variant,
            batch,
            self.warmup,
            np.concatenate(self.rounds),
            self.wrong.get(self.variant),
            refused=self.refused,
        )


def batch_for(fastest_ns: float, tick_ns: float) -> int:
    """Calls a sample, the same for all: the power of two that makes the fastest one's last 100 ticks of the clock."""
    batch = 1
    while fastest_ns * batch < TICKS_A_SAMPLE * tick_ns:
        batch *= 2
    return batch


def samples_for(seconds: float, estimate_ns: float, batch: int) -> int:
    """How many samples fill `seconds`: at least three, or one of very long ones."""
    sample_ns = max(1.0, estimate_ns * batch)
    fewest = FEWEST_SAMPLES if sample_ns < _LONG_NS else 1
    return int(min(_MOST_SAMPLES, max(fewest, seconds * NANOSECONDS_A_SECOND / sample_ns)))


def measure(
    contenders: Sequence[Contender], count: int, pace: Pace, tick_ns: float, retired: dict[str, Retired]
) -> list[Outcome]:
    """All contenders at one size, in the order given; `retired` holds who is left out and why, and may grow.

    Raises Lost when a group that is needed stops answering.
    """
    entries = [_Entry(contender, retired=retired.get(contender.name)) for contender in contenders]
    for entry in entries:
        if entry.retired is None:
            _check_and_estimate(entry, count, pace)
    estimates = [min(entry.estimates_ns.values()) for entry in entries if entry.alive and not entry.contender.limit]
    batch = batch_for(min(estimates, default=NANOSECONDS_A_SECOND), tick_ns)
    for entry in entries:
        if entry.alive:
            _choose(entry, count, batch, pace)
    for _ in range(pace.rounds):
        for entry in entries:
            if not entry.alive:
                continue
            samples = samples_for(pace.turn_s, entry.estimates_ns[entry.variant], batch)
            entry.warmup = _warmup(samples)
            taken = entry.ask(Request(entry.variant, count, entry.warmup, samples, batch))
            if taken is not None:
                entry.rounds.append(taken)
    retired |= {entry.contender.name: entry.retired for entry in entries if entry.retired is not None}
    return [entry.outcome(batch) for entry in entries]


def _check_and_estimate(entry: _Entry, count: int, pace: Pace) -> None:
    for variant in entry.contender.variants:
        taken = entry.ask(Request(variant, count, 1, FEWEST_SAMPLES, check=True))
        if entry.retired is not None:
            return
        if taken is not None and np.min(taken) < _QUICK_NS:
            taken = entry.ask(Request(variant, count, 20, 30))
        if taken is not None:
            entry.estimates_ns[variant] = float(np.median(taken))
    fastest_s = min(entry.estimates_ns.values(), default=0.0) / NANOSECONDS_A_SECOND
    if fastest_s > pace.patience_s:
        entry.estimates_ns.clear()
        bytes_ = format_bytes(4 * count)
        entry.retired = Retired(f"one call on {bytes_} took {fastest_s:.1f} s, more than {pace.patience_s:g} s")


def _choose(entry: _Entry, count: int, batch: int, pace: Pace) -> None:
    """The fastest variant in two trials, apart from the turns: a choice by the turns' own luck would flatter it."""
    hopeless_ns = _HOPELESS * min(entry.estimates_ns.values())
    variants = [variant for variant, estimate_ns in entry.estimates_ns.items() if estimate_ns <= hopeless_ns]
    if len(variants) > 1:
        trials: dict[str, float] = {}
        for _ in range(2):
            for variant in variants:
                samples = samples_for(pace.trial_s, entry.estimates_ns[variant], batch)
                taken = entry.ask(Request(variant, count, _warmup(samples), samples, batch))
                if taken is not None:
                    trials[variant] = min(trials.get(variant, np.inf), float(np.median(taken)) / batch)
        entry.estimates_ns |= trials
        entry.variant = min(trials, key=lambda variant: trials[variant], default=variants[0])
    else:
        entry.variant = variants[0]


def _warmup(samples: int) -> int:
    return min(_MOST_WARMUP, max(1, samples // 10))
