"""The faults that tools/plant_faults plants have their places in the sources, and the tests that shall find them exist.

Planting them all takes minutes; here those of the Python half are planted that a test sees in a second or two.
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

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
    faults = (*tool.NATIVE, *tool.PYTHON, *tool.OF_BOUNDS)
    assert len({fault.name for fault in faults}) == len(faults) > 20
    for fault in faults:
        assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.old) == 1, fault.name
        assert fault.old != fault.new, fault.name


def test_every_fault_names_a_test_that_is_there() -> None:
    tool = planter()
    for fault in (*tool.PYTHON, *tool.OF_BOUNDS):
        assert (ROOT / fault.test.partition(" -k ")[0]).is_file(), fault.name
    for fault in tool.NATIVE:
        layer, _, rest = fault.test.partition("_")
        assert (ROOT / "engine" / "tests" / layer / f"{rest}.cc").is_file(), fault.name


TAKE_LONGER = {"no kill at exit", "a stubborn process is not killed"}
"""The processes that are left then are waited for."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy: Path = planter().copy_of_sources(tmp_path_factory.mktemp("sources"))
    return copy


@pytest.mark.parametrize("name", [fault.name for fault in planter().PYTHON if fault.name not in TAKE_LONGER])
def test_a_fault_of_the_python_half_turns_its_test_red(name: str, tree: Path) -> None:
    tool = planter()
    [fault] = [each for each in tool.PYTHON if each.name == name]
    with tool.planted(tree, fault) as is_there:
        assert is_there
        assert not tool.passes(tree, fault), f"{fault.test} does not see it"
    said = (tree / "last.log").read_text(encoding="utf-8")
    assert " failed" in said, said  # not for want of a module or a file
