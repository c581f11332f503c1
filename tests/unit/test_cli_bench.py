"""pycomm bench: what every option changes, and what it refuses."""

import csv
import io
import json
import os
import threading

import numpy as np
import pytest
from click.testing import CliRunner

import pycomm
from pycomm.cli import main
from pycomm.cli import pycomm as command_group
from pycomm.measure.verify import allocate_ordinary

QUICK = ("--ranks", "2", "--sizes", "64", "--algorithms", "mesh", "--iterations", "2")


def bench(capfd, *arguments):
    """Exit status, standard output, standard error of `pycomm bench allreduce`."""
    status = main(["bench", "allreduce", *arguments])
    out, err = capfd.readouterr()
    return status, out, err


def cases(capfd, *arguments):
    """The case records of a run that must be right."""
    status, out, err = bench(capfd, *QUICK, "--format", "json", *arguments)
    assert status == 0, err
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["record"] for record in records] == ["run", *["case"] * (len(records) - 2), "end"]
    return records[1:-1]


def each(records, name):
    return [record[name] for record in records]


# What the options change.


def test_ranks(capfd):
    assert each(cases(capfd, "--ranks", "3"), "ranks") == [3]


def test_two_ranks_are_the_default(capfd):
    status, out, _ = bench(capfd, *QUICK[2:], "--format", "json")
    assert status == 0
    assert json.loads(out.splitlines()[1])["ranks"] == 2


@pytest.mark.parametrize("transport", ["shm", "threads"])
def test_transport(capfd, transport):
    assert each(cases(capfd, "--transport", transport), "transport") == [transport]


def test_backends(capfd):
    found = cases(capfd, "--backends", "native,mpi,nccl")
    assert each(found, "backend") == ["native", "mpi", "nccl"]
    assert each(found, "status") == ["ok", "skipped", "skipped"]
    assert "mpirun" in found[1]["reason"]
    assert "--device cuda" in found[2]["reason"]


def test_algorithms(capfd):
    found = cases(capfd, "--algorithms", "ring,ps:servers=2,ps:servers=1,dedicated,tree")
    assert [(case["algorithm"], case["options"]) for case in found] == [
        ("ring", ""), ("ps", "servers=2"), ("ps", "servers=1,dedicated"), ("tree", ""),
    ]  # fmt: skip
    assert each(found, "workers") == [2, 2, 1, 2]
    assert each(found, "status") == ["ok"] * 4


def test_all_algorithms_that_apply_are_the_default(capfd):
    status, out, _ = bench(capfd, "--sizes", "64", "--iterations", "1", "--format", "json")
    assert status == 0
    names = [json.loads(line)["algorithm"] for line in out.splitlines()[1:-1]]
    assert {"ring", "tree", "ps", "mesh"} <= set(names)
    assert len(set(names)) == len(names)


def test_sizes(capfd):
    found = cases(capfd, "--sizes", "1K,0,64:256:x2,7,5")
    assert each(found, "bytes") == [0, 4, 64, 128, 256, 1024]  # 5 and 7 are one float32, once
    assert each(found, "count") == [0, 1, 16, 32, 64, 256]


