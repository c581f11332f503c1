"""Every trace format is read as its description says, written back, and refused with file, line and
reason."""

from __future__ import annotations

import numpy as np
import pytest

from pycomm.errors import UsageError
from pycomm.model import LatencyBandwidth, Settings, gradients_of, run, strategy
from pycomm.model.plans import end_of_communication, mg_wfbp_greedy, one_each, optimal
from pycomm.trace import (
    FORMATS,
    Layer,
    Tensor,
    Trace,
    calibrate,
    read,
    read_latencies,
    scale_compute,
    table,
    write,
)


def put(path, text):
    path.write_text(text)
    return path


def test_bcaffe_takes_the_last_block_and_counts_a_layers_backward_once(traces):
    trace = read(traces / "bcaffe/tmp2comm.log")
    assert len(trace.layers) == 64
    assert len(trace.tensors) == 128
    assert trace.layers[0].bytes == (9408 + 64) * 4
    assert trace.layers[-1].backward_s == pytest.approx(473.44e-6)
    assert trace.backward_s == pytest.approx(0.2003293)
    assert not trace.forward_known


def test_pipedream_keeps_the_edges_and_the_input_time(traces):
    trace = read(traces / "pipedream/resnet50.graph.txt")
    assert (len(trace.layers), len(trace.edges)) == (177, 193)
    assert all(source < target for source, target in trace.edges)
    assert trace.input_s == pytest.approx(18.962e-3)


def test_astra_splits_backward(traces):
    trace = read(traces / "astra-sim/Resnet50_DataParallel.txt")
    assert len(trace.layers) == 54
    first = trace.layers[0]
    assert first.forward_s == pytest.approx(13003e-9)
    assert (first.input_gradient_s, first.weight_gradient_s) == (
        pytest.approx(12864e-9),
        pytest.approx(32291e-9),
    )
    assert first.bytes == 37632


def test_osu_tables_with_and_without_the_node_count(traces):
    two, four = (
        read_latencies(traces / "bcaffe/allreduce2.log"),
        read_latencies(traces / "bcaffe/allreduce4.log"),
    )
    assert (two[0], two[-1]) == ((4, pytest.approx(31.92e-6)), (1048576, pytest.approx(1839.14e-6)))
    assert four[0] == (4, pytest.approx(54.5e-6))


PLAIN = """Id\tName\tForward\tBackward\tComm\tSize
0\tdata\t100\t0\t0\t0
1\tconv1\t20\t30\t7\t4096
2\trelu\t1\t2\t0\t0
"""


def test_the_plain_table(tmp_path):
    path = put(tmp_path / "net.txt", PLAIN)
    trace = read(path)
    assert [layer.name for layer in trace.layers] == ["conv1", "relu"]
    assert trace.input_s == pytest.approx(1e-4)
    assert trace.layers[0].backward_s == pytest.approx(30e-6)
    assert [tensor.bytes for tensor in trace.tensors] == [4096]
    assert table.read_communication(path) == (pytest.approx(7e-6), 0.0)


def full_trace() -> Trace:
    return Trace(
        name="net",
        layers=(
            Layer(
                name="a",
                forward_s=1e-3,
                backward_s=3e-3,
                input_gradient_s=1e-3,
                tensors=(Tensor(name="w", bytes=8),),
            ),
            Layer(
                name="b",
                forward_s=None,
                backward_s=0.1,
                tensors=(Tensor(name="v", bytes=6, dtype="float16"),),
            ),
            Layer(name="c", forward_s=0.1 + 0.2, backward_s=0.0),
        ),
        edges=((0, 1), (0, 2), (1, 2)),
        input_s=0.01,
        update_s=1e-4,
        batch=32,
        device="V100",
        source="made by hand",
    )


def test_what_is_written_is_read_back(tmp_path, traces):
    write(full_trace(), tmp_path / "one.jsonl")
    assert read(tmp_path / "one.jsonl") == full_trace()
    with pytest.raises(UsageError, match="exists"):
        write(full_trace(), tmp_path / "one.jsonl")
    published = read(traces / "pipedream/inception_v3.graph.txt")
    write(published, tmp_path / "two.jsonl")
    assert read(tmp_path / "two.jsonl") == published


