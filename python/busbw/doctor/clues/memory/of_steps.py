"""Clues of a job's own limit of memory in Slurm: how much it asked for, what it did as it reached it, and the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_EVENT = re.compile(
    r"slurmstepd: error: Detected \d{1,6} oom[-_]kill event"
    r"|\bExceeded (?:job|step) memory limit|\bOUT_OF_ME(?:MORY\b|\+)"
)
_ASKED = re.compile(
    r"(?P<how>--mem(?:-per-(?:cpu|gpu))?)[= ](?P<size>[1-9]\d{0,8} ?[KMGT]?)\b"
    r"|\b(?P<tres>(?:Req|Alloc)TRES=[^\n]{0,80}?\bmem=)(?P<most>[1-9]\d{0,8}[KMGT]?)\b"
    r"|\bMinMemory(?P<per>Node|CPU)=(?P<least>[1-9]\d{0,8}[KMGT]?)\b"
)
_FREE = re.compile(
    r"^Mem:\s{1,24}\S{1,12}\s{1,24}[^\n]{10,120}$"
    r"|\bfree -[gmh]\b[^\n]{0,120}\bfree\b|\bMemAvailable:\s{1,16}\d{8,12} kB",
    re.MULTILINE,
)
_SAVES = re.compile(
    r"\b[Ss]aving (?:current|DeepSpeed|(?:the )?(?:model|optimizer|checkpoint|weights))"
    r"|\b[Cc]heckpoint\b[^\n]{0,60}\b(?:to be saved|[Ss]aving)|\bsave_(?:checkpoint|state|pretrained)\b"
    r"|engine\.py:\d{1,5}:save\]"
)
_LOADS = re.compile(r"\bLoading (?:checkpoint|safetensors|model weights|pipeline)|\bload_checkpoint\b")
_NEAR = 6000
_OFFLOAD = re.compile(r"\bzero\d?_\w{0,12}offload|\boffload_(?:optimizer|param)\b|\bcpu[-_]offload\b|--adam_offload\b")


def limit_of_step(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Slurm tells of a kill in the job's own cgroup, and the job asked for less than the node has."""
    event = next(((text, found) for text in texts if (found := _EVENT.search(text.text))), None)
    asked = next(((text, found) for text in texts if (found := _ASKED.search(text.text))), None)
    if event is None or asked is None:
        return None
    text, killed = event
    groups = asked[1].groupdict()
    size = named(next(groups[name] for name in ("size", "most", "least") if groups[name]), 16)
    how = f"{groups['how']}={size}" if groups["how"] else f"{size} of memory"
    before = text.text[max(0, killed.start() - _NEAR) : killed.start()]
    when = " as it saved a checkpoint" if _SAVES.search(before) else " as it loaded" if _LOADS.search(before) else ""
    free = next(((each, found) for each in texts if (found := _FREE.search(each.text))), None)
    left = ". What the node has free besides does not count" if free else ""
    off = any(_OFFLOAD.search(each.text) for each in texts)
    less = (
        "fewer loader workers, no offload to the host, or a save by shards"
        if off
        else "fewer loader workers, or a save by shards"
    )
    return Sharper(
        f"the job reached its own limit of memory in Slurm ({how}){when}, and the kernel killed a process of it{left}",
        f"ask for more: a larger --mem, or --mem=0 for all that the node has (sacct -j JOB -o MaxRSS,ReqMem shows the "
        f"need; each rank counts). Or keep less on the host: {less}. GPU memory has no part in it, and what ranks say "
        "of closed connections follows",
        tuple(each.evidence(found.start()) for each, found in (event, asked, *([free] if free else []))),
    )
