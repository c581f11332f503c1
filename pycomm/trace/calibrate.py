"""Fills in what a trace does not say, from a measured iteration of one worker."""

from __future__ import annotations

from dataclasses import replace

from pycomm.checks import check_positive, check_time
from pycomm.errors import UsageError
from pycomm.trace.trace import Trace


def calibrate(
    trace: Trace,
    iteration_s: float,
    *,
    input_s: float = 0.0,
    copy_s: float = 0.0,
    update_s: float = 0.0,
    batch: int | None = None,
) -> Trace:
    """`trace` with the unknown times set so that one worker's iteration, all stages in turn, lasts `iteration_s`.

    Input, copy and update times that the trace lacks take the given values; what is then left of the
    iteration is forward time, spread over the layers in proportion to their backward time. Raises UsageError
    if nothing is left or if the forward times are known and do not leave anything to calibrate.
    """
    check_time(iteration_s, "iteration_s")
    known = replace(
        trace,
        input_s=trace.input_s if trace.input_s is not None else input_s,
        copy_s=trace.copy_s if trace.copy_s is not None else copy_s,
        update_s=trace.update_s if trace.update_s is not None else update_s,
        batch=trace.batch if trace.batch is not None else batch,
    )
    if trace.forward_known:
        raise UsageError(f"trace {trace.name}: forward times are known; there is nothing to calibrate")
    stages_s = (known.input_s or 0.0) + (known.copy_s or 0.0) + (known.update_s or 0.0)
    left_s = iteration_s - stages_s - trace.backward_s - trace.forward_s
    if left_s < 0:
        raise UsageError(f"trace {trace.name}: its parts already take longer than the iteration of {iteration_s} s")
    unknown = [layer for layer in trace.layers if layer.forward_s is None]
    weight = sum(layer.backward_s for layer in unknown)
    layers = tuple(
        layer
        if layer.forward_s is not None
        else replace(layer, forward_s=left_s * (layer.backward_s / weight if weight else 1.0 / len(unknown)))
        for layer in trace.layers
    )
    return replace(known, layers=layers)


def scale_compute(trace: Trace, factor: float) -> Trace:
    """`trace` with forward, backward and update times multiplied: another batch, or a faster device."""
    check_positive(factor, "factor")
    layers = tuple(
        replace(
            layer,
            forward_s=None if layer.forward_s is None else layer.forward_s * factor,
            backward_s=layer.backward_s * factor,
            input_gradient_s=None if layer.input_gradient_s is None else layer.input_gradient_s * factor,
        )
        for layer in trace.layers
    )
    return replace(trace, layers=layers, update_s=None if trace.update_s is None else trace.update_s * factor)
