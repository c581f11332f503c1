"""Which pycomm is imported where, since a checkout holds a folder of the same name as the installed package."""

import shutil
import subprocess
import sys
from pathlib import Path

import pycomm

CHECKOUT = Path(__file__).resolve().parents[2]
USE = "import pycomm; print(pycomm.run(lambda comm: comm.rank, ranks=2, transport='threads'))"


def in_folder(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_the_command_works_where_the_working_directory_is_the_checkout():
    command = shutil.which("pycomm", path=Path(sys.executable).parent)
    assert command is not None
    assert in_folder(CHECKOUT, command, "--version").stdout.startswith("pycomm ")
    done = in_folder(CHECKOUT, command, "info")
    assert (done.returncode, done.stderr) == (0, "")


def test_tests_run_on_the_installed_package_and_not_on_the_checkout(wheel_installed):
    assert not Path(pycomm.__file__).is_relative_to(CHECKOUT / "pycomm")


def test_a_source_folder_found_first_is_named_in_one_sentence_with_what_to_do(wheel_installed, tmp_path):
    shutil.copytree(CHECKOUT / "pycomm", tmp_path / "pycomm", ignore=shutil.ignore_patterns("*.so"))
    assert in_folder(Path("/"), sys.executable, "-c", USE).stdout == "[0, 1]\n"
    done = in_folder(tmp_path, sys.executable, "-c", USE)
    assert done.returncode != 0
    last_line = done.stderr.splitlines()[-1]
    assert last_line.startswith(f"pycomm.errors.Unavailable: {tmp_path / 'pycomm'} holds no compiled pycomm._core")
    assert "pip install -e ." in last_line
