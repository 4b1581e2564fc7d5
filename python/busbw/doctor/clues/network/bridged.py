"""A clue of containers on Docker's default bridge: the addresses that they give lead nowhere from another host."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_IP = r"172\.17\.\d{1,3}\.\d{1,3}"
_OWN = re.compile(
    rf"(?:Bootstrap ?: ?Using |NET/Socket ?: ?Using |OOB )(?:\[0\])?eth0:(?P<ip>{_IP})<"
    rf"|^eth0(?:@\S{{1,20}})?\s{{1,20}}UP\s{{1,20}}(?P<brief>{_IP})/"
    rf"|^\s{{1,12}}inet (?P<long>{_IP})/\d\d [^\n]{{0,60}}\beth0$",
    re.MULTILINE,
)
"""A container's own interface is eth0; a host's own end of the bridge is docker0."""
_ASKED = re.compile(rf"\b{_IP}\b")
_RUN = re.compile(r"\b(?:docker|podman) run (?P<words>(?:[^\n\\]|\\\n){4,1500})|^\s{2,12}ports:\s*$", re.MULTILINE)
_HOST_NET = re.compile(r"--net(?:work)?[ =](?!bridge)\S|\bnetwork_mode: ?[\"']?host\b|hostNetwork: ?true")


def on_default_bridge(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks in containers have eth0 with an address of the bridge alone, and others are to reach them there."""
    own = next(((text, found) for text in texts if (found := _OWN.search(text.text))), None)
    asked = next((found[0] for seen in finding.evidence if (found := _ASKED.search(seen.fact))), "")
    runs = [(text, found) for text in texts for found in _RUN.finditer(text.text)]
    if own is None or not asked or any(_HOST_NET.search(found[0]) for _, found in runs):
        return None
    run = runs[0][0].evidence(runs[0][1].start()) if runs else None
    published = any(re.search(r"(?:^|\s)(?:-p|--publish)[ =]?\d", found[0]) for _, found in runs)
    ports = " To publish a port (-p) is not enough: NCCL listens on others." if published else ""
    return Sharper(
        f"ranks run in containers on Docker's default bridge, and give each other addresses of it ({asked}), which no "
        "other host can reach",
        f"start the containers on all hosts with --network=host (and --ipc=host).{ports} Then NCCL sees the host's own "
        "interfaces: NCCL_SOCKET_IFNAME names the one between the hosts, where it takes another one. Else an overlay "
        "or macvlan network. On the bridge no NCCL_SOCKET_IFNAME helps, as the container has eth0 alone",
        tuple(each for each in (own[0].evidence(own[1].start()), run) if each is not None),
    )
