"""Clues of launches that wait for their kernel (CUDA_LAUNCH_BLOCKING=1) while the kernel waits for NCCL's proxy."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_SET = re.compile(
    r"^(?![^\n]{0,200}(?:consider passing|[Rr]un (?:it )?with|[Tt]ry|unset|without))[^\n]{0,200}"
    r"\bCUDA_LAUNCH_BLOCKING['\"]?(?:=|: {0,4}|\s{1,4}set (?:to|by environment to) )['\"]?1\b",
    re.MULTILINE,
)
"""The variable as shells, manifests and lists of the environment have it, and not as errors of CUDA advise it."""
_LAUNCH = re.compile(
    r"\b(?:cudaLaunchKernel\w{0,8}|cuLaunchKernel\w{0,8})\b[^\n]{0,160}\n(?:[^\n]{0,240}\n){0,4}?"
    r"[^\n]{0,80}\bnccl(?:StrongStream)?Launch\w{0,24}"
)
"""A stack of a rank that is still in the launch of NCCL's kernel."""
_IDLE = re.compile(r"\bncclProxyGetPostedOps\b")
_VERSION = re.compile(r"\bNCCL version (?P<version>2\.(?P<minor>\d{1,3})\.\d{1,3})")
_LAUNCHES_FIRST = range(13, 17)
"""Releases, by their second number, in which the kernel is launched before the proxy has its work."""


def launch_waits(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks wait in a launch for a kernel that waits for the network, which gets its work only behind the launch."""
    by_hand = next(((text, found) for text in texts if (found := _SET.search(text.text))), None)
    if by_hand is None and facts.whole("CUDA_LAUNCH_BLOCKING") != 1:
        return None
    stack = next(((text, found) for text in texts if (found := _LAUNCH.search(text.text))), None)
    version = next(((text, found) for text in texts if (found := _VERSION.search(text.text))), None)
    known = version is not None and int(version[1]["minor"]) in _LAUNCHES_FIRST and not facts.ran_on_one_node
    if stack is None and not known:
        return None
    idle = next(((text, found) for text in texts if (found := _IDLE.search(text.text))), None)
    which = f"NCCL {version[1]['version']}" if version else "this NCCL"
    where = " All stand in cudaLaunchKernel of NCCL's kernel" if stack else ""
    proxy = ", and the proxy thread has no work" if stack and idle else ""
    shown = [each for each in (by_hand, stack, idle if stack else None) if each is not None]
    return Sharper(
        f"CUDA_LAUNCH_BLOCKING=1 lets the job stand still: each launch waits for its kernel, and with {which} the "
        f"kernel waits for the network's thread, which gets its work only after the launch.{where}{proxy}",
        "unset CUDA_LAUNCH_BLOCKING on all ranks (scripts, env files, the image, sbatch --export): it is for debugging "
        "on one GPU. Where it is needed: NCCL 2.17 or newer, or one before 2.13. The network, the GPUs and the order "
        "of collectives are not at fault",
        tuple(
            text.evidence(found.end() if stack is not None and found is stack[1] else found.start())
            for text, found in shown
        ),
    )
