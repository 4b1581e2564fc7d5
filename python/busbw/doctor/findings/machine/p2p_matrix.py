"""Measured rates between pairs of GPUs (p2pBandwidthLatencyTest, nvbandwidth) that no working P2P gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.p2p_rows import HEAD, ROW
from busbw.doctor.signature import Stage
from busbw.machine.topology.audit import NEAR
from busbw.machine.topology.model import Machine

NAME = "p2p-matrix"
SLOW_GBps = 2.0
"""PCIe 3.0 x4 gives more; P2P that the IOMMU or ACS turns back to the root, or that does not work, gives less."""
LATE_us = 1000.0
"""Working P2P answers within 30 us, host memory within 100."""
MAX_ROWS = 64
_FEWEST = 4
_SHARE, _ALIKE = 0.4, 0.8
_OVER_NVLINK_GBps = 100.0
_SWITCHED_GBps = 8.0


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
        if log.text is None or not HEAD.search(log.text):
            continue
        cells = list(_cells(log.text))
        ill = [each for each in cells if each.ill]
        if not ill:
            yield from _below_others(cells, log.path)
            if not (facts.snapshot.host and facts.snapshot.host.acs_redirects):
                yield from _below_switch(cells, facts.snapshot.machine, log.path)
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


def _below_others(cells: list[_Cell], path: str) -> Iterator[Finding]:
    """One pair, or one GPU, that is far slower than all others, which are alike."""
    rates = [each for each in cells if each.unit == "GB/s"]
    size = len({each.row for each in rates})
    if not rates or size < _FEWEST:
        return
    usual = median(each.value for each in rates)
    slow = [each for each in rates if each.value < _SHARE * usual]
    alike = all(each.value > _ALIKE * usual for each in rates if each not in slow)
    shared = set.intersection(*({each.row, each.column} for each in slow)) if slow else set()
    # Boards of four PCIe cards may hold one on a socket of its own.
    fits = len(shared) == 2 or (len(shared) == 1 and (size > _FEWEST or usual > _OVER_NVLINK_GBps))
    if not (alike and fits):
        return
    which = sorted(shared)
    who = f"GPU {which[0]}" if len(which) == 1 else f"the pair of GPU {which[0]} and GPU {which[1]}"
    least = min(slow, key=lambda each: each.value)
    yield Finding(
        NAME, Severity.ERROR, f"{who} is far slower by P2P ({least.text}) than the others ({usual:.0f})",
        tuple(Evidence(each.text, path, each.line) for each in slow[:4]),
        Cost("rings go at the rate of the slowest pair", usual / least.value, "from the measured rates"),
        "look at the links of it: `nvidia-smi nvlink -s` and -e, Xid 74 in dmesg, LnkSta in `lspci -vv`, and whether "
        "MIG is on. Reset the GPU and restart nvidia-fabricmanager; replace GPU, bridge or board where it stays so",
        Proof(instruction="measure again: p2pBandwidthLatencyTest, after the reset"), stage=Stage.HARDWARE,
    )  # fmt: skip


def _below_switch(cells: list[_Cell], machine: Machine | None, path: str) -> Iterator[Finding]:
    """Pairs below one PCIe switch that move less than its slowest full link: something turns them up to the root."""
    if machine is None:
        return
    near = [each for each in cells if each.unit == "GB/s" and _is_near(machine, each)]
    slow = [each for each in near if each.value < _SWITCHED_GBps]
    if not slow or 2 * len(slow) < len(near):
        return
    yield Finding(
        NAME, Severity.WARNING, f"GPUs below one PCIe switch move only {slow[0].value:g} GB/s",
        tuple(Evidence(each.text, path, each.line) for each in slow[:4]),
        Cost("what GPUs exchange goes up to the root and back", None, "PCIe 3.0 x16 carries 12 GB/s"),
        "switch ACS off on the switch's ports (setpci, BIOS; `lspci -vvv | grep ACSCtl`), the IOMMU to pass-through "
        "(iommu=pt), and compare LnkSta with LnkCap of the cards",
        Proof(instruction="measure again: p2pBandwidthLatencyTest, with ACS off"), stage=Stage.SYSTEM,
    )  # fmt: skip


def _is_near(machine: Machine, cell: _Cell) -> bool:
    pair = machine.between(f"GPU{cell.row}", f"GPU{cell.column}")
    return pair is not None and pair.path in NEAR


def _cells(text: str) -> Iterator[_Cell]:
    """The cells off the diagonal of matrices with P2P on."""
    unit, left = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if found := HEAD.search(line):
            unit, left = found["unit"], MAX_ROWS
        elif "Matrix" in line or not left:
            left = 0
        elif row := ROW.match(line):
            left -= 1
            here = int(row["row"])
            for column, cell in enumerate(row["cells"].split()):
                if column != here and cell != "N/A":
                    yield _Cell(number, here, column, float(cell), unit)
