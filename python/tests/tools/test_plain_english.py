"""No sentence that a user reads has more than 30 words, so that a reader whose first language is another can follow it.

What is read: every Markdown file that git tracks (but the changelog), with the cells of its tables; the causes and
cures that the doctor names; the help of every option and every verb. A piece of code in backquotes is one word.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from busbw.base.options import actions_of, options_of, words_of
from busbw.cli.verbs import VERBS
from busbw.doctor.lines.busy import KINDS
from busbw.doctor.meanings import advice, codes
from busbw.doctor.meanings.machine_errors import MACHINE
from busbw.doctor.meanings.nccl_parts import PARTS
from busbw.doctor.meanings.particulars import PARTICULARS
from busbw.doctor.meanings.program_errors import FAMILIES
from busbw.doctor.signatures import SIGNATURES

ROOT = Path(__file__).resolve().parents[3]
MOST_WORDS = 30
LEFT_OUT = {"CHANGELOG.md"}
FOLDERS = ("docs", "bench", "schema", "python/tests")  # read where git does not say what there is
DOCTOR = ROOT / "python" / "busbw" / "doctor"

FENCE = re.compile(r"^ *(```+|~~~+)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
CODE = re.compile(r"``.+?``|`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
# A sentence may begin with a name that is spelt in lower case, or with a file's.
END = re.compile(r"""(?<=[.!?])["')*_]*\s+(?=[A-Z0-9"'(\[*_]|CODE\b|(?:busbw|nccl-tests|torch)\b|[a-z][\w-]*[/.]\w)""")
SHORT = re.compile(r"\b(e\.g|i\.e|vs|cf|approx|Fig|No)\.(?=\s)")


def blocks(text: str) -> Iterator[str]:
    """Paragraphs, items of lists, headings and cells of tables: what no sentence goes beyond."""
    lines: list[str] = []
    blank, listed, indented = True, False, False
    for line in prose(text):
        indented = line.startswith("    ") and (indented or (blank and not listed))
        item = None if indented else ITEM.match(line)
        table = line.lstrip().startswith("|")
        if not line.strip() or item or indented or table or line.startswith("#"):
            yield from flushed(lines)
        blank = indented or not line.strip()
        if table:
            yield from (cell for cell in re.split(r"(?<!\\)\|", CODE.sub("CODE", line)) if cell.strip())
        elif line.startswith("#"):
            yield line.lstrip("#").strip()
        elif line.strip() and not indented:
            listed = bool(item) or (listed and line.startswith(" "))
            lines.append(line[item.end() :] if item else line.strip())
    yield from flushed(lines)


def prose(text: str) -> Iterator[str]:
    """The lines outside of fences and comments, without the marks of a quotation; an empty one for each fence."""
    fence = ""
    for line in re.sub(r"<!--.*?-->", "", text, flags=re.S).splitlines():
        mark = FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
            yield ""
        else:
            yield re.sub(r"^(\s*>)+ ?", "", line)


def flushed(lines: list[str]) -> Iterator[str]:
    """The lines as one, once; they are empty then."""
    if lines:
        yield " ".join(lines)
    lines.clear()


def sentences(block: str) -> list[str]:
    """What ends in a full stop, a question mark or an exclamation mark, without its code and addresses."""
    plain = LINK.sub(r"\1", CODE.sub("CODE", block))
    return END.split(SHORT.sub(r"\1", plain))


def words(sentence: str) -> int:
    """What holds a letter or a digit, between spaces."""
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def too_long(text: str) -> list[str]:
    """The sentences of a Markdown text that have too many words, each with their number."""
    return [
        f"{words(sentence)} words: {sentence}"
        for block in blocks(text)
        for sentence in sentences(block)
        if words(sentence) > MOST_WORDS
    ]


def texts_of(path: Path) -> Iterator[str]:
    """The strings of a module, what stands in braces as one word; what explains the code to its readers is none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "CODE" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.value


def tracked() -> list[str]:
    """The Markdown files that git knows here; where this is no clone, those that lie in the folders."""
    done = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = done.stdout.split("\0")
    if done.returncode or not done.stdout:
        paths = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
        names = [str(path.relative_to(ROOT)) for path in paths]
    return sorted({name for name in names if name and (ROOT / name).is_file()} - LEFT_OUT)


@pytest.mark.parametrize("name", tracked())
def test_no_sentence_of_a_page_is_too_long(name: str) -> None:
    found = too_long((ROOT / name).read_text(encoding="utf-8"))
    assert not found, "\n".join(f"{name}: {each}" for each in found)


@pytest.mark.parametrize("name", SIGNATURES)
def test_no_cause_or_cure_of_a_signature_is_too_long(name: str) -> None:
    known = SIGNATURES[name]
    texts = (known.title, f"cure: {known.cure}", f"confirm: {known.confirm}", f"cost: {known.cost}")  # as the page says
    found = [each for text in texts for each in too_long(text)]
    assert not found, "\n".join(f"{name}: {each}" for each in found)


def test_no_meaning_or_cure_of_a_family_is_too_long() -> None:
    texts = [text for each in (*FAMILIES, *MACHINE) for text in (each.meaning, each.cure)]
    texts += [cure for _, _, cure in advice._PARTS]
    assert len(texts) > 200
    assert not [each for text in texts for each in too_long(text)]


def test_no_meaning_or_cure_of_a_code_is_too_long() -> None:
    texts = [text for each in (*codes._CUDA_CODES, *codes._OTHERS) for text in (each.meaning, each.cure)]
    texts += [text for each in PARTS for text in (each.what, each.cure)]
    texts += [text for rows in PARTICULARS.values() for each in rows for text in (each.title, each.cure)]
    texts += [text for each in KINDS.values() for text in (each.does, each.cure)]
    assert len(texts) > 200
    assert not [each for text in texts for each in too_long(text)]


@pytest.mark.parametrize(
    "path", [*sorted((DOCTOR / "findings").glob("*.py")), DOCTOR / "meanings" / "topics.py"], ids=lambda path: path.name
)
def test_no_text_of_a_finding_is_too_long(path: Path) -> None:
    found = [each for text in texts_of(path) for each in too_long(text)]
    assert not found, "\n".join(f"{path.name}: {each}" for each in found)


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_no_help_is_too_long(verb: str) -> None:
    found = []
    for name in (verb, *(f"{verb} {action}" for action in actions_of(verb))):
        helps = [(each.name, each.help) for each in options_of(name)]
        helps += [(each.name, each.help) for each in words_of(name)]
        found += [f"{name} {shown}: {each}" for shown, text in helps for each in too_long(text)]
    known = next(each for each in VERBS if each.name == verb)
    epilog = "" if known.raw else import_module(known.module).EPILOG
    plain = "\n".join(line for line in epilog.splitlines() if not line.startswith("  "))  # without commands and tables
    found += [f"{verb} --help: {each}" for text in (known.help, plain) for each in too_long(text)]
    assert not found, "\n".join(found)


LONG = " ".join(["One", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"] * 3)
"""Thirty words."""


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} more.",
        f"Short. {LONG} more. Short.",
        "\n".join(f"{LONG} more.".split()),
        f"- {LONG}\n  more\n- short\n",
        f"1. {LONG}\n\n   more.\n2. {LONG} more.\n",
        f"> {LONG}\n> more.\n",
        f"| short | {LONG} more | short |\n",
        f"## {LONG} more\n",
        f"{LONG} [more](https://example.org/a_b).",
        f"{LONG} [two\nwords](page.md).",
        f"{LONG} `one two. Three four`.",
        f"**Bold: {LONG} more.** Short.",
        f"Short, e.g. {LONG}.",
        f"```\ncode\n```\n{LONG} more.\n",
        f"    code\n\n{LONG} more.\n",
        f"- item\n\n    {LONG} more, in the item.\n",
    ],
)
def test_a_long_sentence_is_found_wherever_it_stands(text: str) -> None:
    assert len(too_long(text)) == 1, text


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"{LONG}. {LONG}.",
        f"{LONG}! {LONG}? {LONG}",
        f"{LONG}. busbw {LONG[4:]}",
        f"{LONG}.) (Then more.)",
        f'{LONG}." "Then more."',
        f"{LONG}. `code` and more.",
        f"{LONG}. docs/page.md and more.",
        f"{LONG}. [page.md](page.md) and more.",
        f"- {LONG}\n- {LONG}\n",
        f"{LONG}\n\n{LONG}",
        f"{LONG}\n- more",
        f"| {LONG} | {LONG} |\n| {LONG} | {LONG} |\n",
        f"# {LONG}\n{LONG}",
        f"Text\n\n    {LONG}\n    {LONG}\n\n    {LONG} {LONG}\n",
        f"```\n{LONG} {LONG}\n```\n",
        f"~~~text\n{LONG}\n```\n{LONG}\n~~~\n",
        f"- item\n  ```\n  {LONG} {LONG}\n  ```\n",
        f"<!-- {LONG} {LONG} -->\n",
        f"`{LONG} {LONG}`",
        f"{LONG} -- + = * /",
        f"[{LONG}](a-very.long/address)",
    ],
)
def test_what_is_short_enough_or_no_prose_is_not_found(text: str) -> None:
    assert not too_long(text), text


def test_a_text_of_a_module_is_found_and_what_explains_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f'"""{LONG} {LONG}"""\nA = ("{LONG}" " more")\n"""{LONG} {LONG}"""\nB = f"{LONG} {{A}}"\n')
    assert [len(too_long(text)) for text in texts_of(path)] == [1, 1]
