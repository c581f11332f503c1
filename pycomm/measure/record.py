"""The records of a results file: JSON lines, one `run`, then a `case` a row, last an `end`.

Times are in seconds, sizes in bytes, rates in bytes per second. Every line is strict JSON: what is not known is
null, never NaN.
"""

import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from pycomm.errors import Error
from pycomm.files import check_writable, unwritable
from pycomm.machine import Machine
from pycomm.measure.statistics import Summary

SCHEMA: Final = 1


@dataclass(frozen=True)
class Member:
    """One rank: its host and its process there."""

    rank: int
    host: str
    pid: int


@dataclass(frozen=True)
class WorldRecord:
    """The ranks, how they were started (`kind`) and what moves bytes between them."""

    kind: str
    transport: str
    ranks: tuple[Member, ...]


@dataclass(frozen=True)
class RunRecord:
    """What a run was: enough to tell whether two may be compared."""

    schema: int
    started: str  # ISO 8601, UTC
    versions: Mapping[str, str]
    machine: Machine
    world: WorldRecord
    command: tuple[str, ...]
    environment: Mapping[str, str]  # allowed names only


@dataclass(frozen=True)
class Loop:
    """How a row was timed: by a loop in `language` ("c++" or "python"), under the `barrier` policy, `batch` calls a
    sample; by the "host" clock or by "events" on a GPU's stream, there perhaps as a CUDA `graph`."""

    language: str
    barrier: str
    batch: int
    clock: str = "host"
    graph: bool = False


@dataclass(frozen=True)
class CaseRecord:
    """One row.

    `iterations` counts the samples, each of `loop.batch` calls. `wrong` counts wrong elements over all ranks, None
    where nothing was checked. `wire_bytes_busiest_rank` is the maximum over ranks of the larger of bytes sent and
    received in one call, None where it is not known. `bytes` is S of the definitions of bandwidth, the larger buffer;
    `count` the elements of a block where the collective has blocks. `op` is empty and `root` None where there is none.
    `status` is ok, wrong, skipped or failed; `reason` says why, and of an ok row of ``auto`` what it took.
    Where `time_s` is by events on a GPU's stream, `host_time_s` is of the same samples by the host's clock.
    """

    benchmark: str
    backend: str
    algorithm: str
    options: str
    transport: str
    device: str
    dtype: str
    op: str
    in_place: bool
    buffers: str
    ranks: int
    workers: int
    hosts: int
    link: str
    bytes: int
    count: int
    status: str
    iterations: int = 0
    warmup: int = 0
    loop: Loop | None = None
    time_s: Summary | None = None
    host_time_s: Summary | None = None
    algbw_Bps: float | None = None
    busbw_Bps: float | None = None
    wire_bytes_busiest_rank: int | None = None
    wrong: int | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()
    root: int | None = None


@dataclass(frozen=True)
class EndRecord:
    """How a run ended: `status` is done, failed or interrupted, `cases` counts the rows by their status."""

    status: str
    exit_status: int
    cases: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


Record = RunRecord | CaseRecord | EndRecord

_KINDS: Final[dict[str, type[Record]]] = {"run": RunRecord, "case": CaseRecord, "end": EndRecord}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class Results:
    """A results file, read. `end` is None when the run did not come to its end: see `complete`."""

    run: RunRecord
    cases: tuple[CaseRecord, ...]
    end: EndRecord | None

    @property
    def complete(self) -> bool:
        """Whether the run went through all its rows."""
        return self.end is not None and self.end.status == "done"


def to_line(record: Record) -> str:
    """The record as one line of JSON, without its newline. Raises ValueError for NaN or infinity."""
    return json.dumps({"record": _NAMES[type(record)], **asdict(record)}, allow_nan=False, ensure_ascii=False)


class RecordFile:
    """A results file being written: each record is handed to the system as it comes."""

    def __init__(self, path: Path, *, force: bool = False) -> None:
        """Raises UsageError when the file exists and `force` is not given, or cannot be written."""
        check_writable(path, force=force, option="--out")
        try:
            self._file: IO[str] = path.open("w" if force else "x", encoding="utf-8")
        except OSError as error:
            raise unwritable(path, error, "--out") from error

    def write_line(self, line: str) -> None:
        """Append one record's line and hand it to the system."""
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()


def append_end(path: Path, status: str, exit_status: int, reason: str) -> None:
    """End a file whose writer could not: drop a line cut short, and add the end record if there is none."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    records = [json.loads(line) for line in whole.splitlines()]
    if records and records[-1]["record"] == "end":
        return
    cases: dict[str, int] = {}
    for record in records:
        if record["record"] == "case":
            cases[record["status"]] = cases.get(record["status"], 0) + 1
    with path.open("r+b") as file:
        file.truncate(len(whole))
        file.seek(0, os.SEEK_END)
        file.write((to_line(EndRecord(status, exit_status, cases, reason)) + "\n").encode())


def read_results(path: str | Path) -> Results:
    """Read a results file.

    A file of a run that was cut off has no end record, and perhaps half a last line: it is read as far as it goes,
    with `end` None. Raises Error, naming file and line, for anything else that is not a results file.
    """
    path = Path(path)
    try:
        # At line feeds alone: a reason or a path may hold what else Unicode counts as a line's end.
        lines = list(io.StringIO(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Error(f"{path}: not a results file: {error}") from error
    run: RunRecord | None = None
    end: EndRecord | None = None
    cases: list[CaseRecord] = []
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith("\n"):
            break
        record = _read_line(line, f"{path}, line {number}")
        if isinstance(record, RunRecord):
            run = record
        elif isinstance(record, CaseRecord):
            cases.append(record)
        else:
            end = record
    if run is None:
        raise Error(f"{path}: no run record: not a results file")
    return Results(run, tuple(cases), end)


def _read_line(line: str, where: str) -> Record:
    try:
        content = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Error(f"{where}: not JSON: {error}") from error
    kind = _KINDS.get(str(content.get("record"))) if isinstance(content, dict) else None
    if kind is None:
        raise Error(f"{where}: not a record of a results file")
    if kind is RunRecord and content.get("schema") != SCHEMA:
        raise Error(f"{where}: schema {content.get('schema')}, this pycomm reads {SCHEMA}")
    try:
        return _build(kind, content)
    except (TypeError, KeyError) as error:
        raise Error(f"{where}: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


Built = TypeVar("Built")


def _build(kind: type[Built], content: Mapping[str, Any]) -> Built:
    """The dataclass from its dictionary; fields it does not know are left out."""
    values = {name: content[name] for name in (item.name for item in fields(kind)) if name in content}  # type: ignore[arg-type]
    for name, nested in (
        ("machine", Machine),
        ("world", WorldRecord),
        ("loop", Loop),
        ("time_s", Summary),
        ("host_time_s", Summary),
    ):
        if values.get(name) is not None:
            values[name] = _build(nested, values[name])
    if kind is WorldRecord:
        values["ranks"] = tuple(_build(Member, member) for member in values["ranks"])
    for name in ("command", "warnings"):
        if name in values:
            values[name] = tuple(values[name])
    return kind(**values)
