"""Makes docs/reproductions.md: the questions of arXiv 1805.03812 and 1909.02061, answered with this tool.

    python bench/reproductions.py [--measured FILE] [--traces ../shared/traces] [--out docs/reproductions.md]

Every figure says whether it is measured here, published or predicted. Without --measured the all-reduce of this
machine is measured now (about a minute); without the published traces their section is left out, and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pycomm.model import Network, algorithm_cost, gains, preset, run, table
from pycomm.model.predict import Setup, job_of, predict
from pycomm.model.spread import iteration_by_preset, spread
from pycomm.model.strategies import STRATEGIES
from pycomm.model.validation import bcaffe, largest_error, mean_error, survey, tf2017
from pycomm.trace.trace import Trace

WORKERS = 16
NETWORKS = ("1gbe", "10gbe", "25gbe", "100gbe", "ib-edr")
MODELS = ("alexnet", "vgg16", "googlenet", "resnet50", "bert-base")
FRAMEWORKS = ("caffe-mpi", "cntk", "mxnet", "tensorflow", "horovod", "pytorch-ddp", "byteps")
ALGORITHMS = (
    ("ring", "ring", {}),
    ("servers, one", "ps", {"servers": 1}),
    ("servers, all", "ps", None),
    ("p2p", "mesh", {}),
)
MEASURED_ALGORITHMS = "ring,ps:servers=1,ps:servers=4,mesh"


def rows(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    body = ["| " + " | ".join(line) + " |" for line in [headings, ["---"] * len(headings), *lines]]
    return [*body, ""]


def trace_of(name: str, batch: int = 64) -> Trace:
    model = table(name)
    return spread(model, batch=batch, iteration_s=iteration_by_preset(model, batch, "v100")[0])


def overlap() -> list[str]:
    """Which framework's schedule overlaps what, and what that is worth."""
    lines = []
    for name in FRAMEWORKS:
        line = [f"`{name}`", STRATEGIES[name].overlaps, STRATEGIES[name].source]
        for network in ("10gbe", "ib-edr"):
            for model in ("alexnet", "resnet50"):
                # every framework with the same exchange, so that only what overlaps differs
                setup = Setup(
                    trace=trace_of(model), network=Network(between=preset(network)), strategy=name, algorithm="ring"
                )
                outcome = run(job_of(setup, WORKERS))
                line.append(f"{outcome.exposed_s() * 1e3:.0f} of {outcome.period_s * 1e3:.0f}")
        lines.append(line)
    return [
        "## Which framework's schedule overlaps what?",
        "",
        "What overlaps: published (the sources named). Exposed communication of an iteration, in ms: predicted,"
        f" {WORKERS} V100s, batch 64 each, each with a network card of its own, all with the ring, so that only the"
        " schedule differs.",
        "",
        *rows(
            ["as in", "overlaps", "source", "AlexNet, 10GbE", "ResNet-50, 10GbE", "AlexNet, EDR", "ResNet-50, EDR"],
            lines,
        ),
        "Waiting for the whole backward pass costs most where gradients are many and computing is short. AlexNet's"
        " exchange does not fit behind any backward pass on 10GbE; there only less to send or a faster wire helps.",
        "",
    ]


def bottlenecks() -> list[str]:
    """On which link communication becomes the bottleneck for which network."""
    lines = []
    for model in MODELS:
        trace = trace_of(model)
        line = [f"`{model}`", f"{trace.bytes / 1e6:.0f} MB", f"{trace.compute_s * 1e3:.0f}"]
        for network in NETWORKS:
            setup = Setup(trace=trace, network=Network(between=preset(network)), strategy="wfbp", algorithm="ring")
            job = job_of(setup, WORKERS)
            outcome = run(job)
            mark = "**" if gains(job)[0].resource == "channel" else ""
            line.append(f"{mark}{outcome.exposed_s() / outcome.period_s:.0%}{mark}")
        lines.append(line)
    return [
        "## On which link does communication become the bottleneck for which network?",
        "",
        f"Share of the iteration that exposed communication takes: predicted, {WORKERS} V100s, batch 64 each,"
        " wait-free backward, ring. **Bold**: the channel is the bottleneck (twice its speed saves more than twice"
        " the computing).",
        "",
        *rows(["network", "gradients", "computing ms", *(f"{name}" for name in NETWORKS)], lines),
    ]


def scaling() -> list[str]:
    """How ring, servers and peer to peer scale."""
    size = table("resnet50").parameters * 4
    counts = (2, 4, 8, 16, 32, 64)
    lines = []
    for label, name, options in ALGORITHMS:
        line = [label]
        for workers in counts:
            chosen = {"servers": workers} if options is None else options
            cost = algorithm_cost(name, workers, Network(between=preset("10gbe")), options=chosen)
            line.append(f"{float(cost(float(size))) * 1e3:.0f}")
        lines.append(line)
    speeds = []
    for label, name, options in ALGORITHMS:
        line = [label]
        for workers in counts:
            chosen = {"servers": workers} if options is None else options
            setup = Setup(
                trace=trace_of("resnet50"),
                network=Network(between=preset("10gbe")),
                strategy="wfbp",
                algorithm=name,
                options=chosen,
            )
            line.append(f"{predict(setup, workers).speed_up:.1f}")
        speeds.append(line)
    return [
        "## How do ring, servers and peer to peer scale?",
        "",
        f"One all-reduce of ResNet-50's {size / 1e6:.0f} MB on 10GbE, in ms, by workers: predicted.",
        "",
        *rows(["", *(str(count) for count in counts)], lines),
        "Speed-up of ResNet-50 (V100, batch 64 each, wait-free backward) by workers: predicted.",
        "",
        *rows(["", *(str(count) for count in counts)], speeds),
        "One server's port carries every worker's gradient, and every peer sends its own to all others: both grow with"
        " the workers. The ring, and servers as many as workers, move 2(p-1)/p of the buffer through each port whatever"
        " p is; for small tensors the ring's 2(p-1) steps tell.",
        "",
    ]


