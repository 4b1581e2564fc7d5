"""Which folder of busbw may import which: downwards only, so that a room can be understood without those above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "busbw"

# From the bottom up. `base` needs nothing else of ours.
ALLOWED: Mapping[str, frozenset[str]] = {
    room: frozenset(below.split())
    for room, below in {
        "base": "",
        "records": "base",
        "machine": "base",
        "analysis": "base records",
        "runs": "base records",
        "importers": "base records watch",
        "expect": "base records machine analysis",
        "launch": "base machine",
        "torch_bench": "base records machine",
        "experiment": "base records machine analysis runs launch",
        "fleet": "base records launch",
        "gate": "base records analysis",
        "report": "base records analysis runs",
        "doctor": "base records machine analysis expect importers experiment",
        "watch": "base records",
        "cli": "base watch records machine analysis expect importers launch runs torch_bench experiment gate report "
        "doctor fleet",
        "__main__": "cli",
    }.items()
}

IN_DOCTOR: Mapping[str, frozenset[str]] = {
    folder: frozenset(below.split())
    for folder, below in {
        "lines": "",
        "signatures": "",
        "meanings": "lines signatures",
        "reading": "lines signatures",
        "host": "reading",
        "findings": "lines meanings reading signatures",
        "clues": "lines meanings reading signatures",
    }.items()
}
"""The same within the largest room, whose files beside these folders join what they tell."""

Imports = Mapping[str, frozenset[str]]
"""The modules of busbw that each module of busbw imports, in functions too."""


def imports_of(source: str, module: str, is_package: bool, known: frozenset[str]) -> Iterator[str]:
    """Modules of `known` that the source of `module` imports, by whatever spelling."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # `from . import x` in a package means the package itself, in a file of it the package around.
            around = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            start = ".".join([*around, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from filter(None, (nearest(name, known) for name in names))


def nearest(name: str, known: frozenset[str]) -> str:
    """The module that a dotted name lies in: `busbw.base.text.clean` is in that file; "" where it is none of ours."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


@cache
def all_imports() -> Imports:
    files = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    known = frozenset(files)
    return {
        module: frozenset(imports_of(path.read_text(), module, path.name == "__init__.py", known)) - {module}
        for module, path in files.items()
    }


def room(module: str) -> str:
    """The folder, or the file, right below busbw; "" for busbw itself, which holds the version."""
    return [*module.split("."), ""][1]


def wrong_directions(imports: Imports) -> list[str]:
    return sorted(
        f"{module} imports {other}"
        for module, others in imports.items()
        for other in others
        if room(other) and room(other) != room(module) and room(other) not in ALLOWED.get(room(module), frozenset())
    )


def on_a_way_round(graph: Mapping[str, frozenset[str]]) -> set[str]:
    """Nodes that are on a cycle, or lead only to such: what is left when nodes without successors are taken away."""
    left = dict(graph)
    while ends := {node for node, others in left.items() if not others & left.keys()}:
        left = {node: others for node, others in left.items() if node not in ends}
    return set(left)


def test_every_import_goes_in_an_allowed_direction() -> None:
    assert wrong_directions(all_imports()) == []


def test_the_folders_of_the_doctor_import_downwards_too() -> None:
    def folder(module: str) -> str:
        return module.split(".")[2] if module.startswith("busbw.doctor.") and module.count(".") > 1 else ""

    pairs = {
        (folder(module), folder(other))
        for module, others in all_imports().items()
        for other in others
        if folder(module) in IN_DOCTOR and folder(other) in IN_DOCTOR and folder(module) != folder(other)
    }
    allowed = {(above, below) for above, belows in IN_DOCTOR.items() for below in belows}
    assert (sorted(pairs - allowed), sorted(allowed - pairs)) == ([], [])


def test_every_room_has_its_line_and_every_allowance_is_used() -> None:
    imports = all_imports()
    assert {room(module) for module in imports} - {""} == set(ALLOWED)
    used = {(room(module), room(other)) for module, others in imports.items() for other in others}
    assert sorted((above, below) for above, belows in ALLOWED.items() for below in belows - {""}
                  if (above, below) not in used) == []  # fmt: skip


def test_the_allowed_directions_lead_nowhere_round() -> None:
    assert on_a_way_round(ALLOWED) == set()


def test_no_module_imports_itself_by_a_way_round() -> None:
    # A package's own list of its modules (`busbw.doctor.findings`) is above them: they do not import it.
    assert on_a_way_round(all_imports()) == set()


KNOWN = frozenset({"busbw", "busbw.cli", "busbw.cli.main", "busbw.records", "busbw.records.model"})


@pytest.mark.parametrize(
    "line",
    [
        "from busbw.cli.main import main",
        "from busbw.cli import main",
        "import busbw.cli.main",
        "import busbw.cli.main as m",
        "from ..cli.main import main",
        "from ..cli import main",
        "def f():\n    from busbw.cli.main import main",
        "if TYPE_CHECKING:\n    from busbw.cli.main import main",
    ],
)
def test_a_planted_import_of_a_higher_room_is_found(line: str) -> None:
    found = frozenset(imports_of(line, "busbw.records.model", False, KNOWN))
    assert wrong_directions({"busbw.records.model": found}) == ["busbw.records.model imports busbw.cli.main"]


def test_imports_of_the_own_room_of_others_and_of_the_version_are_none_of_a_wrong_direction() -> None:
    text = "import json\nfrom busbw import __version__\nfrom . import model\nfrom busbw.records.model import Run\n"
    found = frozenset(imports_of(text, "busbw.records", True, KNOWN))
    assert found == {"busbw", "busbw.records.model"}
    assert wrong_directions({"busbw.records": found}) == []


def test_a_way_round_is_found() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset()}
    assert on_a_way_round(graph) == {"a", "b", "c"}
