"""A clue of one program whose kernels fault on most GPUs of a node within minutes: it is the program, not the GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_XID = re.compile(
    r"Xid \(PCI:(?P<bus>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?\): (?P<xid>\d{1,3})\b,? ?"
    r"(?:pid='?\d{1,8}'?, ?)?(?:name=(?P<name>[^,\n]{1,60}), ?)?"
)
_OF_KERNELS = frozenset({"13", "31", "43", "45"})
_STUCK = re.compile(
    r"\b(?:restart(?:ing|ed)?|kill(?:ing|ed)?)\b[^\n]{0,60}\b(?:not|n't|never)\b[^\n]{0,40}\b(?:help|bring|recover|back|free"
    r"|work)\w{0,3}\b|\bonly (?:a |the )?reboot\b|\breboot\w{0,3}\b[^\n]{0,30}\b(?:only|needed|necessary|required)\b"
    r"|\b(?:had to|have to|until (?:a |the )?|in the end we) ?reboot",
    re.IGNORECASE,
)
_FEWEST, _MOST = 3, 2000


def faults_of_all(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One program's kernels fault on several GPUs, and no Xid tells of the hardware."""
    hits = [(text, found) for text in texts for found in list(_XID.finditer(text.text))[:_MOST]]
    if any(found["xid"] not in _OF_KERNELS for _, found in hits):
        return None
    faults = [(text, found) for text, found in hits if found["xid"] in {"13", "31"}]
    buses = list(dict.fromkeys(found["bus"].lower() for _, found in faults))
    names = {found["name"] for _, found in faults if found["name"]}
    if len(buses) < _FEWEST or len(names) > 1:
        return None
    xids = list(dict.fromkeys(found["xid"] for _, found in faults))
    who = f" of {named(names.pop(), 30)}" if names else ""
    stuck = next(((text, found) for text in texts if (found := _STUCK.search(text.text))), None)
    told = "reboot the node: here a restart of the program was not enough. " if stuck else ""
    return Sharper(
        f"a kernel{who} reads or writes where it may not (Xid {', '.join(xids)}): first on {buses[0]}, then on "
        f"{len(buses)} GPUs in all ({', '.join(buses)}), so it is the program and no card",
        f"{told}Find the kernel: compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1 on a small case. In a server switch its "
        "own all-reduce, fused kernels and CUDA graphs off one by one, and take another release of it and of its "
        "kernel libraries. Where the GPUs answer nobody after it: reset them (nvidia-smi --gpu-reset), or reboot",
        (stuck[0].evidence(stuck[1].start()),) if stuck else (),
    )
