"""What the wheel and the sdist hold: all that is needed, and nothing else."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SYSTEM_LIBRARIES = r"lib(stdc\+\+|gcc_s|m|c|dl|rt|pthread)\.so\.\d+|ld-linux.*"


def project_files() -> set[str]:
    """What git tracks, or would if it were added."""
    if not (CHECKOUT / ".git").exists():
        pytest.skip("not a git checkout: what belongs to the project is unknown")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (CHECKOUT / name).exists()}


@pytest.fixture(scope="module")
def installed(wheel_installed: None) -> dict[str, Path]:
    """Files of the installed wheel: name → where it lies."""
    files = importlib.metadata.files("pycomm") or []
    return {str(file): Path(str(file.locate())) for file in files}


def test_wheel_holds_every_file_of_the_package(installed):
    package = {name for name in project_files() if name.startswith("pycomm/")}
    assert package - set(installed) == set()


def test_wheel_holds_nothing_but_the_package_its_command_and_its_metadata(installed):
    others = [
        name for name in installed if not re.fullmatch(r"pycomm/.*|pycomm-[^/]+\.dist-info/.*|(\.\./)+bin/pycomm", name)
    ]
    assert others == []
    assert [name for name in installed if name.endswith((".cpp", ".hpp", ".o", ".a"))] == []


def test_a_plain_wheel_has_no_module_that_only_tests_need(tmp_path):
    """CMake decides by what is built; it is asked, with nothing compiled."""
    cmake, ninja = shutil.which("cmake"), shutil.which("ninja")
    if cmake is None or ninja is None:
        pytest.skip("no cmake and ninja here to ask")
    for state, expected in (("wheel", "OFF"), ("editable", "ON")):
        build = tmp_path / state
        command = [cmake, "-S", CHECKOUT, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
        subprocess.run([*command, f"-DSKBUILD_STATE={state}", "-DPYCOMM_CUDA=OFF"], check=True, capture_output=True)
        assert f"PYCOMM_EMULATOR:BOOL={expected}\n" in (build / "CMakeCache.txt").read_text()


def test_wheel_holds_the_license_and_the_marker_of_typed_packages(installed):
    assert "pycomm/py.typed" in installed
    assert any(name.endswith("LICENSE") for name in installed)


def test_native_module_needs_only_libraries_that_every_linux_has(installed):
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("no readelf here to list what a library needs")
    (core,) = [path for name, path in installed.items() if re.fullmatch(r"pycomm/_core\..*so", name)]
    listing = subprocess.run([readelf, "-d", core], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", listing)
    assert needed
    assert [library for library in needed if not re.fullmatch(SYSTEM_LIBRARIES, library)] == []


def test_sdist_holds_every_file_but_ci_and_results(tmp_path):
    project = project_files()
    program = f"from scikit_build_core.build import build_sdist; print(build_sdist({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        packed = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    wanted = {name for name in project if not name.startswith((".ci/", "results/"))}
    assert wanted - packed == set()
    assert packed - wanted - {"PKG-INFO"} == set()
