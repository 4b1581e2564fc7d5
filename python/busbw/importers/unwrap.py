"""What services, mail and pages wrap around a log's lines: JSON, HTML, quoted-printable, recordings of terminals."""

from __future__ import annotations

import csv
import html
import json
import quopri
import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_DEPTH = 12
MAX_NAMES = 4096
"""Pods and streams that are told apart; the lines of further ones are read together."""

_TEXT_KEYS = frozenset(
    (
        "message",
        "textpayload",
        "log",
        "_raw",
        "stdout",
        "line",
        "body",
        "text",
        "content",
        "msg",
        "_msg",
        "output",
        "short_message",
        "full_message",
        "stringvalue",
    )
)
"""Under these services keep a line, in any case."""
_NAME_KEYS = (
    *("pod_name", "podName", "pod", "logStreamName", "log_stream_name", "logStream", "container_name"),
    *("CONTAINER_NAME", "hostname", "host", "_HOSTNAME", "instance"),
)
"""Under these whose line it is, the surest first."""

WRAPPED = re.compile(
    r'^[ \t]*(?:[^\n"]{0,80}[\[{][^\n]{0,1000}?)?'
    r'"(?:message|textPayload|log|_raw|stdout|line|body|text|content|msg|_msg|output|short_message|stringValue|values|[\w.]{0,40}stdout_lines)"'
    r'\s*:\s*(?:"(?=[^"])|\[)',
    re.MULTILINE | re.IGNORECASE,
)
"""A log whose lines are values of JSON, as services keep them."""
_VALUE = re.compile(r'"(?:message|MESSAGE|textPayload|log|_raw|stdout|line|body|text)"\s*:\s*("(?:[^"\\]|\\.)*")')
_ESCAPES = {"n": "\n", "t": "\t", "r": "", "'": "'", '"': '"', "\\": "\\", "/": "/"}
_ESCAPE = re.compile(r"\\([ntr'\"\\/])")
_CAST = re.compile(r'\s*\{"version": ?[23]\b[^\n]{0,2000}\}\s*\n\s*\[ ?[\d.]+, ?"[a-z]", ?"')
_MAIL = re.compile(rb"(?im)^content-transfer-encoding:\s*quoted-printable")
_SOFT = re.compile(rb"=\r?\n")

HTML = re.compile(r"<!doctype html|<html\b|<pre\b|<table\b", re.IGNORECASE)
_BREAK = re.compile(r"(?i)<br ?/?>(?!\s*$)")
_CELL = re.compile(
    r"<t[dh]\b(?P<how>[^<>]{0,400})>(?P<text>.{0,4000}?)(?=</?t[dhr]\b|</t(?:able|head|body)|$)", re.IGNORECASE
)
_SPAN = re.compile(r"(?i)\b(col|row)span\s*=\s*[\"']?(\d{1,2})")
_ROW_END = re.compile(r"(?i)(?<=</tr>)|(?=<tr\b)")
MAX_ROW_LINES = 200
"""Lines of HTML that one row of a table may have."""
MIN_CELLS = 3
"""Cells of a row of figures; pages that number the lines of a log have two."""
_TAG = re.compile(r"</?(?!std(?:out|err|diag)>)[A-Za-z][^<>]{0,2000}>")


