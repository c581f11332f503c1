"""How ranks join NCCL, with a fake of cupy.cuda.nccl and ranks as threads: nobody is left waiting."""

from dataclasses import replace
from types import SimpleNamespace
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
    call = nccl_call(nccl, nccl, comm, request, 1000, 1000 if in_place else 2000, STREAM)  # type: ignore[arg-type]
    assert nccl.calls == []
    call()
    assert nccl.calls == calls


def test_an_all_to_all_in_place_is_said_to_be_missing() -> None:
    request = Request("alltoall", "library", "", 0, "float32", 10, True)
    assert BACKEND.unsupported(request) == "NCCL has no all-to-all in place"
    assert BACKEND.unsupported(replace(request, in_place=False)) == ""
