"""Libraries that stand between programs and CUDA, to share GPUs: what hangs or fails there may be theirs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.shown_texts import Text, texts_of

_NAMES = frozenset(
    {"server-waits", "stands-still", "init-incomplete", "stuck-in-collective", "stuck-at-start", "watchdog-timeout"}
    | {"nccl-error", "nccl-internal", "nccl-last-error", "cuda-call-failed", "cuda-not-supported", "cuda-ipc"}
    | {"illegal-access", "process-crashed", "crash-in-library", "p2p-hangs", "p2p-broken", "memory-manager"}
)
"""What a call of CUDA that goes another way can look like."""
_NOT = r"(?<!without )(?<!no )(?<!not )(?<!disabled )"


@dataclass(frozen=True, slots=True)
class _Library:
    name: str
    words: re.Pattern[str]
    without: str
    """How a pod runs without it."""


_LIBRARIES = (
    _Library(
        "HAMi-core (libvgpu.so)",
        re.compile(
            rf"\[HAM[Ii]-core\b|\blibvgpu\.so\b|{_NOT}\bHAM[iI](?:-core)?\b|\b4pd\.io/|\bvolcano\.sh/vgpu"
            r"|\bCUDA_DEVICE_(?:MEMORY|SM)_LIMIT"
        ),
        "CUDA_DISABLE_CONTROL=true in the pod, or whole GPUs (nvidia.com/gpu) without its scheduler",
    ),
    _Library(
        "vCUDA (libcuda-control.so)",
        re.compile(r"\blibcuda-control\.so\b|\btencent\.com/vcuda"),
        "a pod with whole GPUs and without gpu-manager",
    ),
    _Library("nvshare (libnvshare.so)", re.compile(r"\blibnvshare\.so\b"), "a pod with nvidia.com/gpu in its place"),
    _Library("KubeShare (libgemhook.so)", re.compile(r"\blibgemhook\.so\b"), "a pod with whole GPUs in its place"),
)
_SAME_WITHOUT = re.compile(
    r"\b(?:without|no|disabled|off)\b[^\n]{0,40}\b(?:HAMi|libvgpu|vgpu|interception)\b[^\n]{0,60}"
    r"\b(?:same|still|too|also|as well|likewise)\b"
    r"|\bCUDA_DISABLE_CONTROL=true\b[^\n]{0,60}\b(?:same|still|no (?:change|difference))",
    re.IGNORECASE,
)


def with_interceptors(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; errors of calls of CUDA and hangs name what stands between the program and CUDA."""
    if not any(each.name in _NAMES and each.severity is Severity.ERROR for each in findings):
        return list(findings)
    texts = texts_of(facts)
    if any(_SAME_WITHOUT.search(text.text) for text in texts):
        return list(findings)
    for library in _LIBRARIES:
        found = next(((text, at.start()) for text in texts if (at := library.words.search(text.text))), None)
        if found is not None:
            return [_told(each, library, *found) for each in findings]
    return list(findings)


def _told(finding: Finding, library: _Library, text: Text, at: int) -> Finding:
    if finding.name not in _NAMES or finding.severity is not Severity.ERROR:
        return finding
    return replace(
        finding,
        title=f"{finding.title}; {library.name} stands between the program and CUDA here, a suspect",
        fix=f"run once without {library.name}: {library.without}. Where that passes, take a newer release of it. Else: "
        f"{finding.fix}",
        evidence=(*finding.evidence, text.evidence(at)),
    )
