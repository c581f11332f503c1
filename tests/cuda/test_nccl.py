"""How ranks join NCCL, with a fake of cupy.cuda.nccl and ranks as threads: nobody is left waiting."""

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import pycomm
from pycomm.backends import Request
from pycomm.backends.nccl import BACKEND, join_nccl, nccl_call, sharing_refusal
from pycomm.errors import Unavailable


class FakeNccl:
    """Knows what each rank asked for; joining with the wrong id fails."""

    ID = (1, 2, 3)

    def __init__(self, failing_rank: int = -1, rank: int = 0, version: int = 23004) -> None:
        self.fails = failing_rank == rank
        self.version = version
        self.joined: tuple[int, Any, int] | None = None

    def get_version(self) -> int:
        if self.fails:
            raise RuntimeError("NCCL_ERROR_SYSTEM_ERROR")
        return self.version

    def get_unique_id(self) -> Any:
        return self.ID

    def NcclCommunicator(self, ranks: int, identifier: Any, rank: int) -> Any:
        assert identifier == self.ID
        self.joined = (ranks, identifier, rank)
        return self


def test_every_rank_joins_with_rank_0s_id() -> None:
    def join(comm: pycomm.Communicator) -> Any:
        nccl = FakeNccl(rank=comm.rank)
        return join_nccl(nccl, comm.world, f"gpu{comm.rank}").joined

    assert pycomm.run(join, ranks=3, transport="threads") == [(3, FakeNccl.ID, rank) for rank in range(3)]


@pytest.mark.parametrize("failing", [0, 2])
def test_a_rank_that_cannot_take_part_stops_all_before_the_id_is_sent(failing: int) -> None:
    def join(comm: pycomm.Communicator) -> str:
        nccl = FakeNccl(failing, comm.rank)
        with pytest.raises(Unavailable) as error:
            join_nccl(nccl, comm.world, f"gpu{comm.rank}")
        assert nccl.joined is None
        return str(error.value)

    reasons = pycomm.run(join, ranks=3, transport="threads", timeout=10)
    assert reasons == [f"rank {failing}: NCCL: RuntimeError: NCCL_ERROR_SYSTEM_ERROR"] * 3


def test_ranks_on_one_gpu_need_a_version_and_two_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCCL_MULTI_RANK_GPU_ENABLE", raising=False)
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    assert sharing_refusal(["a", "b", "c"], 22000) == ""
    both = "ranks 1 and 2 share a GPU"
    assert sharing_refusal(["a", "b", "b"], 22807) == f"{both}, which NCCL 2.28 refuses; it can from 2.30"
    assert "NCCL_MULTI_RANK_GPU_ENABLE=1" in sharing_refusal(["a", "b", "b"], 23004)
    monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1")
    assert sharing_refusal(["a", "b", "b"], 23004) == ""
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    assert sharing_refusal(["a", "b", "b"], 23004) == f"{both}: NCCL_NVLS_ENABLE must not be 1"


def test_a_refusal_is_the_same_on_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCCL_MULTI_RANK_GPU_ENABLE", raising=False)

    def join(comm: pycomm.Communicator) -> str:
        with pytest.raises(Unavailable) as error:
            join_nccl(FakeNccl(version=22807), comm.world, "one gpu")
        return str(error.value)

    assert len(set(pycomm.run(join, ranks=2, transport="threads", timeout=10))) == 1


class RecordingNccl:
    """Writes down the calls of a communicator and of a group, with their arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))


FLOAT32, SUM, AVG, STREAM = 7, 0, 4, 99  # nccl.h


@pytest.mark.parametrize(
    ("collective", "in_place", "calls"),
    [
        ("allreduce", False, [("allReduce", 1000, 2000, 10, FLOAT32, AVG, STREAM)]),
        ("reduce_scatter", False, [("reduceScatter", 1000, 2000, 10, FLOAT32, AVG, STREAM)]),
        # Block 1 of 10 floats begins 40 bytes into the larger buffer.
        ("reduce_scatter", True, [("reduceScatter", 1000, 1040, 10, FLOAT32, AVG, STREAM)]),
        ("allgather", False, [("allGather", 1000, 2000, 10, FLOAT32, STREAM)]),
        ("allgather", True, [("allGather", 1040, 1000, 10, FLOAT32, STREAM)]),
        ("broadcast", True, [("broadcast", 1000, 1000, 10, FLOAT32, 2, STREAM)]),
        ("reduce", False, [("reduce", 1000, 2000, 10, FLOAT32, AVG, 2, STREAM)]),
        (
            "alltoall",
            False,
            [
                ("groupStart",),
                *(
                    (name, base + 40 * peer, 10, FLOAT32, peer, STREAM)
                    for peer in range(3)
                    for name, base in (("send", 1000), ("recv", 2000))
                ),
                ("groupEnd",),
            ],
        ),
    ],
)
def test_each_collective_is_the_call_of_nccl_with_its_arguments_in_order(
    collective: str, in_place: bool, calls: list[tuple[Any, ...]]
) -> None:
    """Signatures: NCCL user guide, Collective Communication Functions; CuPy keeps their order."""
    nccl, comm = RecordingNccl(), SimpleNamespace(rank=1, ranks=3)
    op = "avg" if collective in ("allreduce", "reduce_scatter", "reduce") else ""
    request = Request(collective, "library", op, 2, "float32", 10, in_place)
    call = nccl_call(nccl, nccl, comm, request, 1000, 1000 if in_place else 2000)  # type: ignore[arg-type]
    assert nccl.calls == []
    call(STREAM)
    assert nccl.calls == calls


def test_an_all_to_all_in_place_is_said_to_be_missing() -> None:
    request = Request("alltoall", "library", "", 0, "float32", 10, True)
    assert BACKEND.unsupported(request) == "NCCL has no all-to-all in place"
    assert BACKEND.unsupported(replace(request, in_place=False)) == ""


class StandIn:
    """``cupy.cuda.nccl`` with an all-reduce of its own: pycomm's two-shot kernel on the emulated GPUs."""

    available = True
    ID = tuple(range(128))

    def __init__(self, module: Any, ranks: int) -> None:
        self.module = module
        self.barrier = threading.Barrier(ranks, timeout=60)
        self.arenas: dict[int, int] = {}
        self.joined: list[int] = []
        self.groups = threading.local()
        self.calls_outside_a_group = 0

    def get_version(self) -> int:
        return 23004

    def get_unique_id(self) -> Any:
        return self.ID

    def groupStart(self) -> None:
        self.groups.open = True

    def groupEnd(self) -> None:
        self.groups.open = False

    def NcclCommunicator(self, ranks: int, identifier: Any, rank: int) -> Any:
        assert identifier == self.ID
        self.joined.append(rank)
        return StandInCommunicator(self, ranks, rank)