BAD = {
    "bcaffe-row.log": ("x distributed.cpp:112] [0, 10, 1.0]\n", r":1: 3 values in the bracket"),
    "bcaffe-order.log": (
        "x distributed.cpp:112] [0, 10, 1, 1]\nx] [2, 5, 1, 1]\n",
        r":2: param_id 2 where 1",
    ),
    "bcaffe-time.log": ("x distributed.cpp:112] [0, 10, -1, 1]\n", r":1: compute_time is '-1'"),
    "graph-edge.txt": (
        "node1 -- A -- forward_compute_time=1, backward_compute_time=1, parameter_size=0\n\tnode1 -- node9\n",
        r":2: edge with unknown node 'node9'",
    ),
    "graph-cycle.txt": (
        "node1 -- A -- forward_compute_time=1, backward_compute_time=1, parameter_size=0\n"
        "node2 -- A -- forward_compute_time=1, backward_compute_time=1, parameter_size=0\n"
        "\tnode1 -- node2\n\tnode2 -- node1\n",
        r"cycle among node1, node2",
    ),
    "graph-size.txt": (
        "node1 -- A -- forward_compute_time=1, backward_compute_time=1\n",
        r":1: no parameter_size",
    ),
    "astra-count.txt": ("DATA\n2\nc -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4 1\n", r":3: 1 layers, 2 promised"),
    "astra-columns.txt": ("DATA\n1\nc -1 1 NONE 0 1\n", r":3: 6 columns, 12 wanted"),
    "table-value.txt": ("Id Name Forward Backward Comm Size\n0 a 1 nan 1 4\n", r":2: Backward is 'nan'"),
    "table-size.txt": (
        "Id Name Forward Backward Comm Size\n0 a 1 1 1 4.5\n",
        r":2: Size is '4.5', not a whole",
    ),
    "native-true.jsonl": (
        '{"trace": "n", "schema": 1}\n{"layer": "a", "backward_s": true}\n',
        r":2: backward_s of a is True, not a number",
    ),
    "native-schema.jsonl": ('{"trace": "n", "schema": 7}\n', r":1: schema 7"),
    "native-backward.jsonl": ('{"trace": "n", "schema": 1}\n{"layer": "a"}\n', r":2: no 'backward_s'"),
    "native-json.jsonl": ('{"trace": "n", "schema": 1}\n{"layer": \n', r":2: not JSON"),
    "native-edge.jsonl": (
        '{"trace": "n", "schema": 1}\n{"layer": "a", "backward_s": 1}\n{"edges": [[0, 3]]}\n',
        r":3: edge \[0, 3\]",
    ),
    "native-long.jsonl": (
        '{"trace": "n", "schema": 1}\n{"layer": "a", "backward_s": 1' + 400 * "0" + "}\n",
        r":2: backward_s of a is 10+; a time is finite",
    ),
    "native-deep.jsonl": (
        '{"trace": "n", "schema": 1}\n' + 100_000 * "[" + "\n",
        r":2: not a trace: nested too deeply",
    ),
    "native-tensor.jsonl": (
        '{"trace": "n", "schema": 1}\n{"layer": "a", "backward_s": 1, "tensors": [["w", 4]]}\n',
        r":2: tensors must be a list of \[NAME, BYTES, DTYPE\]",
    ),
    "native-edge-true.jsonl": (
        '{"trace": "n", "schema": 1}\n' + 2 * '{"layer": "a", "backward_s": 1}\n' + '{"edges": [[false, true]]}\n',
        r":4: edge \[False, True\] is False, not a whole number",
    ),
    "native-batch.jsonl": ('{"trace": "n", "schema": 1, "batch": 0}\n', r":1: batch is 0; it must be 1 to"),
    "native-twice.jsonl": (2 * '{"trace": "n", "schema": 1}\n', r":2: a second trace line"),
    # U+2028 ends a line for Unicode, not in this format: the next is still line 3
    "native-line.jsonl": (
        '{"trace": "n", "schema": 1}\n{"layer": "a\u2028b", "backward_s": 1}\n{"layer": "c", "backward_s": -1}\n',
        r":3: backward_s of c is -1",
    ),
    "bcaffe-cut.log": (
        "x distributed.cpp:112] [0, 10, 1, 1]\nx] [1, 5, 1, 1]\nx] [0, 10, 1, 1]\n",
        r":3: the last block ends after 1 rows, the one before has 2",
    ),
    "bcaffe-digits.log": ("x distributed.cpp:112] [0, 1_0, 1, 1]\n", r":1: size is '1_0', not a number"),
    "bcaffe-size.log": ("x distributed.cpp:112] [0, 1e300, 1, 1]\n", r":1: size is '1e300', too large"),
    "astra-word.txt": ("DATA\nmany\nc -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4 1\n", r":2: layer count is 'many'"),
    "table-input.txt": ("Id Name Forward Backward Comm Size\n0 data 1 0 0 0\n", r"no layers beside the input"),
    "unknown.txt": ("hello\n", r":1: no known trace format"),
    "empty.txt": ("", r":1: no known trace format"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_file_line_and_reason(tmp_path, name):
    text, message = BAD[name]
    with pytest.raises(UsageError, match=message) as raised:
        read(put(tmp_path / name, text))
    assert name in str(raised.value)


def test_keys_stand_in_any_order_and_a_byte_order_mark_is_no_content(tmp_path):
    path = put(tmp_path / "x.jsonl", '\ufeff{"schema": 1, "trace": "n"}\n{"backward_s": 2, "layer": "a"}\n')
    assert read(path) == Trace(name="n", layers=(Layer(name="a", forward_s=None, backward_s=2.0),))


def test_what_a_format_does_not_say_is_unknown(traces):
    graph, table_of_cycles = (
        read(traces / "pipedream/vgg16.graph.txt"),
        read(traces / "astra-sim/Resnet50_DataParallel.txt"),
    )
    assert (graph.copy_s, graph.update_s) == (None, None)
    assert (table_of_cycles.input_s, table_of_cycles.copy_s) == (None, None)
    assert table_of_cycles.update_s > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tensor(name="w", bytes=True), "bytes of w is True, not a number"),
        (lambda: Tensor(name="w", bytes=2**63), "below 2"),
        (lambda: Layer(name="a", forward_s=float("nan"), backward_s=0.0), "forward_s of a is nan"),
        (lambda: Layer(name="a", forward_s=0.0, backward_s=1.0, input_gradient_s=2.0), "more than backward_s"),
        (lambda: Trace(name="n", layers=(), batch=True), "batch is True, not a whole number"),
        (lambda: Trace(name="n", layers=(), input_s=-1.0), "input_s is -1.0"),
        (
            lambda: Trace(name="n", layers=(), edges=((0, 1),)),
            r"edge \[0, 1\] must point forward, from one to another of 0 layers",
        ),
        (lambda: Trace(name="n", layers=(), edges=((0, 1, 2),)), r"edge \[0, 1, 2\] must point forward"),  # type: ignore
    ],
)
def test_a_trace_made_by_hand_is_checked_too(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_numbers_of_numpy_are_numbers(tmp_path):
    layer = Layer(name="a", forward_s=None, backward_s=np.float32(0.5), tensors=(Tensor(name="w", bytes=np.int64(8)),))
    edges = ((np.int64(0), np.int64(1)),)
    write(Trace(name="n", layers=(layer, layer), edges=edges, batch=np.int32(2)), tmp_path / "n.jsonl")
    assert (tmp_path / "n.jsonl").read_text().splitlines()[1].endswith('"tensors": [["w", 8, "float32"]]}')
    assert read(tmp_path / "n.jsonl").layers == (layer, layer)


def test_an_unknown_format_or_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "nothing.txt")
    with pytest.raises(UsageError, match="trace format 'onnx'"):
        read(tmp_path / "nothing.txt", format="onnx")
    assert list(FORMATS) == ["native", "bcaffe", "pipedream", "astra-sim", "table"]


