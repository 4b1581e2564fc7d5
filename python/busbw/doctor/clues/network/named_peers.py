"""A clue of packets without an answer: the peers that NCCL names, told in the title, and the error's number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_PEER = re.compile(
    r"Got completion from peer (?P<peer>[\da-fA-F.:]{3,45}|\[[\da-fA-F:%\w]{3,60}\])<\d{1,5}> with "
    r"(?:error|status=\w{0,40}\(?)[ =]?12\b"
)
_MOST, _SHOWN = 2000, 3


def peers_by_name(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """To whom the packets went that got no answer, where these are few."""
    found = [(text, each) for text in texts for each in islice(_PEER.finditer(text.text), _MOST)]
    peers = list(dict.fromkeys(each["peer"] for _, each in found))
    if not peers or len(peers) > _SHOWN or any(peer in finding.title for peer in peers):
        return None
    text, first = found[0]
    who = f"peer {peers[0]}" if len(peers) == 1 else f"peers {', '.join(peers)}"
    return Sharper(
        f"{finding.title} (error 12, {who})",
        f"look at {peers[0] if len(peers) == 1 else 'these peers'} first: is that host up, and did its rank end before "
        f"(its log, dmesg)? Else {finding.fix}",
        (text.evidence(first.start("peer")),),
    )
