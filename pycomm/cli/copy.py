"""``pycomm bench copy``: host to GPU and back, within a GPU and between two."""

from pathlib import Path

import click
from rich.table import Table

from pycomm.cli.cases import write_cases
from pycomm.cli.options import FORCE, FORMAT, OUT, choices
from pycomm.cuda.copies import KINDS, MEMORIES, find_copies, measure_copies
from pycomm.cuda.probe import cuda_module, missing_device
from pycomm.measure.record import CaseRecord
from pycomm.units import MICROSECONDS_A_SECOND, format_bytes, format_rate, parse_sizes


@click.command(short_help="Copy between host and GPU, within a GPU and between two.")
@click.option("--sizes", default="4K:256M:x16", show_default=True, help="Bytes: a list, ranges FROM:TO:xFACTOR.")
@click.option("--kinds", default=",".join(KINDS), show_default=True, help="Which copies.")
@click.option("--memory", default=",".join(MEMORIES), show_default=True, help="Host memory of h2d and d2h.")
@click.option("--iterations", type=click.IntRange(min=6), default=30, show_default=True, help="Samples a row.")
@OUT
@FORCE
@FORMAT
def copy(sizes: str, kinds: str, memory: str, iterations: int, out: Path | None, force: bool, format_: str) -> int:
    """Copy between host and GPUs; times by events on the stream and by the host's clock."""
    chosen = choices("--kinds", kinds, KINDS), choices("--memory", memory, MEMORIES)
    all_sizes = tuple(size for size in parse_sizes(sizes, "--sizes") if size > 0)
    module = cuda_module()
    devices = 0 if missing_device() or module is None else len(module.devices())
    cases = measure_copies(find_copies(*chosen, devices), all_sizes, iterations)
    return write_cases(cases, out=out, force=force, format_=format_, table=_table)


def _table(cases: list[CaseRecord]) -> Table:
    table = Table("copy", "device", "size", "clock", "median [µs]", "rate [GB/s]", "status", box=None)
    for case in cases:
        memory, _, clock = case.options.rpartition(",")
        median = "" if case.time_s is None else f"{case.time_s.median * MICROSECONDS_A_SECOND:.2f}"
        rate = "" if case.algbw_Bps is None else format_rate(case.algbw_Bps)
        name = f"{case.algorithm} {memory}".strip()
        table.add_row(name, case.device, format_bytes(case.bytes), clock, median, rate, case.status)
    return table
