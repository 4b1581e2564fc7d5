"""Clues of bridges that redirect (ACS): how little GPUs then send each other, as a matrix of rates beside it tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.reading.p2p_rows import HEAD, ROW
from busbw.doctor.shown_texts import Text

_REDIRECTS = re.compile(r"ACSCtl:[^\n]{0,60}(?:ReqRedir|CmpltRedir)\+")
_REFUSED = re.compile(r"IO_PAGE_FAULT|DMAR: [^\n]{0,80}\bfault\b|AMD-Vi: Event logged")
_LOW_GBps = 2.0
"""Less than P2P over any PCIe link gives that works."""
_MOST_ROWS = 64


def acs_beside_rates(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Bridges between GPUs redirect, and rates of P2P are those of transfers that hardly arrive."""
    acs = next(((text, found) for text in texts if (found := _REDIRECTS.search(text.text))), None)
    if acs is None or any(_REFUSED.search(text.text) for text in texts):
        return None
    rates = [(rate, text, at) for text in texts for rate, at in _rates(text.text)]
    if not rates or min(rates)[0] >= _LOW_GBps:
        return None
    rate, text, at = min(rates, key=lambda each: each[0])
    return Sharper(
        "PCI ACS is on at PCIe bridges (ReqRedir+, CmpltRedir+): what GPUs send each other is turned up to the "
        f"processor and its IOMMU. P2P then moves {rate:g} GB/s, by which collectives hang or crawl",
        "switch ACS off in the BIOS, or on each bridge (setpci -s BRIDGE ECAP_ACS+6.w=0), and boot with iommu=pt or "
        "the IOMMU off: lspci -vvv | grep ACSCtl then shows ReqRedir-. Until then NCCL_P2P_DISABLE=1, which is slower. "
        "Virtual machines need ACS on. The program and its timeouts need no change",
        (acs[0].evidence(acs[1].start()), text.evidence(at)),
    )


def _rates(text: str) -> Iterator[tuple[float, int]]:
    """The rates off the diagonal of matrices with P2P on, and where each row begins."""
    left, at = 0, 0
    for line in text.split("\n"):
        if found := HEAD.search(line):
            left = _MOST_ROWS if found["unit"] == "GB/s" else 0
        elif left and (row := ROW.match(line)):
            cells = enumerate(row["cells"].split())
            yield from ((float(cell), at) for column, cell in cells if column != int(row["row"]) and cell != "N/A")
        elif "Matrix" in line:
            left = 0
        at += len(line) + 1
