"""Why an RDMA network loses packets, where counters beside each other tell it: bits of a link, or a wrong priority."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.clues.network.fabric_links import ERRORS_FOR, Fabric, read_fabric, short
from busbw.doctor.clues.network.switch_ports import NOT_SET, of_switch
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.reading.heads import host_of
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "roce-loss"
_FAILED = frozenset({"ib-retry", "ib-completion-error"})
_IS_SURE = re.compile(r"^RoCE's packets go in priority|BER above its limit|port between two switches$"
                      rf"|^the switch .{{0,60}}{NOT_SET}")  # fmt: skip
_BETWEEN = "port between two switches"
"""Counters since the boot of a host may be old; a rate of errors, or a wrong priority, is of now."""
_MANY = 100
"""Counters count since the boot of a host, and each link that comes up makes a few errors."""
_HIGH_BER = 1e-12
"""Of bits behind the correction (effective, symbol): NVIDIA's limit for links of its NICs lies below it."""


def with_losses(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; that of lost packets names the link, or the priority, where the log tells which.

    By such a loss transfers fail in the end: where one did, the loss is an error as well.
    """
    fails = any(each.name in _FAILED and each.severity is Severity.ERROR for each in findings)

    def ends_transfers(title: str) -> bool:
        # A link of a host ends those of that host alone, which is looked at below.
        return _IS_SURE.search(title) is not None and (_OF_LINK.match(title) is None or title.endswith(_BETWEEN))

    told = [_told(each, facts) if each.name == NAME else each for each in findings]
    sure = [
        replace(each, severity=Severity.ERROR, cost=Cost("retransmissions cost bandwidth, and transfers fail by it"))
        if fails and each is not before and ends_transfers(each.title)
        else each
        for each, before in zip(told, findings, strict=True)
    ]
    return _ended_by_link(sure, facts)


_LOST_BY = frozenset({"ib-retry", "ib-completion-error"})
"""What NCCL says of a packet that got no answer, however often it was sent."""
_OF_LINK = re.compile(r"^the links? of (?P<ports>.{1,200}?) ha(?:s|ve) bit errors \(")
_NO_ANSWER = re.compile(
    r"^(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} .{0,200}(?:status|error)[ =]\(?(?:12\b|IBV_WC_RETRY)"
)
_HCA = re.compile(r" hca (?P<hca>mlx\w{1,12})")


def _ended_by_link(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Packets that got no answer, and a bad link at one end of their way: they follow from the link."""
    link = next((found for each in findings if each.name == NAME and (found := _OF_LINK.match(each.title))), None)
    ends = [each for each in findings if each.name in _LOST_BY and each.severity is Severity.ERROR]
    if link is None or not ends or not _is_end(link["ports"].split(", "), facts):
        return findings
    return [
        replace(each, severity=Severity.ERROR, cost=Cost("the job fails"))
        if each.name == NAME
        else replace(each, severity=Severity.NOTE, title=f"follows from {NAME}: {each.title}")
        if each in ends
        else each
        for each in findings
    ]


def _is_end(ports: Sequence[str], facts: Facts) -> bool:
    """Whether the host and the device of a port are of those that tell of packets without an answer."""
    told = [(line, found) for shown in facts.shown for line in shown.lines if (found := _NO_ANSWER.match(line))]
    hosts = {found["host"].partition(".")[0] for _, found in told}
    devices = {found["hca"] for line, _ in told if (found := _HCA.search(line))}
    return any(
        (host.partition(".")[0] in {*hosts, ""} or not hosts) and (device.partition(" ")[0] in devices or not devices)
        for host, _, device in (port.partition("/") if "/" in port else ("", "", port) for port in ports)
    )


def _told(finding: Finding, facts: Facts) -> Finding:
    if finding.severity is Severity.NOTE:
        return finding
    return _of_bits(finding, facts) or of_switch(finding, facts) or _of_priority(finding, facts) or finding


_PORT_SAID = re.compile(
    r"-[EW]- (?:Port )?(?P<port>[\w./:-]{3,100}?)\s{1,4}(?:- )?.{0,60}?"
    r"(?:\bBER\b[ =].{0,60}?exceeds"
    r"|\"(?P<counter>symbol_error|link_error_recovery)\w{0,30}\" increased.{0,60}?value=(?P<much>\d{1,18}))"
)
_COUNTED = re.compile(
    r"(?P<counter>SymbolErrorCounter|LinkErrorRecoveryCounter|symbol_error|link_error_recovery|rx_symbol_err_phy"
    r"|rx_crc_errors_phy|Symbol Errors|Link Error Recovery Counter)"
    r"(?: ==|\s{0,40}[:=]\.{0,60}|(?= \d))\s{0,12}(?:\d{1,18} ?(?:->|=>) ?)?(?P<much>\d{1,18})\b"
)
_NAMES = re.compile(r"(?:^|[/ ])(?P<device>mlx[45]_\w{1,12}(?: port \d{1,3})?)(?=[: /])")
"""A port's device that stands in the line itself."""
_BER = re.compile(r"(?:Effective|Symbol)(?: Physical)? BER\s{0,40}[:=]\s{0,4}(?P<ber>\d[\d.]{0,8}[eE]-\d{1,3})")
_GUID_PORT = re.compile(r"GUID 0x[0-9a-f]{4,16} port (?P<port>\d{1,3}):")
_OF_DEVICE = re.compile(r"\b(?:mlxlink|perfquery|ibqueryerrors)\b.{0,60}?(?:-d|-C) (?P<device>[\w.]{2,30})")
_SERIAL = re.compile(r"\bSN: ?(?P<serial>[\w-]{5,30})|Vendor Serial Number\s{0,40}: (?P<own>[\w-]{5,30})")


@dataclass
class _Link:
    """What is told of one port: why its bits are bad, how many errors, and where."""

    bad: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    seen: list[Evidence] = field(default_factory=list)


def _of_bits(finding: Finding, facts: Facts) -> Finding | None:
    """The finding as one of a link whose bits are wrong; None where no counter or rate of errors says so."""
    links: dict[str, _Link] = defaultdict(_Link)
    serials: dict[str, str] = {}
    fabric = read_fabric(facts.shown)
    for shown in facts.shown:
        _read_links(shown, links, serials, fabric)
    ill = {port: link for port, link in links.items() if link.bad or max(link.counts.values(), default=0) >= _MANY}
    if not ill:
        return None
    if any(link.bad for link in ill.values()):
        ill = {port: link for port, link in ill.items() if link.bad}
    ports = sorted(ill, key=lambda port: (not ill[port].bad, -max(ill[port].counts.values(), default=0)))[:3]
    # Both ends of a link are one link.
    ports = [each for at, each in enumerate(ports) if fabric.peers.get(each) not in ports[:at]]
    first = ill[ports[0]]
    if len(ports) == 1 and fabric.joins_switches(ports[0]):
        return _between_switches(finding, ports[0], fabric.peers[ports[0]], first)
    # One tool names a device, and another one its port.
    names = [each for each in ports if each and not any(other.startswith(f"{each}/") for other in ports)]
    of = f"the link{'s' * (len(names) > 1)} of {', '.join(names)} ha{'ve' if len(names) > 1 else 's'}"
    said = _said(first)
    serial = next((serials[each] for each in ports if each in serials), "")
    device = next((found[0] for each in names if (found := re.search(r"mlx5_\d{1,2}", each))), "NAME")
    return replace(
        finding,
        title=f"{of if names else 'a link has'} bit errors ({said}): cable, transceiver or port",
        evidence=tuple(each for port in ports for each in ill[port].seen)[:5],
        fix=f"clean and seat, then replace the cable{f' (SN {serial})' if serial else ''} or the transceivers at both "
        "ends, and look at the switch port (mlxlink -d DEVICE -m -e -c, ibdiagnet --get_phy_info). Drain the host, or "
        f"leave the port out by NCCL_IB_HCA=^{device}, until no error is counted under load",
        stage=Stage.HARDWARE,
    )


def _said(link: _Link) -> str:
    """What is counted of the link; tools spell one counter in several ways."""
    counts = {re.sub(r"[\s_]|[Cc]ounter$", "", name).lower(): f"{name} {much}" for name, much in link.counts.items()}
    return ", ".join((*(["BER above its limit"] if link.bad else []), *list(counts.values())[:2]))


def _between_switches(finding: Finding, port: str, far: str, link: _Link) -> Finding:
    """Whoever sends over a bad link of two switches loses packets, whichever pair of hosts that is."""
    return replace(
        finding,
        title=f"the link of {clean(port)} to {clean(far)} has bit errors ({_said(link)}): cable, transceiver or port "
        "between two switches",
        evidence=tuple(link.seen[:5]),
        fix="take that link out of routing (ibportstate LID PORT disable at one end, or isolate the port in UFM), and "
        "jobs run on. Then clean and seat its transceivers, or replace the cable or these, and look at the errors "
        "per lane (mlxlink -c -m). Enable it when no error is counted under load. Hosts, their NICs and NCCL's "
        "timeouts are not at fault",
        stage=Stage.HARDWARE,
    )


def _read_links(shown: Shown, links: dict[str, _Link], serials: dict[str, str], fabric: Fabric) -> None:
    host, device, port = "", "", ""
    for number, line in enumerate(shown.lines, 1):
        if named := host_of(line):
            host, device, port = named, "", ""
        if "Errors for" in line and (found := ERRORS_FOR.search(line)):
            host, device, port = short(found["host"]), "", ""
        if found := _OF_DEVICE.search(line):
            device = found["device"]
            port = fabric.asked(line)
        here = port or "/".join(filter(None, (host, device)))
        if "SN: " in line or "Serial Number" in line:
            _read_serial(line, here, serials)
        seen = Evidence(shortened(clean(line.strip()), 240), shown.source, number)
        if line.startswith(("-E-", "-W-")) and (found := _PORT_SAID.search(line)):
            link = links[found["port"]]
            link.bad = link.bad or found["counter"] is None
            if found["counter"]:
                link.counts[found["counter"]] = int(found["much"])
                link.seen.append(seen)
            else:
                link.seen.insert(0, seen)
            continue
        _read_counters(line, here, links, seen)


def _read_counters(line: str, here: str, links: dict[str, _Link], seen: Evidence) -> None:
    """Counters and rates of errors that a line tells of the port `here`, or of the one that it names itself."""
    if "rror" not in line and "BER" not in line and "_err" not in line:
        return
    found = _GUID_PORT.search(line)
    own = _NAMES.search(line) if found is None and "mlx" in line else None
    port = f"{here} port {found['port']}".strip() if found else here
    if own is not None and own["device"] not in here:
        port = f"{here}/{own['device']}".strip("/")
    counts = {each["counter"]: int(each["much"]) for each in _COUNTED.finditer(line) if int(each["much"]) >= _MANY}
    rate = _BER.search(line)
    bad = rate is not None and float(rate["ber"]) > _HIGH_BER
    if counts or bad:
        link = links[port]
        link.bad = link.bad or bad
        link.counts |= counts
        link.seen.append(seen)


def _read_serial(line: str, here: str, serials: dict[str, str]) -> None:
    if found := _SERIAL.search(line):
        words = line.split()
        port = words[1] if words[0] == "Port:" and len(words) > 1 else here
        serials[port] = found["serial"] or found["own"]


_ENABLED = re.compile(r"\s{1,8}enabled\s{1,8}(?P<bits>(?:[01]\s{1,8}){7}[01])\s*$")
_DCB = re.compile(r"\bprio-pfc (?P<all>(?:[0-7]:(?:on|off) ?){8})")
_TRUST = re.compile(r"[Pp]riority trust state: (?P<trust>dscp|pcp)")
_OF_PRIORITY = re.compile(
    r"\b(?P<name>[rt]x_prio(?P<prio>[0-7])_(?P<what>(?:cong_|buf_)?discards?|bytes|packets|pause)|"
    r"rx_discard_(?:packets|bytes)_(?:cos|pri)(?P<cos>[0-7]))(?:: |[ \t=]{1,40})(?P<much>\d{1,20})"
)
_LOST = re.compile(r"\b(?:out_of_sequence|packet_seq_err|local_ack_timeout_err|roce_adp_retrans)\W{1,40}[1-9]\d{2}")
_TCLASS = re.compile(r"--tclass[= ](?P<tc>\d{1,3})\b|\bNCCL_IB_TC=(?P<set>\d{1,3})\b")


@dataclass
class _Priorities:
    """What counters and settings tell of a NIC's priorities."""

    lossless: set[int] = field(default_factory=set)
    lost: dict[int, tuple[int, Evidence]] = field(default_factory=dict)
    still: dict[int, Evidence] = field(default_factory=dict)
    moved: dict[int, tuple[int, Evidence]] = field(default_factory=dict)
    """By priority the most that a counter of it shows, of packets or bytes."""
    named: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    """Values of NCCL_IB_TC in commands and listings of the environment."""
    trust: str = ""
    rdma: Evidence | None = None


def _of_priority(finding: Finding, facts: Facts) -> Finding | None:
    """The finding as one of traffic in a priority that may drop it, beside one that may not; None where none is."""
    told = _Priorities()
    for shown in facts.shown:
        _read_priorities(shown, told)
    drops = {prio: each for prio, each in told.lost.items() if prio not in told.lossless} or _beside_lossless(told)
    kept = sorted(told.lossless - told.lost.keys())
    if not drops or not kept or not (told.rdma or set(kept) & told.still.keys()):
        return None
    right, wrong = kept[0], max(drops, key=lambda prio: drops[prio][0])
    tc = facts.whole("NCCL_IB_TC")
    if tc is None and told.given and all(each >> 5 != right for each in told.given):
        tc = told.given[-1]
    chosen = tc is not None and tc >> 5 == right
    if right not in told.still and right in told.moved and not told.moved[right][0]:
        told.still[right] = told.moved[right][1]
    if chosen and told.trust != "pcp":
        return None
    good = next((each for each in told.named if each >> 5 == right), 32 * right + 10)
    seen = [drops[wrong][1], *([told.still[right]] if right in told.still else []), *([told.rdma] if told.rdma else [])]
    if chosen:
        why = f"the NIC goes by PCP and not by the DSCP of NCCL_IB_TC={tc}"
        fix = "mlnx_qos -i INTERFACE --trust dscp on all NICs, and the same trust on the switches' ports"
    else:
        why = "NCCL_IB_TC is not set" if tc is None else f"NCCL_IB_TC={tc} leads there"
        fix = (
            f"NCCL_IB_TC={good} (DSCP {good >> 2}) on all ranks, where priority {right} takes that DSCP on NICs and "
            "switches (mlnx_qos -i INTERFACE, dscp2prio). Or set the NICs' default (cma_roce_tos, traffic_class). MPI "
            "and perftest need it too (UCX_IB_TRAFFIC_CLASS, --tclass)"
        )
    return replace(
        finding,
        title=f"RoCE's packets go in priority {wrong}, which drops them, and not in priority {right}, which is "
        f"lossless (PFC): {why}",
        evidence=tuple(seen), fix=fix, stage=Stage.SETTING,
    )  # fmt: skip


def _beside_lossless(told: _Priorities) -> dict[int, tuple[int, Evidence]]:
    """The priority in which all goes, where RDMA loses packets and no lossless priority has carried a single one.

    The switch drops them then, whose counters a NIC does not have.
    """
    unused = all(prio in told.moved and not told.moved[prio][0] for prio in told.lossless)
    if not told.lossless or not unused or told.rdma is None:
        return {}
    return {prio: each for prio, each in told.moved.items() if each[0] >= _BUSY and prio not in told.lossless}


_BUSY = 1_000_000
_QUEUE = re.compile(
    # SONiC's counters of queues, and those of Cumulus by traffic class: sent packets, sent bytes, dropped packets.
    r"^\s{0,12}(?:(?:Ethernet|Eth)[\d/]{1,12}\s{1,20}UC)?(?P<prio>[0-7])\s{1,20}(?P<sent>[\d,]{1,20})\s{1,20}"
    r"[\d,.]{1,20}(?: ?(?:[KMGT]?B|Bytes))?\s{1,30}(?P<lost>[\d,]{1,20})\s{1,30}[\d,.]{1,20}(?: ?[KMGT]?B)?\s{0,8}$"
)
_OF_QUEUES = re.compile(r"\bTxQ\s{1,20}Counter/pkts|\btraffic-class\s{1,20}tx-frames", re.IGNORECASE)


def _read_queue(line: str, told: _Priorities, seen: Evidence) -> bool:
    """Whether the line is a row of a switch's queues; what it tells of that priority."""
    if (found := _QUEUE.match(line)) is None:
        return False
    prio = int(found["prio"])
    sent, lost = (int(found[name].replace(",", "")) for name in ("sent", "lost"))
    if lost >= _MANY and lost > told.lost.get(prio, (0, seen))[0]:
        told.lost[prio] = lost, seen
    told.moved[prio] = max(told.moved.get(prio, (0, seen)), (sent, seen), key=lambda each: each[0])
    return True


def _read_priorities(shown: Shown, told: _Priorities) -> None:
    queues = False
    for number, line in enumerate(shown.lines, 1):
        seen = Evidence(shortened(" ".join(clean(line).split()), 200), shown.source, number)
        queues = bool(_OF_QUEUES.search(line) or (queues and (line[:3] == "---" or _read_queue(line, told, seen))))
        if "enabled" in line and (found := _ENABLED.match(line)):
            told.lossless |= {prio for prio, bit in enumerate(found["bits"].split()) if bit == "1"}
        elif "prio-pfc" in line and (found := _DCB.search(line)):
            told.lossless |= {int(each[0]) for each in found["all"].split() if each.endswith(":on")}
        elif "rust state" in line and (found := _TRUST.search(line)):
            told.trust = found["trust"]
        elif "_prio" in line or "rx_discard_" in line:
            _read_counts(list(_OF_PRIORITY.finditer(line)), told, seen)
        elif _LOST.search(line):
            told.rdma = told.rdma or seen
        classes = list(_TCLASS.finditer(line))
        told.named += [int(each["tc"] or each["set"]) for each in classes]
        told.given += [int(each["set"]) for each in classes if each["set"]]


def _read_counts(found: Sequence[re.Match[str]], told: _Priorities, seen: Evidence) -> None:
    """Counters of one line: two of them are from before and after a run."""
    if not found:
        return
    last = found[-1]
    prio, much = int(last["prio"] or last["cos"]), int(last["much"])
    two = len(found) > 1 and found[0]["name"] == last["name"]
    grown = much - int(found[0]["much"]) if two else much
    what = last["what"] or "discard"
    if what in ("bytes", "packets") and much >= told.moved.get(prio, (0, seen))[0]:
        told.moved[prio] = much, seen
    if "discard" in what and grown >= _MANY:
        if grown > told.lost.get(prio, (0, seen))[0]:
            told.lost[prio] = grown, seen
    elif what in ("bytes", "packets") and two and grown == 0 and much:
        told.still.setdefault(prio, seen)
    elif what == "pause" and much >= _MANY:
        told.lossless.add(prio)
