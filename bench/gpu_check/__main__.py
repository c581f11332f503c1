"""``make gpu-check``: build, test and measure everything on a machine with a GPU, in under 8 minutes, without network.

    python bench/gpu_check            all of it; results/<gpu>/*.jsonl and results/<gpu>/summary.md
    python bench/gpu_check --dry-run  say what would be done

The Python it runs under must have numpy, ml_dtypes, click, rich and pybind11; cmake, ninja and nvcc must be on PATH.
NCCL is measured beside pycomm where CuPy and NCCL are installed; compute-sanitizer is run where it is on PATH. A stage
that fails, hangs or finds something wrong does not stop the others, and the summary is written anew after each. Exit
status 1 if any failed.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from stages import Stage, find_stages
from summary import read_cases, summarise

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "gpu"
SITE = BUILD / "site"
BUDGET_S = 470
BUILD_LIMIT_S = 240


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    if parser.parse_args().dry_run:
        show_plan()
        return 0
    start = time.monotonic()
    if (ended := build()) != "done":
        print(f"gpu-check: build: {ended}", file=sys.stderr)
        return 1
    heading = describe_gpu()
    folder = ROOT / "results" / re.sub(r"[^A-Za-z0-9.]+", "-", heading.split(",")[0])
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = [("build", time.monotonic() - start, "done")]
    for stage in find_stages(folder):
        stage_start = time.monotonic()
        left_s = BUDGET_S - (stage_start - start)
        ended = run_stage(stage, left_s) if left_s > 5 else "no time left"
        outcomes.append((stage.name, time.monotonic() - stage_start, ended))
        print(f"== {stage.name}: {ended}, {time.monotonic() - start:.0f} s of {BUDGET_S}", flush=True)
        (folder / "summary.md").write_text(summarise(folder, heading, outcomes))
    print((folder / "summary.md").read_text())
    bad = {"wrong", "failed"}
    wrong = any(case["status"] in bad for name, _, _ in outcomes for case in read_cases(folder / f"{name}.jsonl"))
    return int(wrong or any(ended not in ("done", "skipped: no compute-sanitizer") for _, _, ended in outcomes))


def show_plan() -> None:
    """Print every command with its limit; of tools that are missing, that they are."""
    print(f"build for this GPU, at most {BUILD_LIMIT_S} s")
    stages = find_stages(Path("results") / "GPU")
    for stage in stages:
        under = "PYCOMM_TMA=1 " if stage.tma else ""
        under += f"compute-sanitizer --tool {stage.sanitizer} " if stage.sanitizer else ""
        print(f"{stage.name}, at most {stage.limit_s:.0f} s: {under}pycomm {' '.join(stage.arguments)}")
    print(f"together at most {sum(stage.limit_s for stage in stages):.0f} s beside the build, of {BUDGET_S} s")
    for tool in ("nvcc", "cmake", "ninja", "nvidia-smi", "compute-sanitizer"):
        if shutil.which(tool) is None:
            print(f"{tool} is not on PATH")


def build() -> str:
    """A package of its own in build/gpu/site, so that nothing has to be installed. Returns how it ended."""
    import pybind11

    configure = [
        "cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DPYCOMM_PYTHON=ON", "-DPYCOMM_CUDA=ON",
        "-DCMAKE_CUDA_ARCHITECTURES=native", f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
    ]  # fmt: skip
    for command in (configure, ["cmake", "--build", str(BUILD), "--target", "_core", "_cuda"]):
        if (ended := run(command, BUILD_LIMIT_S)) != "done":
            return ended
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "pycomm", SITE / "pycomm", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for module in BUILD.glob("_c*.so"):
        shutil.copy2(module, SITE / "pycomm")
    return "done"


def describe_gpu() -> str:
    """Its name, driver and clocks, for the head of the summary."""
    query = "name,driver_version,clocks.max.sm,clocks.max.memory,power.limit"
    try:
        found = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        return found.stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown GPU, no nvidia-smi"


def run_stage(stage: Stage, left_s: float) -> str:
    """How it ended. A file of an earlier run is not taken for this one's."""
    (out,) = stage.arguments[-1:]
    Path(out).unlink(missing_ok=True)
    command: list[str] = []
    if stage.sanitizer:
        tool = shutil.which("compute-sanitizer")
        if tool is None:
            return "skipped: no compute-sanitizer"
        command = [tool, "--tool", stage.sanitizer, "--error-exitcode", "3"]
    command += [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-m", "pycomm", *stage.arguments]
    return run(command, min(stage.limit_s, left_s), tma=stage.tma)


def run(command: Sequence[str], limit_s: float, *, tma: bool = False) -> str:
    """Run a command, its output to ours; past the limit end it with all it started. Returns how it ended."""
    environment = {**os.environ, "PYTHONPATH": str(SITE), "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    environment["PYCOMM_TMA"] = "1" if tma else "0"
    environment.pop("NCCL_NVLS_ENABLE", None)
    cwd = SITE if SITE.exists() else ROOT
    process = subprocess.Popen(command, env=environment, cwd=cwd, start_new_session=True)
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"cut off after {limit_s:.0f} s"
    return "done" if status == 0 else f"exit status {status}"


if __name__ == "__main__":
    sys.exit(main())
