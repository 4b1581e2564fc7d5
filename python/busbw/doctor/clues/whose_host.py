"""The host of a machine's fault, where prompts, heads and names before the lines of its evidence tell one alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_NAMES = frozenset(
    {"gpu-slowdown", "gpu-throttled", "gpu-memory-error", "gpu-off-bus", "gpu-firmware", "nvlink-error", "nvlinks-down"}
    | {"roce-loss", "port-slower", "ib-port-down", "nic-hot", "nic-firmware", "pcie-link", "pcie-limited", "nic-hang"}
    | {"memlock", "driver-mismatch", "driver-not-loaded", "fabric-manager", "power-brake", "cpu-slowdown"}
)
"""What is of one machine, which somebody has to mend or take out."""
_OWN = re.compile(
    # A rank's line; the kernel's journal; pdsh, clush and loops over hosts.
    r"^(?:(?P<rank>[A-Za-z][\w.-]{1,60}):\d{1,10}:\d{1,10} \[\d"
    r"|(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) "
    r"(?P<journal>[A-Za-z][\w.-]{0,60}) \w[\w.-]{0,30}(?:\[\d{1,9}\])?: "
    r"|(?!GPU|gpu|rank|mlx|roce|ibp?\d|eth|en[opsPx]\d|bond|cuda|node\b|nvidia|mlx5|pci|Link|Xid|dgx:)"
    r"(?P<parallel>[A-Za-z](?=[\w.-]{0,60}\d)[\w-][\w.-]{0,58}): {1,4}\S)"
)
_NONE = re.compile(
    r"^(?:root|localhost|bash|sh|python\d?|docker|kubectl|host|node|container|sudo|user|example)$", re.IGNORECASE
)


def with_host(finding: Finding, texts: Sequence[Text]) -> Finding:
    """The finding; with the host of all its lines, where its title does not name it."""
    if finding.name not in _NAMES or finding.title.startswith("follows from"):
        return finding
    by_source = {text.source: text for text in texts}
    hosts = {
        host
        for seen in finding.evidence
        if seen.line and seen.where in by_source and (host := _host(by_source[seen.where], seen))
    }
    if len(hosts) != 1:
        return finding
    host = hosts.pop()
    if _NONE.match(host) or re.search(rf"(?<![\w-]){re.escape(host.partition('.')[0])}(?![\w-])", finding.title):
        return finding
    # The host belongs to what is wrong, and not to a sentence on what follows.
    first, stop, rest = finding.title.partition(". ")
    return replace(finding, title=f"{first} (on {named(host, 40)}){stop}{rest}")


def _host(text: Text, seen: Evidence) -> str:
    """Whose line it is: by its own beginning, else by the prompt or head above it."""
    at = 0
    for _ in range((seen.line or 1) - 1):
        at = text.text.find("\n", at) + 1
        if not at:
            return ""
    line = text.text[at : at + 300].partition("\n")[0].lstrip()
    if found := _OWN.match(line):
        return next(each for each in found.groups() if each)
    # The line may be the prompt's own.
    end = text.text.find("\n", at)
    return host_before(text, end if end > 0 else len(text.text))
