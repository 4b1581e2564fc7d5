"""An init that took long, and which part of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

_PART = re.compile(r"(\w+) (\d{1,9}\.\d+)")
_ABOUT = {
    "kernels": "the GPU's code is loaded (CUDA_MODULE_LOADING=LAZY; a slow file system)",
    "alloc": "GPU memory is set up (persistence mode is off, or many GPUs and processes start at once)",
    "bootstrap": "ranks meet (one starts late, names resolve slowly, or the first interface is wrong)",
    "allgathers": "ranks exchange what they know: one is slower than the others in what stands beside it here",
    "topo": "the machine is explored (slow /sys, many virtual devices)",
    "graphs": "channels are searched (an unusual topology; keep its result by NCCL_GRAPH_DUMP_FILE)",
    "connections": "channels are connected (slow registration of memory, or peers that answer late)",
}


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The longest init and the part that took most of it."""
    slowest = max(groups, key=lambda each: float(each["total"]))
    parts = {name: float(seconds) for name, seconds in _PART.findall(slowest.get("parts", ""))}
    name = max(parts, key=lambda each: parts[each], default="")
    most = f", {parts[name]:g} s of it in {name}: {_ABOUT.get(name, 'what no other part counts')}" if name else ""
    return f"an init of NCCL took {slowest['total']} s{most}"


SIGNATURE = Signature(
    name="slow-init",
    stage=Stage.EFFECT,
    title="an init of NCCL took long",
    patterns=(r"Init timings\b.{0,60} total (?P<total>(?:[3-9]\d|\d{3,6})\.\d{1,3}) \((?P<parts>[^)]{5,300})",),
    confirm="the same line of all ranks: is it one rank or one host; nvidia-smi -q | grep Persistence",
    cure=(
        "switch persistence mode on (nvidia-smi -pm 1, nvidia-persistenced); look at the part that took most; make "
        "communicators once, split them (ncclCommSplit) instead of making new ones"
    ),
    cost="each new communicator waits that long",
    severity=Severity.WARNING,
    versions="NCCL 2.22 and later",
    source="NCCL src/init.cc",
    tell=tell,
)
