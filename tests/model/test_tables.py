"""Model tables have the published numbers of parameters and operations."""

from __future__ import annotations

from math import prod

import pytest

from pycomm.errors import UsageError
from pycomm.model import TABLES, table
from pycomm.model.tables.googlenet import googlenet

# Parameters: torchvision's documentation of its weights (num_params); bvlc_googlenet; the released BERT,
# the released GPT-2.
PARAMETERS = {
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "googlenet": 6_998_552,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "inception-v3": 27_161_264 - 3_326_696,  # torchvision counts the auxiliary head
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
}
# Multiply-adds of a forward pass in 10^9, torchvision's documentation (GFLOPS there means multiply-adds).
MULTIPLY_ADDS = {"alexnet": 0.71, "vgg16": 15.47, "resnet50": 4.09, "resnet152": 11.51, "inception-v3": 5.71}


@pytest.mark.parametrize("name", TABLES)
def test_parameters_are_the_published_count(name):
    assert table(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", MULTIPLY_ADDS)
def test_operations_are_the_published_count(name):
    assert table(name).forward_flops / 2e9 == pytest.approx(MULTIPLY_ADDS[name], rel=0.01)


def test_resnet50_has_161_tensors():
    assert table("ResNet50").tensors == 161


def test_backward_costs_twice_forward_but_for_the_first_layer():
    network = table("vgg16")
    assert network.layers[0].input_gradient_flops == 0
    for layer in network.layers[1:]:
        assert layer.backward_flops == 2 * layer.forward_flops


def test_googlenet_for_training_has_the_tensors_of_the_published_log(traces):
    from pycomm.trace import read

    # B-Caffe pads a tensor to whole blocks of 64 elements
    padded = [
        -(-prod(shape) // 64) * 64 * 4 for layer in googlenet(auxiliary=True).layers for _, shape in layer.tensors
    ]
    assert sorted(padded) == sorted(tensor.bytes for tensor in read(traces / "bcaffe/tmpcomm.log").tensors)


@pytest.mark.parametrize(("name", "file"), [("alexnet", "alexnet"), ("vgg16", "vgg16"), ("resnet50", "resnet50")])
def test_bytes_are_those_of_the_published_profile(traces, name, file):
    from pycomm.trace import read

    assert read(traces / f"pipedream/{file}.graph.txt").bytes == 4 * table(name).parameters


def test_an_unknown_model_is_refused():
    with pytest.raises(UsageError, match="unknown model 'lenet'"):
        table("lenet")
