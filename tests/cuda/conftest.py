"""What the emulator's tests share: emulated GPUs, inputs whose every sum is exact, and NumPy's answer to them."""

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pycomm

try:
    from pycomm import _cuda_emulated, _emulator
except ImportError as error:
    raise ImportError(
        f"{error}: tests/cuda needs a build with -C cmake.define.PYCOMM_EMULATOR=ON, as make test has"
    ) from error
from pycomm.cli import main
from pycomm.measure.record import CaseRecord


def numpy_type(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def exact_input(rng: np.random.Generator, name: str, op: str, count: int) -> np.ndarray:
    """Values whose result is exact in every order of the ranks; integers may wrap."""
    if op == "prod":
        values = rng.choice([1, -1, 2, 1, 1], count) if name != "uint8" else rng.choice([1, 2, 3], count)
    elif name in ("int8", "uint8", "int32", "int64"):
        bounds = np.iinfo(name)
        values = rng.integers(bounds.min, bounds.max, count, dtype=name, endpoint=True)
    else:
        values = rng.integers(-15, 16, count)
    return np.asarray(values).astype(numpy_type(name))


def reduce_exactly(arrays: list[np.ndarray], op: str) -> np.ndarray:
    """The result over ``arrays`` by the rules of "Numbers", for inputs whose sums and products are exact."""
    dtype = arrays[0].dtype
    if np.issubdtype(dtype, np.integer):
        with np.errstate(over="ignore"):
            fold = {"prod": np.multiply, "min": np.minimum, "max": np.maximum}.get(op, np.add)
            total = fold.reduce(np.stack(arrays), axis=0, dtype=dtype)
        if op != "avg":
            return total
        exact = [int(abs(int(v)) // len(arrays)) * (1 if v >= 0 else -1) for v in total]
        return np.array(exact, dtype=dtype)
    wide = np.stack([a.astype(np.float64) for a in arrays])
    fold = {"prod": np.multiply, "min": np.minimum, "max": np.maximum}.get(op, np.add)
    total = fold.reduce(wide, axis=0)
    if op == "avg":
        divided_in = np.float64 if dtype == np.float64 else np.float32
        total = total.astype(divided_in) / divided_in(len(arrays))
    return total.astype(dtype)


@dataclass
class Buffers:
    """What every rank passes to a collective and what it must hold afterwards, as bytes."""

    inputs: list[bytes] = field(default_factory=list)
    expected: list[bytes] = field(default_factory=list)


def buffers_of(
    collective: str, workers: int, ranks: int, root: int, op: str, in_place: bool, data: list[np.ndarray]
) -> Buffers:
    """The buffers of a collective of ``data``, one array of the larger buffer's size a worker."""
    made = Buffers()
    for rank in range(ranks):
        if rank >= workers:
            made.inputs.append(b"")
            made.expected.append(b"")
            continue
        size = len(data[0]) // workers
        mine = slice(rank * size, (rank + 1) * size)
        given, result = data[rank], b""
        if collective == "allreduce":
            result = reduce_exactly(data, op).tobytes()
        elif collective == "reduce":
            result = reduce_exactly(data, op).tobytes() if rank == root else b""
        elif collective == "broadcast":
            result = data[root].tobytes()
        elif collective == "reduce_scatter":
            result = reduce_exactly(data, op)[mine].tobytes()
        elif collective == "allgather":
            result = np.concatenate([data[r][r * size : (r + 1) * size] for r in range(ranks)]).tobytes()
            given = data[rank] if in_place else data[rank][mine]
        elif collective == "alltoall":
            result = np.concatenate([data[r][mine] for r in range(ranks)]).tobytes()
        made.inputs.append(given.tobytes())
        made.expected.append(result)
    return made


@pytest.fixture
def engine_case() -> Callable[..., Any]:
    """Makes an EngineCase with exact inputs, ``calls`` of them one after the other, each of other data."""

    def make(algorithm: str, ranks: int, count: int, *, calls: int = 1, seed: int = 1, **given: Any) -> Any:
        options = given.get("options", {})
        workers = ranks - (options.get("servers", 1) if options.get("dedicated") else 0)
        collective, op = given.get("collective", "allreduce"), given.get("op", "sum")
        rng = np.random.default_rng(seed)
        made = []
        for _ in range(calls):
            data = [exact_input(rng, given.get("dtype", "float32"), op, count) for _ in range(workers)]
            made.append(
                buffers_of(collective, workers, ranks, given.get("root", 0), op, given.get("in_place", False), data)
            )
        return _emulator.EngineCase(
            algorithm=algorithm,
            ranks=ranks,
            count=count,
            inputs=[m.inputs for m in made],
            expected=[m.expected for m in made],
            **given,
        )

    return make


@pytest.fixture
def shot_buffers() -> Callable[..., tuple[list[list[bytes]], list[list[bytes]]]]:
    """Inputs and results of ``calls`` all-reduces, as bytes: [call][rank]."""

    def make(
        ranks: int, count: int, calls: int, dtype: str, op: str, *, seed: int
    ) -> tuple[list[list[bytes]], list[list[bytes]]]:
        rng = np.random.default_rng(seed)
        made = []
        for _ in range(calls):
            data = [exact_input(rng, dtype, op, count) for _ in range(ranks)]
            made.append(buffers_of("allreduce", ranks, ranks, 0, op, False, data))
        return [m.inputs for m in made], [m.expected for m in made]

    return make


@pytest.fixture
def emulated_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Puts so many emulated GPUs in the place of pycomm._cuda, whose sources are the same; gives the module."""

    def emulate(devices: int, **given: int) -> Any:
        _cuda_emulated.emulate_devices(devices, **given)
        monkeypatch.setitem(sys.modules, "pycomm._cuda", _cuda_emulated)
        return _cuda_emulated

    yield emulate
    _cuda_emulated.emulate_devices(0)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., list[CaseRecord]]]:
    """Runs ``pycomm bench COLLECTIVE --device cuda`` with these options on ranks as threads; gives the rows."""

    def run(*options: str, status: int = 0, collective: str = "allreduce") -> list[CaseRecord]:
        out = tmp_path / "rows.jsonl"
        command = ["bench", collective, "--device", "cuda", "--transport", "threads", "--iterations", "5"]
        command += ["--warmup", "1", "--quiet", "--out", str(out), "--force", *options]
        assert main(command) == status
        return list(pycomm.read_results(out).cases)

    handler = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, handler)
