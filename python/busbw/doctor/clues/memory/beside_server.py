"""Clues of GPU memory that NCCL itself cannot get, where a server and a trainer share the GPUs: who holds it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_OF_NCCL = re.compile(
    r"NCCL WARN (?:Cuda failure (?:2 )?'?out of memory|Failed to (?:CUDA )?(?:c|m)alloc)"
    r"|^Failed to CUDA \w?alloc"
)
_SIZE = re.compile(r"Failed to (?:CUDA )?(?:c|m)alloc(?: async)? (?P<bytes>\d{1,12}) bytes")
_PART = re.compile(
    r"(?P<flag>(?:--)?(?:[\w.]{1,40}[.-])?(?:mem[-_]fraction[-_]static|gpu[-_]memory[-_]utilization))['\"]?[ =:]{1,3}"
    r"(?P<part>0?\.\d{1,3})\b"
)
_TRAINS = re.compile(
    r"\b(?:MegatronTrain\w{0,16}|WorkerDict|verl|slime|openrlhf|OpenRLHF|trl|nemo_rl|update_weights?\w{0,24}|hybrid_engine)\b"
    r"|--colocate\b|\bcolocate[d=]"
)
_FREE = re.compile(r"\bfree(?:_GB|_mem\w{0,8})?['\"]?[ =:]{1,3}(?P<free>\d{1,3}(?:\.\d{1,3})?)(?: ?Gi?B)?\b")
_KEPT = re.compile(
    r"\ballocated(?:_GB)?['\"]?[ =:]{1,3}(?P<used>\d{1,3}(?:\.\d{1,3})?)(?: ?Gi?B)?[, '\"]{1,6}"
    r"(?:max_)?reserved(?:_GB)?['\"]?[ =:]{1,3}(?P<kept>\d{1,3}(?:\.\d{1,3})?)\b"
)


def no_room_for_nccl(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL's own buffers do not fit beside a server's part and what the trainer's allocator keeps."""
    if not any(_OF_NCCL.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        part, trains = _PART.search(text.text), _TRAINS.search(text.text)
        if part is None or trains is None:
            continue
        kept, free, size = (words.search(text.text) for words in (_KEPT, _FREE, _SIZE))
        room = f": {free['free']} GB were free" if free else ""
        torch = f", and PyTorch keeps {kept['kept']} GB, of which it uses {kept['used']}" if kept else ""
        want = f" ({int(size['bytes']) / 2**20:.0f} MiB)" if size else ""
        lower = max(0.3, float(part["part"]) - 0.15)
        return Sharper(
            f"a GPU has no room for NCCL's own buffers{want}{room}. The server's part is {part['part']} "
            f"({part['flag']}){torch}, which NCCL cannot take from it",
            f"lower {part['flag']} (to {lower:.2f} or less), and let the server give its memory back before weights "
            "are updated (sleep or release_memory_occupation). Call torch.cuda.empty_cache() first, as what PyTorch "
            "keeps is of no use to NCCL, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. NCCL needs 1 to 2 "
            "GiB per GPU",
            tuple(text.evidence(each.start()) for each in (free, part) if each is not None),
        )
    return None
