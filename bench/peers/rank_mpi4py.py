"""A rank of an MPI in Python: mpi4py's ``Allreduce`` on NumPy arrays.

``python -m peers.rank_mpi4py SOCKET BARRIER LARGEST_COUNT BARRIER_LIBRARY``, under that MPI's mpirun.
"""

import sys
from functools import partial

import numpy as np
from mpi4py import MPI

from peers.rank import load_barrier, measure_calls, pin_to_core
from peers.wire import Answer, Request, serve


def main() -> None:
    """Started by the controller."""
    socket_path, page, largest, library = sys.argv[1:]
    comm = MPI.COMM_WORLD
    place = comm.Get_rank(), comm.Get_size()
    barrier = load_barrier(library, page, *place, pin_to_core(place[0]))
    send, receive = np.empty(int(largest), np.float32), np.empty(int(largest), np.float32)

    def measure(request: Request) -> Answer:
        one, other = send[: request.count], receive[: request.count]
        return measure_calls(request, (one, other), place, barrier, partial(comm.Allreduce, one, other))

    version = MPI.Get_library_version().split("\0")[0].splitlines()[0].strip()
    serve(socket_path, place[0], version, measure)


if __name__ == "__main__":
    main()
