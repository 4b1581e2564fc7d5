"""A GPU for which a program has no code is older or newer than the program's CUDA: the way out is the opposite one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.machine.topology.names import product

NAME = "gpu-too-new"
_MEANT = re.compile(
    r"no kernel image|NoKernelImage|NO_BINARY|is not compatible with the current PyTorch|too old|\b209\b"
)
"""What says that code is missing, and neither a limit of a kernel nor a compiler that does not know the GPU."""
_SAID = re.compile(
    r"(?:capability |compute_cap\D{1,12})(?:sm_)?(?P<major>\d{1,2})\.?(?P<minor>\d)[a-z]?\b(?! sm_)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(?:Tesla|Quadro|NVIDIA|GeForce|TITAN) (?:GeForce |RTX |GTX |TITAN |Tesla )*[A-Z]{0,3}\d{0,4}[\w ()-]{0,24}"
)
# By NVIDIA's names (developer.nvidia.com/cuda-gpus, and legacy GPUs); what is newer is in busbw.machine.topology.names.
_OLD: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), sm)
    for pattern, sm in (
        (r"\bK80\b", 37),
        (r"\bTesla K\d\d\w?\b|\bQuadro K[56]\d00\b|\bGTX (?:7[78]0|TITAN Black)\b", 35),
        (r"\bTesla M(?:4|6|10|40|60)\b|\bQuadro M\d000\b|\bGTX 9[5-8]0\b|\bGTX 750\b|\bTITAN X\b", 52),
        (r"\bP(?:4|40|6|5000|6000)\b|\bGTX 10[5-8]0\b|\bTITAN Xp\b", 61),
        (r"\bTITAN V\b|\bGV100\b", 70),
    )
)


@dataclass(frozen=True, slots=True)
class Age:
    """Of GPUs up to that compute capability (10 times): what they are, why the code is missing, the cure."""

    below: int
    names: str
    why: str
    cure: str


# The toolkits: CUDA 12.0 removed sm_35 and sm_37 (gitlab.kitware.com/cmake/cmake, merge request 8031), CUDA 13.0 all
# below sm_75 (github.com/NVIDIA/cuDecomp/pull/97, github.com/pytorch/pytorch/issues/157517: builds of PyTorch 2.8 for
# CUDA 12.6 hold sm_50 to sm_90, those for 12.8 and later sm_75 and up). NCCL: makefiles/common.mk holds sm_35 and
# sm_50 up to 2.27, sm_60 and up since 2.28.3, nothing below sm_75 for CUDA 13, and sm_100 and sm_120 since 2.25.1 by
# CUDA 12.8.
_AGES = (
    Age(50, "Kepler", "CUDA 12 and later have dropped it",
        "take an older build and no newer one: CUDA 11.8 or before, NCCL up to 2.27 built for it, and a PyTorch whose "
        "torch.cuda.get_arch_list() names {sm}. The driver of that GPU is of branch 470"),
    Age(60, "Maxwell", "CUDA 13, NCCL from 2.28 on and PyTorch's builds for CUDA 12.8 and later have dropped it",
        "take an older build and no newer one: NCCL up to 2.27, and PyTorch for CUDA 12.6 (--index-url "
        "https://download.pytorch.org/whl/cu126) whose torch.cuda.get_arch_list() names sm_50"),
    Age(75, "Pascal or Volta", "CUDA 13 and PyTorch's builds for CUDA 12.8 and later have dropped it",
        "take an older build and no newer one: NCCL for CUDA 12, and PyTorch for CUDA 12.6 (--index-url "
        "https://download.pytorch.org/whl/cu126) whose torch.cuda.get_arch_list() names it"),
)  # fmt: skip
_NEW = (
    "take a newer build: CUDA 12.8 or later (12.9 for sm_103 and sm_121), NCCL 2.26 or later built with it, and "
    "PyTorch 2.7 or later for that CUDA. torch.cuda.get_arch_list() and cuobjdump --list-elf libnccl.so name what they "
    "hold"
)
_BLACKWELL = 100


def with_age(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; code that is missing for a GPU whose age is known gets the cure for it."""
    return [_aged(each, facts) if each.name == NAME else each for each in findings]


def _aged(finding: Finding, facts: Facts) -> Finding:
    if finding.severity is Severity.NOTE or not any(_MEANT.search(seen.fact) for seen in finding.evidence):
        return finding
    sm = _of(seen.fact for seen in finding.evidence)
    # Names beside the error count where they agree: of two kinds of GPUs nobody knows which one was meant.
    sm = sm or _of(line for shown in facts.shown for line in shown.lines if "NVIDIA" in line or "capability" in line
                   or "Tesla" in line or "GeForce" in line or "Quadro" in line)  # fmt: skip
    if sm is None:
        return finding
    if sm >= _BLACKWELL:
        return replace(finding, title=f"the program or library has no code for this GPU (sm_{sm}): it is older than "
                       "the GPU", fix=_NEW)  # fmt: skip
    for age in _AGES:
        if sm < age.below:
            title = f"the program or library has no code for this GPU ({age.names}, sm_{sm}): {age.why}"
            return replace(finding, title=title, fix=age.cure.format(sm=f"sm_{sm}"))
    return finding


def _of(lines: Iterable[str]) -> int | None:
    """The compute capability (10 times) that all of these lines name alike; None where none or several are named."""
    found = {sm for line in lines for sm in _in(line)}
    return found.pop() if len(found) == 1 else None


def _in(line: str) -> Iterator[int]:
    if said := _SAID.search(line):
        yield int(said["major"] + said["minor"])
        return
    for name in _NAMED.findall(line):
        old = next((sm for pattern, sm in _OLD if pattern.search(name)), None)
        known = product(name)
        if old is not None or known is not None:
            yield old if old is not None else known.sm if known is not None else 0
