"""The exceptions pycomm raises.

Error
├── UsageError      the caller's mistake, found before any message is sent; also a ValueError
├── Unavailable     not built, or no such device or package: says why and what to do
├── TransportError  a peer or a link failed: names the rank and host
├── RankError       a function given to run() raised on a rank: names the rank, caused by what it raised
├── DeviceError     a CUDA call failed
└── ScheduleError   a schedule breaks one of its five facts: names rank, step and chunk
"""


class Error(Exception):
    """The base of all of them."""


class UsageError(Error, ValueError):
    """Found before any message is sent: names the argument, what was found and what was wanted."""


class Unavailable(Error):
    """Not built, or no such device or package: says why and what to do."""


class TransportError(Error):
    """A peer or a link failed: names the rank and host."""


class RankError(Error):
    """A function given to run() raised on a rank; `__cause__` is what it raised."""


class DeviceError(Error):
    """A CUDA call failed."""


class ScheduleError(Error):
    """A schedule breaks one of its five facts: names rank, step and chunk."""
