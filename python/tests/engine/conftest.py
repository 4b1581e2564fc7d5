"""The engine of this build, for the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import BUILD, Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    found = Engine(BUILD)
    if not Path(found.program("all_reduce")).exists():
        pytest.skip(f"the engine is not built in {BUILD}")
    return found
