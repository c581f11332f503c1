"""``pycomm bench packing``: a network's gradients into one buffer and back, on the CPU or on a GPU."""

from pathlib import Path

import click
from rich.table import Table

from pycomm.cli.cases import write_cases
from pycomm.cli.options import FORCE, FORMAT, OUT, choices
from pycomm.measure.packing import measure_packing
from pycomm.measure.record import CaseRecord
from pycomm.model.tables import table as find_network
from pycomm.units import MICROSECONDS_A_SECOND, format_bytes, format_rate

FLOATS = ("float64", "float32", "float16", "bfloat16")


@click.command(short_help="Pack a network's gradients into one buffer and back.")
@click.option("--model", default="resnet50", show_default=True, help="Whose gradients.")
@click.option("--dtype", type=click.Choice(FLOATS), default="float32", show_default=True, help="Of the gradients.")
@click.option("--buffer-dtypes", default="float32,bfloat16,float16", show_default=True, help="Of the buffer: a list.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--iterations", type=click.IntRange(min=6), default=30, show_default=True, help="Samples a row.")
@OUT
@FORCE
@FORMAT
def packing(
    model: str,
    dtype: str,
    buffer_dtypes: str,
    device: str,
    iterations: int,
    out: Path | None,
    force: bool,
    format_: str,
) -> int:
    """Pack gradients into one buffer and back, beside a copy of as many bytes."""
    chosen = choices("--buffer-dtypes", buffer_dtypes, FLOATS)
    cases = measure_packing(find_network(model), dtype, chosen, device, iterations)
    return write_cases(cases, out=out, force=force, format_=format_, table=_table)


def _table(cases: list[CaseRecord]) -> Table:
    table = Table(
        "step", "tensors", "buffer", "moved / 2", "median [µs]", "rate [GB/s]", "of a copy", "status", box=None
    )
    copies = {case.options: case.algbw_Bps for case in cases if case.algorithm == "copy"}
    for case in cases:
        median = "" if case.time_s is None else f"{case.time_s.median * MICROSECONDS_A_SECOND:.1f}"
        rate = "" if case.algbw_Bps is None else format_rate(case.algbw_Bps)
        copied = copies.get(case.options)
        share = f"{case.algbw_Bps / copied:.0%}" if case.algbw_Bps and copied else ""
        buffer = case.options.rpartition("=")[2]
        table.add_row(case.algorithm, case.dtype, buffer, format_bytes(case.bytes), median, rate, share, case.status)
    return table
