"""A clue of RoCE that loses packets: ports of a switch that are not set for it, and drop what waits there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named, texts_of
from busbw.doctor.signature import Stage

NOT_SET = "is not set for RoCE"
"""Words of the title by which transfers that fail are known to follow."""
_OFF = re.compile(
    r"\b(?P<what>trust(?:[ _-](?:mode|state))?"
    r"|(?:pfc|priority[ -]flow[ -]control)(?:[ _-](?:mode|oper\w{0,8}|admin|state))?"
    r"|ecn(?:/wred)?|wred(?:/ecn)?|ecn[ _-]mode)\s{0,12}(?:[:=]|\bis\b)\s{0,12}"
    r"(?P<how>port|none|not trusted|untrusted|cos|l2|off|disabled)\b",
    re.IGNORECASE,
)
_NAMES = {"t": "trust", "p": "PFC", "e": "ECN", "w": "ECN"}
_ON = re.compile(
    r"\b(?:pfc(?:[ _-](?:mode|oper\w{0,8}))?\s{0,12}[:=]\s{0,12}(?:on|enabled|[0-7,]{1,15})"
    r"|trust(?:[ _-](?:mode|state))?\s{0,12}[:=]\s{0,12}(?:dscp|both|l3))\b",
    re.IGNORECASE,
)
_DROPS = re.compile(
    r"\b(?:(?:egress|tail|tx|output|queue|wred|taildrop)[ _-]?)(?:drops?|discards?|dropped)\b(?P<all>[^\n]{1,160})",
    re.IGNORECASE,
)
_OF_QUEUE = re.compile(
    r"\b(?:q|uc|tc|queue ?|prio ?)(?P<queue>[0-7])\s{0,8}[:=]?\s{0,8}(?P<n>\d{1,18})\b", re.IGNORECASE
)
_BARE = re.compile(r"^\s{0,8}[:=]\s{0,8}(?P<n>\d{1,18})\b")
_TC = re.compile(r"\bNCCL_IB_TC[= ](?P<tc>\d{1,3})\b")
_SHOWS = re.compile(r"[#>] ?(?:show|nv show|display)\b")
_NEAR = 1500
"""Letters of a switch's output in which its settings and its drops stand together."""
_MANY = 100


def of_switch(finding: Finding, facts: Facts) -> Finding | None:
    """The finding as one of a switch that neither trusts RoCE's mark nor holds packets back, and drops them."""
    texts = texts_of(facts)
    for text in texts:
        for found in islice(_DROPS.finditer(text.text), 64):
            queue, lost = _most(found["all"])
            near = text.text[max(0, found.start() - _NEAR) : found.end() + _NEAR]
            host = host_before(text, found.start())
            off = {_NAMES[each["what"][0].lower()]: each["how"].lower() for each in _OFF.finditer(near)}
            if lost < _MANY or not off or _SHOWS.search(near) is None or _ON.search(near):
                continue
            said = ", ".join(f"{name} {how}" for name, how in off.items())
            place = f" in queue {queue}" if queue else ""
            first = next(_OFF.finditer(near))
            at = max(0, found.start() - _NEAR) + first.start()
            return replace(
                finding,
                title=f"the switch{f' {named(host, 40)}' if host else ''} {NOT_SET} ({named(said, 80)}) and drops its "
                f"packets{place} ({lost})",
                evidence=(text.evidence(found.start()), text.evidence(at), *finding.evidence[:3]),
                fix=_cure(facts, texts),
                stage=Stage.SETTING,
            )
    return None


def _most(said: str) -> tuple[str, int]:
    """The queue that dropped most, and how many packets; "" where no queue is named."""
    queues = [(each["queue"], int(each["n"])) for each in _OF_QUEUE.finditer(said)]
    if queues:
        return max(queues, key=lambda each: each[1])
    bare = _BARE.search(said)
    return ("", int(bare["n"])) if bare else ("", 0)


def _cure(facts: Facts, texts: Sequence[Text]) -> str:
    given = facts.whole("NCCL_IB_TC")
    if given is None:
        given = next((int(found["tc"]) for text in texts if (found := _TC.search(text.text))), None)
    set_ = given is not None and given > 0
    tc = given if given is not None and given > 0 else 106
    priority = tc >> 5
    stays = f"NCCL_IB_TC={tc} may stay" if set_ else f"Set NCCL_IB_TC={tc} on all ranks"
    return (
        f"on all ports of all switches, uplinks and spines too: trust DSCP, map DSCP {tc >> 2} to priority {priority}, "
        f"PFC on priority {priority} and ECN (WRED) on its queue. The same on the NICs (mlnx_qos --trust dscp). "
        f"{stays}. Drops then stand still, and pauses and CNPs are counted. Cables, GID and MTU are not at fault"
    )
