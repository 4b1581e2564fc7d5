"""No file is longer than 400 lines and no function longer than 60, so that each can be read at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "bench", "cmake", "containers", "engine", "include", "library", "python", "tools")
NATIVE = {".cc", ".cu", ".cuh", ".c", ".h"}
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60

# Lines that others wrote, one after the other.
WORLD = re.compile(r"python/tests/importers/world_\w+\.py")


def is_script(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"#!"


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            hidden = "__pycache__" in path.parts or not path.is_file()
            if hidden or "golden" in path.parts or "samples" in path.parts or "corpus" in path.parts:
                continue
            if path.suffix in {".py", ".sh", ".cmake", *NATIVE} or (not path.suffix and is_script(path)):
                yield path


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.name, node.end_lineno - node.lineno + 1


NO_FUNCTION = re.compile(
    r"\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|else|do|try|case|default)\b"
)


def goes_on(line: str) -> bool:
    """Whether the next line belongs to the same head of a function."""
    return (
        bool(line.strip())
        and not line.lstrip().startswith(("//", "#"))
        and not line.endswith((";", "{", "}", ":", ">"))
    )


def native_functions(text: str) -> Iterator[tuple[str, int]]:
    """What clang-format writes: a body ends at the brace that stands as far in as its function's first line."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.endswith(" {") or line.endswith("= {"):
            continue
        first = number
        while first and goes_on(lines[first - 1]):
            first -= 1
        head = lines[first]
        before, bracket, _ = " ".join(lines[first : number + 1]).partition("(")
        if NO_FUNCTION.match(head) or not bracket or "." in before or "->" in before or "=" in before:
            continue
        end = " " * (len(head) - len(head.lstrip())) + "}"
        last = next((at for at in range(number + 1, len(lines)) if lines[at].startswith(end)), number)
        yield head.strip(), last - first + 1


def functions(path: Path) -> Iterator[tuple[str, int]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix in NATIVE:
        yield from native_functions(text)
    elif path.suffix == ".py" or (not path.suffix and "python" in text.partition("\n")[0]):
        yield from python_functions(text)


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in sources()}
    assert len(lengths) > 800
    assert {name for name, lines in lengths.items() if lines > MOST_LINES} == set()


def test_no_function_is_too_long_to_be_read_at_once() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name, lines in functions(path)
        if lines > MOST_LINES_OF_A_FUNCTION and not WORLD.fullmatch(str(path.relative_to(ROOT)))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (python_functions, "def long() -> None:\n" + "    pass\n" * 60),
        (native_functions, "void long_one(int a) {\n" + "  ++a;\n" * 60 + "}\n"),
        (native_functions, "class A {\n  int b(int a,\n        int c) {\n" + "    ++a;\n" * 60 + "  }\n};\n"),
    ],
)
def test_a_long_function_is_seen(find: object, text: str) -> None:
    assert callable(find)
    assert [lines > MOST_LINES_OF_A_FUNCTION for _, lines in find(text)] == [True]
