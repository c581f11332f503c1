"""AlexNet and ResNet-50 in TensorFlow, 2017: four platforms, 1 to 64 GPUs, synthetic and real input.

The rows of one GPU set the computing of each network and batch, and, where real input is slower than synthetic, the
time one GPU's input takes. One more row a platform sets one figure:

- on one machine, the AlexNet row with real input on the most GPUs sets how much longer input takes with each further
  GPU that shares the machine's disk, decoders and memory: input(g) = input(1) + (g - 1) · s;
- across machines, the ResNet-50 row on the most GPUs sets the bandwidth between machines.

Inside a machine gradients move by ring over the preset PCIe 3, as each exchange becomes ready (the benchmark's graph
overlaps them with backward). Between machines (mode distributed_replicated) gradients go to servers on the workers'
machines, one a machine, as they become ready, and the workers fetch the variables when all of them are updated. So the
mode is described (tf_cnn_benchmarks, variable_mgr.py, VariableMgrDistributedReplicated); its code has a barrier a
variable, which would let each return on its own. What was measured agrees with the description: the other way the same
rows are off by 19.5 % instead of 5.9 %. That was seen before the choice was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pycomm.errors import UsageError
from pycomm.model.gradients import gradients_of
from pycomm.model.iteration import Iteration, Settings
from pycomm.model.network import Link, Network, algorithm_cost, link, preset
from pycomm.model.spread import spread
from pycomm.model.strategies import strategy
from pycomm.model.tables import table
from pycomm.model.tasks import After, Job, gains, run
from pycomm.model.validation.figures import read_figures
from pycomm.model.validation.row import Row
from pycomm.trace.trace import Trace

GPUS_A_MACHINE = 8
_MODELS = {"ResNet-50": "resnet50", "AlexNet": "alexnet"}
_DATA = ("synthetic", "real")
_BISECTIONS = 40


@dataclass(frozen=True)
class Cell:
    platform: str
    data: str
    model: str
    batch: int
    gpus: int
    iteration_s: float

    @property
    def name(self) -> str:
        return f"{self.platform}, {self.model} x {self.batch}, {self.data}, {self.gpus} GPU{'s' * (self.gpus != 1)}"


@dataclass(frozen=True)
class Platform:
    """What the calibrating row sets: seconds of input a further GPU adds, or the link between machines."""

    input_growth_s: float = 0.0
    between: Link | None = None


def read_cells(path: Path) -> list[Cell]:
    """Every row. Raises UsageError with file, line and reason, also where no row of one GPU sets the computing."""
    cells: list[Cell] = []
    for line in read_figures(path, ("platform", "data", "model", "batch_per_gpu", "gpus", "images_per_s")):
        batch, gpus = line.count("batch_per_gpu"), line.count("gpus")
        data, model = line.one_of("data", _DATA), line.one_of("model", _MODELS)
        iteration_s = gpus * batch / line.positive("images_per_s")
        cells.append(Cell(line.cells["platform"], data, model, batch, gpus, iteration_s))
    alone = {(cell.platform, cell.data, cell.model, cell.batch) for cell in cells if cell.gpus == 1}
    for cell in cells:
        for data in {"synthetic", cell.data}:
            if (cell.platform, data, cell.model, cell.batch) not in alone:
                raise UsageError(f"{path}: {cell.name}: no row of 1 GPU, {data}, to calibrate on")
    return cells


def calibrating_row(cells: Sequence[Cell]) -> Cell:
    """The platform's row of several GPUs that sets its figure."""
    fed = [cell for cell in cells if cell.model == "AlexNet" and cell.data == "real"]
    return max(fed or cells, key=lambda cell: (cell.gpus, cell.batch))


def _one_gpu(cells: Sequence[Cell], like: Cell) -> tuple[float, float]:
    """(seconds of computing, seconds of input) of one GPU; input is 0 where it does not show."""
    alone = {
        cell.data: cell.iteration_s
        for cell in cells
        if cell.gpus == 1 and (cell.model, cell.batch) == (like.model, like.batch)
    }
    computing_s = alone["synthetic"]
    return computing_s, alone["real"] if like.data == "real" else 0.0


def _trace(cells: Sequence[Cell], cell: Cell, platform: Platform) -> Trace:
    computing_s, input_s = _one_gpu(cells, cell)
    trace = spread(table(_MODELS[cell.model]), batch=cell.batch, iteration_s=computing_s)
    if cell.data == "real":
        input_s += (min(cell.gpus, GPUS_A_MACHINE) - 1) * platform.input_growth_s * _share(cell)
    return replace(trace, input_s=input_s)


def _share(cell: Cell) -> float:
    """Input grows with the images a batch holds; the calibrating row's batch is 512."""
    return cell.batch / 512


def _job(cells: Sequence[Cell], cell: Cell, platform: Platform) -> Job:
    trace = _trace(cells, cell, platform)
    inside = algorithm_cost("ring", min(cell.gpus, GPUS_A_MACHINE), Network(between=preset("pcie3")))
    machines = cell.gpus // GPUS_A_MACHINE
    if machines < 2 or platform.between is None:
        return strategy("tensorflow").build(trace, inside, Settings())
    both_ways = algorithm_cost("ps", machines, Network(between=platform.between), options={"servers": machines})
    iteration = Iteration(trace, Settings())
    iteration.build()
    pushes = []
    for place, gradient in enumerate(gradients_of(trace)):
        size = float(gradient.bytes)
        pushes.append(After(f"push{place}"))
        push_s = float(inside(size)) + float(both_ways(size)) / 2
        iteration.exchange(f"push{place}", push_s, [After(f"b{gradient.layer}")])
    iteration.exchange("fetch", float(both_ways(float(trace.bytes))) / 2, pushes)
    iteration.update([After("fetch")])
    return iteration.job()


def predict(cells: Sequence[Cell], cell: Cell, platform: Platform) -> tuple[float, str]:
    """(seconds of an iteration, the resource that holds it back)."""
    job = _job(cells, cell, platform)
    return run(job, iterations=16).period_s, gains(job, iterations=16)[0].resource


def _calibrate(cells: Sequence[Cell], row: Cell) -> Platform:
    """The figure with which the model gives the calibrating row's time, by bisection."""
    fed = row.data == "real"
    low, high = (0.0, row.iteration_s) if fed else (1e-12, 1e-7)

    def platform_of(value: float) -> Platform:
        return Platform(input_growth_s=value) if fed else Platform(between=link(50e-6, 1 / value))

    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        period_s = run(_job(cells, row, platform_of(middle)), iterations=12).period_s
        low, high = (low, middle) if period_s > row.iteration_s else (middle, high)
    return platform_of((low + high) / 2)


def validate(path: Path) -> list[Row]:
    """A row a cell; the rows of one GPU and the calibrating ones are marked."""
    everything = read_cells(path)
    rows: list[Row] = []
    for name in dict.fromkeys(cell.platform for cell in everything):
        cells = [cell for cell in everything if cell.platform == name]
        row = calibrating_row(cells)
        platform = _calibrate(cells, row)
        for cell in cells:
            predicted_s, bottleneck = predict(cells, cell, platform)
            rows.append(
                Row(
                    line=name,
                    case=cell.name,
                    measured_s=cell.iteration_s,
                    predicted_s=predicted_s,
                    calibrated=cell.gpus == 1 or cell == row,
                    note=f"bottleneck: {bottleneck}",
                )
            )
    return rows
