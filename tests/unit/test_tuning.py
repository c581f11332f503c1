"""What `pycomm tune` keeps, and what `auto` takes from it."""

import errno
import json
import pwd
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import pycomm
from pycomm import RankError, UsageError, tuning
from pycomm.algorithms import registry
from pycomm.cli import main
from pycomm.collectives import COLLECTIVES
from pycomm.machine import machine_kind
from pycomm.measure.tune import Search, candidates, tune
from pycomm.tuning import Case, Tuned, choice_from, chosen
from pycomm.world import Meeting, ThreadWorld

ALLREDUCE = Case("allreduce", 2, "shm", "ordinary")


def test_a_choice_holds_from_its_size_to_the_next():
    choice = ((0, "mesh"), (100, "direct"), (5000, "ring"))
    assert [chosen(choice, size) for size in (0, 4, 99, 100, 101, 4999, 5000, 1 << 40)] == (
        ["mesh"] * 3 + ["direct"] * 3 + ["ring"] * 2
    )


def test_the_fastest_is_chosen_and_the_border_lies_half_way_between_the_sizes():
    measured = {4: {"a": 1.0, "b": 2.0}, 100: {"a": 5.0, "b": 4.0}, 10_000: {"a": 90.0, "b": 80.0}}
    assert choice_from(measured) == ((0, "a"), (20, "b"))  # the geometric mean of 4 and 100


def test_one_that_is_slower_by_little_is_kept():
    measured = {4: {"a": 1.0, "b": 2.0}, 16: {"a": 1.02, "b": 1.0}, 64: {"a": 1.0, "b": 1.2}}
    assert choice_from(measured) == ((0, "a"),)


def test_of_equals_the_one_that_lasts_is_chosen():
    measured = {4: {"a": 1.0, "b": 1.01, "c": 1.0}, 16: {"a": 2.0, "b": 1.0, "c": 1.0}, 64: {"a": 9, "b": 1, "c": 9}}
    assert choice_from(measured) == ((0, "b"),)


def test_a_size_that_lacks_an_algorithm_ends_it():
    assert choice_from({4: {"a": 1.0}, 16: {"b": 1.0}}) == ((0, "a"), (8, "b"))


@pytest.mark.parametrize("buffers", ["ordinary", "symmetric"])
@pytest.mark.parametrize("collective", list(COLLECTIVES))
@pytest.mark.parametrize("ranks", [1, 2, 9])
def test_what_is_shipped_applies_everywhere(collective, ranks, buffers):
    choice = tuning.shipped(Case(collective, ranks, "shm", buffers))
    assert tuning._checked(Case(collective, ranks, "shm", buffers), choice) == choice


def test_what_is_saved_is_loaded_on_that_machine_alone(tmp_path):
    path = tuning.writable_path(tmp_path / "folder" / "tuning.json")
    first = Tuned(ALLREDUCE, ((0, "mesh"), (64, "ring")), {4: {"mesh": 1e-6, "ring": 2e-6}})
    other = Tuned(Case("allreduce", 3, "shm", "symmetric"), ((0, "ps:servers=3"),), {4: {"ps:servers=3": 1e-6}})
    tuning.save("here", [first, other], path)
    assert tuning.load("here", 2, "shm", path) == {ALLREDUCE: first.choice}
    assert tuning.load("here", 3, "shm", path) == {other.case: other.choice}
    assert tuning.load("here", 2, "threads", path) == {}
    assert tuning.load("elsewhere", 2, "shm", path) == {}
    again = Tuned(ALLREDUCE, ((0, "tree"),), {4: {"tree": 1e-6}})
    tuning.save("here", [again], path)
    assert tuning.load("here", 2, "shm", path) == {ALLREDUCE: again.choice}
    assert tuning.load("here", 3, "shm", path) == {other.case: other.choice}
    assert [entry.name for entry in path.parent.iterdir()] == ["tuning.json"]


def test_without_a_file_nothing_is_tuned(tmp_path):
    assert tuning.load("here", 2, "shm", tmp_path / "none.json") == {}


def no_home(monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)


def home_that_is_no_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/dev/null")


def home_that_may_not_be_read(monkeypatch):
    def refuse(path):  # root may read everything
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setenv("HOME", "/root")
    monkeypatch.setattr(Path, "read_bytes", refuse)


@pytest.mark.parametrize("make", [no_home, home_that_is_no_folder, home_that_may_not_be_read])
def test_without_a_home_that_can_be_read_nothing_is_tuned(monkeypatch, make):
    monkeypatch.delenv("PYCOMM_TUNING")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    make(monkeypatch)
    assert tuning.load("here", 2, "shm") == {}


