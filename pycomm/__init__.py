"""Measure, prove and predict the communication of distributed deep learning."""

from pycomm.errors import DeviceError, Error, ScheduleError, TransportError, Unavailable, UsageError

__version__ = "0.1.0"
__all__ = ["DeviceError", "Error", "ScheduleError", "TransportError", "Unavailable", "UsageError"]
