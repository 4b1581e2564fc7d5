"""Clues of packets that are lost by their size alone: what perftest moves in small packets, and not in large ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_ROW = re.compile(
    r"^(?:[\w.-]{1,20}: {1,4})?\s{0,8}(?P<size>\d{1,10})\s{1,20}\d{1,10}(?:\s{1,24}[\d.]{1,14}){2,8}\s{0,4}$"
)
"""A row of perftest: bytes, iterations and figures; people put the size of a loop before it."""
_FAILED = re.compile(r"Failed status 12\b|transport retry counter exceeded|Completion with error|RETRY_EXC_ERR")
_BEFORE = re.compile(r"^(?P<size>\d{1,10}): ")
_ASKED = re.compile(r"\b(?:ib_(?:write|read|send)_(?:bw|lat)|ibv_\w{2,4}_pingpong) (?P<words>[^|;\n]{0,200})")
_SIZE = re.compile(r"(?:^| )(?:-s|--size)[ =]?(?P<size>\d{1,10})\b")
_MTU = re.compile(r"(?:^| )(?:-m|--mtu)[ =]?(?P<mtu>256|512|1024|2048|4096)\b")
_PASSED = re.compile(r"^\d{1,12} bytes in [\d.]{1,12} seconds = ")
_SENT = re.compile(r"\bMtu\s{1,16}: (?P<mtu>\d{3,4})\[B\]|\bactive_mtu:\s{1,16}(?P<active>\d{3,4})\b")
_INFINIBAND = re.compile(r"Link type\s{1,16}: IB\b")
_ETHERNET, _LARGEST = 1472, 4096
"""Bytes that a frame of 1500 holds beside headers; what RDMA puts into one packet at most."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What passed or failed: messages of so many bytes, or packets of that MTU."""

    what: str
    size: int
    passed: bool
    text: Text
    at: int


def lost_by_size(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Small messages or packets pass between the hosts, and each larger one is lost."""
    if any(_INFINIBAND.search(text.text) for text in texts):
        return None
    runs = [each for text in texts for each in _runs(text)]
    for what in ("bytes", "mtu"):
        mine = [each for each in runs if each.what == what]
        through = max((each for each in mine if each.passed), key=lambda each: each.size, default=None)
        lost = min((each for each in mine if not each.passed), key=lambda each: each.size, default=None)
        if through is None or lost is None or not through.size < lost.size <= _LARGEST or lost.size <= _ETHERNET:
            continue
        sent = max(
            (int(each["mtu"] or each["active"]) for text in texts for each in _SENT.finditer(text.text)), default=0
        )
        own = f" (RDMA MTU {sent})" if sent > through.size else ""
        of = f"messages of {lost.size} bytes" if what == "bytes" else f"packets of MTU {lost.size}"
        small = f"those of {through.size} pass"
        return Sharper(
            f"RDMA's large packets are lost between the hosts: {of} fail, {small}. The network's MTU is smaller than "
            f"the NICs'{own}",
            "raise the MTU of every switch port, VLAN and router between the hosts to 9000 or more (4200 at least). Or "
            "set 1500 on the hosts' interfaces (ip link set DEVICE mtu 1500): active_mtu is 1024 then. "
            "ping -M do -s 4000 PEER passes when it is right. Cable, GID index and NCCL_IB_TIMEOUT are not it",
            (through.text.evidence(through.at), lost.text.evidence(lost.at)),
        )
    return None


def _runs(text: Text) -> Iterator[_Run]:
    """The runs of perftest in a log, and which sizes passed."""
    size, mtu, last, at = 0, 0, 0, 0
    for line in text.text.split("\n"):
        here, at = at, at + len(line) + 1
        if ("_bw " in line or "_lat " in line or "pingpong " in line) and (asked := _ASKED.search(line)):
            given, packet = _SIZE.search(asked["words"]), _MTU.search(asked["words"])
            size, mtu, last = int(given["size"]) if given else 0, int(packet["mtu"]) if packet else 0, 0
        elif (row := _ROW.match(line)) or _PASSED.match(line):
            if row is not None:
                last = int(row["size"])
                yield _Run("bytes", last, True, text, here)
            if mtu:
                yield _Run("mtu", mtu, True, text, here)
        elif _FAILED.search(line):
            before = _BEFORE.match(line)
            # Without a size of its own the run was one over all sizes, each twice the one before.
            if lost := int(before["size"]) if before else size or 2 * last:
                yield _Run("bytes", lost, False, text, here)
            if mtu:
                yield _Run("mtu", mtu, False, text, here)
            last = 0
