"""A job whose packets use a service level or class that goes badly, beside one of the same fabric that goes well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "service-level"
_MASK = re.compile(r"\bar_sl_mask\W{1,4}0x(?P<mask>[0-9a-fA-F]{1,8})\b")
"""OpenSM's option: the service levels that may use adaptive routing."""
_ALL = 0xFFFF
_OPTION = re.compile(
    r"(?:--sl[= ]|-S[= ]|\bNCCL_IB_SL=)(?P<sl>\d{1,2})\b|(?:--tclass[= ]|\bNCCL_IB_TC=)(?P<tc>\d{1,3})\b"
)
_RUN = re.compile(r"\bib_(?:write|read|send)_bw\b|\b\w{2,20}_perf(?:_mpi)?\b|\bperftest\b")
_RATE = re.compile(
    r"(?P<low>\d{1,4}(?:\.\d{1,3})?)(?: ?(?:-|to|\u2013) ?(?P<high>\d{1,4}(?:\.\d{1,3})?))? ?G(?:b|bit|B)(?:/s|ps|/sec)"
)
_AFTER = re.compile(
    r"[:=>]{1,2} {0,4}(?P<low>\d{1,4}(?:\.\d{1,3})?)(?: ?(?:-|to|\u2013) ?(?P<high>\d{1,4}(?:\.\d{1,3})?))?(?![\w:])"
)
_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak")
_ROW = re.compile(r"\s{0,8}\d{1,10}\s+\d{1,9}\s+[\d.]{1,12}\s+(?P<average>\d{1,7}(?:\.\d{1,4})?)\s+[\d.]{1,12}\s*$")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s{1,6}: (?P<average>\d{1,5}(?:\.\d{1,6})?)")
_WAIT = re.compile(r"\b(?:PortXmitWait|port_xmit_wait)\W{1,6}(?P<count>\d{9,20})\b")
_TIMES = 1.5
_NAMES = {"sl": ("NCCL_IB_SL", "service level (SL)"), "tc": ("NCCL_IB_TC", "traffic class (TC)")}


@dataclass(frozen=True, slots=True)
class _Measured:
    """The lowest and the highest rate that was measured with one value of an option."""

    low: float
    high: float
    seen: Evidence


Measured = dict[tuple[str, int], _Measured]


def examine(facts: Facts) -> Iterator[Finding]:
    measured: Measured = {}
    mask = None
    for shown in facts.shown:
        _read(shown, measured)
        mask = mask or _mask_of(shown)
    if not facts.has_rdma and not any(log.net_devices and log.net_devices[0].startswith("IB ") for log in facts.logs):
        return
    used = facts.whole("NCCL_IB_SL") or 0
    if mask is not None and 0 < mask[0] < _ALL and not mask[0] >> used & 1:
        yield _of_mask(facts, mask, used, measured)
        return
    for option in _NAMES:
        chosen = facts.whole(_NAMES[option][0]) or 0
        if (better := _better(option, chosen, measured)) is not None:
            yield _of_measure(option, chosen, better, measured)


def _better(option: str, used: int, measured: Measured) -> int | None:
    """The value of the option with which the same test goes far better; None where that in use goes as well."""
    mine = measured.get((option, used))
    others = [(each.low, value) for (name, value), each in measured.items() if name == option and value != used]
    if mine is None or not others:
        return None
    low, best = max(others)
    return best if low >= _TIMES * mine.low else None


def _of_mask(facts: Facts, mask: tuple[int, Evidence], used: int, measured: Measured) -> Finding:
    better = _better("sl", used, measured)
    levels = [level for level in range(16) if mask[0] >> level & 1]
    named = better if better in levels else levels[0]
    how = "" if facts.value("NCCL_IB_SL") else "NCCL_IB_SL is not set, so "
    tests = [] if better is None else [measured["sl", better].seen, measured["sl", used].seen]
    return Finding(
        NAME,
        Severity.WARNING if facts.several_nodes or better is not None else Severity.NOTE,
        f"the subnet manager routes adaptively on SL {', '.join(map(str, levels))} alone (ar_sl_mask), and NCCL's "
        f"packets go on SL {used}: {how}their routes are fixed, and several of them meet on one uplink",
        (mask[1], *dict.fromkeys(tests), *_waits(facts)),
        Cost("over switches of a second tier some pairs share a link, other ones each time"),
        f"NCCL_IB_SL={named} on all ranks (NCCL_IB_ADAPTIVE_ROUTING=1 may stay). Or give SL {used} adaptive routing: "
        f"ar_sl_mask 0x{mask[0] | 1 << used:04X} or 0xFFFF in the subnet manager's opensm.conf, and restart that",
        Proof(set={"NCCL_IB_SL": str(named)}),
        stage=Stage.SETTING,
    )


