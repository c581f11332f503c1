from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def traces() -> Path:
    """The published traces beside the project, or a skip that says where they were looked for."""
    folder = Path(__file__).parents[3] / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip(f"no published traces at {folder}")
    return folder
