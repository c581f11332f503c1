"""pycomm bench of every collective: sizes, bandwidths and wire bytes by hand, roots, and what is refused."""

import json

import numpy as np
import pytest

import pycomm
from pycomm.backends import Request, find_backend
from pycomm.cli import main
from pycomm.errors import Unavailable

COMMANDS = ["allreduce", "reduce-scatter", "allgather", "broadcast", "reduce", "alltoall"]
REDUCE = ["allreduce", "reduce-scatter", "reduce"]
ROOTED = ["broadcast", "reduce"]
IN_BLOCKS = ["reduce-scatter", "allgather", "alltoall"]


def bench(capfd, command, *arguments):
    """Exit status, standard output, standard error."""
    status = main(["bench", command, "--iterations", "2", *arguments])
    return status, *capfd.readouterr()


def cases(capfd, command, *arguments):
    """The case records of a run that must be right."""
    status, out, err = bench(capfd, command, "--transport", "threads", "--format", "json", *arguments)
    assert status == 0, out + err
    return [json.loads(line) for line in out.splitlines()][1:-1]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_algorithm_is_right_in_place_and_out_of_place(capfd, command, ranks):
    for buffers in ("ordinary", "symmetric"):
        found = cases(
            capfd, command, "--ranks", str(ranks), "--sizes", "0,4,100,50000,1M", "--in-place", "both",
            "--dtypes", "float32,bfloat16,int8", "--buffers", buffers,
        )  # fmt: skip
        assert {case["benchmark"] for case in found} == {command}
        assert {(case["status"], case["wrong"]) for case in found} == {("ok", 0)}
        assert {case["in_place"] for case in found} == {False, True}
        assert len({case["algorithm"] for case in found}) >= (1 if command == "alltoall" else 2)


def test_a_row_of_auto_says_what_it_took_and_counts_its_bytes(capfd):
    arguments = ("--ranks", "3", "--algorithms", "auto,ring", "--sizes", "12,3M")
    found = [case for case in cases(capfd, "allreduce", *arguments) if case["algorithm"] == "auto"]
    assert [case["reason"] for case in found] == ["took mesh", "took direct"]  # threads see each other's arrays
    # The whole to each of two peers; twice all but a third.
    assert [case["wire_bytes_busiest_rank"] for case in found] == [2 * 12, 2 * (3 << 20) * 2 // 3]
    status, out, _ = bench(capfd, "allreduce", "--transport", "threads", *arguments)
    assert status == 0
    assert len([line for line in out.splitlines() if "auto" in line and "took " in line]) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_list_counts_what_bench_measures(capfd, command):
    measured = cases(capfd, command, "--ranks", "4", "--sizes", "4K")
    assert main(["list", "--ranks", "4", "--bytes", "4K", "--collective", command, "--format", "json"]) == 0
    listed = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {case["algorithm"]: case["wire_bytes_busiest_rank"] for case in measured} == {
        row["name"]: row["wire_bytes_busiest_rank"] for row in listed if row["steps"] is not None
    }


@pytest.mark.parametrize("command", [["list"], ["schedule", "ring", "--ranks", "2"]])
def test_a_collective_that_is_none_is_a_usage_error(capfd, command):
    assert main([*command, "--collective", "gossip"]) == 2
    assert "'gossip'" in capfd.readouterr().err


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
@pytest.mark.parametrize("command", REDUCE)
def test_every_op_of_those_that_reduce(capfd, command, op):
    found = cases(capfd, command, "--ranks", "3", "--sizes", "10K", "--op", op, "--in-place", "both")
    assert {(case["op"], case["wrong"]) for case in found} == {(op, 0)}


@pytest.mark.parametrize(
    ("command", "bytes_and_counts"),
    [
        # 3 ranks, int32: S = count × 4 × 3 where there are blocks, rounded down to 12 bytes; else to 4.
        *((command, [(0, 0), (12, 1), (996, 83)]) for command in IN_BLOCKS),
        *((command, [(8, 2), (20, 5), (1000, 250)]) for command in ("allreduce", "broadcast", "reduce")),
    ],
)
def test_sizes_are_those_of_the_definition_and_rounded_down(capfd, command, bytes_and_counts):
    found = cases(capfd, command, "--ranks", "3", "--dtypes", "int32", "--sizes", "11,23,1000")
    assert list(dict.fromkeys((case["bytes"], case["count"]) for case in found)) == bytes_and_counts


def test_sizes_that_become_equal_run_once(capfd):
    found = cases(capfd, "alltoall", "--ranks", "3", "--sizes", "12,13,20,23,24", "--algorithms", "mesh")
    assert [case["bytes"] for case in found] == [12, 24]


@pytest.mark.parametrize(
    ("command", "algorithm", "busbw_factor", "wire_bytes"),
    [
        # 4 ranks, S = 4096. A mesh or ring of blocks: 3 of 4. Broadcast: the ring's root sends all once, the tree's
        # twice (lg 4), the mesh's three times. Reduce: the tree's root receives twice.
        ("allreduce", "ring", 1.5, 6144),
        ("reduce-scatter", "ring", 0.75, 3072),
        ("reduce-scatter", "mesh", 0.75, 3072),
        ("allgather", "ring", 0.75, 3072),
        ("allgather", "mesh", 0.75, 3072),
        ("broadcast", "ring", 1, 4096),
        ("broadcast", "tree", 1, 8192),
        ("broadcast", "mesh", 1, 12288),
        ("reduce", "tree", 1, 8192),
        ("alltoall", "mesh", 0.75, 3072),
    ],
)
def test_bandwidths_and_wire_bytes(capfd, command, algorithm, busbw_factor, wire_bytes):
    root = ["--root", "2"] if command in ROOTED else []
    (case,) = cases(capfd, command, "--ranks", "4", "--sizes", "4K", "--algorithms", algorithm, *root)
    assert case["algbw_Bps"] == pytest.approx(4096 / case["time_s"]["median"])
    assert case["busbw_Bps"] == pytest.approx(case["algbw_Bps"] * busbw_factor)
    assert case["wire_bytes_busiest_rank"] == wire_bytes


@pytest.mark.parametrize("command", COMMANDS)
def test_op_and_root_are_recorded_where_there_is_one(capfd, command):
    root = ["--root", "1"] if command in ROOTED else []
    for case in cases(capfd, command, "--ranks", "2", "--sizes", "64", *root):
        assert case["op"] == ("sum" if command in REDUCE else "")
        assert case["root"] == (1 if command in ROOTED else None)


def test_the_root_is_0_unless_said(capfd):
    assert {case["root"] for case in cases(capfd, "broadcast", "--sizes", "64")} == {0}


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("reduce-scatter", "reduce-scatter max, float32, out of place, 2 ranks on 1 host"),
        ("allgather", "all-gather, float32, out of place"),
        ("reduce", "reduce max, root 1, float32"),
        ("broadcast", "broadcast, root 1, float32"),
    ],
)
def test_the_table_is_titled_by_what_was_run(capfd, command, title):
    more = (["--op", "max"] if command in REDUCE else []) + (["--root", "1"] if command in ROOTED else [])
    status, out, _ = bench(capfd, command, "--sizes", "64", *more)
    assert status == 0
    assert out.startswith(title)


