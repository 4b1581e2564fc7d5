"""What the words above a table say of it: the collective, and how many ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.importers.collective import named_in
from busbw.records import Collective

_MODEL = (
    r"(?:NVIDIA |AMD )?(?:[ABHVL]\d{2,3}|GB\d{3}|MI\d{3})[A-Z]{0,2}(?:[ -]\d{2,3} ?GB)?"
    r"(?![\w-]| ?(?:node|host|server|machine|vm))"
)
_GPUS = r"(?:(?!\d)[\w-]{1,12} ){0,2}(?:gpus?|ranks|devices|processes|PEs|卡|枚|카드|cartes|Karten|tarjetas)(?![a-z])"
_TOLD_RANKS = re.compile(
    rf"(?i)(?<![\d.])(\d{{1,6}}) ?(?:x ?)?{_GPUS}(?! ?(?:/|per|a|each)\b)"
    r"|\b(?:world[ _]?size|n_?ranks)\W{1,3}(\d{1,6})\b"
    # A version may stand before a model too: CUDA 12 H100.
    rf"|(?<![\d.])(\d{{1,6}}) ?[x\u00d7*] ?{_MODEL}|\b(?:on|with|of|across|using) (\d{{1,6}}) {_MODEL}"
)
_NODES = re.compile(
    r"(?i)(?<![\d.])(\d{1,6}) ?(?:[\w-]{1,12} )?"
    r"(?:(?:nodes?|hosts?|servers?|machines?|VMs?|instances?)\b|ノード|节点|노드|Knoten|nodos|nœuds|узл\w{1,3})"
)
_EACH = re.compile(rf"(?i)(?<![\d.])(\d{{1,4}}) ?(?:x ?)?{_GPUS} ?(?:/|per|a|each)\b")
_TIMES = re.compile(
    rf"(?i)(?<![\d.])(\d{{1,6}}) ?(?:(?:nodes?|hosts?|servers?|machines?) ?(?:of|with|[x\u00d7*])|[x\u00d7*])"
    rf" ?(\d{{1,4}}) ?{_GPUS}"
)
_ALONE = re.compile(rf"(?i)^\W*\d{{1,6}} ?(?:x ?)?{_GPUS}\W*$|\b(?:world[ _]?size|n_?ranks)\W{{1,3}}\d{{1,6}}\b")
"""A line that is a title of so many ranks and nothing else."""
MOST_IN_A_NODE = 8
"""More GPUs than this beside a number of nodes are those of all nodes; as many or fewer may be those of each."""


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


def ranks_above(heading: str, lines: Sequence[str]) -> int | None:
    """The ranks that the heading and the lines above a table tell; of titles that follow each other the nearest."""
    told = ranks_in(" / ".join([heading, *lines]))
    if told is not None:
        return told
    for line in reversed(lines):
        if _ALONE.search(line):
            return ranks_in(line)
    return None


def ranks_in(text: str) -> int | None:
    """The only number of ranks that a text tells; None where GPUs beside nodes may be those of each or of all."""
    products = {int(match[1]) * int(match[2]) for match in _TIMES.finditer(text)}
    nodes = {int(match[1]) for match in _NODES.finditer(text)}
    products |= {int(each[1]) * count for each in _EACH.finditer(text) for count in nodes if len(nodes) == 1}
    if products:
        return products.pop() if len(products) == 1 else None
    found = {int(next(filter(None, match.groups()))) for match in _TOLD_RANKS.finditer(text)}
    told = found.pop() if len(found) == 1 else None
    several = max(nodes, default=1) > 1
    return None if told is not None and several and told <= MOST_IN_A_NODE else told
