"""Measured rates between pairs of GPUs (p2pBandwidthLatencyTest, nvbandwidth) that no working P2P gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "p2p-matrix"
SLOW_GBps = 2.0
"""PCIe 3.0 x4 gives more; P2P that the IOMMU or ACS turns back to the root, or that does not work, gives less."""
LATE_us = 1000.0
"""Working P2P answers within 30 us, host memory within 100."""
MAX_ROWS = 64
_HEAD = re.compile(
    r"(?:P2P=Enabled .{0,60}|memcpy .{0,60}GPU\(row\).{0,60})(?P<what>Bandwidth|Latency|bandwidth|latency)"
    r".{0,60}\((?P<unit>GB/s|us)\)"
)
_ROW = re.compile(r"\s*(?P<row>\d{1,2})(?P<cells>(?:\s+(?:N/A|\d{1,9}\.\d{1,3}))+)\s*$")


@dataclass(frozen=True, slots=True)
class _Cell:
    line: int
    row: int
    column: int
    value: float
    unit: str

    @property
    def ill(self) -> bool:
        return self.value < SLOW_GBps if self.unit == "GB/s" else self.value > LATE_us

    @property
    def text(self) -> str:
        return f"GPU {self.row} to GPU {self.column}: {self.value:g} {self.unit}"


def examine(facts: Facts) -> Iterator[Finding]:
    for log in facts.snapshot.logs:
        if log.text is None or not _HEAD.search(log.text):
            continue
        ill = [each for each in _cells(log.text) if each.ill]
        if not ill:
            continue
        worst = max(ill, key=lambda each: each.value if each.unit == "us" else 1 / max(each.value, 0.001))
        yield Finding(
            NAME, Severity.ERROR,
            f"pairs of GPUs hardly reach each other by P2P ({worst.text}), though P2P is on",
            tuple(Evidence(each.text, log.path, each.line) for each in ill[:4]),
            Cost("collectives over such pairs hang, or are slower than through host memory"),
            "switch the IOMMU and ACS off or to pass-through (BIOS, iommu=pt, setpci), in a VM ask the provider; until "
            "then NCCL_P2P_DISABLE=1 goes through host memory",
            Proof(instruction="measure again: p2pBandwidthLatencyTest, and the job with NCCL_P2P_DISABLE=1"),
            stage=Stage.SYSTEM,
        )  # fmt: skip


def is_part(line: str) -> bool:
    """Whether the line is a heading or a row of such a matrix."""
    return _HEAD.search(line) is not None or _ROW.match(line) is not None


def _cells(text: str) -> Iterator[_Cell]:
    """The cells off the diagonal of matrices with P2P on."""
    unit, left = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if found := _HEAD.search(line):
            unit, left = found["unit"], MAX_ROWS
        elif "Matrix" in line or not left:
            left = 0
        elif row := _ROW.match(line):
            left -= 1
            here = int(row["row"])
            for column, cell in enumerate(row["cells"].split()):
                if column != here and cell != "N/A":
                    yield _Cell(number, here, column, float(cell), unit)