def test_dtypes(capfd):
    found = cases(capfd, "--dtypes", "int8,bfloat16,float64", "--sizes", "12")
    assert [(case["dtype"], case["bytes"], case["count"]) for case in found] == [
        ("int8", 12, 12), ("bfloat16", 12, 6), ("float64", 8, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
def test_op(capfd, op):
    assert [(case["op"], case["wrong"]) for case in cases(capfd, "--op", op)] == [(op, 0)]


@pytest.mark.parametrize(
    ("arguments", "places"), [([], [False]), (["--in-place"], [True]), (["--in-place", "both"], [False, True])]
)
def test_in_place(capfd, arguments, places):
    assert each(cases(capfd, *arguments), "in_place") == places


@pytest.mark.parametrize("buffers", ["ordinary", "symmetric"])
def test_buffers(capfd, buffers):
    assert each(cases(capfd, "--buffers", buffers), "buffers") == [buffers]


def test_device(capfd):
    (case,) = cases(capfd, "--device", "cuda")
    assert case["device"] == "cuda"
    assert case["status"] == "skipped"
    assert "CUDA" in case["reason"] or "GPU" in case["reason"]


def test_iterations(capfd):
    assert each(cases(capfd, "--iterations", "17"), "iterations") == [17]


def test_warmup(capfd):
    assert each(cases(capfd), "warmup") == [5]
    assert each(cases(capfd, "--warmup", "3"), "warmup") == [3]


def test_barrier(capfd):
    (each_time,), (none,) = cases(capfd), cases(capfd, "--barrier", "none")
    assert each_time["loop"]["barrier"] == "each"
    assert none["loop"]["barrier"] == "none"
    assert none["loop"]["batch"] >= 16


def test_max_seconds_and_target_ci(capfd):
    """A target nobody meets takes the budget; one that anything meets, the fewest samples."""
    arguments = ("--sizes", "64", "--algorithms", "ring", "--format", "json")

    def iterations(*more):
        status, out, _ = bench(capfd, *arguments, *more)
        assert status == 0
        return json.loads(out.splitlines()[1])["iterations"]

    assert iterations("--target-ci", "99999999%", "--max-seconds", "30") == 30
    assert iterations("--target-ci", "0.000001%", "--max-seconds", "2") > 60
    assert iterations("--max-seconds", "0.0000001") == 6


def test_out_holds_what_was_measured(capfd, tmp_path):
    path = tmp_path / "r.jsonl"
    status, out, _ = bench(capfd, *QUICK, "--sizes", "64,1K", "--out", str(path))
    assert status == 0
    results = pycomm.read_results(path)
    assert results.complete
    assert [case.bytes for case in results.cases] == [64, 1024]
    assert results.end.cases == {"ok": 2}
    assert results.run.command[:3] == ("pycomm", "bench", "allreduce")
    assert [member.rank for member in results.run.world.ranks] == [0, 1]
    assert len({member.pid for member in results.run.world.ranks}) == 2
    assert "1 KiB" in out


def test_force_and_nothing_else_writes_over(capfd, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("precious\n")
    status, _, err = bench(capfd, *QUICK, "--out", str(path))
    assert status == 2
    assert "--out" in err
    assert "--force" in err
    assert path.read_text() == "precious\n"
    assert bench(capfd, *QUICK, "--out", str(path), "--force")[0] == 0
    assert pycomm.read_results(path).complete


@pytest.mark.parametrize("arguments", [("copy", "--kinds", "h2d"), ("packing", "--device", "cuda")])
def test_benchmarks_of_one_process_write_results_files_too(capfd, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr("pycomm.cli.copy.cuda_module", lambda: None)
    monkeypatch.setattr("pycomm.measure.packing.missing_device", lambda: "no GPU here")
    path = tmp_path / "r.jsonl"
    command = ["bench", *arguments, "--out", str(path), "--format"]
    assert main([*command, "json"]) == 0
    results = pycomm.read_results(path)
    assert results.complete
    assert results.run.command == ("pycomm", *command, "json")
    assert results.end.cases == {"skipped": len(results.cases)}
    assert path.read_text() == capfd.readouterr().out
    assert main([*command, "csv", "--force"]) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert [row["benchmark"] for row in rows] == [arguments[0]] * len(results.cases) != []


@pytest.mark.parametrize("benchmark_of_one", ["copy", "packing"])
def test_benchmarks_of_one_process_are_not_run_several_times_at_once(capfd, monkeypatch, benchmark_of_one):
    monkeypatch.setattr("pycomm.cli.cases.launched_ranks", lambda: ("mpirun", 3))
    assert main(["bench", benchmark_of_one]) == 2
    assert capfd.readouterr() == (
        "",
        "pycomm: this benchmark is of one process, but mpirun started 3: start it alone\n",
    )


def test_packing_shows_its_rates_beside_the_copy(capfd):
    assert main(["bench", "packing", "--model", "googlenet", "--buffer-dtypes", "float16", "--iterations", "6"]) == 0
    heads, units, pack, unpack, copy = (line.split() for line in capfd.readouterr().out.splitlines())
    assert heads == ["step", "tensors", "buffer", "moved", "/", "2", "time", "rate", "of", "a", "copy", "wrong"]
    assert units == ["µs", "GB/s", "elem."]
    # 6,998,552 parameters: 4 bytes read and 2 written, half of both
    assert [row[:5] for row in (pack, unpack, copy)] == [
        [step, "float32", "float16", "20", "MiB"] for step in ("pack", "unpack", "copy")
    ]
    assert (copy[-2:], pack[-1], unpack[-1]) == (["100%", "—"], "0", "0")


def test_the_group_of_commands_runs_without_main_too():
    printed = CliRunner().invoke(
        command_group, ["bench", "copy", "--kinds", "h2d", "--sizes", "4K", "--format", "json"]
    )
    assert printed.exit_code == 0
    assert json.loads(printed.stdout.splitlines()[0])["command"] == ["pycomm"]


def test_what_each_benchmark_does_is_said_in_full(capfd):
    assert main(["bench", "--help"]) == 0
    listed = capfd.readouterr().out.partition("Commands:")[2]
    assert "packing" in listed
    assert "..." not in listed


def test_quiet_leaves_only_the_data(capfd):
    arguments = (*QUICK, "--backends", "native,nccl")
    assert "skipped" in bench(capfd, *arguments)[2]
    status, out, err = bench(capfd, *arguments, "--quiet")
    assert (status, err) == (0, "")
    assert "mesh" in out


def test_format_csv(capfd):
    status, out, _ = bench(capfd, *QUICK, "--format", "csv", "--backends", "native,mpi")
    assert status == 0
    native, mpi = csv.DictReader(io.StringIO(out))
    assert native["status"] == "ok"
    assert int(native["bytes"]) == 64
    assert float(native["time_s.median"]) > 0
    assert native["loop.language"] == "c++"
    assert native["in_place"] == "false"
    assert mpi["status"] == "skipped"
    assert mpi["time_s.median"] == ""


def test_format_markdown(capfd):
    status, out, _ = bench(capfd, *QUICK, "--format", "markdown", "--sizes", "64,1K")
    lines = out.splitlines()
    assert status == 0
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert "time µs" in lines[0]
    assert lines[3].startswith("| 1 KiB | float32 | out | mesh |")


def test_the_table_has_a_unit_under_every_heading_and_a_comparison(capfd):
    status, out, _ = bench(capfd, *QUICK, "--algorithms", "ring,mesh", "--sizes", "64,1M")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    assert lines[1] == ["size", "algorithm", "time", "±", "p99", "algbw", "busbw", "wire", "wrong"]
    assert lines[2] == ["µs", "%", "µs", "GB/s", "GB/s", "GB/s", "elem."]
    assert [line[:3] for line in lines[3:7]] == [
        ["64", "B", "ring"], ["64", "B", "mesh"], ["1", "MiB", "ring"], ["1", "MiB", "mesh"],
    ]  # fmt: skip
    assert lines[9] == ["size", "ring", "mesh"]
    assert all(line.count("★") == 1 for line in lines[10:12])


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--sizes", "8Gx"], ["--sizes", "8Gx"]),
        (["--sizes", "0:64:x2"], ["--sizes", "0:64:x2"]),
        (["--sizes", ""], ["--sizes", "''"]),
        (["--algorithms", "rung"], ["--algorithms", "rung"]),
        (["--algorithms", ""], ["--algorithms", "''"]),
        (["--algorithms", "ring,,mesh"], ["--algorithms", "ring,,mesh"]),
        (["--algorithms", "ps:servers=3"], ["servers", "3", "2 ranks"]),
        (["--algorithms", "ps:servers=x"], ["servers", "x"]),
        (["--backends", "native,mpy"], ["--backends", "mpy"]),
        (["--dtypes", "float33"], ["--dtypes", "float33"]),
        (["--dtypes", "float32,"], ["--dtypes", "''"]),
        (["--op", "mean"], ["--op", "mean"]),
        (["--in-place", "maybe"], ["--in-place", "maybe"]),
        (["--target-ci", "2"], ["--target-ci", "'2'"]),
        (["--max-seconds", "inf"], ["--max-seconds", "inf"]),
        (["--max-seconds", "-1"], ["--max-seconds", "-1"]),
        (["--max-seconds", "nan"], ["--max-seconds", "nan"]),
        (["--timeout", "0"], ["--timeout", "0"]),
        (["--iterations", "0"], ["--iterations", "0"]),
        (["--warmup", "0"], ["--warmup", "0"]),
        (["--ranks", "0"], ["--ranks", "0"]),
        (["--transport", "mpi"], ["--transport", "mpi", "shm", "threads"]),
        (["--transport", "pigeon"], ["--transport", "pigeon"]),
        (["--format", "xml"], ["--format", "xml"]),
        (["--out", "/nowhere/at/all/r.jsonl"], ["--out", "/nowhere/at/all"]),
        (["--nonsense"], ["--nonsense"]),
        (["64"], ["64"]),
    ],
)
def test_usage_errors_name_option_and_text_and_exit_with_2(capfd, arguments, named):
    status, out, err = bench(capfd, *QUICK, *arguments)
    assert status == 2
    assert out == ""
    for text in named:
        assert text in err


def test_a_launcher_of_another_size_is_refused(capfd, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    status, _, err = bench(capfd, *QUICK)
    assert status == 2
    assert "--ranks: 2: mpirun started 4" in err


@pytest.mark.parametrize("command", [["bench", "allreduce"], ["tune"]])
def test_processes_of_a_launcher_cannot_be_threads(capfd, monkeypatch, command):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert main([*command, "--transport", "threads"]) == 2
    assert "transport is 'threads', but the ranks that mpirun started are processes" in capfd.readouterr().err
    with pytest.raises(pycomm.UsageError, match="the ranks that mpirun started are processes"):
        pycomm.init("threads")


def test_ranks_that_are_not_the_first_leave_the_refusal_to_it(capfd, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    status, out, err = bench(capfd, *QUICK)
    assert (status, out, err) == (0, "", "")


# How it ends.


def test_a_row_without_memory_fails_and_names_the_one_rank_that_lacks_it(capfd, monkeypatch):
    def allocate(count, dtype):
        if threading.current_thread().name == "rank 1":
            np.empty(1 << 62, np.uint8)  # NumPy's own error, which is not made from a text
        return allocate_ordinary(count, dtype)

    monkeypatch.setattr("pycomm.measure.row.allocate_ordinary", allocate)
    status, out, _ = bench(capfd, *QUICK, "--format", "json", "--transport", "threads")
    assert status == 1
    case = json.loads(out.splitlines()[1])
    assert case["status"] == "failed"
    assert case["reason"].startswith("rank 1: Unable to allocate 4.00 EiB")


@pytest.mark.parametrize("buffers", ["ordinary", "symmetric"])
def test_the_largest_size_there_is_ends_in_a_row_and_not_in_a_crash(capfd, buffers):
    status, out, _ = bench(
        capfd, *QUICK, "--sizes", "9223372036854775807", "--buffers", buffers, "--format", "json", "--quiet"
    )
    case = json.loads(out.splitlines()[1])
    # 2^63 - 1 bytes are 2^61 - 1 whole float32; around them lie two guard zones of 256 bytes
    assert (case["bytes"], case["count"]) == (2**63 - 4, 2**61 - 1)
    wanted = {"ordinary": (1, "failed", 2**63 - 4 + 512 + 64), "symmetric": (0, "skipped", 2**63 - 4 + 512)}[buffers]
    assert (status, case["status"]) == wanted[:2]
    assert f"{wanted[2]} bytes are more than any memory has" in case["reason"]


def test_a_row_without_a_worker_is_skipped(capfd):
    (case,) = cases(capfd, "--algorithms", "ps:servers=2,dedicated")
    assert case["status"] == "skipped"
    assert "needs a worker" in case["reason"]


def test_one_rank_is_measured_without_busbw(capfd):
    (case,) = cases(capfd, "--ranks", "1", "--algorithms", "ring")
    assert case["status"] == "ok"
    assert case["algbw_Bps"] > 0
    assert case["busbw_Bps"] is None


def test_ranks_that_outnumber_the_cores_are_warned_of(capfd):
    cores = len(os.sched_getaffinity(0))
    (case,) = cases(capfd, "--ranks", str(cores + 1))
    assert f"{cores + 1} ranks share {cores} core" in case["warnings"][0]
