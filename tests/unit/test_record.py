"""Records: strict JSON lines that are read back as they were written, also from a file cut short."""

import json
import math
from dataclasses import replace

import pytest

import pycomm
from pycomm.errors import Error, UsageError
from pycomm.machine import Machine, allowed_environment, cpu_model
from pycomm.measure.record import (
    SCHEMA,
    CaseRecord,
    EndRecord,
    Loop,
    Member,
    RecordFile,
    RunRecord,
    WorldRecord,
    append_end,
    read_results,
    to_line,
)
from pycomm.measure.statistics import Summary

RUN = RunRecord(
    schema=SCHEMA,
    started="2024-01-02T03:04:05+00:00",
    versions={"pycomm": "0.1.0"},
    machine=Machine("anna", "Linux", "a CPU", 2, 1 << 34),
    world=WorldRecord("local", "shm", (Member(0, "anna", 17), Member(1, "anna", 18))),
    command=("pycomm", "bench", "allreduce"),
    environment={"PYCOMM_CPU": "avx2"},
)
CASE = CaseRecord(
    benchmark="allreduce",
    backend="native",
    algorithm="ps",
    options="servers=2",
    transport="shm",
    device="cpu",
    dtype="bfloat16",
    op="sum",
    in_place=False,
    buffers="ordinary",
    ranks=2,
    workers=2,
    hosts=1,
    link="shared memory",
    bytes=1024,
    count=512,
    status="ok",
    iterations=30,
    warmup=5,
    loop=Loop("c++", "each", 4),
    time_s=Summary(2e-6, 1e-6, 2.1e-6, 3e-6, 4e-6, 5e-6, 1.9e-6, 2.1e-6),
    algbw_Bps=5.12e8,
    busbw_Bps=5.12e8,
    wire_bytes_busiest_rank=1024,
    wrong=0,
    warnings=("crowded",),
)
SKIPPED = CaseRecord(
    **{**CASE.__dict__, "status": "skipped", "reason": "no “such” type\n", "time_s": None, "loop": None}
)
END = EndRecord("done", 0, {"ok": 1, "skipped": 1})

# The fields of a case, as DESIGN names them.
FIELDS = (
    *("benchmark", "backend", "algorithm", "options", "transport", "device", "dtype", "op", "in_place", "buffers"),
    *("ranks", "workers", "hosts", "link", "bytes", "count", "iterations", "warmup", "loop", "time_s", "host_time_s"),
    *("algbw_Bps", "busbw_Bps", "wire_bytes_busiest_rank", "wrong", "status", "reason", "warnings", "root"),
)


def written(path, records):
    file = RecordFile(path)
    for record in records:
        file.write_line(to_line(record))
    file.close()
    return path


def test_what_was_written_is_read_back(tmp_path):
    results = pycomm.read_results(written(tmp_path / "r.jsonl", [RUN, CASE, SKIPPED, END]))
    assert results.run == RUN
    assert results.cases == (CASE, SKIPPED)
    assert results.end == END
    assert results.complete


def test_a_file_that_is_not_there_is_said_once(tmp_path):
    with pytest.raises(pycomm.Error, match=r"^[^']*none\.jsonl: No such file or directory$"):
        pycomm.read_results(tmp_path / "none.jsonl")


def test_a_case_has_every_named_field_and_no_other():
    case = json.loads(to_line(CASE))
    assert set(case) == {"record", *FIELDS}
    assert case["record"] == "case"
    assert set(case["loop"]) == {"language", "barrier", "batch", "clock", "graph"}
    assert set(case["time_s"]) == {"median", "min", "mean", "p95", "p99", "max", "ci95_low", "ci95_high"}


def test_the_run_record_lists_the_ranks():
    world = json.loads(to_line(RUN))["world"]
    assert world["ranks"] == [
        {"rank": 0, "host": "anna", "pid": 17},
        {"rank": 1, "host": "anna", "pid": 18},
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_have_is_never_written(value):
    with pytest.raises(ValueError, match="JSON"):
        to_line(CaseRecord(**{**CASE.__dict__, "algbw_Bps": value}))


def test_every_record_is_on_disk_at_once(tmp_path):
    path = tmp_path / "r.jsonl"
    file = RecordFile(path)
    for number, record in enumerate([RUN, CASE], 1):
        file.write_line(to_line(record))
        assert len(path.read_text().splitlines()) == number


def test_an_existing_file_is_not_written_over(tmp_path):
    path = written(tmp_path / "r.jsonl", [RUN])
    before = path.read_text()
    with pytest.raises(UsageError, match=r"--out.*r\.jsonl.*--force"):
        RecordFile(path)
    assert path.read_text() == before
    RecordFile(path, force=True).close()
    assert path.read_text() == ""


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="nowhere"):
        RecordFile(tmp_path / "nowhere" / "r.jsonl")


