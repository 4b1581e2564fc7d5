"""Clues of UCX: one that was built without CUDA, as what it lists of itself shows, and crashes on a GPU's pointer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_IN_UCX = re.compile(
    r"libuc[pt]\w{0,12}\.so|\b(?:ucp|uct|ucs)_(?:dt|mm|tag|am|ep|rndv|proto|memcpy|iface)\w{0,40}"
    r"|memcpy_\w{0,30}unaligned|invalid permissions for mapped object"
)
_OF_UCX = re.compile(r"libuc[pt]\w{0,12}\.so|\bpml[ =]ucx\b|\bUCX_[A-Z]{2,20}=")
_BUILT = re.compile(r"^# [Cc]onfigured with: (?P<how>[^\n]{0,800})$", re.MULTILINE)
_LISTED = re.compile(r"^[^\n]{0,12}#\s{0,8}(?:Memory domain|Transport): (?P<name>\w{1,20})", re.MULTILINE)
_CUDA = re.compile(r"--with-cuda(?!=no)\b")
_PICKED = re.compile(r"ucx_info -d[^\n]{0,40}\|[^\n]{0,40}grep[^\n]{0,40}(?<!-v )\b(?:cuda|gdr)", re.IGNORECASE)
_EMPTY = re.compile(
    r"ucx_info -d[^\n]{0,60}\|[^\n]{0,20}grep(?: -\w{1,4})? ['\"]?cuda\w{0,6}['\"]?[ \t]*\n(?=[^\n]{0,80}[$#>%] |\Z|\n)"
)
"""Somebody looked for CUDA in the list, and the next line is a prompt."""
_FEW = 3


def built_without_cuda(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """UCX lists no transport for CUDA, and took a GPU's pointer for one of the host."""
    said = "\n".join(seen.fact for seen in finding.evidence)
    if not _IN_UCX.search(said) or not any(_OF_UCX.search(text.text) for text in texts):
        return None
    for text in texts:
        built, listed = _BUILT.search(text.text), list(_LISTED.finditer(text.text))
        empty = _EMPTY.search(text.text)
        if any("cuda" in found["name"] for found in listed) or (built and _CUDA.search(built["how"])):
            return None
        none = empty or (listed[0] if len(listed) >= _FEW and not _PICKED.search(text.text) else None)
        if none is None:
            continue
        how = ", and it was configured without --with-cuda" if built else ""
        return Sharper(
            f"the UCX in use has no CUDA support: ucx_info -d lists no cuda_copy and no cuda_ipc{how}. It takes a "
            "GPU's pointer for memory of the host, and crashes in its copy",
            "build UCX again with --with-cuda=/usr/local/cuda (and gdrcopy), and Open MPI against it, or take the UCX "
            "of HPC-X; ucx_info -d then lists cuda_copy and cuda_ipc. Until then leave it out: mpirun --mca pml ob1 "
            "--mca btl smcuda,self (with tcp between hosts). The program, NVLinks and Open MPI's own CUDA support are "
            "not at fault",
            tuple(text.evidence(each.start()) for each in (none, built) if each is not None),
        )
    return None
