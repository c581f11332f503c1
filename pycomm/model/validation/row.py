"""A predicted iteration beside a measured one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """`line` groups rows whose errors are averaged; `calibrated` ones were used to set the model and do not count."""

    line: str
    case: str
    measured_s: float
    predicted_s: float
    calibrated: bool = False
    note: str = ""

    @property
    def error(self) -> float:
        """Predicted over measured iteration time, less 1."""
        return self.predicted_s / self.measured_s - 1


def mean_error(rows: Sequence[Row]) -> float:
    """Mean absolute error of the rows that were predicted."""
    errors = [abs(row.error) for row in rows if not row.calibrated]
    return sum(errors) / len(errors) if errors else 0.0


def largest_error(rows: Sequence[Row]) -> float:
    """The predicted row's error that is farthest from 0, with its sign."""
    return max((row.error for row in rows if not row.calibrated), key=abs, default=0.0)
