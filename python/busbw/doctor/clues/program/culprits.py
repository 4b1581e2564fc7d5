"""A clue of PyTorch's analyser of flight recordings: the rank that calls another collective, and from where."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_CULPRIT = re.compile(
    r"Culprit ranks? \W?(?P<rank>\d{1,7})\W{1,3}[^\n]{0,40}COLLECTIVE_TYPE_MISMATCH[^\n]{0,60}Expected collective "
    r"type: '(?P<expected>\w{2,40})' does not match found collective type: '(?P<found>\w{2,40})'"
)
_NUMBER = re.compile(r"sequence number: (?P<number>\d{1,12})")
_FRAME = re.compile(r"(?P<name>[\w<>.]{1,60}) at (?P<file>/\S{1,200}\.py):(?P<line>\d{1,6})")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3")
_LINES = 10


def culprit(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The analyser names one rank, with what it calls in place of what is expected."""
    for text in texts:
        said = _CULPRIT.search(text.text)
        if said is None:
            continue
        number = [each["number"] for each in _NUMBER.finditer(text.text, max(0, said.start() - 2000), said.start())]
        mine, theirs = _called(text, said["found"]), _called(text, said["expected"])
        return Sharper(
            f"rank {said['rank']} calls {said['found']}{_from(mine)} where the others call {said['expected']}"
            f"{_from(theirs)}{f', as number {number[-1]}' if number else ''}",
            f"look at the condition before {named(mine[0][1], 60) if mine else 'that call'}: it holds on rank "
            f"{said['rank']} alone, as a loss, a time or a file of its own does. Let rank 0 decide and broadcast it, "
            "or reduce the value over all ranks first, and call the collective on all of them or on none",
            (text.evidence(said.start()), *(text.evidence(at) for at, _ in (*mine[:1], *theirs[:1]))),
        )
    return None


def _from(frames: Sequence[tuple[int, str]]) -> str:
    return f" (from {named(', '.join(words for _, words in frames[:2]), 90)})" if frames else ""


def _called(text: Text, call: str) -> list[tuple[int, str]]:
    """The program's own frames below the call of that collective that is not completed, in its own column."""
    head = re.search(rf"\b{call}\(input_sizes=[^\n]{{0,80}}?state=(?:scheduled|started)", text.text)
    if head is None:
        return []
    begin = text.text.rfind("\n", 0, head.start()) + 1
    column, at, frames = head.start() - begin, begin, list[tuple[int, str]]()
    for line in text.text[begin:].split("\n", _LINES)[:_LINES]:
        # Ranks stand beside each other.
        found = _FRAME.search(line, max(0, column - 1))
        if found and not _LIBRARY.search(found["file"]) and found.start() <= column + 6:
            frames.append((at + found.start(), f"{found['name']}, {found['file'].rpartition('/')[2]}:{found['line']}"))
        at += len(line) + 1
    return frames
