"""Clues of PCIe links with fewer lanes than the device has: which device, by which number, and what that costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_BUS = r"(?:[0-9a-fA-F]{4,8}:)?(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
_KERNEL = re.compile(
    r"(?P<dev>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]: [\d.]{1,9} Gb/s available PCIe bandwidth, limited by "
    r"[\d.]{1,5} GT/s PCIe x(?P<now>\d{1,2}) link at (?:[0-9a-f]{4}:)?(?P<port>[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"\(capable of [^)\n]{0,60} x(?P<most>\d{1,2}) link\)"
)
_LSPCI = re.compile(
    rf"^(?:{_BUS}\.[0-7] (?P<kind>[A-Z][^\n:]{{2,60}}): (?P<maker>[^\n]{{0,100}})"
    r"|[^\n]{0,100}\blspci\b[^\n|;]{0,80}?\s-s ?(?:[0-9a-f]{4}:)?(?P<asked>[0-9a-f]{2}:[0-9a-f]{2})\b[^\n]{0,80}"
    r"|\s{0,40}LnkCap:[^\n]{0,80}?Width x(?P<cap>\d{1,2})\b[^\n]{0,80}"
    r"|\s{0,40}LnkSta:[^\n]{0,80}?Width x(?P<now>\d{1,2})\b(?P<less> \(downgraded\))?[^\n]{0,40})$",
    re.MULTILINE,
)
_NUMBERED = re.compile(
    r"\bdevice\s{1,4}(?P<tests>\d{1,2}) \[(?:0x)?(?P<byte>[0-9a-f]{2})\]"  # nccl-tests
    r"|^Device (?P<copies>\d{1,2}): [^\n(]{3,60}\((?:[0-9A-Fa-f]{4,8}:)?(?P<byte_>[0-9A-Fa-f]{2}):"
    r"|^\|\s{1,4}(?P<smi>\d{1,2})  [A-Z][^|\n]{3,60}\|\s{1,4}[0-9A-F]{8}:(?P<byte__>[0-9A-F]{2}):"
    r"|^(?:nvidia-smi says of GPU )?(?P<csv>\d{1,2})[,:] [^\n]{0,100}?\b[0-9A-F]{8}:(?P<byte___>[0-9A-F]{2}):00\.0\b",
    re.MULTILINE,
)
_COPIES = re.compile(
    r"^memcpy \w{2} CPU\(row\) (?:->|<-) GPU\(column\) bandwidth \(GB/s\)\n(?P<head>(?:\s{1,12}\d{1,2}){2,16})\s{0,8}\n"
    r"\s{0,4}0(?P<row>(?:\s{1,12}\d[\d.]{0,10}){2,16})\s{0,8}$",
    re.MULTILINE,
)
"""The table of nvbandwidth."""
_GPU = re.compile(r"3D|VGA|Display|Processing accel")
_SLOW = 0.7
"""Of what others copy: less is more than what they differ by."""
_MOST = 4000


@dataclass(frozen=True, slots=True)
class _Narrow:
    bus: str
    kind: str
    now: int
    most: int
    port: str
    at: Evidence


def narrow_slot(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The devices whose links have too few lanes, as the kernel or lspci names them, and their numbers."""
    found: dict[str, _Narrow] = {}
    for text in texts:
        for each in _narrow(text):
            before = found.get(each.bus)
            # lspci tells what it is, and the kernel's line which port stands before it.
            kind, port = (before.kind or each.kind, before.port or each.port) if before else (each.kind, each.port)
            found[each.bus] = _Narrow(each.bus, kind, each.now, each.most, port, (before or each).at)
    said = " ".join(f"{seen.where} {seen.fact}" for seen in finding.evidence).lower()
    if finding.name == "pcie-link":
        found = {bus: each for bus, each in found.items() if bus in said}
    if not found or len({each.at.where for each in found.values()}) > 1:
        return None
    numbers = _numbers(texts)
    names = [_name(each, numbers) for each in list(found.values())[:4]]
    first = next(iter(found.values()))
    lanes = f"{first.now} of {first.most} lanes" if first.most else f"{first.now} lanes"
    slow = _copied(texts, numbers.get(first.bus[:2])) if len(found) == 1 else None
    cost = f": copies to it reach {slow[0]} GB/s, those to the others {slow[1]} GB/s" if slow else ""
    links = "links of" if len(names) > 1 else "link of"
    port = f" (the port before it is {first.port})" if first.port and len(found) == 1 else ""
    number = numbers.get(first.bus[:2])
    without = f" or leave GPU {number} out (CUDA_VISIBLE_DEVICES)" if number is not None else ""
    return Sharper(
        f"the PCIe {links} {', '.join(names)} {'have' if len(names) > 1 else 'has'} {lanes}{cost}",
        f"power the host off, seat that card and its riser or cable anew, clean the contacts{port}. Look at how the "
        "BIOS splits the slot (bifurcation), and whether the slot has that many lanes. Replace the riser where LnkSta "
        f"stays below LnkCap (lspci -vv). Until then exclude the host{without}",
        tuple(dict.fromkeys((first.at, *([slow[2]] if slow else [])))),
    )


def _name(device: _Narrow, numbers: dict[str, int]) -> str:
    number = numbers.get(device.bus[:2])
    if number is not None and (not device.kind or _GPU.search(device.kind)):
        return f"GPU {number} ({device.bus}.0)"
    kind = "the GPU" if _GPU.search(device.kind) else "the NIC" if "controller" in device.kind else "the device"
    return f"{kind} at {device.bus}.0"


def _narrow(text: Text) -> Iterator[_Narrow]:
    for line in islice(_KERNEL.finditer(text.text), _MOST):
        if int(line["now"]) < int(line["most"]):
            at = text.evidence(line.start())
            yield _Narrow(line["dev"][5:], "", int(line["now"]), int(line["most"]), line["port"], at)
    bus, kind, cap = "", "", 0
    for line in islice(_LSPCI.finditer(text.text), _MOST):
        if line["bus"] or line["asked"]:
            named = bool(line["bus"])
            # A command names the device, and the line below it what that is.
            bus, kind, cap = (line["bus"] or line["asked"]).lower(), line["kind"] if named else "", 0
        elif line["cap"]:
            cap = int(line["cap"])
        elif bus and "bridge" not in kind and (int(line["now"]) < cap or line["less"]):
            yield _Narrow(bus, kind, int(line["now"]), cap, "", text.evidence(line.start()))


def _numbers(texts: Sequence[Text]) -> dict[str, int]:
    """By the bus of a GPU its number, as all listings tell it; none where hosts differ."""
    found: dict[str, set[int]] = {}
    for text in texts:
        for each in islice(_NUMBERED.finditer(text.text), _MOST):
            bus = each["byte"] or each["byte_"] or each["byte__"] or each["byte___"]
            number = each["tests"] or each["copies"] or each["smi"] or each["csv"]
            found.setdefault(bus.lower(), set()).add(int(number))
    return {bus: next(iter(each)) for bus, each in found.items() if len(each) == 1}


def _copied(texts: Sequence[Text], number: int | None) -> tuple[str, str, Evidence] | None:
    """What a test of copies shows of that GPU and of the others, where it is far slower."""
    for text in texts:
        for table in _COPIES.finditer(text.text):
            rates = dict(zip(table["head"].split(), table["row"].split(), strict=False))
            own = rates.pop(str(number), None)
            others = median(float(each) for each in rates.values()) if rates else 0.0
            if own is not None and float(own) < _SLOW * others:
                return own, f"{others:.1f}", text.evidence(table.start("row"))
    return None
