"""GoogLeNet on B-Caffe, 10 Gb/s Ethernet: three communication logs x three strategies.

Computing is calibrated on the measured iteration of one node alone. Communication is what each log holds: for WFBP
the logged time of each tensor, for one message and merged messages the straight line through that log's tensors.

An iteration waits for its slowest worker. The four logs show backward passes of the same network on the same kind of
machine; their spread gives the workers' slowness, at the expected order statistics of that many normal draws. The
line "plain recurrence" leaves that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pycomm.errors import UsageError
from pycomm.model.costs import Cost, LatencyBandwidth
from pycomm.model.fit import Estimate, Fit, FittedPiece, fit_pieces
from pycomm.model.gradients import gradients_of
from pycomm.model.iteration import Iteration, Settings, with_plan
from pycomm.model.measurements import link_behind
from pycomm.model.network import Network, algorithm_cost, simulate
from pycomm.model.plans import one_each
from pycomm.model.strategies import strategy
from pycomm.model.tasks import run
from pycomm.model.validation.figures import read_figures
from pycomm.model.validation.row import Row
from pycomm.trace import bcaffe, calibrate, read_latencies
from pycomm.trace.trace import Trace
from pycomm.units import format_bytes

_LOGS = (("2 nodes", "tmp2comm.log", 2), ("4 nodes 4comm", "tmp4comm.log", 4), ("4 nodes 4ocomm", "tmp4ocomm.log", 4))
_ALL_LOGS = ("tmpcomm.log", "tmp2comm.log", "tmp4comm.log", "tmp4ocomm.log")
# strategy here: its name in the authors' table
_STRATEGIES = {"wfbp": "WFBP", "one-message": "SyncEASGD", "mg-wfbp": "MG-WFBP"}
# What MPICH takes (allreduce_intra_auto.c, Thakur et al. 2005); which MPI the table is of is not known.
_SHORT, _LONG, _SHORT_BYTES = "recursive-doubling", "halving-doubling", 2048
# Expected order statistics of n standard normal draws (Harter 1961, table 1).
_ORDER = {2: (-0.5642, 0.5642), 4: (-1.0294, -0.2970, 0.2970, 1.0294)}


@dataclass(frozen=True)
class _Logged:
    """The logged time of each gradient, in the order in which they appear; sizes are not looked at."""

    times: NDArray[np.float64]

    def __call__(self, sizes: ArrayLike, /) -> NDArray[np.float64]:
        return self.times

    @property
    def start_up_s(self) -> float:
        return 0.0


def _line_through(rows: Sequence[bcaffe.TensorRow], pairs: bool) -> LatencyBandwidth:
    """Least squares through (bytes, communication time) of the log's messages."""
    groups = bcaffe.layers_of(tuple(rows)) if pairs else tuple((row,) for row in rows)
    sizes = np.array([float(sum(row.bytes for row in group)) for group in groups])
    times = np.array([sum(row.communication_s for row in group) for group in groups])
    slope, latency = np.polyfit(sizes, times, 1)
    return LatencyBandwidth(float(latency), float(slope))


def _measured(folder: Path) -> dict[tuple[int, str], float]:
    path = folder / "measured.csv"
    lines = read_figures(path, ("nodes", "strategy", "iter_ms"))
    measured = {(line.count("nodes"), line.cells["strategy"]): line.positive("iter_ms") * 1e-3 for line in lines}
    for nodes, name in [(1, "WFBP"), *((nodes, name) for _, _, nodes in _LOGS for name in _STRATEGIES.values())]:
        if (nodes, name) not in measured:
            raise UsageError(f"{path}: no row of {nodes} nodes, {name}")
    return measured


def _slowness(folder: Path, nodes: int) -> list[float]:
    backward = np.array([bcaffe.read(folder / name).backward_s for name in _ALL_LOGS])
    spread = float(backward.std(ddof=1) / backward.mean())
    return [1 + spread * place for place in _ORDER[nodes]]


def _period(trace: Trace, name: str, cost: Cost, logged: Cost | None, slowness: list[float]) -> float:
    if name == "wfbp" and logged is not None:
        iteration = Iteration(trace, Settings())
        iteration.build()
        gradients = gradients_of(trace)
        with_plan(iteration, gradients, one_each(gradients), logged)
        job = iteration.job()
    else:
        job = strategy(name).build(trace, cost, Settings())
    return run(job, workers=max(1, len(slowness)), slowness=slowness).period_s


def validate(folder: Path) -> list[Row]:
    """Rows of four lines: the model, the plain recurrence, and two that predict 4 nodes from what 2 nodes show alone,
    the iteration from the tensors' log and MPI's all-reduce from its table."""
    measured = _measured(folder)
    one_node_s = measured[1, "WFBP"]
    rows: list[Row] = []
    for label, file, nodes in _LOGS:
        log = bcaffe.read_rows(folder / file)
        trace = calibrate(bcaffe.read(folder / file), one_node_s)
        pairs = log[0].merged_s is not None  # that log's rows carry a layer's two tensors
        cost = _line_through(log, pairs)
        logged = _Logged(
            np.array([row.communication_s for layer in reversed(bcaffe.layers_of(log)) for row in reversed(layer)])
        )
        slowness = _slowness(folder, nodes)
        for line, slow in (("model", slowness), ("plain recurrence", [])):
            for name, published in _STRATEGIES.items():
                rows.append(
                    Row(
                        line=line,
                        case=f"{label}, {name}",
                        measured_s=measured[nodes, published],
                        predicted_s=_period(trace, name, cost, logged, slow),
                    )
                )
    return rows + _from_two_nodes(folder, measured, one_node_s) + _all_reduce(folder)


def _from_two_nodes(folder: Path, measured: dict[tuple[int, str], float], one_node_s: float) -> list[Row]:
    log = bcaffe.read_rows(folder / "tmp2comm.log")
    trace = calibrate(bcaffe.read(folder / "tmp2comm.log"), one_node_s)
    line = _line_through(log, pairs=False)
    exact = [Estimate(value, value, value) for value in (line.latency_s, line.seconds_per_byte)]
    fit = Fit((FittedPiece(0.0, exact[0], exact[1], 0.0, len(log)),), 0.0, 0.0, ())
    behind = link_behind(fit, "ring", 2)
    cost = algorithm_cost("ring", 4, Network(between=behind.link))
    return [
        Row(
            line="4 nodes from the 2-node fit",
            case=f"4 nodes, {name}",
            measured_s=measured[4, published],
            predicted_s=_period(trace, name, cost, None, _slowness(folder, 4)),
            note="ring",
        )
        for name, published in _STRATEGIES.items()
    ]


def _all_reduce(folder: Path) -> list[Row]:
    """MPI's all-reduce on 4 nodes, from the pieces fitted to its table on 2 and the algorithm that MPICH would take."""
    sizes, times = zip(*read_latencies(folder / "allreduce2.log"), strict=True)
    fit = fit_pieces(sizes, times)
    networks = {name: Network(between=link_behind(fit, name, 2).link) for name in (_SHORT, _LONG)}
    rows = []
    for size, measured_s in read_latencies(folder / "allreduce4.log"):
        if size & (size - 1):
            continue  # the table has 266 sizes: powers of two say enough
        name = _SHORT if size <= _SHORT_BYTES else _LONG
        predicted_s = simulate(name, 4, [size], networks[name])[0].seconds
        rows.append(
            Row(
                line="4-node all-reduce from the 2-node table",
                case=f"4 nodes, all-reduce of {format_bytes(size)}",
                measured_s=measured_s,
                predicted_s=predicted_s,
                note=name,
            )
        )
    return rows
