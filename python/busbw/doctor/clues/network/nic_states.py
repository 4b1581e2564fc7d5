"""Clues of RDMA ports and NICs: ports none of which is active, and settings of a NIC."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_PORT = re.compile(
    r"\bhca_id:\s{1,8}(?P<devinfo>[\w.-]{2,30})|\bCA '(?P<ibstat>[\w.-]{2,30})'"
    r"|\bstate:\s{1,12}(?P<port>PORT_[A-Z]{2,8})\b|(?<![\w ])[ \t]{1,24}State: (?P<state>[A-Z][a-z]{2,12})\b"
    r"|\b(?P<netdev>[\w.-]{2,30}) port \d{1,2} ==> \S{1,30} \((?P<up>Up|Down)\)"
    r"|\blink (?P<link>[\w.-]{2,30})/\d{1,2} (?:[\w:]{2,20} [\w:]{1,40} ){0,4}state (?P<of_link>[A-Z]{2,8})\b"
)
"""Ports as ibv_devinfo, ibstat, ibdev2netdev and `rdma link` list them."""
_ACTIVE = frozenset({"PORT_ACTIVE", "Active", "Up", "ACTIVE"})
_WAITS = frozenset({"PORT_INIT", "PORT_ARMED", "Initializing", "Armed", "INIT", "ARMED"})
_NO_DEVICE = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} [^\n]{0,60}NET/IB ?: No device found"
)
_MOST = 200
_LINKS_UP = re.compile(
    r"Physical state: LinkUp|phys_state:\s{1,12}LINK_UP|physical_state LINK_UP|sm_lid:\s{1,12}0\b|SM lid: 0\b"
)
_NO_MANAGER = "; its link is up, and no subnet manager sets it up"


def _ports(text: Text) -> Iterator[tuple[str, str, str, int]]:
    """Host, device, state and place of each port that is listed."""
    device = ""
    for found in islice(_PORT.finditer(text.text), _MOST):
        if name := found["devinfo"] or found["ibstat"]:
            device = name
        elif found["netdev"]:
            yield host_before(text, found.start()), found["netdev"], found["up"], found.start()
        elif found["link"]:
            yield host_before(text, found.start()), found["link"], found["of_link"], found.start()
        elif device:
            yield host_before(text, found.start()), device, found["port"] or found["state"], found.start("port")
            device = ""


def none_active(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL finds no RDMA device on a host of which a listing shows ports, and none of them active."""
    for text in texts:
        lacking = dict.fromkeys(found["host"] for found in _NO_DEVICE.finditer(text.text))
        if not lacking:
            continue
        of_host: dict[str, dict[str, tuple[str, int]]] = {}
        for host, device, state, at in _ports(text):
            known = of_host.setdefault(host, {})
            # `ibdev2netdev` says less than the others, which tell why a port is down.
            if device not in known or state not in ("Up", "Down"):
                known[device] = (state, at)
        for host, ports in of_host.items():
            if any(state in _ACTIVE for state, _ in ports.values()) or (host and not _is_one(host, lacking)):
                continue
            whose = host or (next(iter(lacking)) if len(lacking) == 1 else "a host")
            return _told(whose, ports, text, facts, lacking)
    return None


def _is_one(host: str, hosts: Mapping[str, None]) -> bool:
    return any(host.partition(".")[0] == each.partition(".")[0] for each in hosts)


