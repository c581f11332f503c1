"""The model of synchronous SGD: what an iteration takes on N workers, and what holds it back.

Costs of communication (`costs`, `network`), bucket plans (`plans`), the task graph (`tasks`), strategies that
build it (`strategies`), model tables (`tables`). It uses the simulators of the native core and no transport.
"""

from __future__ import annotations

from pycomm.model.costs import Cost, LatencyBandwidth, LogGP, Measured, Piecewise
from pycomm.model.gradients import Gradient, gradients_of
from pycomm.model.iteration import Settings
from pycomm.model.network import PRESETS, Link, Network, algorithm_cost, link, preset, simulate
from pycomm.model.outcome import Outcome
from pycomm.model.strategies import STRATEGIES, Strategy, strategy
from pycomm.model.tables import TABLES, ModelTable, table
from pycomm.model.tasks import After, Gain, Job, Resource, Task, faster, gains, run

__all__ = [
    "PRESETS",
    "STRATEGIES",
    "TABLES",
    "After",
    "Cost",
    "Gain",
    "Gradient",
    "Job",
    "LatencyBandwidth",
    "Link",
    "LogGP",
    "Measured",
    "ModelTable",
    "Network",
    "Outcome",
    "Piecewise",
    "Resource",
    "Settings",
    "Strategy",
    "Task",
    "algorithm_cost",
    "faster",
    "gains",
    "gradients_of",
    "link",
    "preset",
    "run",
    "simulate",
    "strategy",
    "table",
]