def test_a_file_that_was_named_must_be_readable(tmp_path, monkeypatch):
    monkeypatch.setenv("PYCOMM_TUNING", str(tmp_path / "t.json"))
    home_that_may_not_be_read(monkeypatch)
    with pytest.raises(UsageError, match=r"t\.json: Permission denied; PYCOMM_TUNING names another"):
        tuning.load("here", 2, "shm")


ENTRY = {"collective": "allreduce", "ranks": 2, "transport": "shm", "buffers": "ordinary", "choice": [[0, "ring"]]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not json", "no file of pycomm tune"),
        ("[]", "no file of pycomm tune"),
        (b'{"schema": 1, "machines": {"\xff": []}}', "no file of pycomm tune"),
        ('{"schema": 1, "machines": {"here": null}}', "no file of pycomm tune"),
        ('{"schema": 1, "machines": []}', "no file of pycomm tune"),
        ('{"schema": 7, "machines": {}}', "schema is 7, wanted 1"),
        ({**ENTRY, "choice": []}, "do not begin at 0"),
        ({**ENTRY, "choice": [[4, "ring"]]}, "do not begin at 0"),
        ({**ENTRY, "choice": [[0, "ring"], [9, "mesh"], [9, "ring"]]}, "and grow"),
        ({**ENTRY, "choice": [[float("inf"), "ring"]]}, "a size is inf"),
        ({**ENTRY, "choice": [[0.5, "ring"]]}, "a size is 0.5"),
        ({**ENTRY, "choice": [[0, "ring"], [True, "mesh"]]}, "a size is True"),
        ({**ENTRY, "choice": [[0, "auto"]]}, "auto: wanted one that every rank takes part in"),
        ({**ENTRY, "choice": [[0, "ps:dedicated"]]}, "ps:dedicated: wanted one that every rank takes part in"),
        ({**ENTRY, "choice": [[0, "rnig"]]}, "unknown algorithm 'rnig'"),
        ({**ENTRY, "choice": [[0, "ps:servers=5"]]}, "there are 2 ranks"),
        ({**ENTRY, "collective": "alltoall"}, "ring: has no alltoall"),
        ({**ENTRY, "collective": "gossip"}, "gossip"),
        ({**ENTRY, "collective": ["allreduce"]}, "unhashable"),
        ({**ENTRY, "buffers": "large"}, "buffers is 'large'"),
        ({key: ENTRY[key] for key in ENTRY if key != "buffers"}, "buffers"),
    ],
)
def test_a_file_that_is_not_right_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "tuning.json"
    if isinstance(content, dict):
        content = json.dumps({"schema": 1, "machines": {"here": [content]}})
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError, match=said) as refusal:
        tuning.load("here", 2, "shm", path)
    assert str(path) in str(refusal.value)
    assert "pycomm tune" in str(refusal.value)


OF_OTHERS = [
    {**ENTRY, "ranks": 3, "choice": [[0, "of-another-version"]]},
    {**ENTRY, "transport": "routed", "choice": []},
    {"collective": "allreduce"},
    "no entry",
]


def test_entries_for_other_worlds_do_not_matter_and_are_kept(tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({"schema": 1, "machines": {"here": [*OF_OTHERS, ENTRY]}}))
    assert tuning.load("here", 2, "shm", path) == {ALLREDUCE: ((0, "ring"),)}
    tuning.save("here", [Tuned(ALLREDUCE, ((0, "tree"),), {})], path)
    assert tuning.load("here", 2, "shm", path) == {ALLREDUCE: ((0, "tree"),)}
    assert json.loads(path.read_text())["machines"]["here"][:-1] == OF_OTHERS


def test_a_broken_file_stops_every_rank_with_its_name(tmp_path, monkeypatch):
    path = tmp_path / "tuning.json"
    path.write_text("{")
    monkeypatch.setenv("PYCOMM_TUNING", str(path))
    with pytest.raises(UsageError, match="no file of pycomm tune"):
        pycomm.run(lambda comm: comm.rank, ranks=3)


