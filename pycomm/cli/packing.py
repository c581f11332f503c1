"""``pycomm bench packing``: a network's gradients into one buffer and back, on the CPU or on a GPU."""

from pathlib import Path

import click
from rich.table import Table

from pycomm.cli.cases import write_cases
from pycomm.cli.options import FORCE, FORMAT, OUT, choices
from pycomm.measure.columns import MISSING, RATE, SIZE, TIME, WRONG, Column
from pycomm.measure.packing import measure_packing
from pycomm.measure.record import CaseRecord
from pycomm.measure.table import build_rows
from pycomm.model.tables import table as find_network

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


def _table(cases: list[CaseRecord], width: int) -> Table:
    copies_Bps = {case.options: case.algbw_Bps for case in cases if case.algorithm == "copy"}

    def share(case: CaseRecord, best_s: float | None) -> str:
        copied_Bps = copies_Bps.get(case.options)
        return f"{case.algbw_Bps / copied_Bps:.0%}" if case.algbw_Bps and copied_Bps else MISSING

    columns = [
        Column("step", "", 6, lambda case, best_s: case.algorithm, right=False),
        Column("tensors", "", 8, lambda case, best_s: case.dtype, right=False),
        Column("buffer", "", 8, lambda case, best_s: case.options.rpartition("=")[2], right=False),
        Column("moved / 2", "", 9, SIZE.text),
        TIME,
        RATE,
        Column("of a copy", "", 9, share),
        WRONG,
    ]
    return build_rows(columns, cases, None, header=True, width=width)
