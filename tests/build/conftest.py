"""What kind of install the tests run on."""

import importlib.metadata
import json

import pytest


@pytest.fixture(scope="session")
def wheel_installed() -> None:
    """Skips a test that only holds for a wheel, as `make test` installs it."""
    origin = importlib.metadata.distribution("pycomm").read_text("direct_url.json") or "{}"
    if json.loads(origin).get("dir_info", {}).get("editable"):
        pytest.skip("pycomm is installed as editable; this holds for a wheel: make test")
