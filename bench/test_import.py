"""What `import pycomm` adds to `import numpy`, in a new interpreter each time."""

import json
import statistics
import subprocess
import sys

ROUNDS = 10
TIMED_IMPORTS = """
import json, time
start = time.perf_counter()
import numpy
between = time.perf_counter()
import pycomm
end = time.perf_counter()
print(json.dumps([between - start, end - between]))
"""


def test_import_of_pycomm_after_numpy(benchmark):
    numpy_s: list[float] = []
    added_s: list[float] = []

    def once():
        done = subprocess.run([sys.executable, "-c", TIMED_IMPORTS], capture_output=True, check=True, cwd="/")
        numpy, added = json.loads(done.stdout)
        numpy_s.append(numpy)
        added_s.append(added)

    benchmark.pedantic(once, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info["numpy_s"] = statistics.median(numpy_s)
    benchmark.extra_info["added_s"] = statistics.median(added_s)
    benchmark.extra_info["added_to_numpy_ratio"] = statistics.median(added_s) / statistics.median(numpy_s)
