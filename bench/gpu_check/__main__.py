"""``make gpu-check``: build, test and measure everything on a machine with a GPU, in under 8 minutes, without network.

    python bench/gpu_check            all of it; results/<gpu>/gpu_check.jsonl and results/<gpu>/summary.md
    python bench/gpu_check --dry-run  say what would be done, and do what needs no GPU

The Python it runs under must have numpy, ml_dtypes, click, rich, pybind11, cmake and ninja; NCCL is measured beside
pycomm where CuPy is installed, compute-sanitizer is run where it is on PATH. Exit status 1 for a wrong result.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "gpu"
SITE = BUILD / "site"
BUDGET_S = 480


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--stage", choices=["correct", "speed"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        return run_stage(arguments.stage)
    stages: list[tuple[str, float, Callable[[], int]]] = [
        ("build for this GPU", 240, build),
        ("every schedule, type and op against NumPy; ranks as threads on one GPU", 90, lambda: python("correct")),
        ("compute-sanitizer memcheck and racecheck on a short list", 60, sanitize),
        ("copies, packing and all-reduce, beside the device copy and NCCL", 90, lambda: python("speed")),
    ]
    start = time.monotonic()
    for title, limit_s, stage in stages:
        print(f"== {title} (at most {limit_s:.0f} s)", flush=True)
        if arguments.dry_run:
            continue
        left_s = BUDGET_S - (time.monotonic() - start)
        if left_s < 10:
            print("gpu-check: no time left", file=sys.stderr)
            return 1
        if status := stage():
            return status
    print(f"== {time.monotonic() - start:.0f} s of {BUDGET_S}")
    return 0


def build() -> int:
    """A package of its own in build/gpu/site, so that nothing has to be installed."""
    import pybind11

    configure = [
        "cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DPYCOMM_PYTHON=ON", "-DPYCOMM_CUDA=ON",
        "-DCMAKE_CUDA_ARCHITECTURES=native", f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
    ]  # fmt: skip
    for command in (configure, ["cmake", "--build", str(BUILD), "--target", "_core", "_cuda", "_emulator"]):
        if status := subprocess.run(command, check=False, timeout=240).returncode:
            return status
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "pycomm", SITE / "pycomm", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for module in BUILD.glob("*.so"):
        shutil.copy2(module, SITE / "pycomm")
    return 0


def python(stage: str, *before: str, limit_s: float = 240) -> int:
    command = [*before, sys.executable, str(Path(__file__).parent), "--stage", stage]
    environment = {**os.environ, "PYTHONPATH": str(SITE)}
    return subprocess.run(command, check=False, timeout=limit_s, env=environment).returncode


def sanitize() -> int:
    """A short list under memcheck and racecheck; skipped, and said so, where the tool is missing."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        print("gpu-check: compute-sanitizer is not on PATH: skipped")
        return 0
    os.environ["PYCOMM_GPU_CHECK_SHORT"] = "1"
    try:
        for check in ("memcheck", "racecheck"):
            if status := python("correct", tool, "--tool", check, "--error-exitcode", "3"):
                return status
    finally:
        del os.environ["PYCOMM_GPU_CHECK_SHORT"]
    return 0


def run_stage(stage: str) -> int:
    from pycomm.cuda import missing_device

    if reason := missing_device():
        print(f"gpu-check: {reason}", file=sys.stderr)
        return 1
    if stage == "correct":
        from correctness import check_all

        return check_all(short=os.environ.get("PYCOMM_GPU_CHECK_SHORT") == "1")
    from speed import measure_all

    return measure_all(ROOT / "results")


if __name__ == "__main__":
    sys.exit(main())