def _of_measure(option: str, used: int, better: int, measured: Measured) -> Finding:
    name, words = _NAMES[option]
    good, bad = measured[option, better], measured[option, used]
    return Finding(
        NAME,
        Severity.WARNING,
        f"the same test reaches {_range(good)} with {words} {better}, and {_range(bad)} with {used}, which NCCL uses",
        tuple(dict.fromkeys((good.seen, bad.seen))),
        Cost("packets of that class wait, get lost or share one route", good.low / bad.low, "both measurements"),
        f"{name}={better} on all ranks, or have the fabric treat {used} alike: adaptive routing and virtual lanes of "
        "the subnet manager (InfiniBand), priority, PFC and ECN of the switches (RoCE)",
        Proof(set={name: str(better)}),
        stage=Stage.SETTING,
    )


def _range(measured: _Measured) -> str:
    low, high = f"{measured.low:g}", f"{measured.high:g}"
    return low if low == high else f"{low} to {high}"


def _mask_of(shown: Shown) -> tuple[int, Evidence] | None:
    for number, line in enumerate(shown.lines, 1):
        if "ar_sl_mask" in line and not line.lstrip().startswith("#") and (found := _MASK.search(line)):
            return int(found["mask"], 16), Evidence(clean(shortened(line.strip(), 120)), shown.source, number)
    return None


def _waits(facts: Facts) -> list[Evidence]:
    """The first line of a port that could not send for long."""
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if _WAIT.search(line):
                return [Evidence(clean(shortened(line.strip(), 160)), shown.source, number)]
    return []


def _read(shown: Shown, measured: Measured) -> None:
    """Rates of tests with one of the options: in the same line, or in the table that follows."""
    asked: tuple[str, int] | None = None
    table = False
    for number, line in enumerate(shown.lines, 1):
        options = list(_OPTION.finditer(line)) if "=" in line or "-S" in line or "--" in line else []
        if options and _RUN.search(line):
            asked, table = None, False
            seen = Evidence(clean(shortened(line.strip(), 200)), shown.source, number)
            for at, each in enumerate(options):
                end = options[at + 1].start() if at + 1 < len(options) else len(line)
                key = _key(each)
                if rate := _RATE.search(line, each.end(), end) or _AFTER.search(line, each.end(), end):
                    _keep(measured, key, _Measured(float(rate["low"]), float(rate["high"] or rate["low"]), seen))
                elif len(options) == 1:
                    asked = key
        elif asked is not None and _HEAD.search(line):
            table = True
        elif asked is not None and (found := (_ROW.match(line) if table else None) or _AVERAGE.match(line)):
            average = float(found["average"])
            seen = Evidence(clean(shortened(line.strip(), 120)), shown.source, number)
            _keep(measured, asked, _Measured(average, average, seen), best=table)
        elif _RUN.search(line):
            asked, table = None, False  # a test without the option


def _key(found: re.Match[str]) -> tuple[str, int]:
    return ("sl", int(found["sl"])) if found["sl"] else ("tc", int(found["tc"]))


def _keep(measured: Measured, key: tuple[str, int], new: _Measured, *, best: bool = False) -> None:
    """A further figure of the value: rows of one table are of growing messages, of which the best counts."""
    before = measured.get(key)
    if before is None or (best and new.high > before.high):
        measured[key] = new
    elif not best:
        measured[key] = _Measured(min(before.low, new.low), max(before.high, new.high), before.seen)
