"""pycomm info says what is here, and of what is not, why and what to do."""

import builtins
import ctypes
import importlib.util
import subprocess
import sys

import pytest

from pycomm import __version__, _core
from pycomm.cli import COMMANDS, abilities, main
from pycomm.cli.abilities import EXTRAS, find_abilities


def lines(capsys):
    assert main(["info"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


def test_it_names_version_clock_and_kernels(capsys):
    text = lines(capsys)
    assert __version__ in text
    assert _core.cpu_isa() in text
    assert "tick is" in text


def test_pycomm_cpu_shows(capsys, monkeypatch):
    monkeypatch.setenv("PYCOMM_CPU", "portable")
    assert "kernels portable" in lines(capsys)


def test_every_missing_extra_has_its_pip_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for finding in find_abilities()["extras"]:
        assert not finding.present
        assert f"pip install 'pycomm[{finding.name}]'" in finding.text
    assert {finding.name for finding in find_abilities()["extras"]} == set(EXTRAS)


def test_the_brackets_of_pip_commands_are_printed(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "'pycomm[mpi]'" in lines(capsys)


def test_what_goes_into_a_pipe_is_a_line_a_finding(capsys):
    assert main(["info"]) == 0
    printed = capsys.readouterr().out.splitlines()
    findings = [finding for section in find_abilities().values() for finding in section]
    assert len(printed) == len(findings) + len(find_abilities())


def test_without_mpi4py_mpi_is_said_to_be_missing(monkeypatch):
    def missing(name):
        raise abilities.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(abilities.importlib.metadata, "version", missing)
    package, library, _ = find_abilities()["MPI"]
    assert not package.present
    assert "pip install 'pycomm[mpi]'" in package.text
    assert not library.present


def test_an_mpi_library_that_does_not_load_is_a_reason_and_no_traceback(monkeypatch):
    real = builtins.__import__

    def refuse(name, globals=None, locals=None, fromlist=(), level=0):
        if name == "mpi4py":
            raise RuntimeError("cannot load MPI library\nlibmpi.so: not found")
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(builtins, "__import__", refuse)
    library = abilities._mpi_library()
    assert not library.present
    assert library.text.startswith("cannot load MPI library; ")


def replace_driver(monkeypatch, driver):
    """Load what `driver` gives for CUDA's driver; every other library as ever."""
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name, *rest: driver() if name == "libcuda.so.1" else load(name, *rest))


def test_a_driver_that_is_not_there_is_named(monkeypatch):
    def absent():
        raise OSError

    replace_driver(monkeypatch, absent)
    (gpu,) = find_abilities()["GPU"]
    assert not gpu.present
    assert "libcuda.so.1" in gpu.text


def test_devices_are_listed_by_name(monkeypatch):
    class Driver:
        def cuInit(self, flags):
            return 0

        def cuDeviceGetCount(self, count):
            count._obj.value = 2
            return 0

        def cuDeviceGetName(self, name, size, device):
            name.value = f"Device {device}".encode()
            return 0

    replace_driver(monkeypatch, Driver)
    (gpu,) = find_abilities()["GPU"]
    assert (gpu.present, gpu.text) == (True, "0: Device 0, 1: Device 1")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_of_every_command(capsys, arguments):
    assert main(arguments) == 0
    assert capsys.readouterr().out


def test_an_unknown_command_is_a_usage_error(capsys):
    assert main(["bensh"]) == 2
    assert "bensh" in capsys.readouterr().err


def test_python_m_pycomm_is_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pycomm", "--version"], capture_output=True, text=True, cwd=tmp_path, timeout=30
    )
    assert (done.returncode, done.stdout.strip()) == (0, f"pycomm {__version__}")
