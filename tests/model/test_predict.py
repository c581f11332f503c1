"""`pycomm predict`, `fit` and `validate`, as a user calls them, and what the predictions must obey."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pycomm.cli import main
from pycomm.errors import UsageError
from pycomm.model import LatencyBandwidth, Network, link, preset, strategy, table
from pycomm.model.iteration import Settings
from pycomm.model.network import algorithm_cost
from pycomm.model.predict import Faster, Setup, changed, predict
from pycomm.model.spread import iteration_by_preset, spread
from pycomm.model.strategies import STRATEGIES
from pycomm.model.tasks import run
from pycomm.report import scaling
from pycomm.trace import write


def setup(**more) -> Setup:
    trace = spread(table("resnet50"), batch=64, iteration_s=0.25)
    return replace(Setup(trace=trace, network=Network(between=preset("10gbe"))), **more)


def lines_of(capsys, command: str) -> list[str]:
    assert main(command.split()) == 0
    return capsys.readouterr().out.splitlines()


def test_the_readme_command_gives_seven_rows_and_a_sentence_each(capsys):
    lines = lines_of(capsys, "predict --models resnet50 --networks 10gbe --workers 1:64:x2")
    rows = [line.split() for line in lines if line[:1].isdigit()]
    assert [row[0] for row in rows] == ["1", "2", "4", "8", "16", "32", "64"]
    assert sum(line.startswith("    ") and line.endswith(".") for line in lines) == 7
    # a V100 at 253.1 images/s takes 252.9 ms for 64
    assert rows[0][1] == "252.9"
    assert any("ResNet-50 at 253.1 images/s" in line for line in lines)


def test_one_worker_without_communication_takes_what_was_measured():
    row = predict(setup(), 1)
    assert row.iteration_s == pytest.approx(0.25)
    assert (row.speed_up, row.exposed_s) == (pytest.approx(1.0), 0.0)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_at_least_computing_and_at_most_everything_in_turn(name):
    made = setup(strategy=name, algorithm="ring")
    cost = algorithm_cost("ring", 8, made.network)
    period_s = run(strategy(name).build(made.trace, cost, Settings())).period_s
    naive_s = run(strategy("naive").build(made.trace, cost, Settings())).period_s
    assert 0.25 * (1 - 1e-9) <= period_s <= naive_s * (1 + 1e-9)


def test_every_strategy_hides_everything_on_an_infinite_network():
    for name in STRATEGIES:
        job = strategy(name).build(setup().trace, LatencyBandwidth(0.0, 0.0), Settings(cycle_s=0.0))
        assert run(job).period_s == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"batch": True}, "batch is True"),
        ({"iteration_s": float("inf")}, "iteration_s is inf"),
        ({"input_s": -5.0}, "input_s is -5.0"),
        ({"input_s": 0.25}, "leaves no time to compute resnet50"),
    ],
)
def test_a_spread_refuses_what_is_no_time_or_batch(told, message):
    with pytest.raises(UsageError, match=message):
        spread(table("resnet50"), **{"batch": 64, "iteration_s": 0.25, **told})


def test_a_faster_link_is_the_same_link_at_another_size():
    slow, fast = link(20e-6, 1e9), link(5e-6, 2e9)
    stretched = Faster(algorithm_cost("ring", 8, Network(between=slow)), bandwidth=2.0, latency=4.0)
    direct = algorithm_cost("ring", 8, Network(between=fast))
    sizes = np.array([4096.0, 1e6, 5e7])
    assert stretched(sizes) == pytest.approx(direct(sizes), rel=1e-3)


@pytest.mark.parametrize("workers", [0, True, 1.5, "2", 2**40])
def test_workers_are_a_whole_number_from_1(workers):
    with pytest.raises(UsageError, match="workers is"):
        predict(setup(), workers)


def test_what_if_changes_what_it_names():
    made = setup(strategy="one-message")
    base = predict(made, 8)
    twice = predict(changed(made, {"bandwidth": 2.0}), 8)
    # one message of 102,228,128 bytes round a ring of 8 at 1.25 GB/s: 1.75 n / B, half of it saved
    assert base.exposed_s - twice.exposed_s == pytest.approx(1.75 * 102_228_128 / 1.25e9 / 2, rel=1e-3)
    assert predict(changed(made, {"compute": 2.0}), 1).iteration_s == pytest.approx(0.125)
    assert predict(changed(made, {"batch": 128.0}), 1).iteration_s == pytest.approx(0.5)
    servers = replace(made, strategy="mxnet", options={"servers": 1})
    assert predict(changed(servers, {"servers": 8.0}), 8).iteration_s < predict(servers, 8).iteration_s
    reading = replace(made, trace=replace(made.trace, input_s=0.4))
    assert predict(reading, 1).bottleneck == "input"
    assert predict(changed(reading, {"input": 2.0}), 1).iteration_s == pytest.approx(0.25)
    for value in (1.5, float("inf")):
        with pytest.raises(UsageError, match="a whole number is wanted"):
            changed(servers, {"servers": value})
    with pytest.raises(UsageError, match="what-if input: the trace reads no input"):
        changed(made, {"input": 2.0})
    with pytest.raises(UsageError, match="what-if 'luck'"):
        changed(made, {"luck": 2.0})


def test_the_bottleneck_is_the_channel_where_the_network_is_slow():
    row = predict(setup(network=Network(between=preset("1gbe"))), 16)
    assert row.bottleneck == "channel"
    assert row.advice.startswith("Communication sets the pace")


def test_who_exchanges_nothing_is_not_told_that_more_workers_pay():
    assert (
        predict(setup(strategy="single"), 8).advice == "Strategy single exchanges nothing: only faster computing helps."
    )


def test_flops_set_the_rate_of_other_models():
    seconds, how = iteration_by_preset(table("vgg16"), 32, "v100")
    resnet, vgg = table("resnet50"), table("vgg16")
    ratio = (vgg.forward_flops + vgg.backward_flops) / (resnet.forward_flops + resnet.backward_flops)
    assert seconds == pytest.approx(32 / 253.1 * ratio)
    assert "by FLOPs at the same rate" in how


def test_a_fit_carries_its_uncertainty(tmp_path, capsys):
    times = LatencyBandwidth(30e-6, 1e-9)
    random = np.random.default_rng(1)
    rows = []
    for power in range(4, 27):
        record = {
            "record": "case",
            "benchmark": "allreduce",
            "backend": "native",
            "algorithm": "ring",
            "options": "",
            "transport": "shm",
            "device": "cpu",
            "dtype": "float32",
            "op": "sum",
            "in_place": False,
            "buffers": "ordinary",
            "ranks": 2,
            "bytes": 1 << power,
            "status": "ok",
            "time_s": {"median": float(times(float(1 << power))) * (1 + 0.05 * random.standard_normal())},
        }
        rows.append(json.dumps(record))
    results = tmp_path / "r.jsonl"
    results.write_text("\n".join(rows) + "\n")
    fitted = tmp_path / "fit.jsonl"
    assert main(["fit", str(results), "--out", str(fitted)]) == 0
    out = capsys.readouterr().out
    assert "native ring shm float32 2 ranks" in out
    assert main(["fit", str(results), "--out", str(fitted)]) == 2  # it exists
    assert "--out" in capsys.readouterr().err
    (record,) = (json.loads(line) for line in lines_of(capsys, f"fit {results} --format json"))
    assert record == json.loads(fitted.read_text())  # what is printed can be kept and predicted with
    assert record["pieces"][0]["seconds_per_byte"]["value"] == pytest.approx(1e-9, rel=0.05)
    rows = list(csv.DictReader(lines_of(capsys, f"fit {results} --line --format csv")))
    assert [(row["algorithm"], row["points"], row["in_place"]) for row in rows] == [("ring", "23", "false")]
    assert float(rows[0]["latency_s.low"]) < 30e-6 < float(rows[0]["latency_s.high"])
    lines = lines_of(capsys, f"predict --models resnet50 --fit {fitted} --workers 64 --strategies one-message")
    row = next(line for line in lines if line.startswith("64"))
    low, high = (float(row.split("(")[1].split(")")[0].split(" to ")[place]) for place in (0, 1))
    value = float(row.split()[1])
    assert low < value < high
    # 252.9 ms and a ring of 64 on 1 ns a byte and 15 us a step: 126 x 15 us + 1.96875 x 102.2 MB = 203.1 ms
    assert low < 252.9 + 203.1 < high


def test_formats_and_files(tmp_path, capsys):
    command = "predict --models alexnet --networks 10gbe --workers 2,4 --strategies wfbp,horovod --format json"
    rows = [json.loads(line) for line in lines_of(capsys, command)]
    assert [(row["strategy"], row["workers"]) for row in rows] == [
        ("wfbp", 2),
        ("wfbp", 4),
        ("horovod", 2),
        ("horovod", 4),
    ]
    assert all(row["advice"].endswith(".") for row in rows)
    alone_s = [row["speed_up"] * row["iteration_s"] / row["workers"] for row in rows]  # seconds, and no text
    assert alone_s == pytest.approx([iteration_by_preset(table("alexnet"), 64, "v100")[0]] * 4, rel=0.05)
    assert {(row["low_s"], row["high_s"]) for row in rows} == {(None, None)}
    read = list(csv.DictReader(lines_of(capsys, command.replace("json", "csv"))))  # one heading above all
    assert [row["strategy"] for row in read] == ["wfbp", "wfbp", "horovod", "horovod"]
    assert [float(row["iteration_s"]) for row in read] == [row["iteration_s"] for row in rows]
    changed_rows = [json.loads(line) for line in lines_of(capsys, command + " --what-if bandwidth=2x")]
    assert all(row["what_if_iteration_s"] < row["iteration_s"] for row in changed_rows)
    plot, timeline = tmp_path / "p.svg", tmp_path / "t.json"
    files = f"predict --models alexnet --networks 10gbe --workers 1,4 --timeline {timeline}"
    lines_of(capsys, files)
    assert main(files.split()) == 2
    events = json.loads(timeline.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert {"worker 0", "all workers", "compute", "channel"} <= names
    spans = [event for event in events if event["ph"] == "X" and event["tid"] == 2 and event["pid"] == 0]
    assert all(event["dur"] > 0 for event in spans)
    ordered = sorted(spans, key=lambda event: event["ts"])
    for before, after in pairwise(ordered):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-6
    pytest.importorskip("matplotlib")
    lines_of(capsys, f"predict --models alexnet --networks 10gbe --workers 1,4 --plot {plot}")
    assert "<svg" in plot.read_text()


def test_a_plot_has_a_line_a_model_network_strategy_and_algorithm(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    drawn = {}
    monkeypatch.setattr(scaling, "write", lambda lines, path, *, force: drawn.update(lines))
    models, networks, algorithms = "alexnet,vgg16", "10gbe,ib-edr", "ring,ps:servers=2"
    options = f"--workers 2,4 --strategies wfbp,horovod --algorithms {algorithms} --plot {tmp_path / 'p.png'}"
    lines_of(capsys, f"predict --models {models} --networks {networks} {options}")
    assert list(drawn)[:2] == ["alexnet on 10gbe, wfbp, ring", "alexnet on 10gbe, wfbp, ps:servers=2"]
    assert len(drawn) == 16
    assert all([row.workers for row in line] == [2, 4] for line in drawn.values())


def test_every_line_of_a_plot_shows_and_can_be_told_apart(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path, **how: drawn.append(self))
    slow = replace(predict(setup(), 2), speed_up=0.3)  # slower than one worker
    scaling.write({f"network {number}": [predict(setup(), 1), slow] for number in range(12)}, tmp_path / "p.png")
    (axes,) = drawn[0].axes
    looks = [(line.get_color(), line.get_marker()) for line in axes.lines]
    assert len(set(looks)) == len(looks) == 13
    low, high = axes.get_ylim()
    assert low < 0.3 < 2 < high
    assert min(axes.get_yticks()) <= 0.3
    drawn[0].canvas.draw()
    assert axes.get_legend().get_window_extent().x0 > axes.get_window_extent().x1


@pytest.mark.parametrize(
    ("names", "title", "labels"),
    [
        (["a on x, wfbp, ring"], "a on x, wfbp, ring", ["a on x, wfbp, ring"]),
        (["a on x, wfbp, ring", "a on x, wfbp, ps"], "a on x, wfbp", ["ring", "ps"]),
        (["a on x, wfbp, ring", "b on x, wfbp, ring"], "wfbp, ring", ["a on x", "b on x"]),
        (["a on x, wfbp, ring", "b on x, horovod, ps"], "", ["a on x, wfbp, ring", "b on x, horovod, ps"]),
    ],
)
def test_a_plot_s_title_is_what_its_lines_have_in_common(names, title, labels):
    assert scaling._shared_and_own(names) == (title, labels)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--networks 10gbe", "--traces or --models"),
        ("--models resnet50", "--networks or --fit"),
        ("--models lenet --networks 10gbe", "unknown model 'lenet'"),
        ("--models vgg16 --networks tin-cans", "unknown network 'tin-cans'"),
        ("--models vgg16 --networks 10gbe --strategies hope", "unknown strategy 'hope'"),
        ("--models vgg16 --networks 10gbe --algorithms smoke --workers 2", "unknown algorithm 'smoke'"),
        ("--models vgg16 --networks 10gbe --what-if bandwidth", "--what-if"),
        ("--models vgg16 --networks 10gbe --what-if luck=2", "what-if 'luck'"),
        ("--models vgg16 --networks 10gbe --batch 0", "--batch"),
        ("--models vgg16 --networks 10gbe --iteration-ms -3", "--iteration-ms"),
        ("--models vgg16 --networks 10gbe --iteration-ms inf", "--iteration-ms"),
        ("--models vgg16 --networks 10gbe --compute abacus", "unknown compute preset 'abacus'"),
        ("--models vgg16 --networks 10gbe --inside pcie3", "--inside"),
        ("--models vgg16 --networks 10gbe --workers 0", "--workers"),
        ("--models vgg16 --fit /nowhere.jsonl", "/nowhere.jsonl: cannot be read: No such file or directory\n"),
        ("--models vgg16 --networks 10gbe --workers 1-4", "--workers: '1-4': wanted counts"),
        ("--models vgg16 --networks 10gbe --algorithms rign", "--algorithms: 'rign'"),
        ("--models vgg16 --networks 10gbe --algorithms auto", "--algorithms: 'auto'"),
        ("--models vgg16 --networks 10gbe --what-if bandwidth=2,bandwidth=3", "'bandwidth' is given twice"),
        ("--models vgg16 --networks 10gbe --what-if batch=1.5", "batch=1.5: a whole number"),
        ("--models vgg16 --networks 10gbe --compute k80 --iteration-ms 9", "--compute: 'k80' would change nothing"),
        ("--models vgg16 --networks 10gbe --plot /nowhere/p.svg", "--plot: '/nowhere/p.svg': there is no folder"),
        ("--models vgg16 --networks 10gbe --timeline /", "--timeline: '/' is a folder"),
    ],
)
def test_usage_errors_name_the_option(capsys, arguments, message):
    assert main(["predict", *arguments.split()]) == 2
    assert message in capsys.readouterr().err


def test_traces_that_lack_forward_times_ask_for_the_iteration(capsys, traces):
    file = traces / "bcaffe/tmp2comm.log"
    assert main(["predict", "--traces", str(file), "--networks", "10gbe"]) == 2
    assert "--iteration-ms" in capsys.readouterr().err
    rows = lines_of(capsys, f"predict --traces {file} --networks 10gbe --iteration-ms 391.77 --workers 1")
    assert any(line.split()[:2] == ["1", "391.8"] for line in rows)


def test_another_batch_than_the_trace_s_own_is_a_what_if(capsys, tmp_path):
    path = tmp_path / "trace.jsonl"
    write(spread(table("alexnet"), batch=32, iteration_s=0.1), path)
    command = ["predict", "--traces", str(path), "--networks", "10gbe", "--workers", "1", "--batch"]
    assert main([*command, "64"]) == 2
    assert f"--batch: {path} was taken at 32: predict another with --what-if batch=64" in capsys.readouterr().err
    assert main([*command, "32", "--what-if", "batch=64"]) == 0
    assert "+100%" in capsys.readouterr().out


def test_validate_prints_every_set_and_keeps_to_its_goals(capsys, traces):
    from pycomm.model.validation import bcaffe, mean_error, survey, tf2017

    rows = [row for row in bcaffe.validate(traces / "bcaffe") if row.line == "model"]
    assert len(rows) == 9
    assert mean_error(rows) < 0.05
    assert max(abs(row.error) for row in rows) < 0.09
    plain = [row for row in bcaffe.validate(traces / "bcaffe") if row.line == "plain recurrence"]
    assert mean_error(plain) == pytest.approx(0.0504, abs=0.001)
    predicted, _ = survey.validate(traces / "survey_v100_10gbe.csv")
    assert mean_error(survey.without_priority_all_reduce(predicted)) < 0.10
    throughput = tf2017.validate(traces / "tf_2017_throughput.csv")
    assert mean_error(throughput) < 0.10
    fed = [row for row in throughput if "AlexNet" in row.case and ", real, " in row.case and not row.calibrated]
    assert fed
    assert all(row.note == "bottleneck: input" for row in fed)
    lines = lines_of(capsys, f"validate --sets bcaffe --folder {traces}")
    assert any("4 nodes from the 2-node fit" in line for line in lines)
    calibrated = [
        line for line in lines_of(capsys, f"validate --sets tf2017 --folder {traces}") if "calibrated" in line
    ]
    assert any("synthetic, 1 GPU " in line for line in calibrated)
    assert all("+0.0%" in line for line in calibrated)
    records = [json.loads(line) for line in lines_of(capsys, f"validate --sets bcaffe --folder {traces} --format json")]
    assert [record["predicted_s"] for record in records if record["line"] == "model"] == [
        row.predicted_s for row in rows
    ]
    assert main(["validate", "--sets", "gossip", "--folder", str(traces)]) == 2


def test_validate_says_which_file_is_missing(capsys, tmp_path):
    assert main(["validate", "--folder", str(tmp_path)]) == 2
    assert f"--folder: {tmp_path}/bcaffe/measured.csv: cannot be read: No such file" in capsys.readouterr().err


def test_a_row_names_as_many_servers_as_there_are_workers(capsys):
    options = "--models resnet50 --networks 10gbe --workers 2,4 --algorithms ps:servers=3 --format json"
    assert main(["predict", *options.split()]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["algorithm"] for row in rows] == ["ps:servers=2", "ps:servers=3"]
