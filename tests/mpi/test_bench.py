"""The command line and the suites of bench/ under mpirun. Each test starts a job of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pycomm
from pycomm.cli.abilities import find_abilities

ROOT = Path(__file__).parents[2]
MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
ENVIRONMENT = {
    # pytest-benchmark measures nothing in what it takes for one of several processes of tests.
    **{name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"},
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

pytestmark = pytest.mark.skipif(
    not find_abilities()["MPI"][1].present or MPIRUN is None,
    reason="no MPI here: pip install 'pycomm[mpi]'",
)


def mpirun(ranks, *command, **more):
    return subprocess.run(
        [MPIRUN, "-n", str(ranks), sys.executable, *command],
        capture_output=True, text=True, timeout=110, env=ENVIRONMENT, **more,
    )  # fmt: skip


def bench(ranks, *arguments, collective="allreduce", **more):
    return mpirun(ranks, "-m", "pycomm", "bench", collective, *arguments, **more)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_native_and_mpi_are_compared_in_one_table(tmp_path, ranks):
    path = tmp_path / "r.jsonl"
    done = bench(
        ranks, "--backends", "native,mpi", "--algorithms", "ring,mesh", "--sizes", "0,64,100K",
        "--iterations", "6", "--out", str(path), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = pycomm.read_results(path)
    assert results.complete
    assert [(case.bytes, case.backend) for case in results.cases] == [
        (size, backend) for size in (0, 64, 102400) for backend in ("native", "native", "mpi")
    ]
    ran = [case for case in results.cases if ranks > 1 or case.backend == "native"]
    assert {(case.status, case.wrong, case.ranks) for case in ran} == {("ok", 0, ranks)}
    assert {case.loop.language for case in ran} == ({"c++", "python"} if ranks > 1 else {"c++"})
    assert all(case.busbw_Bps is None for case in results.cases) == (ranks == 1)
    assert done.stdout.count("size  algorithm") == 1
    assert "\x1b" not in done.stdout


def test_the_world_is_that_of_mpirun(tmp_path):
    path = tmp_path / "r.jsonl"
    done = bench(3, "--backends", "mpi", "--sizes", "64", "--iterations", "2", "--out", str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = pycomm.read_results(path).run
    assert run.world.kind == "mpi"
    assert [member.rank for member in run.world.ranks] == [0, 1, 2]
    assert "MPI" in run.versions["mpi"]


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
def test_mpi_gives_what_the_pattern_expects(tmp_path, op):
    done = bench(
        3, "--backends", "mpi", "--dtypes", "float64,float32,float16,bfloat16,int64,int32,int8,uint8", "--op", op,
        "--sizes", "100K", "--in-place", "both", "--iterations", "2", "--format", "json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()][1:-1]
    assert len(cases) == 16
    for case in cases:
        if case["dtype"] in ("float16", "bfloat16"):
            assert (case["status"], case["reason"]) == ("skipped", "MPI has no such type")
        else:
            assert (case["status"], case["wrong"]) == ("ok", 0)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("collective", ["reduce-scatter", "allgather", "broadcast", "reduce", "alltoall"])
def test_the_other_collectives_of_mpi_give_what_the_pattern_expects(tmp_path, collective, ranks):
    root = ["--root", "1"] if collective in ("broadcast", "reduce") else []
    done = bench(
        ranks, "--backends", "native,mpi", "--dtypes", "float32,bfloat16,float16,int8", "--sizes", "12,100K",
        "--in-place", "both", "--iterations", "2", "--format", "json", *root, collective=collective, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()][1:-1]
    mpi = [case for case in cases if case["backend"] == "mpi"]
    assert len(mpi) == 16
    for case in cases:
        reason = ""
        if case["backend"] == "mpi" and collective in ("reduce", "reduce-scatter") and "float16" in case["dtype"]:
            reason = "MPI has no such type"
        elif case["backend"] == "mpi" and collective == "reduce-scatter" and case["in_place"]:
            reason = "MPI's reduce-scatter in place leaves each rank's result in the first block, not in its own"
        assert (case["reason"], case["status"]) == (reason, "skipped" if reason else "ok")
        assert case["wrong"] == (None if reason else 0)
        copied = case["backend"] == "mpi" and collective == "broadcast" and not case["in_place"]
        assert any("a copy" in warning for warning in case["warnings"]) == copied


@pytest.mark.parametrize("collective", ["reduce", "reduce-scatter"])
def test_mpi_averages(tmp_path, collective):
    done = bench(
        3, "--backends", "mpi", "--op", "avg", "--dtypes", "float64,float32,int32", "--sizes", "100K", "--in-place",
        "both", "--iterations", "2", "--format", "json", collective=collective, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()][1:-1]
    assert {case["wrong"] for case in cases if case["status"] == "ok"} == {0}
    assert sum(case["status"] == "ok" for case in cases) == (6 if collective == "reduce" else 3)


def test_a_world_of_another_size_is_a_usage_error_said_once(tmp_path):
    done = bench(2, "--ranks", "3", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("--ranks: 3: mpirun started 2") == 1


def test_an_existing_file_is_a_usage_error_said_once(tmp_path):
    (tmp_path / "r.jsonl").write_text("precious\n")
    done = bench(2, "--sizes", "64", "--out", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("--force") == 1
    assert (tmp_path / "r.jsonl").read_text() == "precious\n"


def test_a_killed_rank_ends_the_job_and_keeps_the_rows(tmp_path):
    path = tmp_path / "r.jsonl"
    process = subprocess.Popen(
        [MPIRUN, "-n", "3", sys.executable, "-m", "pycomm", "bench", "allreduce", "--algorithms", "ring",
         "--sizes", "64:1M:x2", "--target-ci", "0.0001%", "--out", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=tmp_path,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = pycomm.read_results(path)
    os.kill(before.run.world.ranks[2].pid, signal.SIGKILL)
    out, err = process.communicate(timeout=10)
    assert process.returncode != 0
    assert "rank 2" in out + err
    results = pycomm.read_results(path)
    assert results.cases[: len(before.cases)] == before.cases
    assert not results.complete


def test_the_suites_of_bench_end_with_one_report(tmp_path):
    report = tmp_path / "b.json"
    done = mpirun(
        2, "-m", "pytest", str(ROOT / "bench" / "test_allreduce.py"), "-k", "65536 and ring or bfloat16",
        f"--benchmark-json={report}", "-p", "no:cacheprovider", "-q", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads(report.read_text())["benchmarks"]) >= 2
    assert done.stdout.count(" passed") == 1


def test_the_suites_of_bench_run_on_local_ranks(tmp_path):
    report = tmp_path / "b.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(ROOT / "bench" / "test_allreduce.py"), "-k", "bfloat16", "--ranks", "3",
         f"--benchmark-json={report}", "-p", "no:cacheprovider", "-q"],
        capture_output=True, text=True, timeout=100, cwd=tmp_path, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads(report.read_text())["benchmarks"]) == 2
