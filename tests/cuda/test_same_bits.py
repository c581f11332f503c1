"""The engine kernel, emulated, and the CPU engine give the same bits on values whose sums depend on the order."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pycomm
from pycomm import _emulator

OPTIONS = {"ps": [{}, {"servers": 2}, {"servers": 2, "dedicated": 1}]}
ROWS = [
    (name, options)
    for name, collectives in _emulator.algorithms()
    if "allreduce" in collectives
    for options in OPTIONS.get(name, [{}])
]
CASES = [
    ("float32", "sum", 37), ("float32", "avg", 131), ("float16", "sum", 50), ("bfloat16", "sum", 131),
    ("bfloat16", "avg", 37), ("float64", "prod", 20), ("float16", "max", 33), ("int8", "avg", 77),
]  # fmt: skip


def values_of(name: str, op: str, count: int, rank: int) -> np.ndarray:
    rng = np.random.default_rng([rank, count])
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    if name == "int8":
        return rng.integers(-128, 128, count).astype(dtype)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3, count)
    values[rng.random(count) < 0.03] = np.nan
    return values.astype(dtype)


def on_the_cpu(comm: pycomm.Communicator, algorithm: str, workers: int) -> list[bytes]:
    results = []
    for name, op, count in CASES:
        send = values_of(name, op, count, comm.rank)
        if comm.rank >= workers:
            comm.serve(count, send.dtype, op=op, algorithm=algorithm)
            results.append(b"")
            continue
        receive = np.empty_like(send)
        comm.allreduce(send, receive, op=op, algorithm=algorithm)
        results.append(receive.tobytes())
    return results


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize(("name", "options"), ROWS, ids=lambda v: str(v))
def test_every_schedule_gives_the_cpu_engines_bits(name: str, options: dict[str, Any], ranks: int) -> None:
    servers = options.get("servers", 1)
    if servers >= ranks if options.get("dedicated") else servers > ranks:
        pytest.skip("more servers than this world has")
    if reason := _emulator.refusal(name, "allreduce", ranks, options):
        pytest.skip(reason)
    workers = ranks - (servers if options.get("dedicated") else 0)
    items = [key if key == "dedicated" else f"{key}={value}" for key, value in options.items()]
    text = f"{name}:{','.join(items)}" if items else name
    found = pycomm.run(on_the_cpu, ranks=ranks, transport="threads", args=(text, workers))
    for i, (dtype, op, count) in enumerate(CASES):
        inputs = [values_of(dtype, op, count, r).tobytes() if r < workers else b"" for r in range(ranks)]
        case = _emulator.EngineCase(
            algorithm=name, options=options, ranks=ranks, dtype=dtype, op=op, count=count,
            form=("line", "bulk")[i % 2], inputs=[inputs], expected=[[each[i] for each in found]],
        )  # fmt: skip
        outcome = case.attempt(i, 2)
        assert outcome.failed == 0, (dtype, op, count, outcome.first_failure)
