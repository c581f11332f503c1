"""GPU memory behind a row's host buffers: operations work on it, and are verified on the host."""

from collections.abc import Callable

from pycomm.communicator import Communicator
from pycomm.cuda.memory import DeviceBuffer, keep_memory, read_bytes, write_bytes
from pycomm.measure.verify import Buffers, Guarded


class DeviceTwins:
    """Memory on `device` for each of the host buffers, guard zones included; one in place.

    `send` and `receive` are what an operation is given. Contents move only when told to.
    """

    def __init__(self, comm: Communicator, device: int, buffers: Buffers) -> None:
        self._buffers = buffers
        self._send = keep_memory(comm, "send", device, buffers.send.whole.nbytes)
        self._receive = self._send
        if not buffers.in_place:
            self._receive = keep_memory(comm, "receive", device, buffers.receive.whole.nbytes)
        self.send = _inner(buffers.send, self._send)
        self.receive = self.send if buffers.in_place else _inner(buffers.receive, self._receive)

    def upload(self) -> None:
        """Host to device."""
        write_bytes(self._send, self._buffers.send.whole)
        write_bytes(self._receive, self._buffers.receive.whole)

    def download(self) -> None:
        """Device to host."""
        read_bytes(self._send, self._buffers.send.whole)
        read_bytes(self._receive, self._buffers.receive.whole)

    def around(self, run: Callable[[], object]) -> Callable[[], None]:
        """``run`` as if it worked on the host buffers."""

        def run_on_device() -> None:
            self.upload()
            run()
            self.download()

        return run_on_device


def _inner(guarded: Guarded, memory: object) -> DeviceBuffer:
    guard = (guarded.whole.size - guarded.inner.size) // 2
    return DeviceBuffer(memory, guarded.inner.dtype, guarded.inner.size, guard)
