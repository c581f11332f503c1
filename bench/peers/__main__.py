"""``make peers``, or in bench/ ``python -m peers``: measure side by side and write the results."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from peers.cases import algorithm_of, case_of, describe_run, name_of
from peers.environments import ROOT, Missing, build_programs
from peers.group import Lost
from peers.phases import LINE_BYTES, Setting, c_phase, python_phase, sizes_that_fit
from peers.roster import MPIS, NAMES, PEERS, Start, c_loop, python_loop
from peers.summary import sheets, summary
from peers.surroundings import available_bytes, cache_sizes, folder_name
from peers.turns import Outcome, Pace
from pycomm.errors import UsageError
from pycomm.measure.record import CaseRecord, EndRecord, RecordFile, RunRecord, to_line
from pycomm.units import format_bytes, format_duration, parse_sizes

ALGORITHMS: Final = (
    "ring,tree,double-tree,recursive-doubling,halving-doubling,mesh,direct,ps:servers=1,ps:servers=2,ps:servers=4"
)
_QUICK: Final = Pace(rounds=2, turn_s=0.01, trial_s=0.005)
_QUICK_SIZES: Final = "4:1M:x64"


class Recorder:
    """Writes each row as it comes, and keeps what the summary needs."""

    def __init__(self, folder: Path, run: RunRecord) -> None:
        self._run = run
        self._summary = folder / "peers.md"
        self._file = RecordFile(folder / "peers.jsonl", force=True)
        self._file.write_line(to_line(run))
        self.cases: list[CaseRecord] = []
        self.versions: dict[str, str] = {}
        self.notes: list[str] = []

    def reporter(self, table: str, ranks: int) -> Callable[[int, Sequence[Outcome]], None]:
        """What takes the outcomes of one size."""

        def report(size: int, outcomes: Sequence[Outcome]) -> None:
            cells = []
            for outcome in outcomes:
                case = case_of(outcome, table, ranks, size)
                self.cases.append(case)
                self._file.write_line(to_line(case))
                self._note_refused(ranks, outcome)
                group = outcome.contender.group
                self.versions.setdefault(group.name.removesuffix("-python"), group.version)
                time = "–" if case.time_s is None else format_duration(case.time_s.median)
                extra = f" {algorithm_of(case)}" if case.backend == "native" else ""
                cells.append(f"{outcome.contender.name} {time}{extra}")
            print(f"{ranks} ranks, {table}, {format_bytes(size)}: {'; '.join(cells)}", file=sys.stderr, flush=True)

        return report

    def _note_refused(self, ranks: int, outcome: Outcome) -> None:
        for variant, reason in outcome.refused.items():
            note = f"{ranks} ranks: not tried: {variant.rpartition('/')[2]}: {reason}"
            if note not in self.notes:
                self.notes.append(note)

    def finish(self, status: str, reason: str, sizes: Sequence[int]) -> int:
        """End the file, write the summary and print it. Returns the exit status."""
        counts: dict[str, int] = {}
        for case in self.cases:
            counts[case.status] = counts.get(case.status, 0) + 1
            if case.status != "ok":
                where = f"{case.benchmark}, {case.ranks} ranks, {format_bytes(case.bytes)}, {name_of(case)}"
                why = case.reason or f"{case.wrong} wrong elements"
                self.notes.append(f"{where}: {case.status}: {why}")
        if reason:
            self.notes.append(f"the run ended early: {reason}")
        right = status == "done" and set(counts) <= {"ok", "skipped"}
        exit_status = 130 if status == "interrupted" else 0 if right else 1
        self._file.write_line(to_line(EndRecord(status, exit_status, counts, reason)))
        self._file.close()
        libraries = {NAMES.get(name, name): text for name, text in self.versions.items() if name in PEERS}
        page = summary(self._run, sheets(self.cases, sizes), libraries, cache_sizes(), self.notes)
        self._summary.write_text(page, encoding="utf-8")
        print(page, end="")
        return exit_status


def _take_part(names: Sequence[str], notes: list[str]) -> tuple[dict[str, Start], dict[str, Start]]:
    """The peers of the C phase and of the Python phase; who cannot take part is noted with the reason."""
    in_c: dict[str, Start] = {}
    in_python: dict[str, Start] = {}
    for name in names:
        try:
            if name in MPIS:
                in_c[name] = c_loop(name)
            in_python[name] = python_loop(name)
        except Missing as error:
            notes.append(f"{NAMES[name]} takes no part: {error}")
            print(notes[-1], file=sys.stderr)
    return in_c, in_python


def _measure(recorder: Recorder, names: Sequence[str], algorithms: Sequence[str], ranks: int, sizes: Sequence[int],
             pace: Pace) -> None:  # fmt: skip
    in_c, in_python = _take_part(names, recorder.notes if not recorder.cases else [])
    fitting = sizes_that_fit(sizes, ranks, available_bytes())
    for size in sorted(set(sizes) - set(fitting)):
        recorder.notes.append(f"{ranks} ranks: {format_bytes(size)} is left out: the groups' buffers do not fit")
    if not fitting:
        return

    def setting(table: str, measured: Sequence[int]) -> Setting:
        return Setting(ranks, measured, pace, recorder.reporter(table, ranks), recorder.notes.append)

    choices = c_phase(setting("c", sorted({*fitting, LINE_BYTES})), in_c, algorithms)
    python_phase(setting("python", fitting), in_python, choices)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--ranks", default="2,4", show_default=True, help="Numbers of ranks, each a run of its own.")
@click.option("--sizes", default="4:256M:x4", show_default=True, help="Bytes, as in pycomm bench.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Turns of each at a size.")
@click.option("--peers", default=",".join(PEERS), show_default=True, help="Whom to measure beside pycomm.")
@click.option("--algorithms", default=ALGORITHMS, help="pycomm's, of which the fastest takes the turns at each size.")
@click.option("--quick", is_flag=True, help="A minute: few sizes, two short rounds. Says that all works, no more.")
@click.option("--results", type=click.Path(path_type=Path), help="Folder to write to. Default: results/ and the CPU.")
def main(ranks: str, sizes: str, rounds: int, peers: str, algorithms: str, quick: bool, results: Path | None) -> None:
    """pycomm, Open MPI, MPICH and gloo, asked in turn for the same all-reduce."""
    try:
        wanted = parse_sizes(_QUICK_SIZES if quick and _is_default("sizes") else sizes)
        numbers = [int(text) for text in ranks.split(",")]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    unknown = set(peers.split(",")) - set(PEERS)
    if unknown or min(numbers) < 2 or max(numbers) > 32 or min(wanted) < 4:
        raise click.UsageError(f"peers are {', '.join(PEERS)}, ranks from 2 to 32, sizes from 4 bytes")
    pace = _QUICK if quick else Pace(rounds=rounds)
    run = describe_run(sys.argv[1:])
    folder = results or ROOT / "results" / folder_name(run.machine)
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(folder, run)
    status, reason = "done", ""
    try:
        build_programs()
        for number in numbers:
            _measure(recorder, peers.split(","), algorithms.split(","), number, wanted, pace)
    except KeyboardInterrupt:
        status, reason = "interrupted", "interrupted"
    except (Lost, Missing, UsageError) as error:
        status, reason = "failed", str(error)
    sys.exit(recorder.finish(status, reason, wanted))


def _is_default(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source == click.core.ParameterSource.DEFAULT


if __name__ == "__main__":
    main()
