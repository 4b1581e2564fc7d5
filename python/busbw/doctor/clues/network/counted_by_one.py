"""A clue of one NIC that loses packets: its counters are large where those of all others of its host are near zero."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_LOSSES = r"local_ack_timeout_err|packet_seq_err|out_of_sequence|roce_adp_retrans|rnr_nak_retry_err"
_OF_LINK = r"symbol_error|link_error_recovery|link_downed|port_rcv_errors|local_link_integrity_errors"
_ASKS = re.compile(rf"hw_counters[^\n]{{0,300}}\b(?:{_LOSSES})\b|\bcounters/[^\n]{{0,300}}\b(?P<link>{_OF_LINK})\b")
"""A command that prints counters of lost packets or of bad links, device by device."""
_NAMES = re.compile(r"counters/\{(?P<names>\w{3,60}(?:,\w{3,60}){1,20})\}|counters/(?P<one>\w{3,60})")
_ROW = re.compile(
    r"^(?P<dev>[a-z]\w{2,20})(?:/\d{1,2})?:?(?P<counts>(?:[ \t]{1,8}\d{1,18}){1,12})[ \t]*$", re.MULTILINE
)
_HCA = re.compile(r" hca (?P<dev>\w{3,20})")
_BITS = re.compile(
    r"\b(?P<name>rx_crc_errors_phy|rx_symbol_err_phy|rx_pcs_symbol_err_phy|symbol_error|SymbolErrorCounter)"
    r"\W{1,30}(?P<n>\d{3,18})\b"
)
_FAR = 4000
"""Letters after the command in which its rows stand."""
_MANY, _FEW = 100, 1000
"""What is bad, and by how much more than any other one: each boot of a switch takes all links down once."""
_FEWEST = 3


def one_that_counts(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The NIC of the error is the only one of its host that counts lost packets, or errors of its link."""
    failed = {found["dev"] for seen in finding.evidence if (found := _HCA.search(seen.fact))}
    for text in texts:
        for asked in islice(_ASKS.finditer(text.text), 16):
            rows = list(_ROW.finditer(text.text, asked.end(), asked.end() + _FAR))
            sums = {row["dev"]: sum(map(int, row["counts"].split())) for row in rows}
            bad = [row for row in rows if sums[row["dev"]] >= _MANY]
            others = max((sums[dev] for dev in sums if not bad or dev != bad[0]["dev"]), default=0)
            if len(bad) != 1 or len(sums) < _FEWEST or others * _FEW > sums[bad[0]["dev"]]:
                continue
            if failed and failed != {bad[0]["dev"]}:
                continue
            device, host = named(bad[0]["dev"], 30), host_before(text, asked.end())
            on = f" on {named(host, 40)}" if host else ""
            bits = next(((each, found) for each in texts if (found := _BITS.search(each.text))), None)
            how = f", and {bits[1]['name']} of {bits[1]['n']} tells of bit errors" if bits else ""
            none = "as good as none" if others else "none"
            said = (
                f"the link of {device}{on} is bad: it alone counts errors ({_counts(_line(text, asked), bad[0])}), the "
                f"other {len(sums) - 1} NICs of that host {none}"
                if asked["link"]
                else f"the link of {device}{on} loses packets: it alone counts retransmissions, the other "
                f"{len(sums) - 1} NICs {none}{how}"
            )
            return Sharper(
                said,
                f"clean or replace the cable or transceiver of {device}{on}, and look at its switch port (mlxlink -d "
                f"{device} -m -c -e on the host). {_until(device, on)} Timeouts and GID indices are not at fault",
                (text.evidence(bad[0].start()), *([bits[0].evidence(bits[1].start())] if bits else [])),
            )
    return None


def _line(text: Text, found: re.Match[str]) -> str:
    end = text.text.find("\n", found.end())
    return text.text[found.start() : end if end >= 0 else len(text.text)]


def _counts(command: str, row: re.Match[str]) -> str:
    """What the row counts by the names that the command asks for, the largest ones."""
    counts = row["counts"].split()
    names = [
        each
        for found in _NAMES.finditer(command)
        for each in (found["names"].split(",") if found["names"] else [found["one"]])
    ]
    if len(names) != len(counts):
        return named(" ".join(counts), 80)
    told = sorted(zip(names, counts, strict=True), key=lambda each: -int(each[1]))
    return ", ".join(f"{named(name, 30)} {count}" for name, count in told[:3] if int(count))


def _until(device: str, on: str) -> str:
    drain = f"Until then drain that host{on.replace(' on', ',')}, or leave" if on else "Until then leave"
    return f"{drain} the NIC out: NCCL_IB_HCA=^{device} on all nodes."
