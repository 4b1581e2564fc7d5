"""Clues of a host's own name: /etc/hosts gives it an address of its own host, which programs then give to others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_ROW = re.compile(
    # Where the log names the host, the row stands behind words that say so.
    r"^(?:\s{0,4}|the name \S{1,80} is resolved to [\d.]{7,15}: )(?P<ip>127\.0\.[01]\.1)[ \t]{1,40}"
    r"(?P<names>[A-Za-z][\w.-]{0,80}(?:[ \t]{1,20}[\w.-]{1,80}){0,8})",
    re.MULTILINE,
)
_OF_NOBODY = re.compile(r"(?:localhost|ip6-|broadcasthost|kubernetes|loopback)[\w.-]{0,40}$")
_TO_ITSELF = re.compile(
    r"\bmaster_addr['\"]?\s?[=:]\s?['\"]?(?:localhost|127\.)|\b(?:localhost(?:\.localdomain)?|127\.0\.[01]\.1)[,:\]<]"
)
"""What a launcher gave out for rank 0's address, or where a rank was sent."""
_SPEAKS = r"(?:@|\bhost\s{{0,8}}: ?|\bhostname[^\n]{{0,40}}\n|node ['\"]?|^|[\s\[(]){name}(?=[\s:~\]'\"_)]|$)"
_LONGEST = 8


def name_of_own_host(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks are sent to localhost, and /etc/hosts shows a host whose own name is that."""
    said = next(((each, found) for each in texts if (found := _TO_ITSELF.search(each.text))), None)
    if said is None or not any(_TO_ITSELF.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        for row in _ROW.finditer(text.text):
            names = [each for each in row["names"].split()[:_LONGEST] if not _OF_NOBODY.match(each)]
            rest = text.text[: row.start()] + text.text[row.end() :]
            # A name counts where it is a host's: in front of a prompt, in a report, as an answer of hostname.
            own = next(
                (each for each in names if re.search(_SPEAKS.format(name=re.escape(each)), rest, re.MULTILINE)), ""
            )
            if not own:
                continue
            host = named(own)
            return Sharper(
                f"/etc/hosts gives {host} the address of its own host ({row['ip']}): it tells the others that "
                "rank 0 is at localhost, and each of them looks on itself",
                f"in /etc/hosts of all hosts take the host's name off the 127. line, and give it its real address "
                f"(ADDRESS {host}). Until then: torchrun --local-addr=ADDRESS, or a static start by --master-addr and "
                "--node-rank. With --rdzv-backend=c10d MASTER_ADDR has no effect: the agent of rank 0 tells its own "
                "name. Firewall, ports and NCCL_SOCKET_IFNAME have no part in it",
                (text.evidence(row.start()), said[0].evidence(said[1].start())),
            )
    return None


_GLOO_DEVICE = re.compile(
    r"\bProcessGroupGloo initialized device: tcp://(?P<ip>127\.\d{1,3}\.\d{1,3}\.\d{1,3})\b"
    r"(?: \((?P<host>[\w.-]{1,80})\))?"
    r"|\bconnect\(\) to \[(?P<ip_>127\.\d{1,3}\.\d{1,3}\.\d{1,3})\]:\d"
)
"""The address that Gloo took for its own, and gave to the others."""
_RESOLVES = re.compile(
    r"^[^\n]{0,120}[$#>] ?(?:hostname -[iI]|getent (?:ahosts?v?4?|hosts) \S{1,80}"
    r"|python3? -c [^\n]{0,60}gethostbyname\([^\n]{0,60}gethostname[^\n]{0,20})[ \t]{0,4}\n"
    r"(?P<ip>127\.\d{1,3}\.\d{1,3}\.\d{1,3})\b",
    re.MULTILINE,
)

_IFNAME = re.compile(r"\bNCCL_SOCKET_IFNAME=(?P<name>=?[A-Za-z][\w.-]{1,20})(?=\s)")


def gloo_of_own_name(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Gloo takes the address to which its host's name resolves, and that is one of the host itself."""
    for text in texts:
        device, resolved = _GLOO_DEVICE.search(text.text), _RESOLVES.search(text.text)
        if device is None and resolved is None:
            continue
        ip = (device["ip"] or device["ip_"] if device else None) or (resolved["ip"] if resolved else "")
        rows = [row for row in _ROW.finditer(text.text) if not _OF_NOBODY.match(row["names"].split()[0])]
        host = (device["host"] if device else "") or (rows[0]["names"].split()[0] if rows else "")
        by_hand = _IFNAME.search(text.text)
        value = facts.value("NCCL_SOCKET_IFNAME") or (by_hand["name"] if by_hand else "")
        which = value.lstrip("=") if value and not value.startswith("^") and "," not in value else "INTERFACE"
        alone = ": NCCL_SOCKET_IFNAME does not act on Gloo" if value else ""
        return Sharper(
            f"Gloo takes {ip} for its address, to which the name of {named(host) or 'its host'} resolves there"
            f"{' (/etc/hosts)' if rows else ''}: the ranks of other hosts look for it on themselves",
            f"set GLOO_SOCKET_IFNAME={named(which)} on every host, with the interface that all share there{alone}. Or "
            "take the host's own name off the 127. line of /etc/hosts, and give it its real address. Firewall, Gloo "
            "and the network are not at fault",
            tuple(text.evidence(each.start()) for each in (device, resolved, *rows[:1]) if each is not None),
        )
    return None
