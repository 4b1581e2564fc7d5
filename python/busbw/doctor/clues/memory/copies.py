"""A host's memory that was used up while its processes loaded a model: each of them holds a copy of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text

_BAR = re.compile(
    r"Loading (?:\w{1,20} )?checkpoint shards: {1,4}\d{1,3}%"
    r"|Loading (?:weights|model): {1,4}\d{1,3}%\|"
)
_LOADS = re.compile(
    r"\b(?:load(?:ing)?|read(?:ing)?|restor\w{1,5})\b[^\n]{0,40}\b(?:state[ _]?dict|checkpoint|weights|model|shards)\b"
    r"|\bin (?:from_pretrained|_?load_pretrained_model|load_state_dict|load_checkpoint)\b|\btorch\.load\("
    r"|\b(?:from_pretrained|load_state_dict)\(",
    re.IGNORECASE,
)
_LOADED = re.compile(
    r"\b(?:loaded|loading (?:\w{1,20} ){1,4}(?:took|done|finished|complete)|finished loading)\b|100% ?\||took \d",
    re.IGNORECASE,
)
_LATER = re.compile(r"\b(?:epoch|step|iteration|optimizer\.step|dataloader|tokeniz\w{1,6}|saving)\b", re.IGNORECASE)
_TASK = re.compile(
    r"\[ {0,8}(?P<pid>\d{2,9})\] {1,12}\d{1,9} {1,12}\d{1,9} {1,12}\d{1,12} {1,12}(?P<rss>\d{1,12}) [^\n]{10,120}?"
    r"(?P<name>[A-Za-z][\w.:-]{1,20})\s{0,4}$"
)
"""A row of the kernel's table of tasks: pid, uid, tgid, total_vm, rss in pages, and the rest."""
_WORKER = re.compile(r"DataLoader worker|pin(?:ned)? ?memory|HostAlloc|MallocHost", re.IGNORECASE)
_LEAST_PAGES, _ALIKE, _NEAR = 262_144, 0.1, 400
_SAVES = (
    "let one copy be in memory at a time. Rank 0 alone loads and the others get it (FSDP: sync_module_states with "
    "cpu_ram_efficient_loading, meta device; DeepSpeed: ZeRO-3's zero.Init). Or torch.load(mmap=True) and safetensors "
    "with low_cpu_mem_usage=True (never turned off) go straight to the rank's GPU. Else fewer processes load at once "
    "(vLLM: --max-parallel-loading-workers), or as much memory as these copies take (--mem, pod's limit)"
)


def copies_of_model(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The last that a log shows before the memory was used up is loading, of several ranks or of one."""
    if any(_WORKER.search(seen.fact) for seen in finding.evidence):
        return None
    alive = {scan.source: scan.alive for scan in facts.scans}
    for text in texts:
        lines = text.text.split("\n")
        loads = _loads(lines, alive.get(text.source, 0))
        if not loads or any(seen.line and seen.line > loads[-1] + _NEAR for seen in finding.evidence[:1]):
            continue
        last = loads[-1]
        many = max(_bars(lines), len({rank_of(lines[at]) for at in loads} - {""}), _alike(lines))
        seen = Evidence(text.evidence(sum(len(each) + 1 for each in lines[:last])).fact, text.source, last + 1)
        if many < 2:
            return Sharper(
                "the host ran out of memory while a model was loaded, of which each rank that loads for itself holds "
                "a copy: a process was killed or could not allocate",
                _SAVES, (seen,),
            )  # fmt: skip
        return Sharper(
            f"the host ran out of memory while {many} processes loaded the model, each a copy of its own: one was "
            "killed or could not allocate",
            _SAVES, (seen,),
        )  # fmt: skip
    return None


def _loads(lines: Sequence[str], alive: int) -> list[int]:
    """The places of lines that tell of loading, behind which nothing else was at work."""
    loads = list[int]()
    for at, line in enumerate(lines):
        if at < alive:
            continue
        bar = _BAR.search(line)
        if (bar and "100%" not in line) or (not bar and _LOADS.search(line) and not _LOADED.search(line)):
            loads.append(at)
        elif loads and (_LATER.search(line) or (_LOADED.search(line) and not bar)) and "File " not in line:
            loads = []
    return loads


def _bars(lines: Sequence[str]) -> int:
    """How many processes show the same part of their bar."""
    parts = Counter(found[0] for line in lines if "oading" in line for found in _BAR.finditer(line))
    return min(parts.values(), default=0) if len(parts) == 1 else max(parts.values(), default=0)


def _alike(lines: Sequence[str]) -> int:
    """How many processes of one name take about as much memory, by the kernel's table."""
    rows = [found for line in lines if "] " in line and (found := _TASK.search(line))]
    sizes = [(each["name"], int(each["rss"])) for each in rows if int(each["rss"]) >= _LEAST_PAGES]
    return max((sum(name == mine and abs(rss - size) <= _ALIKE * size for name, rss in sizes) for mine, size in sizes),
               default=0)  # fmt: skip