class Unwrapper:
    """The lines of one file without what wraps them; lines of a second pod or stream get its name in front."""

    def __init__(self) -> None:
        self._prefixes: dict[str, str] = {}

    def lines_of(self, line: str) -> list[str]:
        """The lines that a line of JSON holds as its message; the line itself where it holds none."""
        start = line.find("{")
        if 0 <= start < 200 and line.rstrip().endswith("}"):
            try:
                value = json.loads(line[start:])
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                return list(self._walk(value, {}, 0)) or [line]
        found = _VALUE.search(line)
        if found is None:
            return [line]
        try:
            return _split(str(json.loads(found[1])))
        except ValueError:
            return [line]

    def document(self, text: str) -> list[str] | None:
        """The lines that one document of JSON holds, in its order; None where it is none or holds none."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return list(self._walk(value, {}, 0)) or None

    def _walk(self, value: Any, around: Mapping[str, str], depth: int) -> Iterator[str]:
        if depth > MAX_DEPTH:
            return
        if isinstance(value, list):
            for each in value:
                yield from self._walk(each, around, depth + 1)
        elif isinstance(value, dict):
            names = {**around, **_names_in(value, 0)}
            for key, inner in value.items():
                found = _text_under(key, inner)
                if found is not None:
                    prefix = self._prefix(names)
                    yield from (f"{prefix}{line}" for line in _split(found))
                elif isinstance(inner, (dict, list)):
                    yield from self._walk(inner, names, depth + 1)

    def _prefix(self, names: Mapping[str, str]) -> str:
        """Nothing for the first pod of a file, so that most files read as they are; a known prefix for others."""
        name = next((names[key] for key in _NAME_KEYS if key in names), None)
        if name is None:
            return ""
        prefix = self._prefixes.get(name)
        if prefix is None:
            if len(self._prefixes) >= MAX_NAMES:
                return ""
            shown = re.sub(r"[^\w.-]", "-", name)[:200]
            prefix = self._prefixes[name] = f"[pod/{shown}/log] " if self._prefixes else ""
        return prefix


def _names_in(value: Mapping[str, Any], depth: int) -> dict[str, str]:
    """Whose lines an object holds, also by labels one or two objects deeper."""
    found: dict[str, str] = {}
    for key, inner in value.items():
        if isinstance(inner, str) and key in _NAME_KEYS and inner:
            found[key] = inner
        elif (
            isinstance(inner, dict)
            and depth < 2
            and key in ("kubernetes", "resource", "labels", "stream", "metadata", "attributes")
        ):
            found = {**_names_in(inner, depth + 1), **found}
    return found


def _text_under(key: str, value: Any) -> str | None:
    if isinstance(value, str):
        return value if key.lower() in _TEXT_KEYS else None
    if not isinstance(value, list) or not value:
        return None
    if (key.lower() in _TEXT_KEYS or key.endswith("stdout_lines")) and all(isinstance(each, str) for each in value):
        return "".join(each if each.endswith("\n") else f"{each}\n" for each in value)
    # Loki: pairs of a time and a line.
    if key == "values" and all(
        isinstance(each, list) and len(each) >= 2 and isinstance(each[1], str) for each in value
    ):
        return "".join(f"{each[1]}\n" for each in value)
    return None


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").replace("\r\n", "\n").split("\n")


def is_escaped(head: str) -> bool:
    """Whether a text has lines whose line ends are written out, as Python and YAML show a string."""
    # No pattern: one that looks for several of them in a text of nothing else would not end.
    return any(line.count("\\n") >= 3 and "\\n#" in line for line in head.split("\n"))


def unescaped(line: str) -> list[str]:
    """The lines of a line that holds a string with its line ends written out."""
    if line.count("\\n") < 3:
        return [line]
    shown = _ESCAPE.sub(lambda found: _ESCAPES[found[1]], line)
    first, *others = shown.split("\n")
    # What stands before the string, such as stdout=' or b', belongs to no line of it.
    start = max(first.rfind(mark) for mark in "'\"")
    return [first[:start], first[start + 1 :], *others] if start >= 0 else [first, *others]


class CsvLog:
    """A log that a service exported as CSV: one column has the lines."""

    def __init__(self, at: int, cells: int) -> None:
        self._at, self._cells = at, cells

    @classmethod
    def of(cls, head: str) -> CsvLog | None:
        """By the first line of a file; None where it names no such column."""
        first = head.lstrip("\ufeff").partition("\n")[0].rstrip("\r")
        if "," not in first or len(first) > 2000 or '"' in first.replace('","', "")[1:-1]:
            return None
        names = [name.strip('" @') for name in first.split(",")]
        at = next((at for at, name in enumerate(names) if name.rpartition(".")[2].lower() in _TEXT_KEYS), None)
        return None if at is None or len(names) < 2 else cls(at, len(names))

    def line(self, line: str) -> str:
        """The line of the log in a line of the file; the line itself where it is none."""
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            return line
        return cells[self._at] if len(cells) == self._cells else line


def is_cast(head: str) -> bool:
    """Whether a text is asciinema's recording of a terminal."""
    return _CAST.match(head) is not None


def cast_text(text: str) -> str:
    """What the terminal showed."""
    shown = []
    for line in text.split("\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, list) and len(event) == 3 and event[1] == "o" and isinstance(event[2], str):
            shown.append(event[2])
    return "".join(shown)


def is_quoted_printable(head: bytes) -> bool:
    """Whether a text is mail whose lines are cut at 76 characters."""
    return _MAIL.search(head) is not None and len(_SOFT.findall(head)) >= 2


def quoted_printable(data: bytes) -> bytes:
    """The text before it was cut and coded."""
    return quopri.decodestring(data)


class HtmlText:
    """The text of lines of HTML; rows of tables get pipes between their cells, and cells that span rows come again."""

    def __init__(self) -> None:
        self._spanning: list[tuple[int, str, int]] = []
        self._open: list[str] = []
        """Lines of a row that goes on."""

    def lines(self, line: str) -> list[str]:
        """The lines of text that a line of HTML shows; a row of a table that has several comes with its last."""
        if "<" not in line and "&" not in line and not self._open and not self._spanning:
            return [line]
        lower = line.lower()
        if not self._open and ("<tr" not in lower or "</t" in lower or lower.count("<t") > 1):
            return self._shown(line)
        before = self._shown(" ".join(self._open)) if self._open and "<tr" in lower else []
        self._open = [line] if before else [*self._open, line]
        if "</tr" not in lower and "</table" not in lower and len(self._open) < MAX_ROW_LINES:
            return before
        row, self._open = " ".join(self._open), []
        return [*before, *self._shown(row)]

    def _shown(self, line: str) -> list[str]:
        rows = _ROW_END.split(line) if line.count("<t") > MIN_CELLS else [line]
        shown = [self._row(part) for row in rows if row.strip() or len(rows) == 1 for part in _BREAK.split(row)]
        return shown or [""]

    def _row(self, line: str) -> str:
        cells = list(_CELL.finditer(line)) if "<t" in line.lower() else []
        if len(cells) + len(self._spanning) < MIN_CELLS:
            return html.unescape(_TAG.sub("", line))
        shown: list[str] = []
        below: list[tuple[int, str, int]] = []
        for cell in cells:
            self._take_spanning(shown, below)
            spans = {name.lower(): int(count) for name, count in _SPAN.findall(cell["how"])}
            text = html.unescape(_TAG.sub("", cell["text"])).strip().replace("|", "/")
            if spans.get("row", 1) > 1:
                below.append((len(shown), text, spans["row"] - 1))
            shown += [text, *[""] * (min(spans.get("col", 1), 50) - 1)]
        self._take_spanning(shown, below)
        self._spanning = below
        return f"|{'|'.join(each or ' ' for each in shown)}|"

    def _take_spanning(self, shown: list[str], below: list[tuple[int, str, int]]) -> None:
        for at, text, left in self._spanning:
            if at == len(shown):
                shown.append(text)
                if left > 1:
                    below.append((at, text, left - 1))
        self._spanning = [each for each in self._spanning if each[0] >= len(shown)]
