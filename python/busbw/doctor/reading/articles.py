"""Prose about faults, such as an article or a page of a handbook: it tells of none that somebody has now."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_LINES = 2000
_FEWEST = 3
_SENTENCE = re.compile(r"(?:[\w'\u2019%/-]+[,;:]? ){11,}[^\n]{0,400}[.!?\"\u201d)]\s*$")
_OF_A_LOG = re.compile(
    r"\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d|^\s*[\[<{(|+=>$]|^\S{1,60}:\d{1,9}(?::|\s)|Traceback|^\s{2,}File \"|```"
    r"|\b(?:ERROR|WARN|WARNING|INFO|FATAL|CRITICAL|DEBUG|NVRM)\b|\w(?:Error|Exception): |^\S{0,60}[$#] \S"
    r"|(?:\s\d[\d.]*){3}|^\s{0,8}[\w -]{1,40}\s*[:=]\s*\S{1,40}$|\b[A-Z]{2,12}_[A-Z_]{2,40}=|::|0x[0-9a-f]{4}"
)
_OWN = re.compile(
    r"\b(?:I|[Ww]e|[Mm]y|[Oo]ur|I'm|[Mm]ine|us|me)\b[^.?!]{0,160}\b(?:gets?|getting|got|sees?|seeing|saw|fail\w*"
    r"|hangs?|hanging|hung|stuck|crash\w*|errors?|slow\w*|abort\w*|die[sd]?|time[sd]? out|timeouts?|problems?|issues?"
    r"|wrong|help|broke\w*)\b"
    r"|\b(?:[Hh]elp|[Pp]lease|[Aa]ny (?:idea|hint)|[Hh]ow (?:can|do) I|[Ww]hy (?:does|is|do))\b"
)


def without_articles(lines: Sequence[str]) -> list[str]:
    """The lines; none of a text of sentences alone, in which nobody tells of a fault of their own."""
    full = [line for line in lines if line and not line.isspace()]
    if len(full) > MAX_LINES or any(_OF_A_LOG.search(line[:400]) or _OWN.search(line[:2000]) for line in full):
        return list(lines)
    if sum(_SENTENCE.match(line[:2000].lstrip(' "\u201c*-')) is not None for line in full) < _FEWEST:
        return list(lines)
    return [""] * len(lines)
