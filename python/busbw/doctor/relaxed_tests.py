"""RDMA tests (perftest) of one pair under two settings, of which one gives far more: relaxed ordering, GPU memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

FASTER = 2.0
_MOST_RUNS = 32
_COMMAND = re.compile(r"\b(?P<program>ib_(?:write|read|send)_bw)\b(?P<words>[^|;\n]{0,400})")
_DEVICE = re.compile(r"\s(?:-d|--ib-dev)[ =](?P<device>\S{1,40})")
_GPU = re.compile(r"--use_cuda(?:_dmabuf|_bus_id)?\b|--use_rocm\b|\b[Gg][Pp][Uu][ -]?mem|\bGDR\b")
_SUMMED = re.compile(
    r"(?P<words>.{0,120}?)(?<![\w.=-])(?P<rate>\d{1,4}(?:\.\d{1,3})?) ?(?:Gb/s(?:ec)?|Gbps|Gbit/s)(?![\w/])"
)
"""What a script says of one test in one line, behind its program."""
_ON = re.compile(r"(?<![\w/])(?P<device>(?:mlx5|bnxt_re|irdma|ib|roce|rdmap)\w{0,12})\b")
_ALONE = 1
"""The size of a test that a script sums up without one."""
_ACS = re.compile(r"\bACSCtl:.{0,60}\bReqRedir\+")
_IOMMU = re.compile(r"\b(?:intel|amd)_iommu=on\b(?!.{0,300}\biommu=pt\b)")
_STRICT = re.compile(r"--disable_pcie_relaxed\b")
_RELAXED = re.compile(r"\bPCIe relax order: (?P<how>ON|OFF)\b")
_ROW = re.compile(
    r"\s{0,8}(?P<bytes>\d{4,10})\s+\d{1,9}\s+[\d.]{1,12}\s+(?P<average>\d{1,7}(?:\.\d{1,6})?)\s+[\d.]{1,12}\s*$"
)
_NOT_ASKED = re.compile(
    r"\b(?P<name>(?:UCX_IB|NCCL_IB)_PCI_RELAXED_ORDERING)(?:=| set by environment to )(?P<value>auto|try|no?|off|0)\b"
)
_OSU = re.compile(r"(?P<bytes>\d{6,10})\s{1,40}(?P<rate>\d{3,7}\.\d{1,4})\s*$")
_MBPS_PER_GBPS = 125.0


@dataclass
class _Test:
    """One run of perftest: its device, whether GPU memory and relaxed ordering are used, its figures by size."""

    program: str
    device: str
    gpu: bool
    strict: bool
    rates: dict[int, tuple[float, Evidence]] = field(default_factory=dict)


def examine(facts: Facts, name: str) -> Iterator[Finding]:
    for shown in facts.shown:
        tests = _tests(shown)
        for one, other in combinations(tests, 2):
            found = _strict(one, other, facts, name) or _slow_gpu(one, other, shown, name)
            if found is not None:
                yield found
                return


def _tests(shown: Shown) -> list[_Test]:
    tests = list[_Test]()
    for number, line in enumerate(shown.lines, 1):
        if "_bw" in line and (found := _COMMAND.search(line)):
            device = _DEVICE.search(found["words"])
            tests.append(
                _Test(
                    found["program"], device["device"] if device else "", _GPU.search(found["words"]) is not None,
                    _STRICT.search(found["words"]) is not None,
                )
            )  # fmt: skip
            if summed := _SUMMED.match(found["words"]):
                on = _ON.search(summed["words"])
                tests[-1].device = tests[-1].device or (on["device"] if on else "")
                tests[-1].rates[_ALONE] = float(summed["rate"]), _seen(line, shown, number)
        elif tests and "relax order" in line and (how := _RELAXED.search(line)):
            tests[-1].strict = how["how"] == "OFF"
        elif tests and (row := _ROW.match(line)):
            tests[-1].rates[int(row["bytes"])] = float(row["average"]), _seen(line, shown, number)
    return [each for each in tests if each.rates][:_MOST_RUNS]


def _seen(line: str, shown: Shown, number: int) -> Evidence:
    return Evidence(clean(shortened(line.strip(), 120)), shown.source, number)


def _ratio(fast: _Test, slow: _Test) -> tuple[float, int]:
    """How much faster at the largest size that both have."""
    size = max(fast.rates.keys() & slow.rates.keys(), default=0)
    alike = fast.program == slow.program and fast.device == slow.device
    return (fast.rates[size][0] / (slow.rates[size][0] or 1e-9), size) if size and alike else (0.0, 0)


def _strict(one: _Test, other: _Test, facts: Facts, name: str) -> Finding | None:
    """Relaxed ordering decides, and what runs here does not ask for it, or is as slow as without it."""
    if one.strict == other.strict or one.gpu != other.gpu:
        return None
    fast, slow = (other, one) if one.strict else (one, other)
    factor, size = _ratio(fast, slow)
    if factor < FASTER:
        return None
    asked, seen = _without_it(facts, slow.rates[size][0])
    if seen is None:
        return None
    variable = asked or "UCX_IB_PCI_RELAXED_ORDERING"
    return Finding(
        name, Severity.WARNING,
        "the job's transfers do not use PCIe relaxed ordering, without which this host's NICs carry "
        f"{slow.rates[size][0]:.4g} Gb/s, and {fast.rates[size][0]:.4g} with it",
        (fast.rates[size][1], slow.rates[size][1], seen),
        Cost(f"{factor:.1f} times less", factor, "the same test (perftest) with and without relaxed ordering"),
        f"{variable}={'1' if variable.startswith('NCCL') else 'y'} on all ranks (auto asks for it on processors that "
        "the release knows only), or a newer UCX. Links, fabric and GPU Direct RDMA are right",
        Proof(instruction=f"run once more with {variable} set, beside the run as it is"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _without_it(facts: Facts, slow: float) -> tuple[str, Evidence | None]:
    """The setting by which relaxed ordering is not asked for, or a figure of MPI's test that is as low as without."""
    best: tuple[float, Evidence | None] = (0.0, None)
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if "RELAXED_ORDERING" in line and (found := _NOT_ASKED.search(line)):
                return found["name"], Evidence(clean(shortened(found[0], 120)), shown.source, number)
            row = _OSU.match(line)
            if row and (rate := float(row["rate"]) / _MBPS_PER_GBPS) < 1.3 * slow and rate > best[0]:
                best = rate, Evidence(clean(shortened(line.strip(), 120)), shown.source, number)
    return "", best[1] if best[0] > 0.8 * slow else None


