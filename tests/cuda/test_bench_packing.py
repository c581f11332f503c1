"""``pycomm bench packing``, on the CPU and on an emulated GPU."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pycomm import read_results
from pycomm.cli import main
from pycomm.measure import packing
from pycomm.model.tables import ModelLayer, ModelTable
from pycomm.packing import GradientPacker

SMALL = ModelTable(
    name="small",
    layers=tuple(
        ModelLayer(name=name, tensors=(("weight", shape),), forward_flops=0, input_gradient_flops=0,
                   weight_gradient_flops=0)
        for name, shape in (("a", (30, 7)), ("b", (1,)), ("c", (125,)))
    ),
    sample="none",
    source="made up",
)  # fmt: skip


@pytest.fixture
def bench_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    monkeypatch.setattr("pycomm.cli.packing.find_network", lambda name: SMALL)

    def run(*options: str, status: int = 0) -> list[dict[str, Any]]:
        out = tmp_path / "packing.jsonl"
        assert main(["bench", "packing", "--iterations", "6", "--out", str(out), "--force", *options]) == status
        results = read_results(out)
        assert results.run.command[:3] == ("pycomm", "bench", "packing")
        assert results.complete == (status == 0)
        return [json.loads(line) for line in out.read_text().splitlines()][1:-1]

    return run


def test_types_without_a_conversion_are_skipped_with_the_reason_and_the_others_measured(
    bench_packing: Callable[..., list[dict[str, Any]]],
) -> None:
    records = bench_packing("--dtype", "float64")  # the buffers' types are those of the default
    cases = [record for record in records if record["record"] == "case"]
    assert [case["status"] for case in cases] == ["ok"] * 3 + ["skipped"] * 6
    assert {case["options"].partition("=")[2] for case in cases[3:]} == {"bfloat16", "float16"}
    for case in cases[3:]:
        assert "no conversion from float64" in case["reason"]
        assert (case["bytes"], case["count"]) == (336 * (8 + 2) // 2, 336)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_pack_unpack_and_copy_are_measured_for_every_buffer_type(
    device: str, bench_packing: Callable[..., list[dict[str, Any]]], emulated_gpus: Callable[..., Any]
) -> None:
    emulated_gpus(1)
    cases = bench_packing("--device", device, "--buffer-dtypes", "float32,bfloat16")
    assert [case["algorithm"] for case in cases] == ["pack", "unpack", "copy"] * 2
    # 336 elements: 4 bytes read and 4 written, or 4 and 2; half of both.
    assert [case["bytes"] for case in cases] == [336 * 4] * 3 + [336 * 3] * 3
    for case in cases:
        assert case["status"] == "ok"
        assert case["loop"]["clock"] == ("events" if device == "cuda" else "host")
        assert case["algbw_Bps"] == pytest.approx(case["bytes"] / case["time_s"]["median"])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_does_not_come_back_is_wrong(
    device: str,
    bench_packing: Callable[..., list[dict[str, Any]]],
    emulated_gpus: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulated_gpus(1)
    monkeypatch.setattr(GradientPacker, "unpack", lambda *arguments, **named: None)
    cases = bench_packing("--device", device, "--buffer-dtypes", "float32", status=1)
    assert [(case["status"], case["wrong"]) for case in cases] == [("wrong", 336)] * 3


def test_without_a_device_every_row_says_why(
    bench_packing: Callable[..., list[dict[str, Any]]], emulated_gpus: Callable[..., Any]
) -> None:
    emulated_gpus(0)
    cases = bench_packing("--device", "cuda")
    assert len(cases) == 9
    assert {case["status"] for case in cases} == {"skipped"}
    assert all("the NVIDIA driver shows no device" in case["reason"] for case in cases)


def test_the_values_are_exact_in_every_type() -> None:
    values = packing._values(GradientPacker([(200,), (3,)], "float32"))
    assert values[0][96:98].tolist() == [96.0, 0.0]
    assert values[1].tolist() == [6.0, 7.0, 8.0]  # 200 = 2 · 97 + 6
