"""A simulated job as a trace file for Perfetto or chrome://tracing.

Format: Trace Event Format (Chromium project), complete events ("ph": "X"), times in microseconds. A process is a
worker, its threads are the resources; what all workers share is a process of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pycomm.files import write_text
from pycomm.model.outcome import Outcome

_MICROSECONDS = 1e6


def events(outcome: Outcome) -> list[dict[str, Any]]:
    """The events of all tasks that use a resource and take time."""
    resources = list(dict.fromkeys(name for name in outcome.resources if name is not None))
    made: list[dict[str, Any]] = []
    own = set(outcome.own)
    for worker in range(outcome.workers):
        made.append(_name("process_name", worker, 0, f"worker {worker}"))
    made.append(_name("process_name", outcome.workers, 0, "all workers"))
    used: set[tuple[int, int]] = set()
    for index, name in enumerate(outcome.names):
        resource = outcome.resources[index]
        if resource is None:
            continue
        thread = resources.index(resource)
        for worker in range(outcome.workers) if index in own else [outcome.workers]:
            used.add((worker, thread))
            starts, finishes = (
                times(name, min(worker, outcome.workers - 1)) for times in (outcome.starts, outcome.finishes)
            )
            for iteration, (start_s, finish_s) in enumerate(zip(starts, finishes, strict=True)):
                if finish_s > start_s:
                    made.append(
                        {
                            "ph": "X",
                            "name": name,
                            "cat": resource,
                            "pid": worker,
                            "tid": thread,
                            "ts": float(start_s) * _MICROSECONDS,
                            "dur": float(finish_s - start_s) * _MICROSECONDS,
                            "args": {"iteration": iteration},
                        }
                    )
    made.extend(_name("thread_name", worker, thread, resources[thread]) for worker, thread in sorted(used))
    return made


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def write(outcome: Outcome, path: str | Path, *, force: bool = False) -> None:
    """Write the file. Raises UsageError if it exists and `force` is not set, or it cannot be written."""
    text = json.dumps({"traceEvents": events(outcome), "displayTimeUnit": "ms"}, allow_nan=False)
    write_text(path, text + "\n", force=force)
