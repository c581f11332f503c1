"""bench/gpu_check without a GPU: its commands are pycomm's, its stages fit, its summary says what records say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pycomm.cli import pycomm as command_line
from pycomm.measure.loop import Policy

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "gpu_check"


@pytest.fixture
def gpu_check(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(FOLDER)
    import stages
    import summary

    yield stages, summary
    for name in ("stages", "summary"):
        del sys.modules[name]


def test_the_dry_run_lists_every_stage_and_what_is_missing() -> None:
    run = subprocess.run(
        [sys.executable, str(FOLDER), "--dry-run"], capture_output=True, text=True, timeout=60, check=True, cwd="/"
    )
    assert "\ntma-2, at most 10 s: PYCOMM_TMA=1 pycomm bench" in run.stdout
    for name in (
        "correct-8",
        "packing",
        "processes-2",
        "speed-nccl-4",
        "large-8",
        "tma-8",
        "copy",
        "sanitizer-racecheck",
        "correct-alltoall",
    ):
        assert f"\n{name}, at most " in run.stdout
    together, budget = map(
        int, re.search(r"together at most (\d+) s beside the build, of (\d+) s", run.stdout).groups()
    )
    assert together < budget < 480


def test_every_stage_is_a_command_that_pycomm_takes(gpu_check) -> None:
    for stage in gpu_check[0].find_stages(Path("/nowhere")):
        name, subcommand, *options = stage.arguments
        command = command_line.get_command(None, name).get_command(None, subcommand)
        with command.make_context(subcommand, options) as context:  # raises for an option it does not have
            assert str(context.params["out"]) == f"/nowhere/{stage.name}.jsonl"
    assert Policy().warmup == 5  # what stages without --warmup have


def case(**given):
    blank = {"record": "case", "status": "ok", "reason": "", "backend": "native", "algorithm": "ring", "options": ""}
    return {**blank, "ranks": 2, "bytes": 1024, "algbw_Bps": None, "time_s": None, **given}


def write(path: Path, *cases, end: str = "") -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in cases) + end)


def test_the_summary_tells_ratios_shares_and_reasons(gpu_check, tmp_path: Path) -> None:
    write(
        tmp_path / "speed-2.jsonl",
        case(time_s={"median": 8e-6}),
        case(algorithm="one-shot", time_s={"median": 4e-6}),
        case(algorithm="ps", status="wrong", reason="7 wrong elements; not timed"),
        end='{"record": "case", "cut off',
    )
    write(tmp_path / "speed-nccl-2.jsonl", case(backend="nccl", algorithm="library", time_s={"median": 6e-6}))
    write(
        tmp_path / "packing.jsonl",
        case(algorithm="pack", dtype="float32", options="resnet50,buffer=bfloat16", algbw_Bps=1.8e12),
        case(algorithm="copy", dtype="float32", options="resnet50,buffer=bfloat16", algbw_Bps=2e12),
    )
    write(tmp_path / "copy.jsonl", case(algorithm="h2d", options="pinned,events", algbw_Bps=55e9, bytes=64))
    write(tmp_path / "tma-2.jsonl", case(time_s={"median": 5e-6}), case(algorithm="mesh", time_s={"median": 1e-6}))
    outcomes = [("speed-2", 12.3, "cut off after 12 s"), ("speed-nccl-2", 3.0, "done"), ("tma-2", 3.0, "done")]
    outcomes.append(("never", 0.0, "no time left"))
    lines = gpu_check[1].summarise(tmp_path, "A GPU, driver", outcomes).splitlines()
    assert lines[0] == "# A GPU, driver"
    assert "| speed-2 | 12 | cut off after 12 s | 2 | 1 | 0 | 0 |" in lines
    assert "| never | 0 | no time left | 0 | 0 | 0 | 0 |" in lines
    assert "- 1 × wrong: 7 wrong elements; not timed" in lines
    assert "| pack | float32 | bfloat16 | 1800 | 90% |" in lines
    assert "| 2 | 1024 | one-shot | 4.0 | 6.0 | 1.50 |" in lines
    assert "| 2 | 1024 | ring | 5.0 | 8.0 | 1.60 |" in lines
    assert not any("| 1.0 |" in line for line in lines)  # what was not measured without them is not compared
    assert "| h2d pinned | 64 | 55.0 |" in lines
