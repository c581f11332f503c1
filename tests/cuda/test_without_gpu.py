"""Where there is no GPU: everything imports, and everything that needs one says why it is missing."""

import json
import subprocess
import sys

import pytest

from pycomm.cli import main
from pycomm.cli.abilities import find_abilities
from pycomm.cuda.copies import CLOCKS, Copy, find_copies, measure_copies
from pycomm.cuda.probe import REBUILD, cuda_module, missing_device, missing_for_arrays

no_gpu = pytest.mark.skipif(missing_device() == "", reason="this machine has a GPU")


def test_the_cuda_package_imports_without_cupy_and_starts_no_driver() -> None:
    code = "import pycomm.cuda, sys; assert 'cupy' not in sys.modules and 'pycomm._cuda' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd="/")


@no_gpu
def test_the_reason_is_one_sentence_that_says_what_to_do_or_what_is_missing() -> None:
    reason = missing_device()
    assert reason == REBUILD if cuda_module() is None else "driver" in reason or "device" in reason
    assert missing_for_arrays() == reason
    assert "\n" not in reason


@no_gpu
def test_info_gives_the_reason() -> None:
    assert any(not finding.present and finding.text for finding in find_abilities()["GPU"])


@no_gpu
def test_a_sweep_on_cuda_skips_every_row_with_the_reason() -> None:
    command = [
        sys.executable,
        "-m",
        "pycomm",
        "bench",
        "allreduce",
        "--device",
        "cuda",
        "--backends",
        "native,nccl",
        "--sizes",
        "1K",
    ]
    run = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, timeout=110, cwd="/")
    assert run.returncode == 0, run.stderr
    assert run.stdout.count('"status": "skipped"') == run.stdout.count('"record": "case"') > 1
    assert missing_device()[:20] in run.stdout


@no_gpu
def test_bench_copy_skips_every_row_with_the_reason() -> None:
    command = [sys.executable, "-m", "pycomm", "bench", "copy", "--sizes", "4K", "--format", "json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd="/")
    assert run.returncode == 0, run.stderr
    assert run.stdout.count('"status": "skipped"') == 2 * 6
    assert missing_device() in run.stderr


def copies(capsys: pytest.CaptureFixture[str], *options: str) -> list[tuple[str, str, int]]:
    assert main(["bench", "copy", "--format", "json", *options]) == 0
    records = map(json.loads, capsys.readouterr().out.splitlines())
    return [(r["algorithm"], r["options"], r["bytes"]) for r in records if r["record"] == "case"]


@no_gpu
def test_every_option_of_bench_copy_chooses_rows(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--kinds", "h2d,d2d", "--memories", "pinned", "--sizes", "1,4K")
    assert copies(capsys, *asked) == [
        (kind, options, size)
        for kind, both in (("h2d", ("pinned,events", "pinned,host")), ("d2d", ("events", "host")))
        for size in (1, 4096)
        for options in both
    ]


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--sizes", "0,4K", "--sizes: '0,4K': a copy is of 1 byte or more"),
        ("--kinds", "h2h", "--kinds: 'h2h': wanted h2d, d2h, d2d, p2p"),
        ("--memories", "swapped", "--memories: 'swapped': wanted pinned, pageable"),
    ],
)
def test_what_cannot_be_copied_is_a_usage_error(
    option: str, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "copy", option, text]) == 2
    assert said in capsys.readouterr().err


def test_copies_of_two_devices_go_both_ways() -> None:
    found = find_copies(("h2d", "p2p"), ("pinned", "pageable"), 2)
    assert [(c.kind, c.device, c.memory, c.peer) for c in found] == [
        ("h2d", 0, "pinned", -1),
        ("h2d", 0, "pageable", -1),
        ("h2d", 1, "pinned", -1),
        ("h2d", 1, "pageable", -1),
        ("p2p", 0, "", 1),
        ("p2p", 1, "", 0),
    ]


def test_a_copy_is_recorded_by_both_clocks_and_without_its_warm_up() -> None:
    def time_copies(kind: str, device: int, peer: int, pinned: bool, size: int, samples: int) -> tuple:
        assert (kind, pinned, size) == ("h2d", False, 4096)
        slow = [10**9] * 3
        return slow + [1000] * (samples - 3), slow + [2000] * (samples - 3)

    events, host = measure_copies([Copy("h2d", 0, "pageable")], (4096,), 10, time_copies)
    assert (events.options, host.options) == ("pageable,events", "pageable,host")
    assert (events.loop.clock, host.loop.clock) == ("events", "host")
    assert (events.time_s.median, host.time_s.median) == (1e-6, 2e-6)
    assert (events.iterations, events.time_s.max) == (10, 1e-6)
    assert events.algbw_Bps == pytest.approx(4.096e9)


def test_one_device_has_no_peer() -> None:
    records = list(measure_copies(find_copies(("p2p",), (), 1), (8,), 5, lambda *_: pytest.fail("measured")))
    assert [(r.status, r.reason) for r in records] == [("skipped", "needs two devices")] * len(CLOCKS)
