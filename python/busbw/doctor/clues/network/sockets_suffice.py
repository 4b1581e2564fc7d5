"""Sockets between hosts without RDMA that carry all their line has, or served a small job that ran to its end."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.shown_texts import Text

SOCKETS = "nodes talk over sockets"
_RDMA = re.compile(
    r"\b(?:mlx[45]_\w{1,12}|irdma\w{0,8}|bnxt_re\w{0,8}|rdmap\d\w{0,12}|roce\w{0,12}|InfiniBand|ib_write_bw|hsi\d|ib[ps]?\d\w{0,12}"
    r"|efa\w{0,8}|EFA|[Tt][Cc][Pp][Xx]\w?|gIB|p[45]d?e?n?\.\d{2}xlarge|a3-\w{4,5}|a4-\w{4,5}|ND\d{2}\w{0,20}"
    r"|H[12]00|B[23]00|GB[23]00|MI3\d\d\w?)\b"
)
"""Devices and machines that have, or are sold with, a faster network than sockets give."""
_NO_DEVICE = re.compile(r"NET/IB ?: No device found|[Ff]ailed to open libibverbs")
_LOOKED_FOR = re.compile(r"\b[ef]?grep [^\n|]{1,200}")
"""What somebody looks for is not what is there."""
NO_LIBRARY = "libibverbs-missing"
_STREAMS = re.compile(
    r"^\[(?:SUM| {1,3}\d{1,3})\] +0\.0\d?-\d[\d.]{0,7} +sec +[\d.]{1,8} \wBytes +(?P<rate>[\d.]{1,8}) Gbits/sec"
    r"[^\n]{0,40}receiver",
    re.MULTILINE,
)
_SPEED = re.compile(r"^\s{0,8}Speed: (?P<rate>\d{4,6})Mb/s", re.MULTILINE)
FULL, SLOWEST_Gbps, LARGE_BYTES = 0.8, 10.0, 32 << 20
"""Of the line; a line slower than this is itself what is to be mended."""
_COMPLAINS = re.compile(
    r"\b(?:slow(?:er|ly|s|down|ness)?|why|expect(?:ed|ing)?|should (?:be|get|reach|give)|bottleneck\w*|poor\w*"
    r"|(?:low|bad) (?:bandwidth|throughput|performance|util\w{0,10})|too long|scal(?:es|ing|ability)|speed ?up)\b",
    re.IGNORECASE,
)
_SMALL = 2
"""Nodes of a job of which nobody need ask what sockets cost."""


def sockets_suffice(findings: Sequence[Finding], facts: Facts, texts: Sequence[Text]) -> Evidence | None:
    """What shows that sockets are all that these hosts have, and that they were enough; None without it."""
    if len(texts) != 1 or any(_RDMA.search(_LOOKED_FOR.sub("", each.text)) for each in texts) or facts.has_rdma:
        return None
    text = texts[0]
    none = _NO_DEVICE.search(text.text)
    if none is None:
        return None
    if facts.records:
        return _full_line(facts, text)
    others = [
        each
        for each in findings
        if each.severity is not Severity.NOTE and SOCKETS not in each.title and each.name != NO_LIBRARY
    ]
    nodes = max((each.nnodes or 1 for log in facts.logs for each in log.communicators), default=1)
    if others or nodes > _SMALL or _COMPLAINS.search(text.text):
        return None
    done = all(scan.ended and scan.ended >= scan.alive and scan.kinds["steps"] for scan in facts.scans)
    return text.evidence(none.start()) if done else None


def _full_line(facts: Facts, text: Text) -> Evidence | None:
    """The rate of the line, where tables over hosts carry nearly all of it in large messages."""
    known = [(float(found["rate"]), found.start()) for found in _STREAMS.finditer(text.text)]
    known += [(float(found["rate"]) / 1000, found.start()) for found in _SPEED.finditer(text.text)]
    over = [each for each in facts.records if len({rank.host for rank in each.run.ranks}) > 1]
    best = [
        max((case.busbw_GBps or 0.0 for case in each.cases if case.bytes >= LARGE_BYTES), default=0.0) for each in over
    ]
    if not known:
        return _common_line(best, text)
    if not best:
        return None
    line, at = max(known)
    full = line >= SLOWEST_Gbps and all(8 * rate >= FULL * line for rate in best)
    return text.evidence(at) if full else None


_LINES_Gbps = (10.0, 25.0, 50.0, 100.0)
_LEAST, _MOST = 0.85, 0.97
"""Of a line's rate: what TCP carries of it when it is full."""


def _common_line(best: Sequence[float], text: Text) -> Evidence | None:
    """Where no line's rate is shown: tables that end at what Ethernet of a usual rate carries, and no complaint."""
    if not best or _COMPLAINS.search(text.text):
        return None
    full = all(any(_LEAST * line <= 8 * rate <= _MOST * line for line in _LINES_Gbps) for rate in best)
    none = _NO_DEVICE.search(text.text)
    return text.evidence(none.start()) if full and none is not None else None
