"""Processes of one job that look for its first process at different ports."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_ADDRESS = r"['\"]?(?P<{name}>[\w.\[\]-]{{0,80}}):(?P<{name}_port>\d{{2,5}})\b"
_NAMES = re.compile(
    r"^(?P<front>[^\n]{0,160}?)(?:"
    r"\b(?:JAX_)?coordinator(?:_address)?['\"]?(?:[ =:]| is ){1,4}" + _ADDRESS.format(name="by")
    + r"|\bConnecting to JAX distributed service on " + _ADDRESS.format(name="to")
    + r"|\bMASTER_PORT['\"]?[ =:]{1,3}['\"]?(?P<master>\d{2,5})\b"
    + r"|--(?:rdzv[-_]endpoint|dist[-_]init[-_]addr|init[-_]method)[= ](?:tcp://)?" + _ADDRESS.format(name="end")
    + r")",
    re.MULTILINE | re.IGNORECASE,
)  # fmt: skip
"""A process tells where it looks for the first one."""
_SERVES = re.compile(r"\bStarting JAX distributed service on [\w.\[\]-]{0,80}:(?P<port>\d{2,5})\b")
_OF = re.compile(r"\b(?:process(?:[_ ]id)?|rank|node[_ ]rank|host)[ =:#]{1,3}(?P<id>\d{1,5})\b", re.IGNORECASE)
_MOST, _SHOWN = 20_000, 4


def coordinators_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Each process names one port, and these differ; or the first one serves at another than others ask."""
    for text in texts:
        ports: defaultdict[str, dict[str, re.Match[str]]] = defaultdict(dict)
        for found in islice(_NAMES.finditer(text.text), _MOST):
            line = text.text[found.start() : found.end() + 160].partition("\n")[0]
            who = _OF.search(line)
            if process := rank_of(line) or (who["id"] if who else ""):
                port = found["by_port"] or found["to_port"] or found["master"] or found["end_port"]
                ports[process].setdefault(port, found)
        # A process that names two has started twice.
        if len(ports) < 2 or any(len(each) > 1 for each in ports.values()):
            continue
        of = {process: next(iter(each)) for process, each in ports.items()}
        if len(set(of.values())) < 2:
            continue
        serves = next(iter(_SERVES.finditer(text.text)), None)
        first = min(of, key=int)
        right = serves["port"] if serves is not None else of[first]
        wrong = [process for process in sorted(of, key=int) if of[process] != right]
        if not wrong or right not in of.values():
            continue
        names = ", ".join(wrong[:_SHOWN]) + (" ..." if len(wrong) > _SHOWN else "")
        return Sharper(
            f"the processes look for the first one at different ports: process {first} is at port {named(right, 8)}, "
            f"and process {names} asks port {named(of[wrong[0]], 8)}, where nobody of this job answers",
            "give all processes the same coordinator address and port (one file of settings for all, or rank 0 tells "
            f"it): look where process {names} has its port from. Firewall, GPUs and a longer time have no part in it",
            tuple(text.evidence(next(iter(ports[each].values())).end("front")) for each in (first, wrong[0])),
        )
    return None
