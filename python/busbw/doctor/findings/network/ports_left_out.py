"""NCCL_IB_HCA leaves the fast RDMA ports of a host out, and the job runs over a slower one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.findings.network.port_slower import Rates, rates_of
from busbw.doctor.remedy import evidence, without
from busbw.doctor.signature import Stage
from busbw.machine.nccl.conf import Setting

NAME = "ports-left-out"
_HCA = "NCCL_IB_HCA"
_UP = re.compile(r"(?:^|: )(?P<name>\w{2,30}) port \d ==> (?P<net>\S{1,20}) \(Up\)")
_FASTER = 1.5
"""Times the rate of what is used: a port for storage is no faster as a rule."""
_MANY = 3
_CONF = re.compile(r"^\S{0,10}(?:-[rwx-]{9}\S?\s.{0,80}\s|\$ cat |==> )(?P<path>/\S{0,60}nccl\.conf)\b")
_COMMAND = re.compile(r"\b(?:mpirun|mpiexec|srun|prun)\b.{0,2000}\bNCCL_\w{3,40}=")
_BY_ENVIRONMENT = "set by environment"


class _Choice(NamedTuple):
    """The ports that NCCL uses and those it leaves out, with the highest rate of each in Gb/s (0: unknown)."""

    used: list[str]
    left: list[str]
    slow: float
    fast: float


def examine(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get(_HCA)
    if setting is None or not facts.several_nodes:
        return
    rates = rates_of(facts)
    known = {name: rate for ports in rates.values() for name, (rate, _) in ports.items()}
    up = _up(facts)
    for log in facts.logs:
        used = [each.rpartition(":")[0].partition(" ")[2] for each in log.net_devices if each.startswith("IB ")]
        if (half := _half(facts, setting, used, known, up)) is not None:
            yield half
            return
        left = sorted(name for name in {*known, *up} if name not in used and _leaves_out(setting.value, name))
        if not used or len(left) < len(used):
            continue
        slow, fast = (max((known.get(name, 0.0) for name in names), default=0.0) for names in (used, left))
        ethernet = all("/RoCE" in each for each in log.net_devices)
        infiniband = [name for name in left if up.get(name, "").startswith("ib")]
        apart = slow and fast >= _FASTER * slow
        if not apart and not (not (slow and fast) and ethernet and len(infiniband) >= _MANY):
            continue
        left = [name for name in left if known.get(name, 0.0) == fast] if apart else infiniband
        if len(left) >= len(used):
            yield _finding(facts, setting, _Choice(used, left, slow, fast), rates)
            return


def _half(
    facts: Facts, setting: Setting, used: list[str], known: Mapping[str, float], up: Mapping[str, str]
) -> Finding | None:
    """A port of which the machine makes two devices, or a card's second port beside one that is full."""
    halves = [each for each in up if each not in used and any(_is_other_half(each, mine) for mine in used)]
    full = _is_full(facts, sum(known.get(each, 0.0) for each in used))
    second = [
        each for each in up if each not in used and full and any(_is_of_card(up[each], up.get(mine)) for mine in used)
    ]
    left = [each for each in halves or second if _leaves_out(setting.value, each)]
    if not left or not used:
        return None
    what = "the other half of the same port" if halves else "the other port of the same card, while the one is full"
    both = ",".join(dict.fromkeys((*used, *left)))
    return Finding(
        NAME, Severity.WARNING,
        f"{_HCA}={clean(shortened(setting.value, 80))} leaves out {', '.join(left[:4])}, {what}: between hosts no more "
        "than half goes through",
        (evidence(setting), *_lines_of(facts, left[:2])),
        Cost("half of what the ports carry", 2.0, "devices that are left out, over those in use"),
        f"on every host {_HCA}={both}; each of the interfaces needs an address of its own (ip -br addr), in another "
        "subnet. NCCL_IB_MERGE_NICS=1 makes one NIC of them. Cable, MTU, the lanes of each half and GPU Direct RDMA "
        "are not at fault",
        without(setting),
        stage=Stage.SETTING,
    )  # fmt: skip


_HALF = re.compile(r"roce(?:P(?P<domain>\d{1,2}))?(?P<port>p\d{1,3}s\d{1,3}f\d)(?:np\d)?")
"""By the kernel's naming the PCIe domain and place: a DGX Spark has each port in two domains, by four lanes each."""
_CARD = re.compile(r"(?P<card>en\w{2,16}?)f\d(?:np\d|s\d)?")
_FULL = (0.75, 1.05)
"""Share of a port's rate that a large message reaches where the port is what limits it."""