def measure(file: Path | None) -> list[dict[str, object]]:
    """The cases of a results file, or of a sweep made now."""
    if file is None:
        folder = Path(tempfile.mkdtemp())
        file = folder / "results.jsonl"
        command = (
            f"{sys.executable} -m pycomm bench allreduce --ranks 4 --algorithms {MEASURED_ALGORITHMS}"
            f" --sizes 64K,1M,16M --max-seconds 1 --out {file} --quiet"
        )
        subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return [record for record in records if record["record"] == "case" and record["status"] == "ok"]


def microseconds(times: dict[str, float]) -> str:
    """The median, and how well it is known."""
    half = (times["ci95_high"] - times["ci95_low"]) / 2 / times["median"]
    return f"{times['median'] * 1e6:.0f} ± {half:.0%}"


def measured_here(file: Path | None) -> list[str]:
    cases = measure(file)
    sizes = sorted({int(str(case["bytes"])) for case in cases})
    names = list(dict.fromkeys((str(case["algorithm"]), str(case["options"] or "")) for case in cases))
    lines = []
    for algorithm, options in names:
        line = [f"`{algorithm}{':' + options if options else ''}`"]
        for size in sizes:
            found = [
                case
                for case in cases
                if (case["algorithm"], case["options"] or "", case["bytes"]) == (algorithm, options, size)
            ]
            times = found[0]["time_s"] if found else None
            line.append(microseconds(times) if isinstance(times, dict) else "-")
        lines.append(line)
    ranks, cores = int(str(cases[0]["ranks"])), os.cpu_count() or 1
    wire = "Ranks outnumber the cores, and memory is the wire" if ranks > cores else "Memory is the wire"
    return [
        "### The same on this machine",
        "",
        f"All-reduce over shared memory, {ranks} ranks on {cores} cores ({platform.machine()}), median in us"
        f" by bytes: measured here. {wire}: every copy costs all of them. ±: how well the median is known (95 %).",
        "",
        *rows(["algorithm", *(str(size) for size in sizes)], lines),
    ]


def published(traces: Path) -> list[str]:
    if not traces.is_dir():
        return ["## Predicted against published", "", f"Left out: no published traces at `{traces}`.", ""]
    lines = []
    throughput, links = survey.validate(traces / "survey_v100_10gbe.csv")
    for name, source, found in (
        ("B-Caffe", "hclhkbu/B-Caffe@fdb5595", bcaffe.validate(traces / "bcaffe")),
        ("survey", "arXiv 2005.13247", throughput),
        ("TensorFlow", "tensorflow.org/performance, 2017", tf2017.validate(traces / "tf_2017_throughput.csv")),
    ):
        for line in dict.fromkeys(row.line for row in found):
            part = [row for row in found if row.line == line]
            count = sum(not row.calibrated for row in part)
            errors = [f"{mean_error(part):.1%}", f"{largest_error(part):+.1%}"]
            lines.append([name, line, source, str(count), *errors])
    cells = [
        [
            row.case.split(", ", 2)[2],
            f"{row.measured_s * 1e3:.0f}",
            f"{row.predicted_s * 1e3:.0f}",
            "fitted" if row.calibrated else f"{row.error:+.0%}",
        ]
        for row in throughput
        if row.case.startswith("ResNet-50, 32")
    ]
    return [
        "## Predicted against published",
        "",
        "Mean absolute and largest error of the iteration time. What each set is calibrated on, and why rows are"
        " missed, stands in [model.md](model.md).",
        "",
        *rows(["set", "line", "published by", "rows", "mean error", "largest"], lines),
        "ResNet-50 on 32 V100s, 8 nodes, 10 Gb/s Ethernet, an iteration in ms: published (arXiv 2005.13247) and"
        f" predicted with links fitted on two methods ({links.between.bytes_per_s / 1e9:.2f} GB/s and"
        f" {links.between.latency_s * 1e6:.0f} us between nodes).",
        "",
        *rows(["method", "published", "predicted", "error"], cells),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, help="a results file of pycomm bench allreduce, else measured now")
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    parser.add_argument("--out", type=Path, default=Path("docs/reproductions.md"))
    given = parser.parse_args()
    text = [
        "# Reproductions",
        "",
        "The questions of *A DAG Model of Synchronous Stochastic Gradient Descent in Distributed Deep Learning* (arXiv"
        " 1805.03812) and of the comparison of parameter-server, peer-to-peer and ring systems (arXiv 1909.02061),"
        " answered with pycomm. Each figure is measured here, published (with its source) or predicted. Made by"
        " `python bench/reproductions.py`.",
        "",
        *overlap(),
        *bottlenecks(),
        *scaling(),
        *measured_here(given.measured),
        *published(given.traces),
    ]
    given.out.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
