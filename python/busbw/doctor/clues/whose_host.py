"""The host of a machine's fault, where prompts, heads and names before the lines of its evidence tell one alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.prompts import hosts_in, own_host_before
from busbw.doctor.shown_texts import Text, named
from busbw.doctor.signature import Stage

_NAMES = frozenset(
    {"gpu-slowdown", "gpu-throttled", "gpu-memory-error", "gpu-off-bus", "gpu-firmware", "nvlink-error", "nvlinks-down"}
    | {"roce-loss", "port-slower", "ib-port-down", "nic-hot", "nic-firmware", "pcie-link", "pcie-limited", "nic-hang"}
    | {"memlock", "driver-mismatch", "driver-not-loaded", "fabric-manager", "power-brake", "cpu-slowdown"}
)
"""What is of one machine, which somebody has to mend or take out."""
_SETTINGS = frozenset(
    {"gdr-unavailable", "libibverbs-missing", "net-plugin-not-found", "old-plugin", "plugin-missing", "one-nic"}
    | {"plugin-not-loaded", "plugin-config", "network-not-found", "wrong-interface", "nic-fusion", "no-interface"}
    | {"tcpx-error", "tcpx-nics", "ofi-slow-provider", "command-not-found", "container-start", "port-in-use"}
)
"""What one machine's software lacks or is told: of one among several it is said, too."""
_MOST_LETTERS = 400_000
_OWN = re.compile(
    # A rank's line; the kernel's journal; pdsh, clush and loops over hosts.
    r"^(?:(?P<rank>[A-Za-z][\w.-]{1,60}):\d{1,10}:\d{1,10} \[\d"
    r"|(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) "
    r"(?P<journal>[A-Za-z][\w.-]{0,60}) \w[\w.-]{0,30}(?:\[\d{1,9}\])?: "
    r"|(?!GPU|gpu|rank|mlx|roce|ibp?\d|eth|en[opsPx]\d|bond|cuda|node\b|nvidia|mlx5|pci|Link|Xid|dgx:)"
    r"(?P<parallel>[A-Za-z](?=[\w.-]{0,60}\d)[\w-][\w.-]{0,58}): {1,4}\S)",
    re.MULTILINE,
)
_NONE = re.compile(
    r"^(?:root|localhost|bash|sh|python\d?|docker|kubectl|host|node|container|sudo|user|example)$"
    r"|\.(?:out|err|log|txt)$",
    re.IGNORECASE,
)


def with_hosts(findings: Sequence[Finding], texts: Sequence[Text]) -> list[Finding]:
    """The findings; with the host of all their lines, where their titles do not name it."""
    return [_with_host(each, texts) for each in findings]


def _with_host(finding: Finding, texts: Sequence[Text]) -> Finding:
    always = finding.name in _NAMES
    if not (always or finding.stage <= Stage.SYSTEM or finding.name in _SETTINGS):
        return finding
    if finding.title.startswith("follows from") or (finding.severity is Severity.NOTE and not always):
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
    if _NONE.search(host) or re.search(rf"(?<![\w-]){re.escape(_short(host))}(?![\w-])", finding.title):
        return finding
    if not always and not _has_others(host, texts):
        return finding
    # The host belongs to what is wrong, and not to a sentence on what follows.
    first, stop, rest = finding.title.partition(". ")
    return replace(finding, title=f"{first} (on {named(host, 40)}){stop}{rest}")


def _has_others(host: str, texts: Sequence[Text]) -> bool:
    """Whether lines are of other hosts, too: of one alone it needs no word."""
    for text in texts:
        own = (next(each for each in found.groups() if each) for found in _OWN.finditer(text.text, 0, _MOST_LETTERS))
        for each in (*own, *hosts_in(text, _MOST_LETTERS)):
            if not _NONE.search(each) and _short(each) != _short(host):
                return True
    return False


def _short(host: str) -> str:
    return host.partition(".")[0]


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
    return own_host_before(text, end if end > 0 else len(text.text))
