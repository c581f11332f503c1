"""GPUs: what is there, arrays that live on them, and collectives run by the CUDA kernels.

Importing this package needs neither a GPU nor CuPy.
"""

from pycomm.cuda.interface import DeviceArray, device_array, stream_handle
from pycomm.cuda.memory import DeviceBuffer
from pycomm.cuda.probe import missing_device

__all__ = ["DeviceArray", "DeviceBuffer", "device_array", "missing_device", "stream_handle"]
