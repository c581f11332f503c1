"""Which GPU a rank uses, and what can be said of ranks that share one."""

from __future__ import annotations

from typing import Any, cast

from pycomm.communicator import Communicator
from pycomm.cuda.probe import cuda_module, missing_device


def missing_for_ranks(comm: Communicator) -> str:
    """Why pycomm's kernels cannot run on this rank; empty if they can."""
    if reason := missing_device():
        return reason
    hosts = {member["host"] for member in comm.world.members}
    return "" if len(hosts) == 1 else "peer memory ends at the host: between hosts use --backends nccl"


def device_of(comm: Communicator) -> int:
    """The device of this rank: the ranks of a host take its devices in turn."""
    members = comm.world.members
    host = members[comm.rank]["host"]
    neighbours = [member["rank"] for member in members if member["host"] == host]
    return neighbours.index(comm.rank) % len(cast(Any, cuda_module()).devices())


def sharing_warnings(comm: Communicator, sharing: int) -> tuple[str, ...]:
    """A sentence where `sharing` ranks, more than one, are on this rank's device."""
    if sharing == 1:
        return ()
    if comm.transport == "threads":
        return (f"{sharing} ranks share a GPU: its memory is measured, and no link",)
    return (
        f"{sharing} ranks share a GPU as processes and wait for each other's time slices: the result counts and the "
        f"time does not, unless MPS runs; --transport threads has them side by side",
    )
