# Sets up .venv by itself, so any target may be the first. `make` alone lists them.
# Each step leaves a stamp in .venv: a second run does only what a change asks for.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

RANKS ?= 2
BENCH_OPTIONS ?= --sizes 4:64M:x4
TEST_OPTIONS ?= --numprocesses logical --maxprocesses 4 --dist worksteal

# What mpirun needs as root, and with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
# The tools of .venv come before others of the same name, and no package comes from elsewhere.
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

PACKAGE_FILES := pyproject.toml CMakeLists.txt README.md LICENSE \
  $(shell find csrc pycomm -type f -not -path '*/__pycache__/*' -not -name '*.so')
CPP_FILES := $(shell find csrc tests bench -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh')
# ThreadSanitizer of older compilers fails where the kernel spreads addresses widely.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.DEFAULT_GOAL := help
.PHONY: help install bench peers test bench-check dist-check cuda-check gpu-check lint format native-tests release asan-ubsan tsan clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 18

$(VENV)/stamp-python:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 10) else \
	  f"pycomm needs Python 3.10 or newer and $(PYTHON) is {v}; name another: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Installed once and not for each build, so that a rebuild compiles only what changed.
$(VENV)/stamp-build: $(VENV)/stamp-python pyproject.toml
	$(PIP) "scikit-build-core[wheel-free-setuptools]>=0.11" "pybind11>=3.0" "cmake>=3.21" ninja
	@touch $@

$(VENV)/stamp-install: $(VENV)/stamp-build $(PACKAGE_FILES)
	$(PIP) --no-build-isolation .
	@touch $@

# With the modules that tests/cuda needs and a plain wheel does not have. The cache of CMake keeps them from then on.
$(VENV)/stamp-emulator: $(VENV)/stamp-build $(PACKAGE_FILES)
	$(PIP) --no-build-isolation --config-settings=cmake.define.PYCOMM_EMULATOR=ON .
	@touch $@ $(VENV)/stamp-install

$(VENV)/stamp-test: pyproject.toml | $(VENV)/stamp-install
	$(PIP) --no-build-isolation ".[test,mpi]"
	@touch $@

$(VENV)/stamp-lint: pyproject.toml | $(VENV)/stamp-install
	$(PIP) --no-build-isolation ".[test,lint]"
	@touch $@

install: $(VENV)/stamp-install ## build pycomm and install it into .venv

bench: $(VENV)/stamp-install ## sweep all-reduce over local ranks: a table, and results/bench.jsonl
	@mkdir -p results
	$(BIN)/pycomm bench allreduce --ranks $(RANKS) $(BENCH_OPTIONS) --out results/bench.jsonl --force

# The peers get environments of their own in build/peers, at the first run. From bench/, where no source of pycomm lies.
peers: $(VENV)/stamp-install ## all-reduce beside Open MPI, MPICH and gloo, in turn: tables, and results/<machine>/peers.*
	cd bench && $(CURDIR)/$(BIN)/python -m peers $(PEERS_OPTIONS)

test: $(VENV)/stamp-emulator $(VENV)/stamp-test ## run all tests, those under mpirun included
	$(BIN)/pytest $(TEST_OPTIONS)

bench-check: $(VENV)/stamp-install $(VENV)/stamp-test ## run the suites of bench/ once each, untimed: alone and under mpirun
	$(BIN)/pytest bench --benchmark-disable -q
	$(BIN)/mpirun -n 2 $(BIN)/pytest bench --benchmark-disable -q

# The wheel is built from the sdist as a stranger's pip would: in an environment of its own.
dist-check: $(VENV)/stamp-build ## sdist, the wheel from it, and its import in an empty environment
	rm -rf build/dist build/empty-venv
	$(PIP) build
	$(BIN)/python -m build --sdist --no-isolation --outdir build/dist .
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/dist build/dist/*.tar.gz
	$(PYTHON) -m venv build/empty-venv
	build/empty-venv/bin/python -m pip install --quiet --disable-pip-version-check build/dist/*.whl
	cd build/empty-venv && bin/python -c 'import pycomm; print("imported pycomm", pycomm.__version__, "from", pycomm.__file__)'
	cd build/empty-venv && bin/pycomm --version

# The kernels for sm_80, sm_90 and sm_100, and the import of their module where no driver is.
cuda-check: $(VENV)/stamp-install ## compile the CUDA path with nvcc and import it
	@command -v nvcc >/dev/null || { echo "cuda-check: skipped: no nvcc on PATH"; exit 0; }; \
	$(BIN)/cmake -S . -B build/cuda -G Ninja -DPYCOMM_CUDA=ON -DPYCOMM_WERROR=ON -DPYCOMM_PYTHON=ON \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	  -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir) && \
	$(BIN)/cmake --build build/cuda --target _cuda && cd build/cuda && \
	../../$(BIN)/python -c 'import _cuda; print("no GPU:" if _cuda.missing_device() else "a GPU", _cuda.missing_device())'

GPU_PYTHON ?= $(PYTHON)
gpu-check: ## on a machine with a GPU: build, test and measure all, in 8 minutes and without network
	$(GPU_PYTHON) bench/gpu_check

lint: $(VENV)/stamp-lint ## check style and types of Python, and format of C++
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	$(BIN)/mypy

format: $(VENV)/stamp-lint ## rewrite Python and C++ in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

native-tests: asan-ubsan tsan ## build and run tests/native under the sanitizers

tsan: NATIVE_OPTIONS ?= engine # reductions start no thread
release asan-ubsan tsan: $(VENV)/stamp-build
	$(BIN)/cmake --preset $@ -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja
	$(BIN)/cmake --build --preset $@
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(FIXED_ADDRESSES) build/$@/native_tests $(NATIVE_OPTIONS)

clean: ## remove .venv and all that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
