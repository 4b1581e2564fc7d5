"""Large packets that do not get through between hosts, while small ones do: a path with a smaller MTU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.analysis.units import format_bytes
from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.gin_mtu import too_small
from busbw.doctor.ping_loops import unrolled
from busbw.doctor.signature import Stage

NAME = "mtu-path"
LOST = "packets transmitted"
"""In the line with which ping says how many packets came back."""
_BEGIN = re.compile(r"\bPING (?P<to>\S{1,80}).{0,80}?\b(?P<data>\d{2,5})\((?P<all>\d{2,5})\) bytes of data")
_SIZED = re.compile(r"\bping6? (?=[^|#\n]{0,200}?-[A-Za-z0-9]{0,4}s ?(?P<data>\d{2,5})\b)")
_ASKED = re.compile(r"(?:^|[$#>] |[;&] {0,4})(?:sudo )?ping6? -?\w")
_NEXT = re.compile(r"(?<=[;&|]) {0,4}(?=(?:sudo )?ping6? )")
"""Between the commands of one line: each prints its own numbers, one after the other."""
_COMMAND = re.compile(r"\bping6? (?P<words>[^|#;&>\n]{1,200})")
_VALUED = re.compile(r"-[A-Za-z0-9]{0,4}[cisIMWwtQlpSm]")
"""An option of ping whose value is the next word."""
_HOST = re.compile(r"[A-Za-z0-9](?=[\w.:-]{0,80}[.:A-Za-z])[\w.:-]{1,80}")
_LINES = 12
"""Lines that one ping of a loop prints at most."""
_HEADERS, _PLAIN = 28, 84
"""Bytes of IP and ICMP that a packet has beside its data; a packet of ping's own size."""
_END = re.compile(r"\b(?P<sent>\d{1,6}) packets transmitted, (?P<back>\d{1,6})(?: packets)? received")
_ANSWER = re.compile(r"^\s{0,8}(?P<bytes>\d{2,5}) bytes from (?P<to>[\w.-]{1,80})[ :]")
"""What ping prints of an answer, with the header of ICMP in its bytes: its last lines are often cut off."""
_IP_HEADER = 20
_SAID = re.compile(
    r"(?:[:>=(]|->| {2}|\t)\s{0,8}(?:(?P<lost>100 ?% (?:packet )?loss|no (?:reply|repl(?:y|ies)|answers?|response)"
    r"|times? out|timed out|timeout|fail(?:s|ed|ure)?|lost|does not pass|blocked)|ok|passe[sd]|works?|replies|answers"
    r"|0 ?% (?:packet )?loss)\b",
    re.IGNORECASE,
)
"""What somebody writes of a ping behind its command."""
_PATH = re.compile(r"\bpmtu (?P<path>\d{3,5})\b")
_OWN = re.compile(r"<[A-Z_,-]{0,80}\bUP\b[A-Z_,-]{0,80}> mtu (?P<own>\d{4,5})\b")
_OF_ROCE = re.compile(r"NET/IB ?: Using \[0\].{0,60}/RoCE\b")
_ROCE = ". RoCE goes by the interface: ibv_devinfo shows active_mtu 4096 with 9000, and 1024 with 1500"
USUAL, JUMBO = 1600, 8000
SMALL_BYTES, LARGEST_BYTES = 8192, 1 << 20
QUICK_US, WAIT_US = 5_000.0, 100_000.0
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class _Ping:
    size: int
    came_back: bool
    to: str
    seen: Evidence


def examine(facts: Facts) -> Iterator[Finding]:
    pings = list(_pings(facts))
    told = _told_by_pings(facts, pings) or list(_told_by_path(facts))
    yield from told or _told_by_times(facts)
    yield from too_small(facts, NAME)


def _told_by_pings(facts: Facts, pings: list[_Ping]) -> list[Finding]:
    """A host that answers small packets and no large one. Another that answers large ones, too, is on another path."""
    for lost in (each for each in pings if each.size > USUAL and not each.came_back):
        mine = [each for each in pings if each.to == lost.to or not each.to or not lost.to]
        small = [each for each in mine if each.size <= USUAL]
        other = next((each for each in pings if each.came_back and each.size > USUAL), None)
        reached = any(each.came_back for each in small) or (not small and other is None and facts.several_nodes)
        if not reached or any(each.came_back and each.size > USUAL for each in mine):
            continue
        through = max((each for each in small if each.came_back), key=lambda each: each.size, default=None)
        said = f"those of {through.size} do" if through else "the job's connections do"
        to = f" to {clean(lost.to)}" if lost.to else ""
        beside = f", and large ones to {clean(other.to)} too" if other else ""
        return [
            _finding(
                f"packets of {lost.size} bytes do not get through{to}, {said}{beside}: the path has a smaller MTU",
                tuple(each.seen for each in (lost, through, other) if each is not None),
                _ROCE if any(_OF_ROCE.search(line) for shown in facts.shown for line in shown.lines) else "",
            )
        ]
    return []


