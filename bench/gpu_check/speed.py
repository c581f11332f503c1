"""Packing beside the device copy, copies, and all-reduce of ranks as threads on one GPU, beside NCCL where it can."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from correctness import ALGORITHMS, hold, numpy_type

import pycomm
from pycomm import _cuda
from pycomm.cuda.collective import DeviceOperation
from pycomm.cuda.copies import KINDS, MEMORIES, find_copies, measure_copies
from pycomm.measure.record import to_line

SIZES = [1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20, 1 << 30]
# Elements of ResNet-50's kinds of tensor: a few large, very many tiny.
TENSORS = [2048 * 1000, *[512 * 512 * 9] * 3, *[1024 * 256] * 12, *[256] * 60, *[64] * 40, 7, 1]
SAMPLES = 20


def median_s(elapsed_ns: Any) -> float:
    return statistics.median(elapsed_ns[2:]) / 1e9


def time_packing(tensor: str, buffer: str) -> Iterator[dict[str, Any]]:
    """Both ways, each beside a device copy of as many bytes as it reads and writes."""
    counts = TENSORS * 4
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
    count = sum(counts)
    tensors = [_cuda.DeviceMemory(0, n * numpy_type(tensor).itemsize) for n in counts]
    flat = _cuda.DeviceMemory(0, count * numpy_type(buffer).itemsize)
    moved = count * (numpy_type(tensor).itemsize + numpy_type(buffer).itemsize)
    copy_s = median_s(_cuda.time_copies(kind="d2d", device=0, peer=0, pinned=True, bytes=moved // 2,
                                        samples=SAMPLES, batch=1)[0])  # fmt: skip
    packer = _cuda.DevicePacker(device=0, begins=begins, counts=counts, count=count, tensor_dtype=tensor,
                                buffer_dtype=buffer)  # fmt: skip
    for name, to_buffer in (("pack", True), ("unpack", False)):
        addresses = [t.address for t in tensors]
        pack_s = median_s(packer.time(0, flat.address, addresses, 0.5, to_buffer, SAMPLES)[0])
        yield {"record": "gpu", "benchmark": name, "tensor": tensor, "buffer": buffer, "bytes_moved": moved,
               "time_s": pack_s, "copy_s": copy_s, "share_of_copy": copy_s / pack_s}  # fmt: skip


def time_allreduce(comm: pycomm.Communicator, algorithm: str, size: int, graph: bool) -> tuple[float, float]:
    count = size // 4
    send = hold(0, np.zeros(count, np.float32), 0)
    receive = hold(0, np.zeros(count, np.float32), 0)
    operation = DeviceOperation(comm, send, receive, device=0, algorithm=algorithm)
    samples = SAMPLES if size < 1 << 26 else 7
    address = [operation.send_address, operation.receive_address]
    events, host = operation.native.time(*address, samples=samples, batch=1, graph=graph, before=comm.world.barrier)
    operation.check()
    comm.world.barrier()
    return median_s(events), median_s(host)


def nccl_allreduce(comm: pycomm.Communicator, size: int) -> float | None:
    """Seconds of ncclAllReduce on the same GPU; None where this NCCL puts only one rank on it."""
    try:
        import cupy

        from pycomm.backends.nccl import device_uuid, join_nccl, nccl_module

        nccl = join_nccl(nccl_module(), comm.world, device_uuid(cupy))
    except (ImportError, pycomm.Error):
        return None
    send, receive = cupy.zeros(size // 4, cupy.float32), cupy.empty(size // 4, cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    elapsed_ns = []
    for _ in range(SAMPLES):
        comm.world.barrier()
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        nccl.allReduce(send.data.ptr, receive.data.ptr, size // 4, 7, 0, stream.ptr)
        end.record(stream)
        stream.synchronize()
        elapsed_ns.append(cupy.cuda.get_elapsed_time(begin, end) * 1e6)
    comm.world.barrier()
    return median_s(elapsed_ns)


def allreduces() -> Iterator[dict[str, Any]]:
    for ranks in (2, 4, 8):
        for size in SIZES:
            if size * ranks * 3 > 96 << 30:
                continue
            theirs = pycomm.run(nccl_allreduce, ranks=ranks, transport="threads", args=(size,))
            nccl_s = None if None in theirs else max(theirs)
            for algorithm in [a for a in ALGORITHMS if a not in ("ps", "ps:servers=2") or size <= 4 << 20]:
                if algorithm == "one-shot" and size > 4 << 20:
                    continue
                try:
                    found = pycomm.run(time_allreduce, ranks=ranks, transport="threads", args=(algorithm, size, False))
                except pycomm.Error as error:
                    yield {"record": "gpu", "benchmark": "allreduce", "algorithm": algorithm, "ranks": ranks,
                           "bytes": size, "status": "failed", "reason": str(error)}  # fmt: skip
                    continue
                ours_s = max(events for events, _ in found)
                yield {"record": "gpu", "benchmark": "allreduce", "algorithm": algorithm, "ranks": ranks,
                       "bytes": size, "status": "ok", "time_s": ours_s, "host_s": max(host for _, host in found),
                       "nccl_s": nccl_s, "ratio": None if nccl_s is None else nccl_s / ours_s}  # fmt: skip


def measure_all(results: Path) -> int:
    """Write results/<gpu>/gpu_check.jsonl, a line as it comes, and summary.md."""
    gpu = _cuda.devices()[0]["name"].replace(" ", "-")
    folder = results / gpu
    folder.mkdir(parents=True, exist_ok=True)
    packs, reduces = [], []
    with (folder / "gpu_check.jsonl").open("w") as file:
        for tensor, buffer in (("float32", "float32"), ("float32", "bfloat16"), ("float32", "float16")):
            for record in time_packing(tensor, buffer):
                packs.append(record)
                print(json.dumps(record), file=file, flush=True)
        copies = find_copies(KINDS, MEMORIES, len(_cuda.devices()))
        for case in measure_copies(copies, (64 << 10, 64 << 20), SAMPLES):
            print(to_line(case), file=file, flush=True)
        for record in allreduces():
            reduces.append(record)
            print(json.dumps(record), file=file, flush=True)
    (folder / "summary.md").write_text(summary(gpu, packs, reduces))
    print((folder / "summary.md").read_text())
    return int(any(record.get("status") == "failed" for record in reduces))


def summary(gpu: str, packs: list[dict[str, Any]], reduces: list[dict[str, Any]]) -> str:
    lines = [f"# {gpu}", "", "Packing, as a share of the device copy's bandwidth for the same bytes (aim: 90 %).", ""]
    lines += ["| kernel | tensors | buffer | share of the copy |", "|---|---|---|---|"]
    lines += [f"| {p['benchmark']} | {p['tensor']} | {p['buffer']} | {p['share_of_copy']:.0%} |" for p in packs]
    lines += ["", "All-reduce of float32, ranks as threads on this one GPU: best algorithm a size.", ""]
    lines += ["| ranks | bytes | best | time [µs] | NCCL's time / ours |", "|---|---|---|---|---|"]
    ok = [r for r in reduces if r["status"] == "ok"]
    for ranks, size in sorted({(r["ranks"], r["bytes"]) for r in ok}):
        best = min((r for r in ok if (r["ranks"], r["bytes"]) == (ranks, size)), key=lambda r: r["time_s"])
        ratio = "NCCL refuses" if best["ratio"] is None else f"{best['ratio']:.2f}"
        lines.append(f"| {ranks} | {size} | {best['algorithm']} | {best['time_s'] * 1e6:.1f} | {ratio} |")
    return "\n".join(lines) + "\n"