@pytest.mark.parametrize(
    ("command", "arguments", "named"),
    [
        ("broadcast", ["--root", "2"], ["--root: 2: there are 2 ranks"]),
        ("reduce", ["--root", "-1"], ["--root", "-1"]),
        ("reduce", ["--root", "first"], ["--root", "first"]),
        ("allreduce", ["--root", "0"], ["--root"]),
        ("alltoall", ["--root", "0"], ["--root"]),
        ("allgather", ["--op", "sum"], ["--op"]),
        ("broadcast", ["--op", "sum"], ["--op"]),
        ("alltoall", ["--algorithms", "rung"], ["--algorithms", "rung"]),
        ("reduce-scatter", ["--sizes", "1.5"], ["--sizes", "1.5"]),
        ("reduce_scatter", [], ["reduce_scatter"]),
    ],
)
def test_usage_errors_name_option_and_text(capfd, command, arguments, named):
    status, out, err = bench(capfd, command, *arguments)
    assert (status, out) == (2, "")
    for text in named:
        assert text in err


def test_an_algorithm_without_the_collective_is_skipped_and_says_so(capfd):
    tree, mesh = cases(capfd, "alltoall", "--algorithms", "tree,mesh", "--sizes", "64")
    assert (tree["status"], tree["reason"]) == ("skipped", "tree: has no alltoall")
    assert mesh["status"] == "ok"


GLOO_COPIES = {"allreduce": 1, "broadcast": 1, "reduce": 2}  # places of two in which it needs one


@pytest.mark.parametrize("command", COMMANDS)
def test_gloo_gives_what_the_pattern_expects(capfd, command):
    pytest.importorskip("torch")
    root = ["--root", "2"] if command in ROOTED else []
    status, out, err = bench(
        capfd, command, "--ranks", "3", "--backends", "gloo", "--sizes", "12,50000", "--in-place", "both",
        "--dtypes", "float32,bfloat16,int8", *root, "--format", "json",
    )  # fmt: skip
    assert status == 0, out + err
    found = [json.loads(line) for line in out.splitlines()][1:-1]
    for case in found:
        if command == "alltoall" and case["in_place"]:
            assert (case["status"], case["reason"]) == ("skipped", "gloo has no all-to-all in place")
        else:
            assert (case["status"], case["wrong"]) == ("ok", 0)
    copies = sum("a copy" in "".join(case["warnings"]) for case in found)
    assert copies == len(found) // 2 * GLOO_COPIES.get(command, 0)


def asks_an_old_gloo(comm):
    import torch.distributed as distributed

    def refuse(*arguments):
        raise RuntimeError("ProcessGroupGloo does not support reduce\n(more)")

    distributed.reduce = refuse
    array = np.ones(4, np.float32)
    request = Request("reduce", "library", "sum", 0, "float32", 4, in_place=True, send=array, receive=array)
    with pytest.raises(Unavailable) as refusal:
        find_backend("gloo").prepare(comm, request)
    return str(refusal.value)


def test_what_a_release_of_gloo_lacks_is_unavailable():
    torch = pytest.importorskip("torch")
    (reason,) = pycomm.run(asks_an_old_gloo, 1)
    assert reason == f"gloo of torch {torch.__version__}: ProcessGroupGloo does not support reduce"
