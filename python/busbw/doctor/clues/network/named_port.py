"""Clues of a port that is down: its name and host, where ibstat or ibv_devinfo shows one alone of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_CARD = re.compile(
    r"^[ \t]{0,8}(?:CA '(?P<ibstat>[\w.-]{2,30})'|hca_id:\s{1,8}(?P<devinfo>[\w.-]{2,30}))", re.MULTILINE
)
_STATE = re.compile(r"^[ \t]{1,16}(?:State: |state:\s{1,16}PORT_)(?P<state>[A-Za-z]{2,16})", re.MULTILINE)
_NOTHING = "the port finds nothing"
_MOST = 512


def one_port_down(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One device of a listing is down while others of it are active."""
    if not finding.title.startswith(_NOTHING):
        return None
    down, active = list[tuple[Text, int, str]](), 0
    for text in texts:
        cards = list(islice(_CARD.finditer(text.text), _MOST))
        ends = [each.start() for each in cards[1:]] + [len(text.text)]
        for card, end in zip(cards, ends, strict=False):
            state = _STATE.search(text.text, card.end(), min(end, card.end() + 1500))
            if state is None:
                continue
            if state["state"].lower() == "active":
                active += 1
            elif state["state"].lower() == "down":
                down.append((text, card.start(), card["ibstat"] or card["devinfo"]))
    if len(down) != 1 or not active:
        return None
    text, at, device = down[0]
    host = host_before(text, at)
    where = f"{named(device, 30)}{f' of {named(host, 40)}' if host else ''}"
    return Sharper(
        f"{where}: {finding.title}",
        f"{finding.fix}. It is {where}; its other ports are Active ({active})",
        (text.evidence(at),),
    )
