"""What `import pycomm` gives, and what it leaves alone."""

import json
import subprocess
import sys
from types import ModuleType

import pycomm

# Slow to import, or optional: a command or call that needs one imports it itself.
NOT_AT_IMPORT = {"click", "cupy", "matplotlib", "mpi4py", "plotly", "pytest", "rich", "scipy", "torch"}


def modules_after(statement: str) -> set[str]:
    """The modules that a new interpreter holds after `statement`."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    return set(json.loads(done.stdout))


def test_every_name_in_all_exists_and_is_sorted_without_duplicates():
    assert [name for name in pycomm.__all__ if not hasattr(pycomm, name)] == []
    assert len(set(pycomm.__all__)) == len(pycomm.__all__)


def test_public_names_of_the_package_are_all_in_all():
    public = {
        name for name, value in vars(pycomm).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public - set(pycomm.__all__) == set()


def test_importing_pycomm_imports_nothing_slow_or_optional():
    loaded = {name.split(".")[0] for name in modules_after("import pycomm")}
    assert "numpy" in loaded or "pycomm" in loaded
    assert loaded & NOT_AT_IMPORT == set()


def test_importing_pycomm_starts_no_thread_and_prints_nothing():
    program = "import threading, pycomm; assert threading.active_count() == 1"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    assert (done.stdout, done.stderr) == ("", "")