def _told(
    host: str, ports: Mapping[str, tuple[str, int]], text: Text, facts: Facts, lacking: Mapping[str, None]
) -> Sharper:
    states = ", ".join(f"{named(device, 20)} {state}" for device, (state, _) in list(ports.items())[:8])
    others = [
        (name, said.text) for log in facts.logs for name, said in log.networks.items() if name and name not in lacking
    ]
    beside = f", while {named(others[0][0], 40)} uses {named(others[0][1], 20)}" if others else ""
    waits = [device for device, (state, _) in ports.items() if state in _WAITS]
    without = _NO_MANAGER if waits and len(waits) == len(ports) and _LINKS_UP.search(text.text) else ""
    down = [device for device, (state, _) in ports.items() if state not in _WAITS]
    cures = []
    if waits:
        cures.append(f"{', '.join(waits[:4])}: start a subnet manager (opensm, or a switch's), as the link is there")
    if down:
        cures.append(f"{', '.join(down[:4])}: cable, transceiver and switch port (ibstat, mlxlink -d DEVICE)")
    none = next(
        (text.evidence(each.start()) for each in _NO_DEVICE.finditer(text.text) if _is_one(host, {each["host"]: None})),
        None,
    )
    seen: tuple[Evidence, ...] = tuple(text.evidence(at) for _, at in list(ports.values())[:3])
    return Sharper(
        f"no RDMA port of {named(host, 60)} is active ({states}{without}): NCCL finds no device there and goes "
        f"without{beside}",
        f"{'. '.join(cures)}. ibv_devinfo must show PORT_ACTIVE. Until then NCCL_IB_DISABLE=1 on all hosts. Driver, "
        "image and GID index are right",
        (*seen, *((none,) if none else ())),
    )


_FORCED = re.compile(
    r"\bPCI_WR_ORDERING\s{1,60}(?:\w{2,20}\(\d\)\s{1,40}(?=force_relax\(1\)\s{1,40}\w))?force_relax\(1\)"
    r"|\bPCI_WR_ORDERING=(?:1|force_relax)\b"
)
"""As mlxconfig shows it: alone, or the present value between the default and that of the next boot."""
_RELEASE = re.compile(r"\bNCCL version (?P<version>2\.\d{1,2}\.\d{1,2})\b")


def forced_relaxed(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The NIC's firmware relaxes the order of all its writes, and NCCL relies on the order of some."""
    found = next(((text, found) for text in texts if (found := _FORCED.search(text.text))), None)
    if found is None:
        return None
    text, at = found
    release = next((each["version"] for text in texts if (each := _RELEASE.search(text.text))), "")
    return Sharper(
        f"the NIC's firmware forces relaxed ordering on all its PCIe writes (PCI_WR_ORDERING force_relax), which NCCL"
        f"{' ' + release if release else ''} does not bear: it reads what is half written",
        "mlxconfig -d DEVICE set PCI_WR_ORDERING=0 (per_mkey) on the NICs of all hosts, then reboot. NCCL "
        "2.12 and newer asks for relaxed ordering itself where that is safe (NCCL_IB_PCI_RELAXED_ORDERING). The "
        "program's calls, counts and ACS are not at fault",
        (text.evidence(at.start()),),
    )


_KERNEL = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) (?P<host>[A-Za-z][\w.-]{0,60}) kernel: "
    r"(?:mlx5_core|bnxt_en|ice|irdma) (?P<pci>[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d)[^\n]{0,40}?: [^\n]{0,60}"
    r"(?:[Hh]ealth|firmware internal error|handling bad device|error_sw_reset)",
    re.MULTILINE,
)
_OF_NIC = (
    r"(?<![\w.-]){host}:\d{{1,8}}:[^\n]{{4,80}}NET/IB ?: (?P<nccl>\w{{3,20}}):\d{{1,2}} [^\n]{{0,40}}"
    r"(?:catastrophic|fatal) |^[^\n]{{15,32}} {host} kernel: infiniband (?P<said>\w{{3,20}}): "
)


def whose_firmware(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The kernel's journal names the host and the NIC's address, and NCCL or the kernel there its device."""
    found = next(((text, each) for text in texts if (each := _KERNEL.search(text.text))), None)
    if found is None or "firmware of a NIC" not in finding.title:
        return None
    text, kernel = found
    words = re.compile(_OF_NIC.format(host=re.escape(kernel["host"])), re.MULTILINE)
    device = next(((each, match) for each in texts if (match := words.search(each.text))), None)
    name = named(device[1]["nccl"] or device[1]["said"], 20) if device else ""
    nic = f"{name} ({kernel['pci']})" if name else f"the NIC {kernel['pci']}"
    return Sharper(
        finding.title.replace("the firmware of a NIC", f"the firmware of {nic} on {named(kernel['host'], 40)}"),
        f"drain {named(kernel['host'], 40)}. Then: {finding.fix}. Cables and the peers' NICs are not at fault",
        (text.evidence(kernel.start()), *((device[0].evidence(device[1].start()),) if device else ())),
    )
