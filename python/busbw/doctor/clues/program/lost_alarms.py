"""A clue of a rank that never came: the exception of its time limit was thrown where Python ignores exceptions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LOST = re.compile(
    r"Exception ignored in:?[^\n]{0,200}\n(?:[^\n]{0,300}\n){0,24}?"
    r"[^\n]{0,80}File \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7}), in \w{0,40}(?:handler|alarm|timeout)"
    r"\w{0,20}\n"
    r"(?:[^\n]{0,300}\n){0,4}?[^\n]{0,60}\b\w{0,40}Time\w{0,40}: ",
    re.IGNORECASE,
)
"""A handler of a signal raised in a finalizer: who had set the limit never hears of it."""
_PACKAGE = re.compile(r"/(?:site|dist)-packages/(?P<name>\w{1,40})")


def limit_was_lost(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """What should have been ended may run on, and its rank comes to no further collective."""
    if not finding.title.startswith("a collective"):
        return None
    for text in texts:
        if "Exception ignored in" not in text.text or (found := _LOST.search(text.text)) is None:
            continue
        package = _PACKAGE.search(found["file"])
        who = named(package["name"] if package else found["file"].rpartition("/")[2], 40)
        place = f"{named(found['file'].rpartition('/')[2], 40)}:{found['line']}"
        return Sharper(
            f"{finding.title}. A time limit of {who} went off where Python ignores exceptions ({place}): what it "
            "should have ended may still run, and its rank comes to no collective",
            f"py-spy dump --pid PID on the rank that says nothing: it is most likely still in what {who} was to check. "
            "Run such checks (rewards, parsing, solvers) in a process of their own that is killed when its time is "
            "over, not under signal.alarm. Bound their input, and take a newer release. A longer time does not help",
            (text.evidence(found.start("file")),),
        )
    return None
