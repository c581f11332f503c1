"""Speed-up over workers as a plot: one line a strategy and algorithm, beside the ideal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pycomm.errors import Unavailable, UsageError
from pycomm.model.predict import Prediction


def write(rows: Sequence[Prediction], path: str | Path, *, title: str, force: bool = False) -> None:
    """Write the plot; the file's ending names the format (svg, png, pdf).

    Raises UsageError if the file exists and `force` is not set, or has an ending that is no format; Unavailable
    without matplotlib.
    """
    if Path(path).exists() and not force:
        raise UsageError(f"{path} exists; --force overwrites it")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Unavailable("a plot needs matplotlib: pip install 'pycomm[report]'") from error
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    workers = sorted({row.workers for row in rows})
    axes.plot(workers, workers, color="0.7", linestyle="--", label="ideal")
    for label in dict.fromkeys(f"{row.strategy}, {row.algorithm}" for row in rows):
        line = sorted((row for row in rows if f"{row.strategy}, {row.algorithm}" == label), key=lambda row: row.workers)
        axes.plot([row.workers for row in line], [row.speed_up for row in line], marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(workers, [str(count) for count in workers])
    axes.set_yticks(workers, [str(count) for count in workers])
    axes.set_xlabel("workers")
    axes.set_ylabel("speed-up at the same batch a worker")
    axes.set_title(title)
    axes.legend()
    try:
        figure.savefig(path)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
