"""NCCL, through CuPy. It moves arrays of GPUs only."""

import importlib.util

from pycomm.backends.protocol import LIBRARY, Backend, Contender, Prepared, Request
from pycomm.communicator import Communicator
from pycomm.errors import Unavailable


class Nccl:
    """NCCL's ``ncclAllReduce``."""

    name = "nccl"

    def missing(self, comm: Communicator, device: str) -> str:
        """Without a GPU, everything."""
        if device != "cuda":
            return "NCCL moves arrays of GPUs only: --device cuda"
        if importlib.util.find_spec("cupy") is None:
            return "CuPy is not installed: pip install 'pycomm[cuda]'"
        return "this build does not drive NCCL"

    def unsupported(self, dtype: str, op: str) -> str:
        """Nothing."""
        return ""

    def contenders(self, ranks: int, algorithms: list[str]) -> list[Contender]:
        """One: the library chooses its algorithm."""
        return [Contender(self.name, LIBRARY, "", ranks, lambda size: None)]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """Raises Unavailable."""
        raise Unavailable(self.missing(comm, "cuda"))


BACKEND: Backend = Nccl()
