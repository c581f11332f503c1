"""``pycomm bench copy``: host to GPU and back, within a GPU and between two."""

from pathlib import Path
from typing import Final

import click
from rich.table import Table

from pycomm.cli.cases import write_cases
from pycomm.cli.options import FORCE, FORMAT, OUT, choices
from pycomm.cuda.copies import KINDS, MEMORIES, find_copies, measure_copies
from pycomm.cuda.probe import cuda_module, missing_device
from pycomm.errors import UsageError
from pycomm.measure.columns import RATE, SIZE, TIME, Column
from pycomm.measure.record import CaseRecord
from pycomm.measure.table import build_rows
from pycomm.units import parse_sizes


@click.command(short_help="Copy between host and GPU, within a GPU and between two.")
@click.option("--sizes", default="4K:256M:x16", show_default=True, help="Bytes: a list, ranges FROM:TO:xFACTOR.")
@click.option("--kinds", default=",".join(KINDS), show_default=True, help="Which copies.")
@click.option("--memories", default=",".join(MEMORIES), show_default=True, help="Host memory of h2d and d2h.")
@click.option("--iterations", type=click.IntRange(min=6), default=30, show_default=True, help="Samples a row.")
@OUT
@FORCE
@FORMAT
def copy(sizes: str, kinds: str, memories: str, iterations: int, out: Path | None, force: bool, format_: str) -> int:
    """Copy between host and GPUs; times by events on the stream and by the host's clock."""
    chosen = choices("--kinds", kinds, KINDS), choices("--memories", memories, MEMORIES)
    all_sizes = tuple(parse_sizes(sizes, "--sizes"))
    if all_sizes[0] < 1:
        raise UsageError(f"--sizes: {sizes!r}: a copy is of 1 byte or more")
    module = cuda_module()
    devices = 0 if missing_device() or module is None else len(module.devices())
    cases = measure_copies(find_copies(*chosen, devices), all_sizes, iterations)
    return write_cases(cases, out=out, force=force, format_=format_, table=_table)


def _memory_and_clock(case: CaseRecord) -> tuple[str, str]:
    memory, _, clock = case.options.rpartition(",")
    return memory, clock


_COLUMNS: Final = [
    Column("copy", "", 12, lambda case, best_s: f"{case.algorithm} {_memory_and_clock(case)[0]}".strip(), right=False),
    Column("device", "", 16, lambda case, best_s: case.device, right=False),
    SIZE,
    Column("clock", "", 6, lambda case, best_s: _memory_and_clock(case)[1], right=False),
    TIME,
    RATE,
]


def _table(cases: list[CaseRecord], width: int) -> Table:
    return build_rows(_COLUMNS, cases, None, header=True, width=width)
