"""An address of rank 0 with leading zeros: the C library reads such a number as octal, and so another address."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_PART = r"\d{1,4}"
_PADDED = re.compile(
    r"(?:\btcp://|\b(?:MASTER|master|[Mm]ain_process)[_-](?:ADDR|addr|address|ip)(?:ess)?['\"]?"
    r"\s{0,2}[ =:]\s{0,2}['\"]?"
    r"|--(?:rdzv[_-]endpoint|dist[_-]init[_-]addr|master)[ =]|\b(?:coordinator_address|COORDINATOR_ADDRESS)\W{1,4}"
    r"|\bPING )"
    rf"(?P<ip>(?=[\d.]{{0,12}}(?<!\d)0\d){_PART}(?:\.{_PART}){{3}})(?![\d.]*\d)"
)
"""Where an address is given that all ranks connect to, with a part that begins with 0."""


_MEETS = re.compile(
    r"tim(?:ed|e) ?out|refused|[Nn]o route|unreachable|resol|\bconnect|known|rendezvous|gaierror", re.IGNORECASE
)


def read_as_octal(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The address of rank 0 is another one than it looks like."""
    if finding.name == "python-exception" and not any(_MEETS.search(seen.fact) for seen in finding.evidence):
        return None
    evidence = Text("", "\n".join(seen.fact for seen in finding.evidence))
    for text in (evidence, *texts):
        for found in _PADDED.finditer(text.text):
            parts = found["ip"].split(".")
            meant = ".".join(str(int(each)) for each in parts)
            if max(int(each) for each in parts) > 255 or (read := _read(parts)) == meant:
                continue
            how = f"so that ranks connect to {read} and not to {meant}" if read else "in which 8 and 9 are no digits"
            return Sharper(
                f"the address of rank 0 is written with leading zeros ({found['ip']}): a number that begins with 0 is "
                f"read as octal, {how}",
                f"write {meant} (master address, init method, rendezvous endpoint, hostfile) on all nodes, without "
                "leading zeros. No firewall, port or interface has a part in it",
                (text.evidence(found.start("ip")),),
            )
    return None


def _read(parts: Sequence[str]) -> str:
    """The address as inet_aton reads it; empty where it refuses."""
    try:
        return ".".join(str(int(each, 8 if each.startswith("0") else 10)) for each in parts)
    except ValueError:
        return ""
