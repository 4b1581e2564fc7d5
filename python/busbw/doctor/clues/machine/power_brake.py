"""GPUs that the power brake slows down: on which host, to which clock, and what its power supplies tell."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from busbw.base.text import clean
from busbw.doctor.clues.machine.power import SUPPLY, gpus_named, is_of_slowdown, lines_of_hosts
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding

_ROW = re.compile(
    r"(?:^|\s{0,6}(?P<host>[A-Za-z][\w.-]{0,80}): )nvidia-smi says of GPU (?P<gpu>\d{1,3}): (?P<cells>.{3,800})"
)
_MASK = re.compile(r"\bclocks_(?:event|throttle)_reasons\.active: 0x(?P<mask>[0-9a-fA-F]{1,16})\b")
_NAMED = re.compile(r"\bclocks_(?:event|throttle)_reasons\.hw_power_brake_slowdown: (?P<state>Active|Not Active)")
_CLOCK = re.compile(r"\bclocks\.(?:current\.)?(?:sm|gr|graphics): (?P<MHz>\d{2,5})\b")
_HEAT = re.compile(r"\btemperature\.gpu: (?P<heat>\d{1,3})\b")
_OF_GPU = re.compile(r"GPU (?P<gpu>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_BRAKE = re.compile(r"\s{4,12}HW Power Brake(?: Slowdown)?\s{1,20}: Active\b")
_BIT = 0x80
"""Of the reasons that hold a clock down, the one that the host's power supply gives (nvml.h)."""
_COOL = 80
"""Degrees below which no GPU of a data centre slows itself down."""


@dataclass
class _Host:
    """What is told of one host: GPUs under the brake, with their clocks and degrees, and supplies without feed."""

    braked: dict[str, Evidence] = field(default_factory=dict)
    clocks: list[int] = field(default_factory=list)
    heat: list[int] = field(default_factory=list)
    supplies: dict[str, Evidence] = field(default_factory=dict)


def with_brake(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; that of GPUs slowed down names the brake, the host and its power supplies."""
    if not any(is_of_slowdown(each) for each in findings):
        return list(findings)
    hosts = _read(facts)
    ill = {name: host for name, host in hosts.items() if host.braked}
    if not ill:
        return list(findings)
    return [_told(each, ill, hosts) if is_of_slowdown(each) else each for each in findings]


def _told(finding: Finding, ill: dict[str, _Host], hosts: dict[str, _Host]) -> Finding:
    name, host = max(ill.items(), key=lambda each: len(each[1].braked))
    title = f"the power brake of the host slows {gpus_named(list(host.braked))}{f' of {clean(name)}' if name else ''}"
    title += f" down to {max(host.clocks)} MHz" if host.clocks else " down"
    title += f", so on {len(ill)} hosts" if len(ill) > 1 else ""
    # Outputs of one host stand together; where it has no name, they may be of any.
    supplies = host.supplies or hosts[""].supplies
    fix = "give the power supplies their feed again (cords, PDU, breaker), or replace those that failed"
    if supplies:
        title += f": its power supplies lost their feed ({', '.join(list(supplies)[:6])})"
    else:
        fix = f"see which power supplies lost their feed (ipmitool sdr type 'Power Supply', the BMC's log), and {fix}"
    where = f"leave {clean(name)}" if name else "leave the host"
    fix += f". Until then {where} out, as a job goes at the pace of its slowest GPU; the brake goes with its cause"
    if host.heat and max(host.heat) < _COOL:
        fix += f". It is no heat: the GPUs have {max(host.heat)} degrees at most"
    return replace(
        finding, title=title, fix=fix, evidence=(*list(host.braked.values())[:2], *list(supplies.values())[:3])
    )


def _read(facts: Facts) -> dict[str, _Host]:
    hosts: dict[str, _Host] = defaultdict(_Host)
    of, gpu = "", ""
    for source, name, line, seen in lines_of_hosts(facts):
        if source != of:
            of, gpu = source, ""
        if "nvidia-smi says" in line and (row := _ROW.match(line)):
            _keep(hosts[row["host"] or name], row, seen)
        elif found := _OF_GPU.match(line):
            gpu = found["gpu"]
        elif "Power Brake" in line and _BRAKE.match(line):
            hosts[name].braked[gpu or "?"] = seen
        elif ("PS" in line or "Supply" in line) and (found := SUPPLY.search(line)):
            hosts[name].supplies[found["name"]] = seen
    return hosts


def _keep(host: _Host, row: re.Match[str], seen: Evidence) -> None:
    """A GPU of which the reasons are told: the last look counts."""
    mask, named = _MASK.search(row["cells"]), _NAMED.search(row["cells"])
    if mask is None and named is None:
        return
    host.braked.pop(row["gpu"], None)
    if (mask and int(mask["mask"], 16) & _BIT) or (named and named["state"] == "Active"):
        host.braked[row["gpu"]] = seen
        host.clocks += [int(found["MHz"]) for found in [_CLOCK.search(row["cells"])] if found]
        host.heat += [int(found["heat"]) for found in [_HEAT.search(row["cells"])] if found]
