"""pycomm bench: how a sweep ends before its time, and that what was measured is kept."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pycomm

LONG = ("--ranks", "3", "--algorithms", "ring", "--sizes", "64:1M:x2", "--target-ci", "0.0001%")


@pytest.fixture
def started():
    """Starts a sweep that would take half a minute, and gives it once its first row is on disk."""
    processes = []

    def start(path, *arguments):
        command = [sys.executable, "-m", "pycomm", "bench", "allreduce", *LONG, "--out", str(path), *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=path.parent, start_new_session=True
        )
        processes.append(process)
        deadline = time.monotonic() + 60
        while not path.exists() or path.read_text().count("\n") < 3:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("rank", [0, 2])
def test_a_killed_rank_ends_the_sweep_and_keeps_the_rows(tmp_path, started, rank):
    path = tmp_path / "r.jsonl"
    process = started(path)
    before = pycomm.read_results(path)
    os.kill(before.run.world.ranks[rank].pid, signal.SIGKILL)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert f"rank {rank}" in err
    results = pycomm.read_results(path)
    assert results.cases[: len(before.cases)] == before.cases
    assert (results.end.status, results.end.exit_status) == ("failed", 1)
    assert not results.complete
    assert f"rank {rank}" in results.end.reason


def test_a_rank_silent_for_the_timeout_ends_the_sweep(tmp_path, started):
    path = tmp_path / "r.jsonl"
    process = started(path, "--timeout", "1")
    os.kill(pycomm.read_results(path).run.world.ranks[1].pid, signal.SIGSTOP)
    _, err = process.communicate(timeout=20)  # with the default of 30 s it would take longer
    assert process.returncode == 1
    assert "rank 1" in err
    assert "1 s" in err
    assert pycomm.read_results(path).end.status == "failed"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_says_so_and_keeps_the_rows(tmp_path, started, stop):
    path = tmp_path / "r.jsonl"
    process = started(path)
    before = pycomm.read_results(path).cases
    os.kill(process.pid, stop)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    results = pycomm.read_results(path)
    assert results.cases[: len(before)] == before
    assert (results.end.status, results.end.exit_status) == ("interrupted", 130)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_the_whole_group_is_the_same(tmp_path, started, stop):
    """Ctrl-C in a terminal reaches every process of the job, and so does the end that a batch system sends."""
    path = tmp_path / "r.jsonl"
    process = started(path)
    os.killpg(process.pid, stop)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert pycomm.read_results(path).end.status == "interrupted"


def test_rows_come_as_they_finish(tmp_path, started):
    path = tmp_path / "r.jsonl"
    process = started(path, "--format", "json")
    assert json.loads(process.stdout.readline())["record"] == "run"
    assert json.loads(process.stdout.readline())["record"] == "case"
    assert process.poll() is None


def test_a_reader_that_leaves_is_no_traceback():
    command = f"{sys.executable} -m pycomm bench allreduce --ranks 2 --sizes 4:64K:x2 --iterations 2 | head -1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=Path(__file__).parent
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("all-reduce")
