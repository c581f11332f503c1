"""What published figures are held against, by hand; those cut off or changed are refused with file, line and reason."""

from __future__ import annotations

import pytest

from pycomm.errors import UsageError
from pycomm.model.fit import fit_pieces
from pycomm.model.validation import bcaffe, survey, tf2017
from pycomm.trace import read_latencies

HEADINGS = {
    "survey": "model,batch_per_gpu,network,method,gpus,samples_per_s,stdev",
    "tf": "platform,data,model,batch_per_gpu,gpus,images_per_s",
    "bcaffe": "network,batch_per_node,nodes,strategy,images_per_s_cluster,iter_ms,source",
}
READERS = {"survey": survey.read_cells, "tf": tf2017.read_cells, "bcaffe": lambda path: bcaffe.validate(path.parent)}


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("survey", "", r"measured\.csv:1: no figures"),
        ("survey", "model,gpus\n", r":1: no column 'batch_per_gpu' in the heading"),
        ("survey", HEADINGS["survey"] + "\n", r":1: no figures"),
        ("survey", HEADINGS["survey"] + "\nResNet-50,64,x,BSP-A2A,4,925\n", r":2: 6 columns, 7 wanted"),
        ("survey", HEADINGS["survey"] + "\nLeNet,64,x,BSP-A2A,4,925,\n", r":2: model is 'LeNet': one of ResNet-50"),
        ("survey", HEADINGS["survey"] + "\nResNet-50,64,x,Gossip,4,925,\n", r":2: method is 'Gossip': one of BSP-A2A"),
        ("survey", HEADINGS["survey"] + "\n\nResNet-50,64,x,BSP-A2A,4,fast,\n", r":3: samples_per_s is 'fast', not a"),
        ("survey", HEADINGS["survey"] + "\nResNet-50,64,x,BSP-A2A,4,925,\n", r"ResNet-50 has no row of 1 GPU"),
        ("tf", HEADINGS["tf"] + "\nDGX,synthetic,AlexNet,512,1.5,2987\n", r":2: gpus is '1.5', not a whole number"),
        ("tf", HEADINGS["tf"] + "\nDGX,synthetic,AlexNet,512,1,0\n", r":2: images_per_s is '0'; it must be finite"),
        ("tf", HEADINGS["tf"] + "\nDGX,guessed,AlexNet,512,1,9\n", r":2: data is 'guessed': one of synthetic, real"),
        (
            "tf",
            HEADINGS["tf"] + "\nDGX,synthetic,AlexNet,512,1,9\nDGX,real,AlexNet,512,8,60\n",
            r"DGX, AlexNet x 512, real, 8 GPUs: no row of 1 GPU, real",
        ),
        (
            "bcaffe",
            HEADINGS["bcaffe"] + "\nGoogleNet,64,1,WFBP,163,nan,x\n",
            r":2: iter_ms is 'nan'; it must be finite",
        ),
        ("bcaffe", HEADINGS["bcaffe"] + "\nGoogleNet,64,1,WFBP,163,391,x\n", r"no row of 2 nodes, WFBP"),
    ],
)
def test_bad_figures_get_file_line_and_reason(tmp_path, kind, text, message):
    path = tmp_path / "measured.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        READERS[kind](path)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"measured\.csv: cannot be read"):
        bcaffe.validate(tmp_path)


def test_four_nodes_all_reduce_as_two_nodes_and_the_algorithms_say(traces):
    folder = traces / "bcaffe"
    rows = [row for row in bcaffe.validate(folder) if row.line == "4-node all-reduce from the 2-node table"]
    assert len(rows) == 19  # 4 B to 1 MiB
    assert (rows[0].case, rows[0].measured_s) == ("4 nodes, all-reduce of 4 B", pytest.approx(54.5e-6))
    assert rows[-1].measured_s == pytest.approx(dict(read_latencies(folder / "allreduce4.log"))[1 << 20])
    fit = fit_pieces(*zip(*read_latencies(folder / "allreduce2.log"), strict=True))
    # Recursive doubling: lg p (a + n b), so twice what two nodes take.
    assert rows[0].predicted_s == pytest.approx(2 * float(fit.cost()(4.0)))
    # Halving-doubling: 2 lg p a + 2 (p - 1)/p n b. Two nodes take 2 a + n b, four 4 a + 1.5 n b.
    last = fit.pieces[-1]
    wanted = 2 * last.latency_s.value + 1.5 * (1 << 20) * last.seconds_per_byte.value
    assert rows[-1].predicted_s == pytest.approx(wanted)
