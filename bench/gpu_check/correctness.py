"""Every algorithm, type and op on one GPU, ranks as threads, against NumPy."""

import itertools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import pycomm
from pycomm import _cuda
from pycomm.cuda.collective import DeviceOperation

ALGORITHMS = ["ring", "tree", "ps", "ps:servers=2", "mesh", "one-shot", "two-shot"]
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"]
OPS = ["sum", "prod", "min", "max", "avg"]
COUNTS = [1, 1000, 10556587 // 64, 1 << 20]


def numpy_type(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@dataclass
class Held:
    """Device memory as an array with the CUDA array interface."""

    memory: Any
    count: int
    dtype: np.dtype
    shift: int = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        address = self.memory.address + self.shift * self.dtype.itemsize
        return {"shape": (self.count,), "typestr": self.dtype.str, "data": (address, False), "version": 3}

    def read(self) -> np.ndarray:
        whole = np.empty(self.shift + self.count, self.dtype)
        self.memory.read(whole.view(np.uint8))
        return whole[self.shift :]


def hold(device: int, values: np.ndarray, shift: int) -> Held:
    padded = np.concatenate([np.zeros(shift, values.dtype), values])
    memory = _cuda.DeviceMemory(device, max(padded.nbytes, 1))
    memory.write(padded.view(np.uint8))
    return Held(memory, len(values), values.dtype, shift)


def contribution(rank: int, count: int, name: str, op: str) -> np.ndarray:
    """Small whole numbers, another run on every rank, whose results are exact in every order."""
    places = (np.arange(count) * 7 + 13 * rank) % 11
    values = np.where(places == 0, 2, 1) if op == "prod" else places - (0 if name == "uint8" else 5)
    return values.astype(numpy_type(name))


def expected(ranks: int, count: int, name: str, op: str) -> np.ndarray:
    wide = np.stack([contribution(rank, count, name, op).astype(np.float64) for rank in range(ranks)])
    fold = {"prod": np.prod, "min": np.min, "max": np.max}.get(op, np.sum)
    total = fold(wide, axis=0)
    if np.issubdtype(numpy_type(name), np.integer):
        return np.trunc(total / ranks if op == "avg" else total).astype(np.int64).astype(numpy_type(name))
    if op == "avg":
        narrow = np.float64 if name == "float64" else np.float32
        total = total.astype(narrow) / narrow(ranks)
    return total.astype(numpy_type(name))


def run_case(comm: pycomm.Communicator, algorithm: str, name: str, op: str, count: int, in_place: bool) -> int:
    """Wrong elements on this rank. Two calls, the second on the queues that the first has used."""
    shift = count % 3
    send = hold(0, contribution(comm.rank, count, name, op), shift)
    receive = send if in_place else hold(0, np.zeros(count, numpy_type(name)), shift)
    operation = DeviceOperation(comm, send, receive, device=0, op=op, algorithm=algorithm)
    wrong = 0
    for _ in range(1 if in_place else 2):
        address = [operation.send_address, operation.receive_address]
        operation.native.time(*address, samples=1, batch=1, graph=False, before=comm.world.barrier)
        operation.check()
        wrong += int(np.count_nonzero(receive.read() != expected(comm.ranks, count, name, op)))
    comm.world.barrier()  # memory is released only when no kernel runs: releasing waits for the whole device
    return wrong


def check_all(*, short: bool) -> int:
    """Exit status: 1 if any element is wrong."""
    cases = list(itertools.product(ALGORITHMS, DTYPES, OPS))
    status = 0
    for ranks in (2,) if short else (1, 2, 4, 8):
        chosen = cases[::23] if short else cases
        wrong = 0
        for i, (algorithm, name, op) in enumerate(chosen):
            if algorithm == "ps:servers=2" and ranks < 2:
                continue
            count = 1000 if short else COUNTS[i % len(COUNTS)]
            arguments = (algorithm, name, op, count, i % 2 == 1)
            found = sum(pycomm.run(run_case, ranks=ranks, transport="threads", args=arguments))
            if found:
                print(f"wrong: {ranks} ranks, {algorithm}, {name}, {op}, {count} elements: {found} elements")
            wrong += found
        print(f"{ranks} ranks on one GPU: {len(chosen)} cases, {wrong} wrong elements", flush=True)
        status |= wrong > 0
    return int(status)
