"""The table: on a terminal the best of each size is marked and progress is shown; elsewhere rows are plain."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from pycomm.backends import Contender
from pycomm.cli import listing
from pycomm.measure.columns import choose_columns, format_us
from pycomm.measure.record import CaseRecord, EndRecord
from pycomm.measure.row import Row
from pycomm.measure.sinks import FORMATS, Notes, csv_names
from pycomm.measure.statistics import Summary
from pycomm.measure.table import TableSink, plain_console

END = EndRecord("done", 0)


def case(algorithm, size, median_s, **more):
    return CaseRecord(
        **{
            "benchmark": "allreduce", "backend": "native", "algorithm": algorithm, "options": "", "transport": "shm",
            "device": "cpu", "dtype": "float32", "op": "sum", "in_place": False, "buffers": "ordinary", "ranks": 2,
            "workers": 2, "hosts": 1, "link": "shared memory", "bytes": size, "count": size // 4, "status": "ok",
            "time_s": Summary(median_s, median_s, median_s, median_s, 2 * median_s, 9.0, median_s, median_s),
            "algbw_Bps": size / median_s, "busbw_Bps": size / median_s, "wire_bytes_busiest_rank": size, "wrong": 0,
            **more,
        }
    )  # fmt: skip


SKIPPED = {"status": "skipped", "reason": "MPI has no such type", "time_s": None, "algbw_Bps": None,
           "busbw_Bps": None, "wire_bytes_busiest_rank": None, "wrong": None, "backend": "mpi"}  # fmt: skip
GROUPS = [
    [case("ring", 4096, 4e-6), case("mesh", 4096, 2e-6), case("library", 4096, 1.0, **SKIPPED)],
    [case("ring", 1 << 20, 1e-3), case("mesh", 1 << 20, 2.5e-3), case("library", 1 << 20, 1.0, **SKIPPED)],
]


def shown(terminal, groups=GROUPS, progress=True, width=120, names=("ring", "mesh", "mpi")):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None, legacy_windows=False)
    sink = TableSink(
        plain_console(console),
        title="all-reduce sum",
        contenders=list(names),
        rows=6,
        types=1,
        places=1,
        progress=progress,
    )
    sink.begin(None)
    for group in groups:
        sink.begin_group(len(group))
        for row in group:
            contender = Contender(row.backend, row.algorithm, "", 2, lambda size, itemsize: None)
            sink.begin_row(Row("allreduce", contender, "float32", "sum", 0, False, "ordinary", "cpu", 2, row.count))
            sink.add(row)
        sink.end_group()
    sink.end(END)
    return file.getvalue()


def words(text):
    return [line.split() for line in text.splitlines()]


def test_plain_rows_are_complete_and_without_control_characters():
    text = shown(terminal=False)
    assert "\x1b" not in text
    lines = words(text)
    assert lines[0] == ["all-reduce", "sum"]
    assert lines[3][:4] == ["4", "KiB", "ring", "4.00"]
    assert lines[3][4:] == ["0.0", "8.00", "1.02", "1.02", "1.02", "0"]
    assert lines[5][:3] == ["4", "KiB", "mpi"]
    assert " ".join(lines[5]).endswith("skipped: MPI has no such type")


def test_the_comparison_marks_the_best_of_each_size_and_no_other():
    comparison = words(shown(terminal=False))[-2:]
    assert comparison == [
        ["4", "KiB", "4.00", "2.00", "★", "—"],
        ["1", "MiB", "1000", "★", "2500", "—"],
    ]


def test_on_a_terminal_the_best_is_marked_in_the_rows():
    text = shown(terminal=True, progress=False)
    rows = [line for line in words(text) if line[:1] in (["4"], ["1"]) and len(line) > 8]
    assert [row[2] for row in rows if "★" in row] == ["mesh", "ring"]
    assert ["2.00" in row for row in rows if row[2] == "ring" and "★" not in row] == [True]  # × best
    assert [row[-2] for row in rows if row[2] == "mesh" and "★" not in row] == ["2.50"]


def test_a_narrow_terminal_has_fewer_columns_and_whole_figures():
    text = shown(terminal=True, progress=False, width=66)
    lines = words(text)
    assert text.splitlines()[1] == "left out, since the terminal is narrow: p99, algbw, wire"
    assert lines[2] == ["size", "algorithm", "time", "±", "busbw", "×", "best", "wrong"]
    assert ["4", "KiB", "ring", "4.00", "0.0", "1.02", "2.00", "0"] in lines
    assert all(len(line) <= 66 for line in text.splitlines())
    assert any(line[:4] == ["4", "KiB", "mpi", "—"] and line[7] == "—" for line in lines)  # beside a long note too
    assert "left out" not in shown(terminal=True, progress=False, width=100)
    assert "left out" not in shown(terminal=False, width=66)  # a pipe is as wide as it has to be


def test_a_comparison_of_many_goes_on_below_where_the_terminal_is_narrow():
    others = [f"ps:servers={servers}" for servers in range(2, 9)]
    text = shown(terminal=True, progress=False, width=60, names=("ring", "mesh", *others))
    comparisons = words(text.partition("time of one call")[2])
    assert [line[1:] for line in comparisons if line[:1] == ["size"] and len(line) > 1] == [
        ["ring", "mesh", *others[:1]],
        others[1:4],
        others[4:],
    ]


def test_progress_shows_the_row_being_measured_and_vanishes():
    text = shown(terminal=True)
    assert "ring, 1 MiB of float32" in text
    assert "0/6" in text
    assert "0/6" not in shown(terminal=True, progress=False)
    assert "0/6" not in shown(terminal=False)


def test_an_interrupted_group_is_printed_as_far_as_it_came():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120, color_system=None)
    sink = TableSink(console, title="t", contenders=["ring", "mesh"], rows=2, types=1, places=1, progress=False)
    sink.begin(None)
    sink.begin_group(2)
    sink.add(case("ring", 4096, 4e-6))
    sink.end(EndRecord("interrupted", 130))
    assert "4 KiB" in file.getvalue()


def test_columns_that_would_say_the_same_everywhere_are_left_out():
    def headings(**more):
        arguments = {"types": 1, "places": 1, "names": ["ring"], "contest": False, "width": 120, **more}
        return [column.heading for column in choose_columns(**arguments)[0]]

    assert headings() == ["size", "algorithm", "time", "±", "p99", "algbw", "busbw", "wire", "wrong"]
    assert "type" in headings(types=2)
    assert "place" in headings(places=2)
    assert "× best" in headings(names=["ring", "mesh"], contest=True)


def test_every_heading_of_a_figure_has_a_unit():
    columns, _ = choose_columns(types=2, places=2, names=["ring", "mesh"], contest=True, width=120)
    assert {column.heading for column in columns if not column.unit} == {"size", "type", "place", "algorithm", "× best"}


@pytest.mark.parametrize(
    ("duration_s", "text"), [(1.5e-7, "0.15"), (9.99e-6, "9.99"), (4.4e-5, "44.0"), (0.0440121, "44012")]
)
def test_microseconds(duration_s, text):
    assert format_us(duration_s) == text


def test_a_noisy_row_is_marked():
    noisy = replace(case("ring", 4096, 4e-6), warnings=("noisy: …",))
    assert "~0.0" in shown(False, [[noisy]])


def test_warnings_are_said_once_and_counted(capsys):
    notes = Notes()
    for row in [*GROUPS[0], *GROUPS[1]]:
        notes.add(replace(row, warnings=("3 ranks share 2 cores", "noisy: so much")))
    notes.end(END)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "warning: 3 ranks share 2 cores",
        "warning: 2 rows skipped: mpi: MPI has no such type",
        "warning: 6 rows noisy (marked ~): the median is known less well than --target-ci; a larger --max-seconds or "
        "a quieter machine helps",
    ]


def test_a_reason_that_begins_with_a_name_does_not_repeat_it(capsys):
    notes = Notes()
    notes.add(case("tree", 4096, 1.0, **{**SKIPPED, "backend": "native", "reason": "tree: has no allgather"}))
    notes.end(END)
    assert capsys.readouterr().err == "warning: 1 row skipped: tree: has no allgather\n"


def test_csv_has_every_field():
    assert {name.split(".")[0] for name in csv_names()} == set(CaseRecord.__dataclass_fields__)
    assert {"time_s.ci95_high", "host_time_s.median"} <= set(csv_names())  # no cell holds a dictionary


def test_every_format_on_offer_is_written_by_an_output():
    assert set(listing.FORMATS) == {"table", *FORMATS}


def test_a_row_that_sums_fewer_contributions_is_no_best():
    servers = case("ps", 4096, 1e-6, options="servers=1,dedicated", workers=1)
    text = shown(terminal=True, groups=[[*GROUPS[0][:2], servers]], names=("ring", "mesh", "ps:servers=1,dedicated"))
    starred = [line for line in text.splitlines() if "★" in line and "best of" not in line]
    assert starred
    assert all("2.00" in line for line in starred)
    assert not any("1.00 ★" in line for line in starred)
