"""What gpu-check runs, in order: commands of pycomm, each with a limit of its own.

They verify every row before they time it, and write each row as it comes, so that a stage that fails or is cut short
leaves what it had. NCCL has stages of its own: with several ranks a GPU it is experimental, and may hang.
"""

from dataclasses import dataclass, replace
from pathlib import Path

TYPES = "float64,float32,float16,bfloat16,int64,int32,int8,uint8"
QUICK = ("--iterations", "5", "--warmup", "1")
# Ranks as threads on one GPU. A kernel that waits in vain gives up after 6 s: the row fails, and the next is taken up.
SHARED = ("--device", "cuda", "--transport", "threads", "--quiet", "--force", "--timeout", "6")
COLLECTIVES = ("reduce-scatter", "allgather", "broadcast", "reduce", "alltoall")


@dataclass(frozen=True)
class Stage:
    """A command with the seconds it may take; `sanitizer` is a tool of compute-sanitizer to run it under, and with
    `tma` Hopper's bulk copies move messages."""

    name: str
    limit_s: float
    arguments: tuple[str, ...]
    sanitizer: str = ""
    tma: bool = False


def find_stages(folder: Path) -> list[Stage]:
    """All of them, what matters most first. Records go to ``folder/<name>.jsonl``."""
    stages = [_allreduce("correct-1", 10, "1", "4,1000,70001", *QUICK)]
    for ranks, limit_s in (("2", 15), ("4", 20), ("8", 35)):
        stages.append(_allreduce(f"correct-{ranks}", limit_s, ranks, "4,70001,2M", *QUICK, "--dtypes", TYPES))
    stages.append(Stage("packing", 15, ("bench", "packing", "--device", "cuda", "--force")))
    # Memory mapped by CUDA IPC. Two processes wait for each other's time slices, so only that results are right counts.
    few = ("--algorithms", "ring,tree,one-shot,two-shot", *QUICK)
    stages.append(_allreduce("processes-2", 15, "2", "4,70001,2M", *few, "--transport", "shm"))
    for ranks, limit_s in (("2", 20), ("4", 20), ("8", 30)):
        # As graphs: NCCL is called through Python, which its small messages would wait for.
        speed = ("--graph", "--max-seconds", "0.1", "--target-ci", "3%")
        stages.append(_allreduce(f"speed-{ranks}", limit_s, ranks, "1K,16K,256K,4M,64M", *speed))
        nccl = ("--backends", "nccl", *speed)
        stages.append(_allreduce(f"speed-nccl-{ranks}", 12, ranks, "1K,16K,256K,4M,64M", *nccl))
    for ranks in ("2", "8"):
        sized = ("4M,64M", "--algorithms", "ring,mesh,direct", *speed)
        stages.append(_allreduce(f"tma-{ranks}", 10, ranks, *sized, tma=True))
    long = (*QUICK, "--timeout", "25")  # ranks fill and compare gigabytes in turn
    for ranks, limit_s in (("2", 15), ("8", 30)):
        stages.append(_allreduce(f"large-{ranks}", limit_s, ranks, "1G", "--algorithms", "direct,ring", *long))
        stages.append(_allreduce(f"large-nccl-{ranks}", 15, ranks, "1G", "--backends", "nccl", *long))
    stages.append(Stage("copy", 15, ("bench", "copy", "--sizes", "64K,4M,64M,1G", "--iterations", "10", "--force")))
    for tool in ("memcheck", "racecheck"):
        stages.append(_allreduce(f"sanitizer-{tool}", 25, "2", "4,70001", *few, "--timeout", "20", sanitizer=tool))
    one = ("--algorithms", "ring", *QUICK, "--timeout", "20")
    stages.append(_allreduce("sanitizer-tma", 15, "2", "1M", *one, sanitizer="memcheck", tma=True))
    for op in ("prod", "min", "max", "avg"):
        stages.append(_allreduce(f"correct-{op}", 8, "4", "4,70001", *QUICK, "--op", op, "--dtypes", TYPES))
    for collective in COLLECTIVES:
        options = ("--ranks", "4", "--sizes", "64,70001", *SHARED, *QUICK, "--in-place", "both")
        stages.append(Stage(f"correct-{collective}", 8, ("bench", collective, *options)))
    return [_writing(stage, folder) for stage in stages]


def _allreduce(
    name: str, limit_s: float, ranks: str, sizes: str, *options: str, sanitizer: str = "", tma: bool = False
) -> Stage:
    arguments = ("bench", "allreduce", "--ranks", ranks, "--sizes", sizes, *SHARED, *options)
    return Stage(name, limit_s, arguments, sanitizer, tma)


def _writing(stage: Stage, folder: Path) -> Stage:
    out = ("--out", str(folder / f"{stage.name}.jsonl"))
    return replace(stage, arguments=(*stage.arguments, *out))
