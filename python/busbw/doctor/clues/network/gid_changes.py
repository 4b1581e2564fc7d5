"""Clues of an RDMA interface whose addresses changed while a job ran: which NIC, on which host, and by what."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_EVENT = re.compile(
    r"\b(?P<dev>[a-z]\w{2,20}):\d{1,3} (?:Got (?:async|non-fatal async) event : GID table change"
    r"|unknown event type \(18\))"
)
"""18 is libibverbs' number of the same event (IBV_EVENT_GID_CHANGE)."""
_LOST = re.compile(r"\bDHCPv4 address (?P<ip>\d{1,3}(?:\.\d{1,3}){3})/\d{1,2} lost\b")
_GIVEN = re.compile(r"\bDHCPv4 address (?P<ip>\d{1,3}(?:\.\d{1,3}){3})/\d{1,2} (?:via|acquired)\b")
_LEASE = re.compile(r"\b(?P<dev>[a-z][\w.-]{1,30}): DHCP(?:v4)? lease lost\b")
_OF_JOURNAL = re.compile(
    r"\d\d:\d\d:\d\d\S{0,16} (?P<host>[A-Za-z][\w.-]{0,60}) [\w.-]{2,40}\[\d{1,8}\]: [^\n]{0,200}$"
)
"""A line of the journal or of syslog: its host stands behind the time."""
_TITLE = "the addresses of an RDMA interface changed"
_BY = (
    (re.compile(r"apt-daily|apt upgrade|unattended-upgrade|Daily apt|dnf-automatic|packagekit"), "automatic upgrades",
     "switch automatic upgrades off on GPU hosts (systemctl disable --now apt-daily-upgrade.timer)"),
    (re.compile(r"\bnetplan (?:apply|generate|try)\b"), "netplan apply", "run netplan apply only while no job runs"),
    (re.compile(r"keepalived|Keepalived|\bVRRP\b"), "keepalived", "keep keepalived off the RDMA interfaces"),
    (re.compile(r"dhclient|dhcpcd|DHCPv4 (?:lease|address)|dhcp4 \([\w.-]{2,20}\)"), "DHCP",
     "give RDMA interfaces fixed addresses"),
    (re.compile(r"NetworkManager(?:\[\d{1,8}\])?:|nm-dispatcher"), "NetworkManager",
     "take the RDMA interfaces out of NetworkManager (unmanaged-devices)"),
    (re.compile(r"Stopping (?:Network Configuration|Network Service)|systemd-networkd\[\d{1,8}\]:"), "systemd-networkd",
     "do not restart the network's service while jobs run (KeepConfiguration=yes in its .network file)"),
)  # fmt: skip
_RESTART = re.compile(
    r"Stopping (?:Network Configuration|Network Service)|Stopped Network|systemd-networkd\[\d{1,8}\]:"
)


def changed_by(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL tells that a NIC's table of addresses changed; the host's journal tells who changed it."""
    if not finding.title.startswith(_TITLE):
        return None
    event = next(((text, found) for text in texts if (found := _EVENT.search(text.text))), None)
    if event is None:
        return None
    who = next(((text, found, row) for row in _BY for text in texts if (found := row[0].search(text.text))), None)
    restart = next(((text, found) for text in texts if (found := _RESTART.search(text.text))), None)
    host = _host(who[0], who[1]) if who else ""
    on = f" of {named(host, 40)}" if host else ""
    upgrades = who is not None and restart is not None and who[2][1] == _BY[0][1]
    by = f" (by {who[2][1]}{', which started the network anew' if upgrades else ''})" if who else ""
    device = named(event[1]["dev"], 30)
    by += _addresses(texts)
    first = f"{who[2][2]}. {finding.fix[:1].upper()}{finding.fix[1:]}" if who else finding.fix
    shown = [event, *([(who[0], who[1])] if who else []), *([restart] if restart else [])]
    return Sharper(
        f"the addresses of {device}{on} changed while the job ran{by}: what is connected by them is lost",
        f"{first}. Go on from the last checkpoint",
        tuple(text.evidence(found.start()) for text, found in shown),
    )


def _host(text: Text, found: re.Match[str]) -> str:
    """The host of whose journal that line is."""
    begin = text.text.rfind("\n", 0, found.start()) + 1
    own = _OF_JOURNAL.search(text.text[begin : found.end()])
    return own["host"] if own else host_before(text, found.start())


def _addresses(texts: Sequence[Text]) -> str:
    """Which address went, and which came, as the journal tells."""
    lost = next((found["ip"] for text in texts if (found := _LOST.search(text.text))), "")
    given = next((found["ip"] for text in texts if (found := _GIVEN.search(text.text))), "")
    if not lost:
        lease = next((found["dev"] for text in texts if (found := _LEASE.search(text.text))), "")
        return f", {named(lease, 30)} lost its DHCP lease" if lease else ""
    return f", {lost} went" + (f" and {given} came" if given and given != lost else "")
