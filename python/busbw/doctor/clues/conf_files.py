"""Settings of NCCL that the log shows in a file of NCCL's own (nccl.conf), where the environment does not have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.shown_texts import Text, named

_MOST = 64
_PATH = r"(?:[\w$./~{}-]{1,100}/)?\.?nccl\.conf"
_ASKS = re.compile(
    r"^[^\n]{0,120}?[#$>] ?(?:sudo )?(?:cat|more|head|tail|grep|egrep|rg|bat)\b"
    rf"(?P<files>[^\n]{{0,200}}?{_PATH}[^\n]{{0,100}})$",
    re.MULTILINE,
)
_FILE = re.compile(rf"(?<![\w/~.]){_PATH}(?![\w.])")
_ROW = re.compile(
    rf"^(?:(?P<path>{_PATH}):(?:\d{{1,4}}:)?)?\s{{0,4}}(?P<name>NCCL_[A-Z0-9_]{{2,40}})\s{{0,2}}=\s{{0,2}}(?P<value>[^\s#]{{1,80}})"
)
_ABSENT = re.compile(rf"(?P<path>{_PATH})\W{{0,3}}: (?:No such file|[Pp]ermission denied)")
_HEAD = re.compile(rf"^(?:==> |-+ ?|#+ ?)?(?P<path>{_PATH})(?: <==|:)?\s*$")
_PROMPT = re.compile(r"^[^\n=]{0,80}[#$>] ?\S")
_LINES = 40


@dataclass(frozen=True, slots=True)
class InFile:
    """A setting as a file of NCCL's has it."""

    path: str
    value: str
    evidence: Evidence


def in_files(texts: Sequence[Text]) -> dict[str, InFile]:
    """By name the settings that such a file has, and that stand nowhere else in the logs."""
    found: dict[str, InFile] = {}
    spans: list[tuple[Text, int]] = []
    for text in texts:
        for name, row, at in _rows(text):
            found.setdefault(name, row)
            spans.append((text, at))
    return {name: row for name, row in found.items() if not _stands_elsewhere(name, texts, spans)}


def _rows(text: Text) -> Iterator[tuple[str, InFile, int]]:
    for asked in islice(_ASKS.finditer(text.text), _MOST):
        paths = [each[0] for each in _FILE.finditer(asked["files"])]
        at, here = asked.end() + 1, ""
        for line in text.text[at : at + 100 * _LINES].split("\n")[:_LINES]:
            if (gone := _ABSENT.search(line)) is not None:
                paths = [
                    each for each in paths if not gone["path"].endswith(each.removeprefix("~").removeprefix("$HOME"))
                ]
            elif (head := _HEAD.match(line)) is not None:
                here = head["path"]
            elif (row := _ROW.match(line)) is not None:
                path = row["path"] or here or (paths[0] if len(paths) == 1 else "nccl.conf")
                yield row["name"], InFile(named(path, 60), named(row["value"]), text.evidence(at)), at
            elif _PROMPT.match(line):
                break
            at += len(line) + 1


def _stands_elsewhere(name: str, texts: Sequence[Text], spans: Sequence[tuple[Text, int]]) -> bool:
    """Whether a command, a script or a list of the environment sets it: these go before the file."""
    words = re.compile(rf"(?<![\w$]){name}=\S")
    return any(
        not any(text is each and text.text.rfind("\n", 0, found.start()) + 1 == at for each, at in spans)
        for text in texts
        for found in islice(words.finditer(text.text), _MOST)
    )


def with_file(finding: Finding, texts: Sequence[Text]) -> Finding:
    """The finding, its cure with the file in which the setting stands of which it speaks."""
    if finding.severity is Severity.NOTE or not any("nccl.conf" in text.text for text in texts):
        return finding
    for name, each in in_files(texts).items():
        if each.path in finding.fix or not re.search(rf"\b{name}\b", f"{finding.title} {finding.fix}"):
            continue
        return replace(
            finding,
            fix=f"{finding.fix}. {name}={each.value} stands in {each.path}, which NCCL reads itself: change it there",
            evidence=(*finding.evidence, each.evidence),
        )
    return finding
