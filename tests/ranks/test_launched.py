"""The worlds of launchers: torchrun's variables make one world of processes that only share a name."""

import os
import subprocess
import sys

import pytest

import pycomm
from pycomm.launched import find_world

PROGRAM = """
import numpy as np, pycomm
comm = pycomm.init(timeout=float(__import__("os").environ["PATIENCE"]))
result = comm.allreduce(np.full(1000, comm.rank + 1, np.float32), algorithm="ring")
print(comm.world.kind, comm.rank, comm.ranks, result[0])
comm.close()
"""


def start(rank, ranks, patience=20, **more):
    """A process as torchrun starts it."""
    variables = {
        "TORCHELASTIC_RUN_ID": f"test-{os.getpid()}",
        "MASTER_PORT": "29500",
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "PATIENCE": str(patience),
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )


def test_ranks_of_torchrun_meet_and_reduce():
    outputs = [process.communicate(timeout=60) for process in [start(rank, 3) for rank in range(3)]]
    assert [out for out, _ in outputs] == [f"torchrun {rank} 3 6.0\n" for rank in range(3)], outputs


@pytest.mark.parametrize(("present", "missing"), [(0, "1, 2"), (1, "0")])
def test_ranks_that_did_not_start_are_named(present, missing):
    _, errors = start(present, 3, patience=1).communicate(timeout=60)
    assert f"TransportError: did not start: rank{'s' if present == 0 else ''} {missing}" in errors


def test_ranks_of_several_hosts_are_refused(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(pycomm.Unavailable, match="4 ranks on several hosts"):
        find_world()