# nccl.h: ncclDataType_t and ncclRedOp_t.
NCCL_TYPES = {0: "int8", 1: "uint8", 2: "int32", 4: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "bfloat16"}
NCCL_OPS = ("sum", "prod", "max", "min", "avg")


class StandInCommunicator:
    def __init__(self, nccl: StandIn, ranks: int, rank: int) -> None:
        self.nccl, self.ranks, self.rank = nccl, ranks, rank
        self.operations: dict[Any, Any] = {}

    def allReduce(self, send: int, receive: int, count: int, dtype: int, op: int, stream: int) -> None:
        self.nccl.calls_outside_a_group += not getattr(self.nccl.groups, "open", False)
        key = (count, dtype, op)
        if key not in self.operations:
            made = self.nccl.module.ShotOperation(
                device=0, hops=2, ranks=self.ranks, rank=self.rank, dtype=NCCL_TYPES[dtype], op=NCCL_OPS[op],
                count=count, patience_s=60, sharing=self.ranks, lanes=4,
            )  # fmt: skip
            self.nccl.arenas[self.rank] = made.arena.address
            self.nccl.barrier.wait()
            made.connect([self.nccl.arenas[rank] for rank in range(self.ranks)])
            self.nccl.barrier.wait()
            self.operations[key] = made
        self.operations[key].launch(send, receive, stream)


@pytest.fixture
def cupy(emulated_gpus: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], StandIn]:
    """Puts a stand-in for CuPy on one emulated GPU; gives the one for its nccl module."""
    monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1")
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)

    def install(ranks: int) -> StandIn:
        nccl = StandIn(emulated_gpus(1), ranks)
        package = ModuleType("cupy")
        package.__spec__ = ModuleSpec("cupy", None)
        runtime = ModuleType("cupy.cuda.runtime")
        runtime.setDevice = lambda device: None  # type: ignore[attr-defined]
        for name, module in (("", package), (".cuda", ModuleType("c")), (".cuda.runtime", runtime)):
            monkeypatch.setitem(sys.modules, f"cupy{name}", module)
        monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", nccl)
        return nccl

    return install


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_rows_of_nccl_are_verified_and_timed_by_both_clocks(ranks: int, cupy: Any, bench: Any) -> None:
    nccl = cupy(ranks)
    options = ("--in-place", "both", "--dtypes", "float32,bfloat16", "--op", "avg", "--graph")
    cases = bench("--ranks", str(ranks), "--backends", "nccl", "--sizes", "16,100", *options)
    assert len(cases) == 8
    for case in cases:
        assert (case.status, case.wrong, case.algorithm) == ("ok", 0, "library"), case
        assert case.loop.clock == "events"
        assert case.host_time_s is not None
    assert sorted(nccl.joined) == list(range(ranks))  # once a rank, whatever the number of rows
    assert nccl.calls_outside_a_group == 0


def test_nccl_stands_beside_ours_in_one_sweep(cupy: Any, bench: Any) -> None:
    cupy(2)
    cases = bench("--ranks", "2", "--backends", "native,nccl", "--algorithms", "one-shot", "--sizes", "64")
    assert [(case.backend, case.status) for case in cases] == [("native", "ok"), ("nccl", "ok")]


def test_an_average_that_cannot_be_verified_is_skipped(cupy: Any, bench: Any) -> None:
    cupy(3)
    given = ("--ranks", "3", "--backends", "nccl", "--sizes", "48", "--op", "avg", "--dtypes", "float32,int32")
    floating, whole = bench(*given)
    assert (floating.status, whole.status) == ("skipped", "ok")
    assert "multiplies by 1/3 before it sums" in floating.reason


def test_a_cupy_without_nccl_is_the_reason(cupy: Any, bench: Any) -> None:
    cupy(2).available = False
    (case,) = bench("--ranks", "2", "--backends", "nccl", "--sizes", "48")
    assert (case.status, case.reason) == (
        "skipped",
        "CuPy does not find NCCL (libnccl.so.2): pip install 'pycomm[cuda]'",
    )


def test_ranks_on_one_gpu_are_skipped_where_nccl_refuses_them(
    cupy: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy(2)
    monkeypatch.delenv("NCCL_MULTI_RANK_GPU_ENABLE")
    (case,) = bench("--ranks", "2", "--backends", "nccl", "--sizes", "48")
    assert case.status == "skipped"
    assert "ranks 0 and 1 share a GPU: NCCL asks for NCCL_MULTI_RANK_GPU_ENABLE=1" in case.reason
