"""Predicted against measured, on published runs. Each set is a module with its own `validate`; see docs/model.md."""

from __future__ import annotations

from pycomm.model.validation.row import Row, largest_error, mean_error

__all__ = ["Row", "largest_error", "mean_error"]
