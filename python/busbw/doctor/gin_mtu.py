"""Transfers that GPUs start themselves (GIN, GDAKI) over ports whose MTU is smaller than the packets they make."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

_GDAKI = re.compile(r"\bGIN plugin GIN_IB_GDAKI\b|\bGIN_IB_GDAKI\b|\bNCCL_GIN_TYPE(?: set by environment to |=)3\b")
_SMALL = re.compile(r"^[^\n#$]{0,60}\bactive_mtu:\s{1,20}(?P<mtu>256|512|1024|2048)\b")
_OVERSIZE = re.compile(r"\brx_oversize_pkts\w{0,8}:\s{0,8}(?P<a>\d{1,18})(?:\s{1,12}\w{0,40}?:\s{0,8}(?P<b>\d{1,18}))?")
_STOPPED = re.compile(
    r"^\s{0,4}\^C\s{0,3}$|\bGIN Error\b|\b(?:hangs?|hung|stuck|stalls?|freezes?)\b|Watchdog caught|timed out",
    re.IGNORECASE,
)
_OWN_WORDS = re.compile(r"\b(?:INFO|DEBUG)\b|\w=")
WANTED = 4096


def too_small(facts: Facts, name: str) -> Iterator[Finding]:
    """A finding of that name, where packets are dropped as too large, or the job stopped, with such transfers."""
    used = _first(_GDAKI, facts.shown)
    small = _first(_SMALL, facts.shown)
    if used is None or small is None:
        return
    dropped, stopped = _dropped(facts), _first(_STOPPED, facts.shown, besides=_OWN_WORDS)
    if dropped is None and stopped is None:
        return
    found = _SMALL.search(small.fact)
    mtu = found["mtu"] if found else "less"
    told = " and ports count packets that are too large" if dropped else ""
    yield Finding(
        name, Severity.ERROR,
        f"NCCL's GPU-initiated transfers (GIN, GDAKI) send packets of {WANTED} bytes, and the port has an active MTU of "
        f"{mtu}{told}: they are dropped, and the kernel waits for ever",
        tuple(each for each in (used, small, dropped, stopped) if each is not None),
        Cost("each message above that size hangs; smaller ones pass"),
        "set the MTU of interfaces and switch ports to 4200 or 9000 (ip link set DEV mtu 9000; ibv_devinfo must show "
        "active_mtu 4096). Or take the proxy: NCCL_GIN_TYPE=2. Or take an NCCL that goes by the port's MTU",
        Proof(instruction="run with NCCL_GIN_TYPE=2, and watch rx_oversize_pkts_phy (ethtool -S) while it hangs"),
        stage=Stage.NETWORK,
    )  # fmt: skip


def _first(
    words: re.Pattern[str], all_shown: tuple[Shown, ...], besides: re.Pattern[str] | None = None
) -> Evidence | None:
    for shown in all_shown:
        for number, line in enumerate(shown.lines, 1):
            if words.search(line) and not (besides and besides.search(line)):
                return Evidence(clean(shortened(" ".join(line.split()), 160)), shown.source, number)
    return None


def _dropped(facts: Facts) -> Evidence | None:
    """A count of packets that are too large, which grows; one figure alone may be old."""
    before: int | None = None
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if "rx_oversize" not in line or (found := _OVERSIZE.search(line)) is None:
                continue
            now = int(found["b"] or found["a"])
            if (found["b"] and now > int(found["a"])) or (before is not None and now > before):
                return Evidence(clean(shortened(" ".join(line.split()), 160)), shown.source, number)
            before = now
    return None
