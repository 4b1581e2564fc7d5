"""NCCL sends between hosts over an interface whose link came up at no more than 1 Gb/s, as ethtool shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.shown_texts import Text, texts_of
from busbw.doctor.signature import Stage

NAME = "thin-link"
_USES = re.compile(r"NCCL INFO NET/Socket ?: ?Using \[0\](?P<name>[A-Za-z][\w.-]{0,20}):")
_BETWEEN = re.compile(r"via NET/Socket/|\bnNodes (?:[2-9]|\d{2,5})\b")
_SPEED = (
    r"(?:\bethtool {name}\b[^\n]{{0,120}}\n(?:[^\n]{{0,200}}\n){{0,40}}?\s{{0,12}}Speed: "
    r"|Settings for {name}:\s*\n(?:[^\n]{{0,200}}\n){{0,40}}?\s{{0,12}}Speed: "
    r"|/sys/class/net/{name}/speed(?:\s*\n|: ?))(?P<Mb>\d{{2,6}})(?:Mb/s)?\s*$"
)
_ANY = re.compile(r"^\s{0,12}Speed: (?P<Mb>\d{2,6})Mb/s\s*$", re.MULTILINE)
_THIN_MB = 1000
_FULL = re.compile(
    r"\bCurr:? {0,3}(?:9[0-9]{2}(?:\.\d{1,3})?) MBit/s|\b9[0-9]{2}(?:\.\d{1,3})? ?(?:Mbit/s|MBit/s|Mb/s|Mbps)\b"
    r"|^Average:\s{1,12}\w{2,20}(?:\s{1,12}[\d.]{1,14}){7}\s{1,12}9\d\.\d\d\s*$",
    re.MULTILINE,
)
"""What nload, iftop, and the last column of sar -n DEV show of a link that is full."""
_CARD = re.compile(r"Ethernet controller: [^\n]{0,120}?(?P<Gb>10|25|40|50|100|200|400) ?G(?:b|B|igabit|BASE|bE)?\b")


def examine(facts: Facts) -> Iterator[Finding]:
    texts = texts_of(facts)
    if not any(_BETWEEN.search(text.text) for text in texts):
        return
    for name in dict.fromkeys(found["name"] for text in texts for found in _USES.finditer(text.text)):
        words = re.compile(_SPEED.format(name=re.escape(name)), re.MULTILINE)
        for text in texts:
            found = words.search(text.text)
            if found is not None and int(found["Mb"]) <= _THIN_MB:
                yield _finding(name, int(found["Mb"]), text.evidence(found.start("Mb")), texts)
                return
    yield from _unnamed(texts)


def _unnamed(texts: tuple[Text, ...]) -> Iterator[Finding]:
    """All links that are shown are that slow, whichever they are of, and one of them is full."""
    name = next((found["name"] for text in texts if (found := _USES.search(text.text))), "")
    full = any(_FULL.search(text.text) for text in texts)
    rates = [(int(found["Mb"]), text, found) for text in texts for found in _ANY.finditer(text.text)]
    if name and full and rates and max(rate for rate, _, _ in rates) <= _THIN_MB:
        rate, text, found = rates[0]
        yield _finding(name, rate, text.evidence(found.start("Mb")), texts)


def _finding(name: str, rate_mbps: int, seen: Evidence, texts: tuple[Text, ...]) -> Finding:
    uses = next(text.evidence(at.start()) for text in texts if (at := _USES.search(text.text)))
    full = next((text.evidence(at.start()) for text in texts if (at := _FULL.search(text.text))), None)
    card = next(((text, at) for text in texts if (at := _CARD.search(text.text))), None)
    could = f" ({card[1]['Gb']}G by its name)" if card else ""
    return Finding(
        NAME,
        Severity.WARNING,
        f"NCCL sends between the hosts over {name}, whose link came up at {rate_mbps / 1000:g} Gb/s"
        f"{', and that link is full' if full else ''}: gradients of each step take seconds there",
        (seen, uses, *([full] if full else []), *([card[0].evidence(card[1].start())] if card else [])),
        Cost(f"at most {rate_mbps / 8000:g} GB/s between hosts: {8000 / rate_mbps:.0f} s for each GB of gradients"),
        f"get a faster link: see why the card{could} came up so slowly (cable, switch port, auto-negotiation; ethtool "
        f"{name}), connect the two hosts directly, or take another interface by NCCL_SOCKET_IFNAME. Until then "
        "send less: gradient accumulation, gradients in bf16, a hook that compresses, or train on one host. "
        "libibverbs, loader and GPUs are not at fault",
        Proof(instruction="iperf3 between the hosts over that interface; sar -n DEV 1 while the job trains"),
        stage=Stage.NETWORK,
    )
