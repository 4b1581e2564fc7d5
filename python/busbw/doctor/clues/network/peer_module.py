"""A clue of RDMA that copies through host memory: the list of the kernel's modules lacks the way to GPU memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.launch.launched import listed_without_peers
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_THERE = re.compile(
    r"^(?:filename:\s{1,16})?(?P<path>/lib/modules/(?P<kernel>\d[\w.-]{2,40})/\S{0,120}nvidia[-_]peermem\.ko\S{0,6})",
    re.MULTILINE,
)
"""The module's file, as modinfo or find tells it."""
_KERNEL = re.compile(
    r"\buname -[ra]\b[^\n]{0,60}\n(?:Linux \S{1,60} )?(?P<a>\d\.\d{1,3})\."
    r"|\b[Kk]ernel(?: version)?:? (?P<b>\d\.\d{1,3})\b"
    r"|/lib/modules/(?P<c>\d\.\d{1,3})\."
)
_DMABUF = (5, 12)
"""The first kernel by which a NIC can be given GPU memory without that module."""
_REFUSED = re.compile(
    r"could not insert '?nvidia[_-]peermem|modprobe: (?:ERROR|FATAL)[^\n]{0,80}peer"
    r"|peermem[^\n]{0,60}(?:disagrees|Unknown symbol)"
)
_OWN_TITLES = re.compile(
    r"^(?:RDMA without GPU Direct$|no RDMA device reaches GPU memory|NICs cannot reach GPU memory)"
)


def peers_not_loaded(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """lsmod lists the modules of the driver, and none of them hands GPU memory on to NICs."""
    # Who tried to load it and was refused needs another cure.
    if any(_REFUSED.search(text.text) for text in texts):
        return None
    lists = listed_without_peers(texts) if _OWN_TITLES.match(finding.title) else None
    if lists is None:
        return None
    text, at = lists
    there = next(((each, found) for each in texts if (found := _THERE.search(each.text))), None)
    kernel = next((found for each in texts if (found := _KERNEL.search(each.text))), None)
    version = next(each for each in kernel.groups() if each) if kernel else ""
    old = bool(version) and tuple(map(int, version.split("."))) < _DMABUF
    host = host_before(text, at)
    dmabuf = f", and kernel {version} has no DMA-BUF for NICs" if old else ""
    built = " The module is there (modinfo)." if there else ""
    instead = "" if old else " Or the driver's open kernel modules with DMA-BUF (kernel 5.12 and newer)."
    on = f" on {named(host, 40)}" if host else ""
    return Sharper(
        f"nvidia_peermem is not loaded{on}{dmabuf}: RDMA goes without GPU Direct, "
        "and all data between nodes passes through host memory",
        f"on all nodes: modprobe nvidia-peermem (after the modules of OFED), and its name in /etc/modules-load.d for "
        f"each boot.{built}{instead} Channels then say /GDRDMA. Cards, distances and ACS come after that",
        (text.evidence(at), *((there[0].evidence(there[1].start()),) if there else ())),
    )
