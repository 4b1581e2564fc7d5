"""The page that draws the house draws it as it is: its arrows are those of the imports, and its files are there."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "house.md"


@cache
def layers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("layers_of_the_house", Path(__file__).with_name("test_layers.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrows(heading: str, text: str) -> Mapping[str, frozenset[str]]:
    """The first and last column of the table below a heading."""
    part = text.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    rows = re.findall(r"^\| (\w+) \|[^|]*\|([^|]*)\|$", part, re.MULTILINE)
    return {room: frozenset(needs.split()) for room, needs in rows if needs.strip() not in {"imports", "links"}}


def imported() -> Mapping[str, frozenset[str]]:
    """Every arrow between rooms that some file draws."""
    tests = layers()
    found: dict[str, set[str]] = {}
    for module, others in tests.all_imports().items():
        rooms = found.setdefault(tests.room(module), set())
        rooms.update(tests.room(other) for other in others)
    return {room: frozenset(others - {room, ""}) for room, others in found.items() if room not in {"", "__main__"}}


def test_the_rooms_and_arrows_are_those_of_the_imports() -> None:
    assert arrows("Rooms of the Python half", PAGE.read_text()) == imported()


def test_a_missing_or_invented_arrow_is_seen() -> None:
    text = PAGE.read_text()
    assert arrows("Rooms of the Python half", text.replace("| base machine |", "| base |", 1)) != imported()
    assert arrows("Rooms of the Python half", text.replace("| base |", "| base cli |", 1)) != imported()


def test_the_layers_of_the_engine_are_those_that_are_linked() -> None:
    built = (ROOT / "engine" / "CMakeLists.txt").read_text()
    found = re.findall(r"^busbw_layer\((\w+)(?: NEEDS ([\w ]+))?\)", built, re.MULTILINE)
    linked = {name: frozenset(each.removeprefix("busbw_") for each in needs.split()) for name, needs in found}
    assert arrows("Layers of the engine", PAGE.read_text()) == {"core": frozenset(), **linked}


def test_every_file_that_the_page_names_is_there() -> None:
    for name in re.findall(r"`((?:engine|schema|cli|runs|launch|records|doctor)/[\w/.<>]+\.\w+)`", PAGE.read_text()):
        places = [ROOT / name, ROOT / "python" / "busbw" / name]
        assert "<" in name or any(place.exists() for place in places), name


def test_no_hint_installs_busbw_from_a_registry_where_it_is_not() -> None:
    folders = ("python/busbw", "docs", "schema", "engine", "library", "containers", "tools")
    kinds = {"", ".py", ".md", ".json", ".cc", ".h"}
    texts = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    wrong = re.compile(r"pip install[^\n`]* '?busbw\b(?![/.-])")
    assert wrong.search("pip install 'busbw[report]'") and wrong.search("pip install -U busbw; then")
    for path in (*texts, *ROOT.glob("*.md"), ROOT / "Makefile"):
        found = wrong.search(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
        assert not found, f"{path}: {found and found[0]}"
