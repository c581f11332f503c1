"""Names and options of algorithms, and the commands `pycomm list` and `pycomm schedule`."""

import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from pycomm import UsageError
from pycomm.algorithms import parse_algorithm, parse_algorithms, registry
from pycomm.cli import main
from pycomm.cli.registry import _table, cost_of


def texts(text: str) -> list[str]:
    return [str(algorithm) for algorithm in parse_algorithms(text)]


def test_items_that_begin_with_a_registry_name_start_a_new_algorithm():
    assert texts("ring,ps:servers=2,dedicated,mesh") == ["ring", "ps:servers=2,dedicated", "mesh"]
    assert texts("ps:dedicated,servers=3") == ["ps:servers=3,dedicated"]
    assert texts("ps:servers=1,ps:servers=2,tree") == ["ps:servers=1", "ps:servers=2", "tree"]


def test_an_alias_is_the_row_it_names_and_duplicates_are_dropped():
    assert texts("p2p,ring,mesh,ring") == ["mesh", "ring"]
    assert parse_algorithm("p2p").display == "mesh (p2p)"


def test_auto_is_passed_through():
    assert texts("auto,ring") == ["auto", "ring"]
    assert parse_algorithm("auto").applies(4) is None


def test_options_text_has_the_defaults_too():
    assert parse_algorithm("ps").options_text == "servers=1"
    assert parse_algorithm("ps:dedicated,servers=2").options_text == "servers=2,dedicated"
    assert parse_algorithm("ring").options_text == ""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("rnig", "unknown algorithm 'rnig'"),
        ("", "unknown algorithm ''"),
        ("ring,", "'' is no algorithm, and no option of ring"),
        ("ring,tre", "'tre' is no algorithm, and no option of ring: it has none"),
        ("ring:servers=2", "no option of ring"),
        ("ps:server=2", "'server' is no algorithm, and no option of ps: one of servers, dedicated"),
        ("ps:servers", "needs a whole number from 1, got ''"),
        ("ps:servers=", "needs a whole number from 1, got ''"),
        ("ps:servers=0", "needs a whole number from 1, got '0'"),
        ("ps:servers=-1", "got '-1'"),
        ("ps:servers=1.5", "got '1.5'"),
        ("ps:servers=２", "needs a whole number"),
        ("ps:dedicated=1", "is a flag and takes no value, got '1'"),
        ("ps:servers=1,servers=2", "given twice"),
        ("ps:", "'' is no algorithm"),
        ("auto:servers=2", "'auto' takes no options"),
    ],
)
def test_what_the_registry_does_not_have_names_option_and_text(text, wanted):
    with pytest.raises(UsageError, match=wanted) as refusal:
        parse_algorithms(text, "--algorithms")
    assert str(refusal.value).startswith(f"--algorithms: {text!r}: ")


def test_more_servers_than_ranks_is_a_usage_error_and_no_worker_a_reason():
    with pytest.raises(UsageError, match="option 'servers' is 5, but there are 4 ranks"):
        parse_algorithm("ps:servers=5").applies(4)
    assert parse_algorithm("ps:servers=4").applies(4) is None
    assert "needs a worker" in str(parse_algorithm("ps:servers=4,dedicated").applies(4))
    assert parse_algorithm("tree").applies(4, "alltoall") == "tree: has no alltoall"


def test_every_row_says_what_it_does_where_from_and_can_do_allreduce():
    names = [row.name for row in registry()]
    assert len(set(names)) == len(names)
    for row in registry():
        assert row.summary
        assert row.source
        assert "allreduce" in row.collectives


# ---- the command line ----


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    said = capsys.readouterr()
    return status, said.out, said.err


