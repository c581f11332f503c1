"""A rank of gloo: ``torch.distributed.all_reduce`` over the loopback interface.

``python -m peers.rank_gloo SOCKET BARRIER LARGEST_COUNT BARRIER_LIBRARY RANK RANKS STORE``. gloo reduces in place only,
so a copy of the input to the output is part of every call, as it is for a user who keeps the input.
"""

import sys

import torch
import torch.distributed as distributed

from peers.rank import load_barrier, measure_calls, pin_to_core
from peers.wire import Answer, Request, serve


def main() -> None:
    """Started by the controller."""
    socket_path, page, largest, library, rank, ranks, store = sys.argv[1:]
    place = int(rank), int(ranks)
    barrier = load_barrier(library, page, *place, pin_to_core(place[0]))
    torch.set_num_threads(1)  # a rank has one core here
    distributed.init_process_group(
        "gloo", store=distributed.FileStore(store, place[1]), rank=place[0], world_size=place[1]
    )
    send, receive = torch.empty(int(largest)), torch.empty(int(largest))

    def measure(request: Request) -> Answer:
        one, other = send[: request.count], receive[: request.count]

        def call() -> None:
            other.copy_(one)
            distributed.all_reduce(other)

        return measure_calls(request, (one.numpy(), other.numpy()), place, barrier, call)

    serve(socket_path, place[0], f"gloo of torch {torch.__version__}", measure)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
