"""Clues of a host's own name: /etc/hosts gives it an address of its own host, which launchers then give to others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper, Text, named
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding

_ROW = re.compile(
    r"^\s{0,4}127\.0\.[01]\.1[ \t]{1,40}(?P<names>[A-Za-z][\w.-]{0,80}(?:[ \t]{1,20}[\w.-]{1,80}){0,8})",
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
                f"/etc/hosts gives {host} the address of its own host ({row[0].split()[0]}): it tells the others that "
                "rank 0 is at localhost, and each of them looks on itself",
                f"in /etc/hosts of all hosts take the host's name off the 127. line, and give it its real address "
                f"(ADDRESS {host}). Until then: torchrun --local-addr=ADDRESS, or a static start by --master-addr and "
                "--node-rank. With --rdzv-backend=c10d MASTER_ADDR has no effect: the agent of rank 0 tells its own "
                "name. Firewall, ports and NCCL_SOCKET_IFNAME have no part in it",
                (text.evidence(row.start()), said[0].evidence(said[1].start())),
            )
    return None
