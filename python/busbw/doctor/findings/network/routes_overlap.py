"""Two interfaces of a host in one subnet, of which the kernel takes the other one than NCCL for what it sends."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.clues.prompts import host_before
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.shown_texts import Text, texts_of
from busbw.doctor.signature import Stage

NAME = "routes-overlap"
_ROUTE = re.compile(
    r"^(?:[\w.-]{1,60}: )?\s{0,4}(?P<net>\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}) dev (?P<dev>[\w.-]{1,20})\b[^\n]{0,80}?"
    r"\bsrc (?P<src>\d{1,3}(?:\.\d{1,3}){3})(?: metric (?P<metric>\d{1,7}))?",
    re.MULTILINE,
)
_OF_NCCL = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,8}:\d{1,8} \[\d{1,3}\] [^\n]{0,40}?NET/Socket : Using "
    r"\[0\](?P<dev>[\w.-]{1,20}):(?P<ip>\d{1,3}(?:\.\d{1,3}){3})<"
)
_ESTABLISHED = re.compile(
    r"^\s{0,4}(?:tcp\s[^\n]{0,40}|ESTAB\s[^\n]{0,40}?)\s(?P<ip>\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}\s", re.MULTILINE
)
_SPEED = re.compile(r"\bethtool (?P<dev>[\w.-]{1,20})\b")
_RATE = re.compile(r"^\s{0,12}Speed: (?P<rate>\d{2,6})Mb/s", re.MULTILINE)
_MOST, _APART = 400, 600
"""Letters between two routes of one listing at most."""


@dataclass(frozen=True, slots=True)
class _Route:
    dev: str
    src: str
    metric: int
    seen: Evidence


def examine(facts: Facts) -> Iterator[Finding]:
    texts = texts_of(facts)
    used = {found["ip"]: (found["dev"], found["host"]) for text in texts for found in _OF_NCCL.finditer(text.text)}
    if not used:
        return
    speeds = _speeds(texts)
    told = set[str]()
    for text in texts:
        for host, net, routes in _subnets(text):
            mine = next((each for each in routes if each.src in used and used[each.src][0] == each.dev), None)
            # The lowest metric wins, and of equal ones the first.
            first = min(routes, key=lambda each: each.metric)
            if mine is None or first.dev == mine.dev or mine.src in told:
                continue
            told.add(mine.src)
            yield _finding((host or used[mine.src][1], net), first, mine, speeds, _sockets(texts, first.src))


def _subnets(text: Text) -> Iterator[tuple[str, str, list[_Route]]]:
    """Host and subnet with the routes over several interfaces, by each listing."""
    groups: dict[tuple[int, str], list[_Route]] = defaultdict(list)
    listing, end = 0, -1
    hosts: dict[int, str] = {}
    for count, found in enumerate(_ROUTE.finditer(text.text)):
        if count >= _MOST:
            break
        between = text.text[end : found.start()] if end >= 0 else ""
        if end < 0 or len(between) > _APART or re.search(r"[$#] ?\S", between):
            listing += 1
            hosts[listing] = host_before(text, found.start())
        end = found.end()
        groups[listing, found["net"]].append(
            _Route(found["dev"], found["src"], int(found["metric"] or 0), text.evidence(found.start()))
        )
    for (number, net), routes in groups.items():
        if len({each.dev for each in routes}) > 1 and len({each.src for each in routes}) > 1:
            yield hosts[number], net, routes


def _speeds(texts: tuple[Text, ...]) -> dict[str, int]:
    """Mb/s by interface, as ethtool was asked for them in one command or several."""
    speeds: dict[str, int] = {}
    for text in texts:
        for line in re.finditer(r"^[^\n]{0,400}\bethtool [^\n]{1,400}$", text.text, re.MULTILINE):
            asked = [each["dev"] for each in _SPEED.finditer(line[0])]
            rates = _RATE.finditer(text.text, line.end(), line.end() + 2000)
            speeds |= {dev: int(rate["rate"]) for dev, rate in zip(asked, rates, strict=False)}
    return speeds


def _sockets(texts: tuple[Text, ...], src: str) -> Evidence | None:
    """A connection that leaves from the address of the other interface."""
    return next(
        (text.evidence(found.start("ip")) for text in texts for found in _ESTABLISHED.finditer(text.text)
         if found["ip"] == src), None,
    )  # fmt: skip


def _finding(
    where: tuple[str, str], first: _Route, mine: _Route, speeds: dict[str, int], left: Evidence | None
) -> Finding:
    slow, fast = speeds.get(first.dev, 0), speeds.get(mine.dev, 0)
    rates = f" ({slow} Mb/s, and {mine.dev} {fast})" if slow and fast else ""
    factor = fast / slow if slow and fast > slow else None
    seen = (first.seen, mine.seen, *((left,) if left else ()))
    return Finding(
        NAME, Severity.NOTE if slow and fast and slow >= fast else Severity.WARNING,
        f"on {clean(shortened(where[0], 60)) or 'a host'} {first.dev} and {mine.dev} are both in {where[1]}, and the "
        f"kernel sends over {first.dev}{rates}, not over {mine.dev} that NCCL names",
        seen,
        Cost(f"all that this host sends goes at the rate of {first.dev}", factor, "the interfaces' speeds"),
        f"put {first.dev} and {mine.dev} into different subnets (a longer netmask), or give the route of {first.dev} a "
        f"larger metric on all hosts (nmcli connection modify {first.dev} ipv4.route-metric 1000; ip route change). "
        "NCCL_SOCKET_IFNAME decides only on which address a rank listens. Cable and link of "
        f"{mine.dev} are not at fault",
        Proof(instruction=f"ip route get ADDRESS of another host: it must say dev {mine.dev}; ss -tn during a run"),
        stage=Stage.SYSTEM,
    )  # fmt: skip