@pytest.mark.parametrize("rest", ["", '{"record": "case", "bench'])
def test_a_run_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path, rest):
    path = written(tmp_path / "r.jsonl", [RUN, CASE])
    with path.open("a") as file:
        file.write(rest)
    results = read_results(path)
    assert results.cases == (CASE,)
    assert results.end is None
    assert not results.complete


def test_a_run_that_was_cut_off_can_be_ended(tmp_path):
    path = written(tmp_path / "r.jsonl", [RUN, CASE, SKIPPED])
    with path.open("a") as file:
        file.write('{"record": "ca')
    append_end(path, "failed", 1, "rank 0 died")
    results = read_results(path)
    assert results.cases == (CASE, SKIPPED)
    assert results.end == EndRecord("failed", 1, {"ok": 1, "skipped": 1}, "rank 0 died")
    assert not results.complete
    append_end(path, "failed", 1, "once more")
    assert read_results(path) == results


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense\n", "not JSON"),
        ("[]\n", "not a record"),
        (100_000 * "[" + "\n", "not JSON"),
        ('{"record": "other"}\n', "not a record"),
        (to_line(CASE).replace('"bytes": 1024, ', "") + "\n", "bytes"),
        (to_line(CASE).replace("512000000.0", "NaN") + "\n", "NaN"),
        (to_line(RUN).replace(f'"schema": {SCHEMA}', '"schema": 99') + "\n", "schema 99"),
    ],
)
def test_anything_else_is_refused_naming_file_and_line(tmp_path, line, reason):
    path = written(tmp_path / "r.jsonl", [RUN])
    with path.open("a") as file:
        file.write(line + to_line(END) + "\n")
    with pytest.raises(Error, match=rf"r\.jsonl, line 2: .*{reason}"):
        read_results(path)


def test_a_text_may_hold_what_unicode_counts_as_the_end_of_a_line(tmp_path):
    strange = replace(SKIPPED, reason="one\u2028two\x85three\x0cfour")
    assert read_results(written(tmp_path / "r.jsonl", [RUN, strange, END])).cases == (strange,)


def test_a_file_without_a_run_record_is_not_results(tmp_path):
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    with pytest.raises(Error, match="no run record"):
        read_results(path)
    with pytest.raises(Error, match=r"absent\.jsonl"):
        read_results(tmp_path / "absent.jsonl")


def test_fields_of_a_later_version_are_left_out(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(to_line(RUN) + "\n" + to_line(CASE)[:-1] + ', "colour": "red"}\n')
    assert read_results(path).cases == (CASE,)


def test_only_allowed_names_of_the_environment_are_written_down():
    environment = {
        "AWS_SECRET_ACCESS_KEY": "s3cr3t",
        "HOME": "/home/anna",
        "NCCL_DEBUG": "INFO",
        "NCCL_SECRET_TOKEN": "s3cr3t",
        "OMPI_MCA_btl": "self,vader",
        "OMPI_MCA_orte_hnp_uri": "tcp://10.0.0.1",
        "PATH": "/bin",
        "PYCOMM_CPU": "avx2",
        "UCX_TLS": "rc",
        "UCX_KEY_FILE": "/root/key",
    }
    assert allowed_environment(environment) == {
        "NCCL_DEBUG": "INFO",
        "OMPI_MCA_btl": "self,vader",
        "PYCOMM_CPU": "avx2",
        "UCX_TLS": "rc",
    }


def test_the_cpu_is_named_as_the_kernel_names_it(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some  CPU @ 2.0GHz\n")
    assert cpu_model(cpuinfo) == "Some CPU @ 2.0GHz"
    assert cpu_model(tmp_path / "absent") != ""
