"""A trace made from a model table and one measured iteration, spread over the layers by FLOPs."""

from __future__ import annotations

from math import prod

from pycomm.checks import check_time, check_whole
from pycomm.errors import UsageError
from pycomm.model.tables import ModelTable, table
from pycomm.trace.trace import Layer, Tensor, Trace

# What `--compute` knows: the network, batch and samples per second that set the device's rate.
COMPUTE_PRESETS = {
    "v100": ("resnet50", 64, 253.1, "V100, float32: ResNet-50 at 253.1 images/s (HKBU-HPML/ddl-benchmarks, 2020)"),
    "p100": ("resnet50", 64, 219.0, "P100, float32: ResNet-50 at 219 images/s (TensorFlow benchmarks, 2017)"),
    "k80": ("resnet50", 64, 51.9, "K80, float32: ResNet-50 at 51.9 images/s (TensorFlow benchmarks, 2017)"),
}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def spread(
    model: ModelTable,
    *,
    batch: int,
    iteration_s: float,
    input_s: float = 0.0,
    copy_s: float = 0.0,
    update_s: float = 0.0,
    dtype: str = "float32",
) -> Trace:
    """The model's layers with `iteration_s` less input, copy and update shared out in proportion to their FLOPs.

    `iteration_s` is the whole iteration of one worker on `batch` samples. Raises UsageError if nothing is left of it.
    """
    check_whole(batch, "batch", 1)
    computing_s = check_time(iteration_s, "iteration_s")
    for name, stage_s in (("input_s", input_s), ("copy_s", copy_s), ("update_s", update_s)):
        computing_s -= check_time(stage_s, name)
    if not computing_s > 0:
        raise UsageError(f"an iteration of {iteration_s} s leaves no time to compute {model.name}")
    if dtype not in _BYTES:
        raise UsageError(f"gradients of {dtype!r}: one of {', '.join(_BYTES)}")
    rate = computing_s / (model.forward_flops + model.backward_flops)
    layers = tuple(
        Layer(
            name=layer.name,
            forward_s=layer.forward_flops * rate,
            backward_s=layer.backward_flops * rate,
            input_gradient_s=layer.input_gradient_flops * rate,
            tensors=tuple(
                Tensor(name=name, bytes=prod(shape) * _BYTES[dtype], dtype=dtype) for name, shape in layer.tensors
            ),
        )
        for layer in model.layers
    )
    return Trace(
        name=model.name,
        layers=layers,
        input_s=input_s,
        copy_s=copy_s,
        update_s=update_s,
        batch=batch,
        source=f"{model.name} spread by FLOPs over a measured {iteration_s:.6g} s",
    )


def iteration_by_preset(model: ModelTable, batch: int, compute: str) -> tuple[float, str]:
    """Seconds of an iteration on a preset device, and the sentence that says how: FLOPs at the preset's rate."""
    if compute.lower() not in COMPUTE_PRESETS:
        raise UsageError(f"unknown compute preset {compute!r}: one of {', '.join(COMPUTE_PRESETS)}")
    name, _, samples_per_s, source = COMPUTE_PRESETS[compute.lower()]
    known = table(name)
    rate = samples_per_s * (known.forward_flops + known.backward_flops)
    flops = batch * (model.forward_flops + model.backward_flops)
    how = f"computing: {source}" + ("" if model.name == name else f"; {model.name} by FLOPs at the same rate")
    return flops / rate, how
