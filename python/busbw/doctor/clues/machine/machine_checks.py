"""Clues of a processor's fault (machine check): whose it is, and whether its kernel stopped by it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_CHECK = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) (?P<host>[A-Za-z][\w.-]{0,60}) kernel: "
    r"[^\n]{0,40}\[Hardware Error\]",
    re.MULTILINE,
)
_BARE = re.compile(r"mce: \[Hardware Error\]")
_FATAL = re.compile(
    r"Kernel panic - not syncing: (?:Fatal|Timeout|Uncorrected|Memory|Machine)[^\n]{0,60}"
    r"|Machine check: Processor context corrupt"
)
STOPPED = "upon which its kernel stopped"


def host_of_check(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host of the journal that holds it, where the check was fatal."""
    fatal = next(((text, found) for text in texts if (found := _FATAL.search(text.text))), None)
    if fatal is None:
        return None
    text, panic = fatal
    check = _CHECK.search(text.text) or _BARE.search(text.text)
    host = (check.groupdict().get("host") or host_before(text, check.start())) if check else ""
    whose = f" of {named(host, 40)}" if host else ""
    return Sharper(
        f"the processor{whose} reports a fatal hardware fault (machine check), {STOPPED} (panic): the node went, and "
        "its peers wait for it",
        f"drain {named(host, 40) if host else 'the node'} and have the processor or memory module replaced that "
        "`ipmitool sel list` and rasdaemon name (CPU, bank, address). Start the job without it from its last "
        "checkpoint. Network, timeouts and cables of the others are not at fault",
        (text.evidence(panic.start()),),
    )
