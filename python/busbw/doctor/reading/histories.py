"""Histories of releases and upgrades: what once failed in them, and was followed by another one, is over."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEAD = re.compile(r"REVISION\s{1,20}(?:CHANGE-CAUSE|UPDATED\s{1,60}STATUS)\b|ID\s{1,20}DATE\s{1,60}REVISION\b")
"""The head of `kubectl rollout history`, of `helm history` and of `argocd app history`."""
_ROW = re.compile(r"\d{1,6}\s")
_BLOCK, _FAILED = "Start-Date: ", "Error: "
"""How a block of apt's history begins, and the line in it that tells of a failure."""


def without_histories(lines: Sequence[str]) -> list[str]:
    """The lines without rows of histories before the last; of kubectl's, which tell why and not how, none."""
    kept = list(lines)
    rows: list[int] = []
    head = ""
    for at, line in enumerate(lines):
        if _HEAD.match(line):
            _drop(kept, rows, head)
            rows, head = [], line
        elif head and _ROW.match(line):
            rows.append(at)
        elif head and line.strip():
            _drop(kept, rows, head)
            rows, head = [], ""
    _drop(kept, rows, head)
    return _of_apt(kept)


def _drop(kept: list[str], rows: Sequence[int], head: str) -> None:
    """Without the rows that are no present state."""
    for at in rows if "CHANGE-CAUSE" in head else rows[:-1]:
        kept[at] = ""


def _of_apt(kept: list[str]) -> list[str]:
    """Without failures of apt's history behind which a later block stands: that one went on from there."""
    last = max((at for at, line in enumerate(kept) if line.startswith(_BLOCK)), default=0)
    if last:
        begun = next(at for at, line in enumerate(kept) if line.startswith(_BLOCK))
        kept[begun:last] = ["" if line.startswith(_FAILED) else line for line in kept[begun:last]]
    return kept
