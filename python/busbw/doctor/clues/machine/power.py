"""GPUs whose limit of power lies below their default: on which host, how far, and what its power supplies tell."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.reading.heads import host_of

NAME = "gpu-slowdown"
_ROW = re.compile(
    # The columns stand in the order in which somebody asked for them.
    r"(?:^|: )nvidia-smi says of GPU (?P<gpu>\d{1,3}): (?=.{0,400}?\bpower\.limit: (?P<limit>\d{2,4})\b)"
    r".{0,400}?\bpower\.default_limit: (?P<usual>\d{2,4})\b"
)
_AMONG = re.compile(
    r"(?:^|: )nvidia-smi says of GPU (?P<gpu>\d{1,3}): .{0,800}?\bGPU power is limited to (?P<limit>\d{2,4}) W, "
    r"others to (?P<usual>\d{2,4}) W"
)
_CLOCK = re.compile(r"\bGPU clocks are limited to (?P<MHz>\d{2,5}) MHz, others run at (?P<usual>\d{2,5}) MHz")
_OF_GPU = re.compile(r"GPU (?P<gpu>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_LIMIT = re.compile(r"\s{4,12}(?P<kind>Current|Default) Power Limit\s{1,20}: (?P<watts>\d{2,4})(?:\.\d\d)? W")
_PREFIX = re.compile(r"\s{0,6}(?P<host>[A-Za-z][\w.-]{0,80}): (?=nvidia-smi says|\s{0,16}\w{0,8} ?Power Limit|\|)")
_TOLD = re.compile(r"\(GPU ?(?P<gpu>\d{0,3}) power is limited to (?P<limit>\d{2,4}) W of (?P<usual>\d{2,4}) W\)$")
"""What is read from blocks and tables (`reading/power_limits.py`)."""
SUPPLY = re.compile(
    r"(?P<name>\bPS(?:U|_)?[ _]?\d{1,2}\w{0,12}|Power Supply(?: \d{1,2})?)\b.{0,100}?"
    r"(?:AC lost|input lost|[Ff]ailure detected|[Rr]edundancy [Ll]ost|out of range)"
)


@dataclass
class _Host:
    """What is told of one host: GPUs below their default with the limits in watts, and power supplies without feed."""

    lowered: dict[str, tuple[int, int, Evidence]] = field(default_factory=dict)
    clocks: list[tuple[int, int]] = field(default_factory=list)
    by_others: bool = False
    """Whether the usual limit is that of other GPUs, and not the default."""
    supplies: dict[str, Evidence] = field(default_factory=dict)


def with_power(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; that of a lowered limit of power names host, watts and power supplies."""
    if not any(is_of_slowdown(each) for each in findings):
        return list(findings)
    hosts = _read(facts)
    ill = {name: host for name, host in hosts.items() if host.lowered}
    if len(ill) > 1:
        ill.pop("", None)  # one of those that have a name, most likely
    if not ill:
        return list(findings)
    return [_told(each, ill, hosts) if is_of_slowdown(each) and _is_of_power(each) else each for each in findings]


def is_of_slowdown(finding: Finding) -> bool:
    """Whether it is the finding, above a note, of GPUs that something slows down."""
    return finding.name == NAME and finding.severity is not Severity.NOTE


def lines_of_hosts(facts: Facts) -> Iterator[tuple[str, str, str, Evidence]]:
    """Lines of all outputs: the output, the host that it last named ("" where none), the line, and it as evidence."""
    for shown in facts.shown:
        name = ""
        for number, line in enumerate(shown.lines, 1):
            name = host_of(line) or name
            yield shown.source, name, line, Evidence(shortened(clean(line.strip()), 320), shown.source, number)


def gpus_named(gpus: Sequence[str]) -> str:
    """The first and the last of these GPUs, and how many they are."""
    return f"GPU {gpus[0]}" + (f" to GPU {gpus[-1]} ({len(gpus)})" if len(gpus) > 1 else "")


