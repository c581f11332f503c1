"""What the summary says of the machine beyond the run record: caches, free memory, a name for its folder."""

import re
from pathlib import Path
from typing import Final

from pycomm.machine import Machine

_KIB: Final = 1024


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """What the kernel would give out without swapping. Raises OSError where it does not say."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{meminfo} has no MemAvailable")
    return int(found[1]) * _KIB


def cache_sizes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, str]:
    """The caches of the first core, such as ``{"L1d": "32K", "L2": "512K"}``; empty where the kernel does not say."""
    sizes = {}
    for cache in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            sizes[f"L{level}{'d' if kind == 'Data' else ''}"] = size
    return sizes


def folder_name(machine: Machine) -> str:
    """The machine's folder under results/: ``amd-epyc-2-cores``."""
    words = re.sub(r"\(\w+\)|@.*", " ", machine.cpu.lower())
    return "-".join([*re.findall(r"[a-z0-9]+", words), str(machine.cores), "cores"])
