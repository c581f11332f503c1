"""How ranks join NCCL, with a fake of cupy.cuda.nccl and ranks as threads: nobody is left waiting."""

from typing import Any

import pytest

import pycomm
from pycomm.backends.nccl import join_nccl, sharing_refusal
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
