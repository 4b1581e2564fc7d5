"""Clues of a port that lost its link while a job ran: the one host whose ranks tell of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_EVENT = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} \[\d{1,3}\] [^\n]{0,80}NET/IB ?: "
    r"(?P<port>[\w.-]{2,30}:\d{1,2}) Got (?:non-fatal )?async event ?: port (?:error|down)"
)
_ANY = re.compile(r"\bGot (?:non-fatal )?async event ?: port (?:error|down)")
_USES = r"(?<![\w.-]){host}:\d{{1,10}}:\d{{1,10}} [^\n]{{0,60}}NET/IB ?: Using \[0\](?P<nics>[^\n]{{2,300}})"
_GENERIC = "an RDMA port is down or lost its link"
_MOST = 512


def host_of_event(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All port errors that NCCL tells of are of one host and one port of it."""
    if not finding.title.startswith(_GENERIC):
        return None
    events = [(text, each) for text in texts for each in islice(_EVENT.finditer(text.text), _MOST)]
    places = {(each["host"], each["port"]) for _, each in events}
    told = sum(len(_ANY.findall(text.text)) for text in texts)
    # What else the evidence tells of may be another port.
    others = any(seen.line and not _ANY.search(seen.fact) for seen in finding.evidence)
    if len(places) != 1 or others or told != len(events):
        return None
    host, port = next(iter(places))
    uses = re.compile(_USES.format(host=re.escape(host)))
    nics = next((found["nics"] for text in texts if (found := uses.search(text.text))), "")
    device = port.partition(":")[0]
    without = (
        f"{named(host)} has other NICs: NCCL_IB_HCA=^{device} there goes on without it meanwhile"
        if "[1]" in nics
        else "The job uses one port per host, so that NCCL_IB_HCA cannot leave it out"
        if nics
        else f"Where the host has other NICs, NCCL_IB_HCA=^{device} goes on without it meanwhile"
    )
    return Sharper(
        f"the RDMA port {named(port)} of {named(host)} lost its link while the job ran: only the ranks of that host "
        "tell of it",
        f"take {named(host)} out of the jobs (scontrol update nodename={named(host)} state=drain reason=link), and "
        "check cable, transceiver and switch port of it (ibstat, mlxlink, dmesg). No other host tells of its "
        f"port. {without}",
        (events[0][0].evidence(events[0][1].start()),),
    )