def _slow_gpu(one: _Test, other: _Test, shown: Shown, name: str) -> Finding | None:
    """The same transfer is far slower from GPU memory than from the host's; ACS, where it is seen, is why."""
    if one.gpu == other.gpu or one.strict != other.strict:
        return None
    fast, slow = (other, one) if one.gpu else (one, other)
    factor, size = _ratio(fast, slow)
    if factor < FASTER:
        return None
    rates = f"{slow.rates[size][0]:.4g}, and {fast.rates[size][0]:.4g} from the host's memory"
    acs, iommu = _first(shown, _ACS), _first(shown, _IOMMU)
    if acs is None:
        title = f"{slow.program} from GPU memory reaches {rates}: the way between GPU and NIC is slow, not the network"
        cure = (
            "take the NIC below the GPU's own PCIe switch (nvidia-smi topo -m: PIX or PXB). Switch ACS off on the "
            "bridges between them and the IOMMU to pt, and look at both links (lspci -vv: LnkSta). Where none helps: "
            "NCCL_NET_GDR_LEVEL=LOC"
        )
    else:
        title = (
            "ACS is on at PCIe switches (ReqRedir+) and sends GPU Direct RDMA by the processor: "
            f"{slow.program} from GPU memory reaches {rates}"
        )
        cure = (
            "switch ACS off on the bridges above GPUs and NICs (BIOS, or setpci -s BRIDGE ECAP_ACS+6.w=0), and boot "
            f"with iommu=pt{' in place of the IOMMU on' if iommu else ''}. lspci -vvv must show ReqRedir- there. The "
            "module for GPU Direct, port, cable and fabric are right, and NCCL's settings need no change"
        )
    return Finding(
        name, Severity.WARNING, title,
        (slow.rates[size][1], fast.rates[size][1], *(each for each in (acs, iommu) if each)),
        Cost(f"{factor:.1f} times less with GPU Direct RDMA", factor, "the same test from the host's memory"),
        cure,
        Proof(instruction="ib_write_bw --use_cuda=N over each NIC: which pairs of GPU and NIC are fast"),
        stage=Stage.SYSTEM,
    )  # fmt: skip


def _first(shown: Shown, words: re.Pattern[str]) -> Evidence | None:
    return next((_seen(line, shown, number) for number, line in enumerate(shown.lines, 1) if words.search(line)), None)
