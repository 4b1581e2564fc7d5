"""A port that came up at a lower rate than the same port of other hosts, by listings in a log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.figures import below_expected, slow_host, steps_slower
from busbw.doctor.findings.network import one_rail
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "port-slower"
_DEVICE = re.compile(r"(?:^|: )\s{0,4}(?:CA '|hca_id:\s|Infiniband device ')(?P<name>[\w.-]{2,30})")
_RATE = re.compile(r"^(?:[\w.-]{1,80}: )?\s{0,24}[Rr]ate:\s{1,12}(?P<rate>\d{1,4})(?: Gb/sec.{0,30})?\s*$")
_LINE = re.compile(
    r"(?P<name>\b(?:mlx5|ibp|rocep?|rdmap)\w{1,12})(?:[:/ ]\d)?\b.{0,60}?\b(?P<rate>\d{2,4}) ?Gb(?:/s|/sec|ps|it/s)\b"
)
_ROW = re.compile(r"\s{0,4}'?(?P<name>mlx5_\w{1,12})'?\s[\w: ]{0,20}\b(?:Active|LinkUp)\s{1,8}(?P<rate>\d{2,4})\s*$")
"""Of a listing that somebody cut down to names, states and rates."""
_FLAT = re.compile(
    r"(?:(?P<host>[A-Za-z][\w.-]{1,80}):?\s{1,8})?(?:CA )?'?(?P<name>(?:mlx5|ibp|rocep?|rdmap)\w{0,12})\b"
    r"(?=.{0,120}\b(?:Active|ACTIVE|LinkUp|LINK_UP)\b).{0,120}?\b[Rr]ate: {0,3}(?P<rate>\d{2,4})\b"
)
"""Of a script that puts all that ibstat says of a port into one line, behind the host."""
_NARROW = re.compile(
    r"(?P<lid>\d{1,5})\s{1,8}(?P<port>\d{1,3})\[.{0,4}\]\s{0,4}==\(\s{0,4}(?P<now>\d{1,2}X)\s.{0,60}Active/\s{0,4}LinkUp\s{0,4}\)"
    r"==>\s{1,8}(?:0x[0-9a-f]{4,16}\s{1,8})?(?P<far_lid>\d{1,5})\s{1,8}(?P<far_port>\d{1,3})\[.{0,4}\] "
    r"\"(?P<far>[^\"]{0,80})\" \(\s{0,4}Could be (?P<could>\d{1,2}X)"
)
"""A link of iblinkinfo that came up with fewer lanes than both of its ends have."""
_RULE = re.compile(r"-{6,}\s*$")
_HOST = re.compile(
    r"(?P<host>[A-Za-z][\w.,\[\]-]{1,200})(?: \(\d{1,5}\))?\s*$"
    r"|\W{0,4}(?:==>|===|---|host:?) ?(?P<titled>[A-Za-z][\w.-]{1,80})[ :=<>-]{0,5}$"
    r"|\S{0,40}@(?P<prompt>[\w.-]{1,80}):\S{0,80}[#$] |\[\S{1,40}@(?P<boxed>[\w-]{1,80}) [^\]]{1,60}\][#$] "
)
_PREFIX = re.compile(
    r"(?!hca_id|[Rr]ate|[Ss]tate)(?P<host>[A-Za-z][\w.-]{1,80}):\s{1,24}(?=CA '|hca_id|Infiniband|[Rr]ate:|mlx5)"
)
_FEWEST = 4
_DOWN = re.compile(r"^(?:[\w.-]{1,80}: )?\s{0,24}[Ss]tate:\s{1,12}(?:Down|PORT_DOWN)\b")
_OF_BOARDS = frozenset({4, 8, 16})
"""Ports of hosts in which each GPU has its own, and none is for storage."""

_MOST = 3
_CURE = (
    "drain the host; seat or replace cable and transceiver, and look at the switch port (mlxlink -d DEVICE -m, "
    "ibdiagnet): a link may have trained with fewer lanes. Until then leave it out by NCCL_IB_HCA=^NAME"
)

Rates = dict[str, dict[str, tuple[float, Evidence]]]
"""By host and device, its rate in Gb/s."""


def examine(facts: Facts) -> Iterator[Finding]:
    hosts = rates_of(facts)
    told = list(_beside_other_hosts(hosts)) or list(_beside_own(hosts, facts))
    narrow = list(_narrow(facts))
    if told and narrow:
        # Both say it of the same cable, as a rule: the list of links names its other end.
        lanes = f" (iblinkinfo: {narrow[0][0]['now']}, could be {narrow[0][0]['could']})"
        seen = tuple(seen for _, seen in narrow[:2])
        told = [replace(each, title=f"{each.title}{lanes}", evidence=(*each.evidence, *seen)) for each in told]
    yield from told or [_of_link(*each) for each in narrow[:_MOST]]


def _narrow(facts: Facts) -> Iterator[tuple[re.Match[str], Evidence]]:
    """The links that came up with fewer lanes than they could."""
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if "Could be " in line and (found := _NARROW.search(line)):
                yield found, Evidence(shortened(" ".join(line.split()), 160), shown.source, number)


def _of_link(found: re.Match[str], seen: Evidence) -> Finding:
    now, could = (int(found[name][:-1]) for name in ("now", "could"))
    return Finding(
        NAME, Severity.WARNING,
        f"a link of the InfiniBand fabric runs with {now} of {could} lanes: port {found['far_port']} of "
        f"{clean(found['far']) or 'LID ' + found['far_lid']}, LID {found['lid']} port {found['port']} at the other end",
        (seen,),
        Cost("each collective over it goes at its rate", could / now, "the lanes of the link"),
        _CURE,
        Proof(instruction="iblinkinfo again after ibportstate LID PORT reset: its row holds no `Could be`"),
        stage=Stage.NETWORK,
    )  # fmt: skip


def rates_of(facts: Facts) -> Rates:
    """The rates of all ports that are up, by what logs show."""
    hosts: Rates = defaultdict(dict)
    for shown in facts.shown:
        _read(shown, hosts)
    return hosts


def _read(shown: Shown, hosts: Rates) -> None:
    host, device, ruled = "", "", False
    for number, line in enumerate(shown.lines, 1):
        if ruled or "@" in line or line.startswith(("=", "#", "-", "host", "Host")):
            if found := _HOST.match(line):
                host, device = next(filter(None, found.groups())), ""
            ruled = _RULE.match(line) is not None
            if ruled:
                continue
        prefix = _PREFIX.match(line)
        who = prefix["host"] if prefix else host
        if found := _DEVICE.search(line):
            device = found["name"]
        elif _DOWN.search(line):
            device = ""  # its rate is one that nobody uses
        elif found := _flat_rate(line):
            seen = Evidence(shortened(line.strip(), 160), shown.source, number)
            hosts[found["host"] or who][found["name"]] = float(found["rate"]), seen
        elif found := _RATE.match(line):
            if device:
                hosts[who][device] = float(found["rate"]), Evidence(f"{device}: {line.strip()}", shown.source, number)
        elif found := _named_rate(line):
            hosts[who][found["name"]] = (
                float(found["rate"]),
                Evidence(shortened(line.strip(), 160), shown.source, number),
            )


def _flat_rate(line: str) -> re.Match[str] | None:
    """A port with its state and rate in one line, behind its host."""
    return _FLAT.match(line) if "ate:" in line and ("ctive" in line or "ACTIVE" in line or "inkUp" in line) else None


def _named_rate(line: str) -> re.Match[str] | None:
    """A port with its rate in one line."""
    if "mlx5_" in line and (found := _ROW.match(line)):
        return found
    return _LINE.search(line) if "Gb" in line and "NCCL" not in line else None


def _beside_other_hosts(hosts: Rates) -> Iterator[Finding]:
    """Ports below the same port of each other host, on a host of which most ports are not."""
    if len(hosts) < 2:
        return
    for host, devices in hosts.items():
        slow = [
            (device, rate, usual, seen)
            for device, (rate, seen) in devices.items()
            if (usual := max((each[device][0] for each in hosts.values() if device in each), default=rate)) > rate
        ]
        if slow and 2 * len(slow) <= len(devices):
            for device, rate, usual, seen in slow[:3]:
                yield _finding(f"{device} of {host or 'this host'}", rate, usual, "on other hosts", (seen,))


def _beside_own(hosts: Rates, facts: Facts) -> Iterator[Finding]:
    """One port below all others of its host: in the log of something slow, or amid ports of which each GPU has one."""
    for host, devices in hosts.items():
        rates = sorted(rate for rate, _ in devices.values())
        if len(rates) < _FEWEST or not rates[0] < rates[1] == rates[-1]:
            continue
        device, seen = next((name, seen) for name, (rate, seen) in devices.items() if rate == rates[0])
        # At an end of the list it may be for storage, and the list a part of one.
        amid = len(rates) in _OF_BOARDS and device not in (next(iter(devices)), next(reversed(devices)))
        if (amid and facts.snapshot.machine is None) or _is_slow(facts):
            where = f" of {host}" if host else ""
            yield _finding(f"{device}{where}", rates[0], rates[1], "beside it", (seen,))


def _finding(which: str, rate: float, usual: float, where: str, seen: Sequence[Evidence]) -> Finding:
    return Finding(
        NAME, Severity.WARNING,
        f"the port {which} runs at {rate:g} Gb/s, where such ports {where} run at {usual:g} Gb/s",
        tuple(seen),
        Cost("rings over all ports go at the rate of the slowest", usual / rate if rate else None, "the ports' rates"),
        _CURE,
        Proof(instruction="ib_write_bw over that port and over another one"),
        stage=Stage.NETWORK,
    )  # fmt: skip


def _is_slow(facts: Facts) -> bool:
    slow = chain.from_iterable(each.examine(facts) for each in (below_expected, one_rail, steps_slower, slow_host))
    return any(each.severity is not Severity.NOTE for each in slow)
