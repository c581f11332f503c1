# The native module's types; the C++ headers say what each does.
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

class Runnable:
    def run(self) -> None: ...

def time_loop(
    operation: Runnable, barrier: Runnable, barrier_each: bool, samples_ns: npt.NDArray[np.int64], batch: int
) -> None: ...
def clock_tick_ns() -> int: ...

class Region:
    @staticmethod
    def create() -> Region: ...
    @staticmethod
    def attach(pid: int, fd: int) -> Region: ...
    @property
    def fd(self) -> int: ...
    def prepare(self, ranks: int) -> None: ...
    def contains(self, array: Array) -> bool: ...

class SharedMemory:
    def __init__(
        self,
        rank: int,
        members: Sequence[tuple[int, str]],
        regions: Sequence[Region],
        one_process: bool,
        timeout_s: float,
        queue_bytes: int,
        largest_slot: int,
        cores: int,
    ) -> None: ...
    @staticmethod
    def best_largest_slot() -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def slot_bytes(self) -> int: ...
    @property
    def oversubscribed(self) -> bool: ...
    def reachable(self, array: Array) -> bool: ...
    def empty(self, bytes: int) -> npt.NDArray[np.uint8]: ...
    def depart(self) -> None: ...
    def fail(self, reason: str) -> None: ...

class Barrier(Runnable):
    def __init__(self, memory: SharedMemory) -> None: ...

class Operation(Runnable):
    buffers: Any
    def __init__(
        self,
        memory: SharedMemory,
        collective: str,
        algorithm: str,
        options: Mapping[str, int],
        op: str,
        dtype: str,
        count: int,
        root: int,
        in_place: bool,
        symmetric: bool,
        send: Array | None,
        receive: Array | None,
    ) -> None: ...
    def rebind(self, send: Array | None, receive: Array | None) -> None: ...
    @property
    def signature(self) -> str: ...
    @property
    def segments(self) -> int: ...
    @property
    def lanes(self) -> int: ...

def die_with_parent(parent: int) -> None: ...
def cpu_isa() -> str: ...
def cpu_isas() -> list[str]: ...
def reduce_arrays(
    op: str, to: Array, a: Array, b: Array, *, streaming: bool = False, isa: str | None = None
) -> None: ...
def combine_arrays(
    op: str,
    to: Sequence[Array],
    operands: Sequence[Array],
    *,
    contributors: int = 0,
    streaming: bool = False,
    isa: str | None = None,
) -> None: ...
def scale_array(to: Array, contributors: int, *, isa: str | None = None) -> None: ...
def copy_array(to: Array, source: Array, *, streaming: bool = False) -> None: ...

class PackPlan:
    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        tensor_dtype: np.dtype[Any],
        buffer_dtype: np.dtype[Any],
        alignment_bytes: int,
    ) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def offsets(self) -> list[int]: ...
    def pack(self, buffer: Array, tensors: Sequence[Array], factor: float) -> None: ...
    def unpack(self, buffer: Array, tensors: Sequence[Array], factor: float) -> None: ...

class TaskGraph:
    def __init__(
        self,
        *,
        duration_s: npt.ArrayLike,
        resource: npt.ArrayLike,
        priority: npt.ArrayLike,
        edge_offsets: npt.ArrayLike,
        edge_targets: npt.ArrayLike,
        disciplines: Sequence[str],
    ) -> None: ...
    @property
    def tasks(self) -> int: ...
    @property
    def duration_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def resource(self) -> npt.NDArray[np.int32]: ...
    @property
    def edge_offsets(self) -> npt.NDArray[np.int64]: ...
    @property
    def edge_targets(self) -> npt.NDArray[np.int32]: ...

class Timeline:
    @property
    def start_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def finish_s(self) -> npt.NDArray[np.float64]: ...
    @property
    def cause(self) -> npt.NDArray[np.int32]: ...
    @property
    def cycle(self) -> list[int]: ...

class TaskTemplate:
    def __init__(self) -> None: ...
    def add_resource(self, scope: str, discipline: str = "arrival", scaled: bool = False) -> int: ...
    def add_task(self, duration_s: float, resource: int = -1, of_worker: bool = True, priority: int = 0) -> int: ...
    def add_edge(self, source: int, target: int, later: int = 0) -> None: ...
    def number(self, task: int, workers: int, worker: int, iteration: int) -> int: ...
    def expand(
        self,
        *,
        workers: int = 1,
        iterations: int = 1,
        workers_per_host: int = 1,
        slowness: Sequence[float] = (),
    ) -> TaskGraph: ...

def run_tasks(graph: TaskGraph) -> Timeline: ...
def simulate_schedule(
    *,
    algorithm: str,
    ranks: int,
    counts: Sequence[int],
    between: Sequence[tuple[float, float, float]],
    inside: Sequence[tuple[float, float, float]] = (),
    gamma_s_per_byte: float = 0.0,
    alpha_occupies_port: bool = False,
    hosts: Sequence[int] = (),
    options: Mapping[str, int] = ...,
    segments: int = 1,
    lanes: int = 1,
    element_bytes: int = 4,
    align: int = 1,
) -> list[tuple[list[float], list[int], list[int]]]: ...

Place = tuple[str, int]

class Step:
    action: str
    to: Place
    source: Place
    operands: list[tuple[int, str, int]]
    peer: int
    chunk: int
    landed: bool
    joined: bool
    def __init__(self, step: Step) -> None: ...
    @property
    def after(self) -> tuple[int, int]: ...
    @property
    def text(self) -> str: ...

class Schedule:
    algorithm: str
    options: str
    collective: str
    ranks: int
    workers: int
    root: int
    chunks: int
    in_chunks: int
    out_chunks: int
    tmp_chunks: int
    segments: int
    in_place: bool
    def lanes(self, rank: int) -> list[tuple[int, int, int]]: ...
    def bodies(self, rank: int) -> int: ...
    def body(self, rank: int, body: int) -> list[Step]: ...
    def with_body(self, rank: int, body: int, steps: Sequence[Step]) -> Schedule: ...
    def with_landings(self) -> Schedule: ...
    def verify(self, all: bool = False) -> dict[str, int]: ...
    def counts(self) -> tuple[int, int]: ...
    def traffic(self, count: int, item_bytes: int) -> tuple[list[int], list[int]]: ...
    def messages(self) -> list[tuple[int, int, int, int, int, str, int, bool]]: ...

def build_schedule(
    algorithm: str,
    collective: str,
    ranks: int,
    segments: int,
    lanes: int,
    in_place: bool,
    root: int,
    options: Mapping[str, int],
    hosts: Sequence[int] = (),
) -> Schedule: ...
def prove_algorithm(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int,
    options: Mapping[str, int],
    hosts: Sequence[int] = (),
) -> dict[str, int]: ...
def algorithm_rows() -> list[dict[str, Any]]: ...
def algorithm_options(algorithm: str, options: Mapping[str, int]) -> str: ...
def algorithm_refusal(algorithm: str, collective: str, ranks: int, options: Mapping[str, int]) -> str | None: ...
