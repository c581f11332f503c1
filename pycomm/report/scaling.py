"""Speed-up over workers as a plot: a line a prediction, beside the ideal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log2
from pathlib import Path

from pycomm.errors import Unavailable, UsageError
from pycomm.files import check_writable, unwritable
from pycomm.model.predict import Prediction

_COLOURS = 10  # of matplotlib's cycle; after them another mark tells lines apart
_MARKS = "os^Dv"


def write(lines: Mapping[str, Sequence[Prediction]], path: str | Path, *, force: bool = False) -> None:
    """Write the plot of named lines; the file's ending names the format (svg, png, pdf).

    What all names have in common, between commas, becomes the title.

    Raises UsageError if the file exists and `force` is not set, cannot be written, or has an ending that is no format;
    Unavailable without matplotlib.
    """
    check_writable(path, force=force)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Unavailable("a plot needs matplotlib: pip install 'pycomm[report]'") from error
    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    workers = sorted({row.workers for line in lines.values() for row in line})
    axes.plot(workers, workers, color="0.7", linestyle="--", label="ideal")
    title, labels = _shared_and_own(list(lines))
    for number, (label, line) in enumerate(zip(labels, lines.values(), strict=True)):
        mark = _MARKS[number // _COLOURS % len(_MARKS)]
        axes.plot([row.workers for row in line], [row.speed_up for row in line], marker=mark, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(workers, [str(count) for count in workers])
    slowest = min(row.speed_up for line in lines.values() for row in line)
    below = [2.0**power for power in range(floor(log2(slowest)), 1)] if slowest < 1 else []
    ticks = sorted({*below, *workers})  # more workers may be slower than one
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("workers")
    axes.set_ylabel("speed-up at the same batch a worker")
    axes.set_title(title)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0, frameon=False)  # beside the lines
    try:
        figure.savefig(path, bbox_inches="tight")
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise unwritable(path, error) from error


def _shared_and_own(names: Sequence[str]) -> tuple[str, list[str]]:
    """What all names have, and what each has besides; of names that are all alike the whole is both."""
    parts = [name.split(", ") for name in names]
    shared = [part for part in parts[0] if all(part in other for other in parts)]
    own = [", ".join(part for part in mine if part not in shared) for mine in parts]
    return ", ".join(shared), [label or ", ".join(shared) for label in own]
