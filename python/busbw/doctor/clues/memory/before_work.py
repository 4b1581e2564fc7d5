"""Clues of memory that is full before a job put anything there: others hold it, or all ranks open one GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_BARE = re.compile(r"CUDA error: out of memory|cuda runtime error \(2\) ?: out of memory|cudaErrorMemoryAllocation")
"""What a call says that asked for no tensor; PyTorch's allocator tells how much it tried to allocate."""
_ASKED = re.compile(r"Tried to allocate|CUDACachingAllocator")
_NOTHING = re.compile(r"\b(?:memory[ _]allocated|allocated(?: memory)?)\b\W{1,3}0(?:\.0{1,6})?(?![\d.])", re.IGNORECASE)
_FIRST = re.compile(
    r"^[^\n]{0,80}?(?:\btorch\.cuda\.set_device\(|torch\._C\._cuda_init"
    r"|\bin _?(?:lazy_init|set_device|init_process_group)\b|torch\._C\._cuda_setDevice|\bin _get_default_device\b)",
    re.MULTILINE,
)
"""Frames of a program that only opens its GPU."""
_BARRIER = re.compile(r"default_pg\.barrier\(|\bin barrier\b")
_NEAR = 3000


def full_before_work(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A call failed for want of memory where the job holds none, or only opens its GPU."""
    if any(_ASKED.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        if (failed := _BARE.search(text.text)) is None or _ASKED.search(text.text):
            continue
        above = text.text[max(0, failed.start() - _NEAR) : failed.start()]
        begin = failed.start() - len(above)
        nothing = _NOTHING.search(text.text, begin, failed.start())
        frames = list(_FIRST.finditer(above))
        if nothing is None and not frames:
            continue
        barrier = " in the first barrier" if nothing is not None and _BARRIER.search(above) else ""
        own = f" ({named(nothing[0])})" if nothing else ""
        return Sharper(
            f"a GPU's memory is full before this job put anything there{own}: its call failed{barrier}, so that other "
            "processes hold the memory, or all ranks open the same GPU",
            "look by nvidia-smi who holds the memory, and end what an earlier start left behind or take other GPUs "
            "(CUDA_VISIBLE_DEVICES). Let each rank call torch.cuda.set_device(LOCAL_RANK) before its first CUDA call "
            "and collective, or give init_process_group(device_id=). Smaller batches do not help",
            tuple(text.evidence(at) for at in ([nothing.start()] if nothing else []) + [failed.start()]),
        )
    return None
