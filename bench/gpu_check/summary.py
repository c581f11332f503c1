"""The summary of a gpu-check: what its stages did, and the tables of their records, as far as there are any."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read_cases(path: Path) -> list[Record]:
    """The case records of a results file, also of one that was cut off in a line; none where there is no file."""
    cases = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record.get("record") == "case":
            cases.append(record)
    return cases


def summarise(folder: Path, heading: str, outcomes: list[tuple[str, float, str]]) -> str:
    """As Markdown. `outcomes`: each stage's name, its seconds and how it ended."""
    lines = [
        f"# {heading}",
        "",
        "| stage | s | ended | ok | wrong | failed | skipped |",
        "|---|---|---|---|---|---|---|",
    ]
    reasons: Counter[str] = Counter()
    for name, duration_s, ended in outcomes:
        cases = read_cases(folder / f"{name}.jsonl")
        count = Counter(case["status"] for case in cases)
        numbers = " | ".join(str(count[status]) for status in ("ok", "wrong", "failed", "skipped"))
        lines.append(f"| {name} | {duration_s:.0f} | {ended} | {numbers} |")
        reasons.update(f"{case['status']}: {case['reason']}" for case in cases if case["status"] != "ok")
    lines += ["", *(f"- {count} × {reason}" for reason, count in reasons.most_common(20))]
    names = [name for name, _, _ in outcomes]
    lines += _packing(read_cases(folder / "packing.jsonl"))
    lines += _against_nccl([case for name in names if name.startswith(("speed-", "large-"))
                            for case in read_cases(folder / f"{name}.jsonl")])  # fmt: skip
    lines += _bulk_copies(folder, [name for name in names if name.startswith("tma-")])
    lines += _copies(read_cases(folder / "copy.jsonl"))
    return "\n".join(lines) + "\n"


def _packing(cases: list[Record]) -> list[str]:
    copies = {case["options"]: case["algbw_Bps"] for case in cases if case["algorithm"] == "copy"}
    lines = ["", "Packing, as a share of the device copy's bandwidth for the same bytes (aim: 90 %).", ""]
    lines += ["| step | tensors | buffer | GB/s | share of the copy |", "|---|---|---|---|---|"]
    for case in cases:
        rate, copied = case["algbw_Bps"], copies.get(case["options"])
        if rate and copied and case["algorithm"] != "copy":
            buffer = case["options"].rpartition("=")[2]
            share = f"{rate / copied:.0%}"
            lines.append(f"| {case['algorithm']} | {case['dtype']} | {buffer} | {rate / 1e9:.0f} | {share} |")
    return lines


def _against_nccl(cases: Iterable[Record]) -> list[str]:
    lines = ["", "All-reduce of float32, ranks as threads on this one GPU: the fastest of ours beside NCCL.", ""]
    lines += ["| ranks | bytes | fastest | µs | NCCL µs | NCCL / ours (aim: 1) |", "|---|---|---|---|---|---|"]
    groups: dict[tuple[int, int], list[Record]] = {}
    for case in cases:
        groups.setdefault((case["ranks"], case["bytes"]), []).append(case)
    for (ranks, size), group in sorted(groups.items()):
        ok = [case for case in group if case["status"] == "ok" and case["time_s"]]
        ours = min((case for case in ok if case["backend"] == "native"), key=_median_s, default=None)
        theirs = next((case for case in ok if case["backend"] == "nccl"), None)
        if ours is None:
            continue
        name = f"{ours['algorithm']}:{ours['options']}".rstrip(":")
        nccl = (
            "— | —" if theirs is None else f"{_median_s(theirs) * 1e6:.1f} | {_median_s(theirs) / _median_s(ours):.2f}"
        )
        lines.append(f"| {ranks} | {size} | {name} | {_median_s(ours) * 1e6:.1f} | {nccl} |")
    return lines


def _bulk_copies(folder: Path, names: list[str]) -> list[str]:
    lines = ["", "The same with messages moved by Hopper's bulk copies, beside loads and stores.", ""]
    lines += ["| ranks | bytes | algorithm | bulk µs | plain µs | plain / bulk |", "|---|---|---|---|---|---|"]
    for name in names:
        plain = {_identity(case): case for case in read_cases(folder / f"{name.replace('tma', 'speed')}.jsonl")}
        for case in read_cases(folder / f"{name}.jsonl"):
            other = plain.get(_identity(case))
            if not case["time_s"] or other is None or not other["time_s"]:
                continue
            bulk_us, plain_us = _median_s(case) * 1e6, _median_s(other) * 1e6
            row = f"| {case['ranks']} | {case['bytes']} | {case['algorithm']} "
            lines.append(f"{row}| {bulk_us:.1f} | {plain_us:.1f} | {plain_us / bulk_us:.2f} |")
    return lines


def _identity(case: Record) -> tuple[Any, ...]:
    return tuple(case[key] for key in ("backend", "algorithm", "options", "ranks", "bytes"))


def _copies(cases: list[Record]) -> list[str]:
    lines = ["", "Copies, by events.", "", "| copy | bytes | GB/s |", "|---|---|---|"]
    for case in cases:
        memory, _, clock = case["options"].rpartition(",")
        if clock == "events" and case["algbw_Bps"]:
            lines.append(f"| {case['algorithm']} {memory} | {case['bytes']} | {case['algbw_Bps'] / 1e9:.1f} |")
    return lines


def _median_s(case: Record) -> float:
    return float(case["time_s"]["median"])
