"""Clues of strangers on NCCL's ports: what they sent first, which NCCL prints as a number that it did not expect."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_MAGIC = re.compile(r"\bmagic (?:0x)?(?P<hex>[0-9a-f]{10,16}) ?(?:!=|instead of|, expected)", re.IGNORECASE)
_HTTP = re.compile(r"(?:GET|POST|PUT|HEAD|OPTIONS|CONNECT) ")
_KEEP_OFF = (
    "let it ask the ports of its own services alone, or leave these hosts and pods out of it. NCCL's ports come from "
    "net.ipv4.ip_local_port_range: a range of their own keeps others off. Ids, MASTER_PORT and versions need no change"
)


def by_first_bytes(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Who connected, by the first eight bytes that it sent."""
    for seen in finding.evidence:
        found = _MAGIC.search(seen.fact)
        if found is None:
            continue
        sent = int(found["hex"], 16).to_bytes(8, "little")
        if (who := _sender(sent)) is None:
            continue
        what, cure = who
        return Sharper(f"{what} connected to NCCL's port, which is no part of this job", f"{cure}: {_KEEP_OFF}")
    return None


def _sender(sent: bytes) -> tuple[str, str] | None:
    """Who begins so, and where to look for it; None where the bytes may be another job's number."""
    if sent[:2] == b"\x16\x03":
        return "a client of TLS (its first bytes 16 03)", "look for probes, proxies and scanners that speak HTTPS"
    if not all(0x20 <= each < 0x7F or each in b"\r\n\t\x00" for each in sent) or sent.count(0) > 2:
        return None
    text = sent.rstrip(b"\0").decode("ascii").strip()
    if _HTTP.match(text):
        scrapes = "/met" in text
        kind = "a scraper of metrics (Prometheus)" if scrapes else "a client of HTTP"
        where = (
            "look for a PodMonitor, ServiceMonitor or scrape job that takes all ports of pods"
            if scrapes
            else "look for health checks, probes and scanners of web servers"
        )
        return f"{kind}, whose first bytes are '{text}',", where
    if text.startswith("SSH-"):
        return f"a client of ssh (first bytes '{text}')", "look for what tries ssh on all ports"
    if text.startswith("PRI "):
        return f"a client of HTTP/2 or gRPC (first bytes '{text}')", "look for probes and clients with a wrong port"
    return f"something that sent the text '{text}'", "look for scanners and clients with a wrong port"
