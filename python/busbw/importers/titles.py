"""What the words above a table say of it: the collective, and how many ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.importers.collective import named_in
from busbw.records import Collective

_TOLD_RANKS = re.compile(
    r"(?i)\b(\d{1,6}) ?(?:x ?)?(?:[\w-]{1,12} )?(?:gpus?|ranks|devices|processes)\b(?! ?(?:/|per|a|each)\b)"
    r"|\b(?:world[ _]?size|n_?ranks)\W{1,3}(\d{1,6})\b|(?<!\d)(\d{1,6}) ?(?:卡|枚|카드|cartes\b|Karten\b|tarjetas\b)"
)


def caption(lines: Sequence[str]) -> Collective | None:
    """The collective of the nearest of the lines that names one only, where it is a title and no prose."""
    for line in reversed(lines):
        found = (_of_shmem(line) or named_in(line)) if len(line) < 100 and len(line.split()) <= 12 else None
        if found:
            return found
    return None


def _of_shmem(line: str) -> Collective | None:
    """The collective of a test of NVSHMEM or rocSHMEM, by its title."""
    found = _SHMEM.match(line)
    return _SHMEM_NAMES.get(found[1]) if found else None


_SHMEM = re.compile(r"# ?(?:shmem_)?([a-z]{5,12})_(?:on_stream|device|latency|bw)\b")
_SHMEM_NAMES: dict[str, Collective] = {
    "reduction": "all_reduce", "fcollect": "all_gather", "alltoall": "alltoall", "broadcast": "broadcast",
    "bcast": "broadcast", "reducescatter": "reduce_scatter",
}  # fmt: skip


def ranks_in(text: str) -> int | None:
    """The only number of ranks that a text tells."""
    found = {int(match[1] or match[2] or match[3]) for match in _TOLD_RANKS.finditer(text)}
    return found.pop() if len(found) == 1 else None