def test_whatever_happens_to_rank_0_every_rank_hears_of_it(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("what nobody thought of")

    monkeypatch.setattr(tuning, "load", fail)
    heard = []

    def live(rank):
        with pytest.raises((ZeroDivisionError, RankError)) as raised:
            pycomm.Communicator(ThreadWorld(rank, 3, meeting, timeout=20), "threads")
        heard.append((rank, type(raised.value), str(raised.value)))

    meeting = Meeting(3)
    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    others = (RankError, "rank 0: ZeroDivisionError: what nobody thought of")
    assert sorted(heard, key=lambda item: item[0]) == [
        (0, ZeroDivisionError, "what nobody thought of"),
        (1, *others),
        (2, *others),
    ]


def test_auto_goes_by_what_was_tuned_for_this_world(tmp_path, monkeypatch):
    path = tmp_path / "tuning.json"
    monkeypatch.setenv("PYCOMM_TUNING", str(path))
    machine = machine_kind()
    tuning.save(machine, [Tuned(Case("allreduce", 3, "shm", "ordinary"), ((0, "tree"), (1024, "ps")), {})], path)

    def names(comm: pycomm.Communicator) -> list[str]:
        import numpy as np

        symmetric = comm.empty(4)
        ordinary = [np.zeros(count, np.float32) for count in (255, 256)]
        arrays = [*ordinary, symmetric]
        return [comm.prepare_allreduce(array).algorithm for array in arrays]

    assert pycomm.run(names, ranks=3, transport="shm") == [["tree", "ps", "mesh"]] * 3
    assert pycomm.run(names, ranks=3, transport="threads") == [["mesh", "mesh", "mesh"]] * 3
    assert pycomm.run(names, ranks=2, transport="shm") == [["mesh", "mesh", "mesh"]] * 2


def test_candidates_are_all_rows_that_apply():
    assert candidates("allreduce", 4) == (*(row.name for row in registry()), "ps:servers=4")
    assert candidates("alltoall", 4) == ("mesh",)


def test_the_command_keeps_what_it_measured(tmp_path, monkeypatch, capfd):
    path = tmp_path / "tuning.json"
    monkeypatch.setenv("PYCOMM_TUNING", str(path))
    arguments = ["tune", "--ranks", "3", "--sizes", "4,600", "--max-seconds", "0.001", "--algorithms", "ring,mesh"]
    assert main([*arguments, "--collectives", "allgather,allreduce"]) == 0
    out = capfd.readouterr().out
    assert "all-gather, 3 ranks, transport shm, ordinary buffers; microseconds, * for auto\n" in out  # in one line
    assert "kept in" in out
    kept = tuning.load(machine_kind(), 3, "shm")
    assert set(kept) == {
        Case(collective, 3, "shm", buffers)
        for collective in ("allreduce", "allgather")
        for buffers in ("ordinary", "symmetric")
    }
    [entries] = json.loads(path.read_text())["machines"].values()
    sizes = {entry["collective"]: list(entry["measured_s"]) for entry in entries}
    assert sizes == {"allreduce": ["4", "600"], "allgather": ["12", "600"]}  # whole blocks of three ranks
    assert all(set(seconds) == {"ring", "mesh"} for entry in entries for seconds in entry["measured_s"].values())


@pytest.mark.parametrize("buffers", ["ordinary", "symmetric", "both"])
def test_on_threads_all_buffers_are_one_kind_which_auto_looks_for(buffers):
    def tuned(comm: pycomm.Communicator) -> list[Case]:
        search = Search(("allreduce",), ("ordinary", "symmetric") if buffers == "both" else (buffers,), (4,))
        return [item.case for item in tune(comm, replace(search, algorithms=("tree", "ring"), seconds=0.001))]

    assert pycomm.run(tuned, ranks=2, transport="threads") == [[Case("allreduce", 2, "threads", "symmetric")]] * 2


@pytest.mark.parametrize("out", ["/dev/null/tuning.json", "/proc/none/tuning.json"])
def test_a_place_where_nothing_can_be_kept_is_refused_before_ranks_start(out, monkeypatch, capsys):
    monkeypatch.setattr("pycomm.cli.tune.run", lambda *_: pytest.fail("ranks were started"))
    assert main(["tune", "--out", out]) == 2
    assert f"--out: {out}: " in capsys.readouterr().err


def test_what_cannot_be_added_to_is_refused_before_ranks_start(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pycomm.cli.tune.run", lambda *_: pytest.fail("ranks were started"))
    path = tmp_path / "tuning.json"
    path.write_text("{")
    assert main(["tune", "--out", str(path)]) == 2
    assert f"--out: {path}: this is no file of pycomm tune" in capsys.readouterr().err
    assert path.read_text() == "{"


def test_without_a_home_tune_asks_for_a_file(monkeypatch, capsys):
    monkeypatch.delenv("PYCOMM_TUNING")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    no_home(monkeypatch)
    assert main(["tune"]) == 2
    assert "no home folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--collectives", "all-reduce"], "--collectives: 'all-reduce'"),
        (["--algorithms", "auto"], "by its own name"),
        (["--algorithms", "ps:dedicated"], "that every rank takes part in"),
        (["--collectives", "alltoall", "--algorithms", "ring"], "ring: has no alltoall"),
        (["--algorithms", "ps:servers=3"], "--algorithms: ps:servers=3: option 'servers' is 3, but there are 2 ranks"),
    ],
)
def test_what_cannot_be_tuned_is_a_usage_error(arguments, said, capsys):
    assert main(["tune", *arguments]) == 2
    assert said in capsys.readouterr().err
