"""Clues of memory modules of a host that have errors without end: which host it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_STORM = re.compile(r"CMCI storm detected|/ce_count\W{1,4}\d{6}|\d{6} Corrected Errors")
_RANKS = re.compile(r"^[^\n]{0,80}\b(?:[Ss]low|[Ss]traggl\w{0,4}|lagging)\b[^\n]{0,300}", re.MULTILINE)


def host_of_storm(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host at whose prompt the errors are listed, and whether others call it slow."""
    for text in texts:
        if (found := _STORM.search(text.text)) is None or not (host := host_before(text, found.start())):
            continue
        own = re.compile(rf"\b{re.escape(host)}\b")
        slow = next((each for each in _RANKS.finditer(text.text) if own.search(each[0])), None)
        title = finding.title.replace("the host's memory has", f"the memory of {named(host, 40)} has", 1)
        wait = ", and all ranks wait for that host's" if slow else ""
        return Sharper(f"{title}{wait}", finding.fix, (text.evidence(slow.start()),) if slow else ())
    return None