def test_list_counts_steps_and_bytes_from_the_schedule(capsys):
    status, out, _ = run(capsys, "list", "--ranks", "4", "--bytes", "64K", "--format", "json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert status == 0
    assert list(rows) == [row.name for row in registry()]
    ring = rows["ring"]  # by hand: 3 sends and 3 sums, 1 division, 3 sends and 3 receives; 6 of 4 quarters
    assert (ring["steps"], ring["rounds"], ring["wire_bytes_busiest_rank"]) == (13, 6, 98304)
    assert (rows["mesh"]["rounds"], rows["mesh"]["wire_bytes_busiest_rank"]) == (1, 3 * 65536)


def test_list_is_a_table_with_a_source_for_each_row(capsys):
    status, out, _ = run(capsys, "list")
    assert status == 0
    assert "mesh (p2p)" in out
    assert "1,835,008" in out  # the ring's: 2 · 7/8 of 1 MiB
    assert "OSDI 2014" in out
    assert run(capsys, "list", "--ranks", "1")[1].startswith("all-reduce, 1 rank, 1,048,576 bytes")


def test_list_says_everything_on_a_narrow_terminal_too():
    rows = [(row, cost_of(row, 8, 1 << 20, "allreduce")) for row in registry()]
    file = io.StringIO()
    Console(file=file, width=80).print(_table(rows, narrow=True))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    begin = lines[0].index("what it does")
    shown = "".join("".join(line[begin:] for line in lines).split())
    for row, _ in rows:
        assert "".join(row.summary.split()) in shown
        assert "".join(row.source.split()) in shown
    assert "servers=…,dedicated" in shown


def test_list_says_why_an_algorithm_does_not_apply(capsys):
    _, out, _ = run(capsys, "list", "--collective", "all-to-all".replace("all-to-all", "alltoall"), "--format", "json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert rows["tree"]["steps"] is None
    assert rows["tree"]["reason"] == "tree: has no alltoall"
    assert rows["mesh"]["rounds"] == 1


def test_schedule_draws_text_and_svg_and_does_not_overwrite(capsys, tmp_path):
    status, out, _ = run(capsys, "schedule", "ring", "--ranks", "4")
    assert (status, out.splitlines()[0]) == (0, "ring, 4 ranks, all-reduce, out of place, 1 segment")
    file = tmp_path / "ring.svg"
    arguments = ["schedule", "ring", "--ranks", "4", "--format", "svg", "--out", str(file)]
    assert run(capsys, *arguments)[:2] == (0, "")
    assert file.read_text(encoding="utf-8").startswith("<svg")
    file.write_text("mine")
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert "exists" in err
    assert file.read_text() == "mine"
    assert run(capsys, *arguments, "--force")[0] == 0
    assert file.read_text(encoding="utf-8").startswith("<svg")


def test_schedule_options_change_what_is_drawn(capsys):
    plain = run(capsys, "schedule", "mesh", "--ranks", "3")[1]
    for more in (["--segments", "2"], ["--in-place"], ["--collective", "allgather"], ["--format", "svg"]):
        status, out, _ = run(capsys, "schedule", "mesh", "--ranks", "3", *more)
        assert status == 0
        assert out != plain
    rooted = [run(capsys, "schedule", "tree", "--ranks", "3", "--collective", "reduce", "--root", r)[1] for r in "01"]
    assert rooted[0] != rooted[1]
    hosts = [
        run(capsys, "schedule", "hierarchical", "--ranks", "4", *more)[1] for more in ([], ["--ranks-a-host", "2"])
    ]
    # four ranks go round one ring; two hosts of two send 2 of 6 rounds between hosts, to the rank in the same place
    assert "+2 → 1" in hosts[0]
    assert "+1 → 2" not in hosts[0]
    assert "+1 → 2" in hosts[1]


def test_verify_prints_the_facts_and_draws_nothing(capsys):
    status, out, _ = run(capsys, "schedule", "ps:servers=2", "--ranks", "16", "--verify")
    assert status == 0
    assert "ps:servers=2, 16 ranks, all-reduce: proved out of place and in place, for 1, 2, 3 and 5 segments" in out
    assert "5. no early landing" in out
    assert "→" not in out
    assert run(capsys, "schedule", "ring", "--ranks", "4", "--verify", "--format", "svg")[0] == 2
    one = run(capsys, "schedule", "ring", "--ranks", "4", "--verify", "--segments", "7", "--in-place")
    assert "proved in place, for 7 segments" in one[1]
    assert (
        run(capsys, "schedule", "ring", "--ranks", "4", "--verify", "--in-place")[1]
        .splitlines()[0]
        .endswith("1 segment")
    )
    two_hosts = run(capsys, "schedule", "hierarchical", "--ranks", "4", "--ranks-a-host", "2", "--verify")
    assert two_hosts[1] != run(capsys, "schedule", "hierarchical", "--ranks", "4", "--verify")[1]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["ringg", "--ranks", "4"], "unknown algorithm"),
        (["ps:servers=5", "--ranks", "4"], "servers"),
        (["ring", "--ranks", "0"], "0 is not in the range"),
        (["ring", "--ranks", "4", "--force"], "--force"),
        (["mesh", "--ranks", "1024"], "too many to draw"),
        (["ring", "--ranks", "4", "--root", "1"], "--root: all-reduce has none"),
    ],
)
def test_wrong_arguments_are_usage_errors(capsys, arguments, wanted):
    status, out, err = run(capsys, "schedule", *arguments)
    assert (status, out) == (2, "")
    assert wanted in err


def test_a_refused_schedule_is_status_1_with_the_message(capsys, monkeypatch):
    from pycomm import ScheduleError, schedules

    def refuse(*_: object) -> None:
        raise ScheduleError("fact 3: rank 1, lane 0, step 2: …")

    monkeypatch.setattr(schedules._core, "prove_algorithm", refuse)
    status, out, err = run(capsys, "schedule", "ring", "--ranks", "4", "--verify")
    assert (status, out) == (1, "")
    assert "rank 1, lane 0, step 2" in err


def test_the_commands_are_on_the_command_line():
    from pycomm.cli import pycomm

    listed = CliRunner().invoke(pycomm, ["--help"]).output
    assert "list" in listed
    assert "schedule" in listed
