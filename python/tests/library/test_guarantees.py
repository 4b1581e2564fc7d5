"""Every guarantee of docs/reference/gpu-library.md names tests that there are."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "gpu-library.md"
TESTS = ROOT / "library" / "tests"
_ROW = re.compile(r"^\| (?P<guarantee>[^|]+) \| (?P<tests>[^|]+) \|$", re.M)
_DEFINED = re.compile(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)")


def guarantees() -> list[tuple[str, str]]:
    part = PAGE.read_text(encoding="utf-8").split("| guarantee | test |", 1)[1]
    rows = [(m["guarantee"], m["tests"]) for m in _ROW.finditer(part)]
    return [row for row in rows if not row[0].startswith("---")]


@functools.cache
def defined() -> dict[str, set[str]]:
    """The tests of each suite, over all files of library/tests."""
    suites: dict[str, set[str]] = {}
    for file in TESTS.rglob("*.cc"):
        for suite, name in _DEFINED.findall(file.read_text(encoding="utf-8")):
            suites.setdefault(suite, set()).add(name)
    return suites


@functools.cache
def files() -> frozenset[str]:
    return frozenset(file.name for file in TESTS.rglob("*.cc"))


def missing(tests: str, suites: dict[str, set[str]]) -> list[str]:
    """Of a row, what is not there. A name without a suite has that of the name before it; a suite stands for itself."""
    absent: list[str] = []
    suite = ""
    for quoted in re.findall(r"`([^`]+)`", tests):
        file, _, name = quoted.rpartition(": ")
        if quoted.endswith((".cc", ".py")):
            file, name = quoted, ""
        if file and Path(file).name not in files():
            absent.append(file)
        if "." in name:
            suite, _, name = name.partition(".")
        elif name in suites:
            continue
        if name and name not in suites.get(suite, set()):
            absent.append(f"{suite}.{name}")
    for file in re.findall(r"\bpython/tests/\S+?\.py", tests):
        if not (ROOT / file).is_file():
            absent.append(file)
    return absent


@pytest.mark.parametrize(("guarantee", "tests"), guarantees())
def test_a_guarantee_names_tests_that_there_are(guarantee: str, tests: str) -> None:
    assert "`" in tests or "python/tests/" in tests, f"no test is named for: {guarantee}"
    assert missing(tests, defined()) == []


def test_a_name_that_is_not_there_is_found() -> None:
    suites = {"Order": {"A", "B"}}
    assert missing("`run/order_ranks_test.cc: Order.A`, `B`", suites) == []
    assert missing("`Order.A`, `C`", suites) == ["Order.C"]
    assert missing("`run/no_such_test.cc: Order.A`", suites) == ["run/no_such_test.cc"]
    assert missing("python/tests/library/test_no_such.py", suites) == ["python/tests/library/test_no_such.py"]
