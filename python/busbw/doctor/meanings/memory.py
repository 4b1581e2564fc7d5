"""Who holds the memory of a GPU that is full, and whether one array is larger than any GPU, by what allocators say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.base.text import clean
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.signatures.program.gpu_memory_full import TOO_LARGE

NAME = "gpu-memory-full"
_PLAIN = "a GPU's memory is full"
_UNITS = {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_SIZE = r"\d{1,9}(?:\.\d{1,4})? ?(?:[KMGT]iB|bytes)"
_TOTAL = re.compile(
    rf"GPU (?P<gpu>\d{{1,3}}) has a total capaci?ty of (?P<total>{_SIZE}) of which (?P<free>{_SIZE}) is free"
)
_OLD = re.compile(
    rf"\(GPU (?P<gpu>\d{{1,3}}); (?P<total>{_SIZE}) total capacity; {_SIZE} already allocated; (?P<free>{_SIZE}) free; "
    rf"(?P<own>{_SIZE}) reserved in total by PyTorch"
)
_OWN = re.compile(rf"this process has (?P<own>{_SIZE}) memory in use")
_OTHER = re.compile(rf"Process (?P<pid>\d{{1,9}}) has (?P<held>{_SIZE}) memory in use")
_BY_TORCH = re.compile(rf"(?P<used>{_SIZE}) is allocated by PyTorch(?:.{{0,80}}? and (?P<kept>{_SIZE}) is reserved)?")
_ASKED = re.compile(rf"[Tt]ried to allocate (?P<asked>{_SIZE})")
_MANY_PIECES = 0.1
"""Of the GPU's memory that PyTorch keeps in pieces at least, where those are called the cause."""
_OF_PIECES = (
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment of all ranks (PYTORCH_ALLOC_CONF in newer "
    "releases). Samples of like length (buckets, padding) break up less of it"
)
_RANK = re.compile(r"\[rank(\d{1,7})\]")
_SHARE = 0.25
"""Of the memory that others must hold at least: contexts of CUDA alone are small."""

_OF_OTHERS = (
    "nvidia-smi on that host shows whose they are: end what an earlier start left behind, wait for the other job, or "
    "take a free GPU (CUDA_VISIBLE_DEVICES). Are they ranks of this job, give each its own GPU: "
    "torch.cuda.set_device(local rank) before the first tensor. A server of the same job takes what its setting says "
    "(gpu_memory_utilization). Smaller batches do not mend it"
)

_XLA = re.compile(rf"trying to allocate (?P<asked>{_SIZE})")
_BASE = re.compile(r"\((?P<asked>\d{9,18})\) exceeds the base limit \((?P<limit>\d{9,18})\)")
_OP = re.compile(r'op_name="(?P<op>[^"]{1,80})"')
_ANY_GPU = 300 * 2.0**30
"""More memory than one GPU has."""

_TOO_LARGE = (
    "make that computation smaller: fractions and preallocation of memory do not help. Attention that makes its scores "
    "in full needs batch x heads x sequence x sequence: take flash attention or one in blocks (PyTorch: "
    "scaled_dot_product_attention, JAX: dot_product_attention with implementation='cudnn'). Else shorter sequences "
    "(cap or bucket lengths), a smaller batch, rematerialisation (jax.checkpoint), or more shards. Print the shapes "
    "where they should be small"
)


@dataclass(frozen=True, slots=True)
class _Held:
    gpu: str
    total: float
    own: float
    others: float
    """What neither this process has nor is free."""
    listed: tuple[tuple[str, float], ...] = ()


def with_memory(finding: Finding, scans: Sequence[Scan]) -> Finding:
    """The finding of a full GPU with who holds its memory, or with the array that no GPU has room for."""
    if TOO_LARGE in finding.title:
        return replace(finding, fix=_TOO_LARGE)
    for seen in finding.evidence:
        if (held := _held(seen.fact)) is not None:
            rank = _RANK.search(seen.fact)
            who = f"rank {rank[1]}" if rank else "the job's process"
            return replace(finding, title=_title(held, who), fix=_OF_OTHERS)
        if kept := _in_pieces(seen.fact):
            title = f"{finding.title}; PyTorch keeps {_gib(kept)} free in pieces too small for it (fragmentation)"
            return replace(finding, title=title, fix=f"{_OF_PIECES}. Also: {finding.fix}")
        if finding.title == _PLAIN and (found := _TOTAL.search(seen.fact)) and (own := _by_torch(seen.fact)):
            rank = _RANK.search(seen.fact)
            who = f"rank {rank[1]}" if rank else "that process"
            total = _gib(_bytes(found["total"]))
            return replace(finding, title=f"{_PLAIN}: {who} has {_gib(own)} of the {total} of GPU {found['gpu']}")
    return _with_array(finding, scans)


def _held(text: str) -> _Held | None:
    """What PyTorch tells of a GPU that other processes fill; None where it fills it itself, or tells too little."""
    found = _TOTAL.search(text) or _OLD.search(text)
    if found is None:
        return None
    total, free = _bytes(found["total"]), _bytes(found["free"])
    mine = _OWN.search(text)
    own = _bytes(mine["own"]) if mine else 0.0
    told = 0 < own <= total  # in some containers PyTorch prints a number without sense
    if not told:
        own = _bytes(found["own"]) if "own" in found.groupdict() else _by_torch(text)
    others = total - free - own
    # Without that sentence what others hold and what this process has beside PyTorch look alike.
    least = max(own, _SHARE * total) if told else max(2 * own, 2 * _SHARE * total)
    if own <= 0 or others < least:
        return None
    listed = tuple((each["pid"], _bytes(each["held"])) for each in _OTHER.finditer(text)) if told else ()
    return _Held(found["gpu"], total, own, others, listed)


def _by_torch(text: str) -> float:
    found = _BY_TORCH.search(text)
    return _bytes(found["used"]) + _bytes(found["kept"] or "") if found else 0.0


def _in_pieces(text: str) -> float:
    """What PyTorch keeps unallocated, where that is a good part of the GPU and more than was asked for; 0 otherwise."""
    total, used, asked = _TOTAL.search(text), _BY_TORCH.search(text), _ASKED.search(text)
    if not (total and used and asked and used["kept"]):
        return 0.0
    kept = _bytes(used["kept"])
    return kept if kept > max(1.5 * _bytes(asked["asked"]), _MANY_PIECES * _bytes(total["total"])) else 0.0


def _title(held: _Held, who: str) -> str:
    pids = [pid for pid, _ in sorted(held.listed, key=lambda each: -each[1])]
    named = f" (pid {', '.join(pids[:4])})" if pids else ""
    several = f"another process{named} holds" if len(pids) == 1 else f"other processes{named} hold"
    return (
        f"GPU {held.gpu} is full, as {several} {_gib(held.others)} of its {_gib(held.total)}; "
        f"{who} has {_gib(held.own)}"
    )


def _with_array(finding: Finding, scans: Sequence[Scan]) -> Finding:
    """The finding with the one array that is larger than a GPU's memory, as XLA tells it."""
    asked = [_bytes(found["asked"]) for seen in finding.evidence if (found := _XLA.search(seen.fact))]
    if not asked:
        return finding
    limits = list(_limits(scans))
    limit = min((size for size, _ in limits), default=_ANY_GPU)
    size = max(asked)
    if size <= limit:
        return finding
    op = next((found["op"] for each in finding.evidence if (found := _OP.search(each.fact))), "")
    of = f" ({clean(op)})" if op else ""
    room = f"where a GPU has room for {_gib(limit)}" if limits else "more than any GPU has"
    return replace(
        finding,
        title=f"one computation{of} needs more than a GPU's memory at once: {_gib(size)}, {room}",
        fix=_TOO_LARGE,
        evidence=(*finding.evidence, *(each for _, each in limits[:1])),
    )


def _limits(scans: Sequence[Scan]) -> Iterator[tuple[float, Evidence]]:
    """How much XLA may take of a GPU, by its complaint of a computation that needs more."""
    for scan in scans:
        for line, text in scan.strange:
            if found := _BASE.search(text):
                yield float(found["limit"]), Evidence(clean(text.strip()[:240]), scan.source, line)


def _bytes(size: str) -> float:
    found = re.fullmatch(r"([\d.]{1,14}) ?(\w{3,5})", size)
    return float(found[1]) * _UNITS[found[2]] if found else 0.0


def _gib(size: float) -> str:
    return f"{size / 2.0**30:.2f} GiB"