def test_calibration_gives_the_measured_iteration(traces):
    trace = calibrate(read(traces / "bcaffe/tmp2comm.log"), 0.39177, update_s=0.002)
    assert trace.compute_s == pytest.approx(0.39177)
    first, last = trace.layers[0], trace.layers[-1]
    assert first.forward_s / first.backward_s == pytest.approx(last.forward_s / last.backward_s)
    with pytest.raises(UsageError, match="already take longer"):
        calibrate(read(traces / "bcaffe/tmp2comm.log"), 0.1)
    with pytest.raises(UsageError, match="nothing to calibrate"):
        calibrate(trace, 1.0)
    assert scale_compute(trace, 2.0).compute_s == pytest.approx(2 * 0.39177)


ALL = [
    "bcaffe/tmpcomm.log",
    "bcaffe/tmp2comm.log",
    "bcaffe/tmp4comm.log",
    "bcaffe/tmp4ocomm.log",
    "pipedream/alexnet.graph.txt",
    "pipedream/gnmt.graph.txt",
    "pipedream/inception_v3.graph.txt",
    "pipedream/resnet50.graph.txt",
    "pipedream/vgg16.graph.txt",
    "astra-sim/Resnet50_DataParallel.txt",
]


@pytest.mark.parametrize("file", ALL)
@pytest.mark.parametrize(("start_up", "slope"), [(1e-6, 1e-10), (5e-4, 1e-9), (1e-3, 8e-10), (5e-3, 1e-9)])
def test_optimum_is_at_most_greedy_is_at_most_wait_free(traces, file, start_up, slope):
    gradients = gradients_of(read(traces / file))
    cost = LatencyBandwidth(start_up, slope)
    best, greedy, alone = (
        end_of_communication(gradients, plan, cost)
        for plan in (optimal(gradients, cost), mg_wfbp_greedy(gradients, cost, start_up), one_each(gradients))
    )
    assert best <= greedy * (1 + 1e-12)
    assert greedy <= alone * (1 + 1e-12)


@pytest.mark.parametrize("file", [file for file in ALL if file.startswith("pipedream")])
def test_branching_graphs_run(traces, file):
    trace = read(traces / file)
    outcome = run(strategy("wfbp").build(trace, LatencyBandwidth(1e-4, 1e-10), Settings()), iterations=12)
    assert outcome.settled
    assert outcome.period_s >= trace.compute_s * (1 - 1e-9)
    # nothing starts before what it reads from has ended
    for source, target in trace.edges:
        assert outcome.starts(f"f{target}")[0] >= outcome.finishes(f"f{source}")[0]
        assert outcome.starts(f"b{source}")[0] >= outcome.finishes(f"b{target}")[0]
