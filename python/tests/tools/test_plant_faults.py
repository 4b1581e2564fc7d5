"""The faults that tools/plant_faults plants have their places in the sources, and the tests that shall find them exist.

Planting them all takes minutes; that one has lost its place is seen here at once.
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


def planter() -> ModuleType:
    loader = SourceFileLoader("plant_faults", str(ROOT / "tools" / "plant_faults"))
    spec = spec_from_loader("plant_faults", loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules["plant_faults"] = module  # dataclasses look there
    loader.exec_module(module)
    return module


def test_every_fault_has_its_one_place_and_changes_something() -> None:
    tool = planter()
    faults = (*tool.NATIVE, *tool.PYTHON)
    assert len({fault.name for fault in faults}) == len(faults) > 20
    for fault in faults:
        assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.old) == 1, fault.name
        assert fault.old != fault.new, fault.name


def test_every_fault_names_a_test_that_is_there() -> None:
    tool = planter()
    for fault in tool.PYTHON:
        assert (ROOT / fault.test.partition(" -k ")[0]).is_file(), fault.name
    for fault in tool.NATIVE:
        layer, _, rest = fault.test.partition("_")
        assert (ROOT / "engine" / "tests" / layer / f"{rest}.cc").is_file(), fault.name