def _is_other_half(one: str, other: str) -> bool:
    a, b = _HALF.fullmatch(one), _HALF.fullmatch(other)
    return a is not None and b is not None and a["port"] == b["port"] and a["domain"] != b["domain"]


def _is_of_card(one: str, other: str | None) -> bool:
    a, b = _CARD.fullmatch(one), _CARD.fullmatch(other or "")
    return a is not None and b is not None and a["card"] == b["card"]


def _is_full(facts: Facts, rate: float) -> bool:
    best = max((each.busbw_GBps or 0.0 for record in facts.records for each in record.cases), default=0.0)
    return bool(rate) and _FULL[0] * rate <= 8 * best <= _FULL[1] * rate


def _lines_of(facts: Facts, names: Sequence[str]) -> Iterator[Evidence]:
    """Where those devices are listed as up."""
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if "==>" in line and (found := _UP.search(line)) and found["name"] in names:
                yield Evidence(clean(shortened(line.strip(), 120)), shown.source, number)


def _finding(facts: Facts, setting: Setting, choice: _Choice, rates: Rates) -> Finding:
    used, left, slow, fast = choice
    of_fast, of_slow = (f" of {rate:.0f} Gb/s" if rate else "" for rate in (fast, slow))
    are = "are" if len(left) > 1 else "is"
    kind = f"{'' if fast and slow else 'InfiniBand '}port{'s' * (len(left) > 1)}"
    where, seen = _source(facts, setting)
    names = ",".join(left[:16])
    seen_rates = _evidence_of(rates, (left[0], used[0]))
    return Finding(
        NAME,
        Severity.WARNING,
        f"{_HCA}={clean(shortened(setting.value, 80))} leaves out {len(left)} {kind}{of_fast} that {are} up "
        f"({', '.join(left[:8])}); all traffic between hosts goes over {', '.join(used[:4])}{of_slow}",
        (evidence(setting), *seen_rates, *seen),
        Cost(
            "between hosts no more than the slow port carries",
            len(left) * fast / (len(used) * slow) if slow and fast else None,
            "rates of the ports that are left out, over those in use",
        ),
        f"on every host {_HCA}={names} (or ^{','.join(used[:4])}), and see `NET/IB : Using [0]{left[0]}:1` in the log. "
        f"{where}",
        without(setting),
        stage=Stage.SETTING,
    )


def _source(facts: Facts, setting: Setting) -> tuple[str, list[Evidence]]:
    """Where the value comes from, as far as the log tells it."""
    lists, commands, said = list[Evidence](), list[str](), False
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if "nccl.conf" in line and (found := _CONF.match(line)) and "cannot access" not in line:
                lists.append(Evidence(clean(found["path"]), shown.source, number))
            elif "NCCL_" in line and _COMMAND.search(line):
                commands.append(line)
            said = said or (_HCA in line and _BY_ENVIRONMENT in line)
    named = said or any(_HCA in line for line in commands)
    if lists and not named:
        return (
            f"The value stands in no command line here, and {lists[0].fact} exists: NCCL reads it on each host",
            lists[:1],
        )
    if commands and not named:
        return "No command line here sets it: look into /etc/nccl.conf and ~/.nccl.conf of each host, and profiles", []
    return "Look where it is set: the command line, profiles, the image, /etc/nccl.conf and ~/.nccl.conf", []


def _evidence_of(rates: Rates, names: tuple[str, ...]) -> list[Evidence]:
    found = list[Evidence]()
    for name in names:
        found += [each[name][1] for each in rates.values() if name in each][:1]
    return found


def _up(facts: Facts) -> dict[str, str]:
    """RDMA devices that ibdev2netdev shows as up, with their interfaces."""
    return {
        found["name"]: found["net"]
        for shown in facts.shown
        for line in shown.lines
        if "==>" in line and (found := _UP.search(line))
    }


def _leaves_out(value: str, name: str) -> bool:
    """Whether the list keeps NCCL from that device: names are prefixes, `=` asks for the whole name, `^` turns it."""
    text = value.strip()
    turned = text.startswith("^")
    text = text.lstrip("^")
    whole = text.startswith("=")
    words = [each.partition(":")[0] for each in text.lstrip("=").split(",") if each]
    listed = any(name == word if whole else name.startswith(word) for word in words)
    return bool(words) and listed is turned