def _pings(facts: Facts) -> Iterator[_Ping]:
    for shown in facts.shown:
        asked: list[tuple[int, str]] = []
        for number, line in enumerate(shown.lines, 1):
            if "bytes of data" in line and (found := _BEGIN.search(line)):
                asked = [(int(found["all"]), found["to"]), *asked[1:]]
            elif "ping" in line and (result := _in_one_line(line, shown.source, number)):
                yield result
            elif "ping" in line and (commands := _called(shown.lines, number)):
                asked = commands
            elif "bytes from" in line and (found := _ANSWER.match(line)):
                size = int(found["bytes"]) + _IP_HEADER
                to = asked[0][1] if asked and asked[0][0] == size else found["to"]
                yield _Ping(size, True, to, _seen(size, line, shown.source, number))
            elif asked and LOST in line and (found := _END.search(line)):
                (size, to), *asked = asked
                yield _Ping(size, int(found["back"]) > 0, to, _seen(size, line, shown.source, number))


def _in_one_line(line: str, source: str, number: int) -> _Ping | None:
    """A ping of a given size whose result somebody, or a script, wrote behind it."""
    if (found := _END.search(line)) is not None:
        back = int(found["back"]) > 0
    elif (found := _SAID.search(line)) is not None:
        back = found["lost"] is None
    else:
        return None
    sized = _SIZED.search(line, 0, found.start())
    if sized is None:
        return None
    size = int(sized["data"]) + _HEADERS
    return _Ping(size, back, _asked_of(line[: found.start()].rstrip(" :=>-(")), _seen(size, line, source, number))


def _seen(size: int, line: str, source: str, number: int) -> Evidence:
    return Evidence(f"{size} bytes: {shortened(line.strip(), 160)}", source, number)


def _called(lines: Sequence[str], number: int) -> list[tuple[int, str]]:
    """What the line of that number calls. Of a loop all, where as many results follow: else none tells whose it is."""
    line = lines[number - 1]
    if not (loop := [ping for command in unrolled(line) for ping in _commands(command)]):
        return list(_commands(line))
    results = 0
    for each in lines[number : number + _LINES * len(loop)]:
        if _ASKED.search(each):
            break
        results += LOST in each
    return loop if results == len(loop) else list(_commands(line)) if _SIZED.search(line) else []


def _commands(line: str) -> Iterator[tuple[int, str]]:
    """Size and host of each ping that the line calls."""
    for part in _NEXT.split(line):
        if found := _SIZED.search(part):
            yield int(found["data"]) + _HEADERS, _asked_of(part)
        elif _ASKED.search(part):
            yield _PLAIN, _asked_of(part)


def _asked_of(line: str) -> str:
    """The host that a command of ping names; "" where a loop or a variable names it."""
    found = _COMMAND.search(line)
    words = found["words"].split() if found else []
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and not _VALUED.fullmatch(before)
    ]
    return kept[-1] if kept and _HOST.fullmatch(kept[-1]) else ""


def _told_by_path(facts: Facts) -> Iterator[Finding]:
    """tracepath finds less than the interfaces send."""
    own, path = 0, None
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if " mtu " in line and (found := _OWN.search(line)):
                own = max(own, int(found["own"]))
            elif "pmtu " in line and (found := _PATH.search(line)) and (path is None or int(found["path"]) < path[0]):
                path = int(found["path"]), Evidence(shortened(line.strip(), 160), shown.source, number)
    if path is not None and own >= JUMBO and path[0] <= USUAL:
        yield _finding(f"the path carries packets of {path[0]} bytes, and interfaces send {own}", (path[1],))


def _told_by_times(facts: Facts) -> Iterator[Finding]:
    """From some size on each call waits as long as TCP waits to send a lost packet again."""
    for record in facts.records:
        if len({rank.host for rank in record.run.ranks}) < 2:
            continue
        cases = sorted(
            ((each.bytes, each.time_us) for each in record.cases if each.outcome == "measured" and each.time_us),
            key=lambda each: each[0],
        )
        quick = [each for each in cases if each[0] <= SMALL_BYTES and each[1] < QUICK_US]
        if len(quick) < _FEWEST:
            continue
        late = [each for each in cases if quick[-1][0] < each[0] <= LARGEST_BYTES]
        if late and all(time > WAIT_US for _, time in late):
            yield Finding(
                NAME, Severity.WARNING,
                f"from {format_bytes(late[0][0])} on a call takes {late[0][1] / 1000:.0f} ms, and smaller ones "
                f"{quick[-1][1]:.0f} us: packets of full size seem to be lost (MTU)",
                (Evidence(f"{late[0][1]:.0f} us at {format_bytes(late[0][0])}", f"the record {record.run.run}"),),
                Cost("each message waits until it is sent again"),
                "ping -M do -s 8972 PEER: where it is lost and -s 1472 comes back, raise the MTU on every switch port "
                "between, or set 1500 on all hosts. Else look for a cable or port that loses packets (ethtool -S)",
                Proof(instruction="ip link set DEVICE mtu 1500 on all hosts, and the same run again"),
                stage=Stage.FAILURE,
            )  # fmt: skip


def _finding(title: str, seen: tuple[Evidence, ...], more: str = "") -> Finding:
    return Finding(
        NAME, Severity.ERROR, title, seen,
        Cost("large packets are lost: connections stand, or wait 200 ms and more for each"),
        "raise the MTU on every switch port and VLAN between the hosts (9216 as a rule), or set the smaller one on all "
        "hosts (ip link set DEVICE mtu 1500). Between sites (VPN, interconnect): that path's MTU, by ip route ... mtu "
        f"or a limit of the MSS; sysctl net.ipv4.tcp_mtu_probing=1 lets TCP find it{more}",
        Proof(instruction="ping -M do -s 8972 PEER on both hosts; then the job again"),
        stage=Stage.SYSTEM,
    )  # fmt: skip