def _is_of_power(finding: Finding) -> bool:
    return any("ower" in seen.fact for seen in finding.evidence)


def _told(finding: Finding, ill: dict[str, _Host], hosts: dict[str, _Host]) -> Finding:
    name, host = max(ill.items(), key=lambda each: len(each[1].lowered))
    limit, usual, _ = next(iter(host.lowered.values()))
    where = f" of {name}" if name else ""
    who = gpus_named(list(host.lowered)) if all(host.lowered) else "a GPU"
    title = f"a lowered limit of power holds clocks down: {who}{where} "
    title += f"may draw {limit} W, others {usual} W" if host.by_others else f"may draw {limit} W of {usual} W"
    if host.clocks:
        title += f", and run at {min(host.clocks)[0]} MHz instead of {host.clocks[0][1]}"
    if len(ill) > 1:
        title += f" (so on {len(ill)} hosts)"
    # Outputs of one host stand together; where it has no name, they may be of any.
    supplies = host.supplies or (hosts[""].supplies if "" in hosts else {})
    back = f"nvidia-smi -i GPU -pl {usual}{f' on {name}' if name else ''}"
    out = f"leave {name} out of the job until then" if name else "leave the host out of the job until then"
    if supplies:
        title += f"; power supplies lost their feed there ({', '.join(list(supplies)[:4])})"
        fix = (
            "give the power supplies their feed again (cords, PDU, breaker; ipmitool sdr type 'Power Supply'). Then "
            f"see that the limit is {usual} W again ({back}): a BMC or a service lowers it for lost supplies; {out}"
        )
    else:
        fix = (
            f"{back}, and look for what lowered it: lost power supplies (ipmitool sdr type 'Power Supply'), the BMC's "
            f"power cap, a service of the site, DCGM's policy; {out}"
        )
    seen = [each for _, _, each in list(host.lowered.values())[:2]] + list(supplies.values())[:2]
    return replace(finding, title=title, fix=fix, evidence=(*seen, *finding.evidence[3:]))


def _read(facts: Facts) -> dict[str, _Host]:
    hosts: dict[str, _Host] = defaultdict(_Host)
    of, gpu, limit = "", "", 0
    for source, name, line, seen in lines_of_hosts(facts):
        if source != of:
            of, gpu, limit = source, "", 0
        told = "power.default_limit" in line or "others to" in line
        if told and (found := _ROW.search(line) or _AMONG.search(line)):
            prefix = _PREFIX.match(line)
            host = hosts[prefix["host"] if prefix else name]
            host.by_others = host.by_others or found.re is _AMONG
            host.clocks += [(int(clock[1]), int(clock[2])) for clock in [_CLOCK.search(line)] if clock]
            _keep(host, found["gpu"], int(found["limit"]), int(found["usual"]), seen)
        elif line.endswith(" W)") and (found := _TOLD.search(line)):
            prefix = _PREFIX.match(line)
            host = hosts[prefix["host"] if prefix else name]
            _keep(host, found["gpu"] or gpu, int(found["limit"]), int(found["usual"]), seen)
        elif found := _OF_GPU.match(line):
            gpu, limit = found["gpu"], 0
        elif "Power Limit" in line and (found := _LIMIT.match(line)):
            if found["kind"] == "Current":
                limit = int(found["watts"])
            elif limit:
                _keep(hosts[name], gpu, limit, int(found["watts"]), seen)
        elif ("PS" in line or "Supply" in line) and (found := SUPPLY.search(line)):
            hosts[name].supplies[found["name"]] = seen
    return hosts


def _keep(host: _Host, gpu: str, limit: int, usual: int, seen: Evidence) -> None:
    """A GPU of which a limit is told: the last look counts."""
    host.lowered.pop(gpu, None)
    if limit < usual:
        host.lowered[gpu] = limit, usual, seen
