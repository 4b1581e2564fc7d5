"""A clue of the module that gives NICs GPU memory: it was built by symbols of another kernel's RDMA modules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_DISAGREES = re.compile(
    r"\b(?P<module>nv_peer_mem|nvidia_peermem|amdp2p|gdrdrv): disagrees about version of symbol (?P<symbol>ib_\w{3,60})"
)
_KERNEL = r"\d{1,2}\.\d{1,3}\.\d{1,4}[\w.+-]{0,60}"
_RUNS = re.compile(rf"\buname -r\b[^\n]{{0,40}}\n(?P<kernel>{_KERNEL})\s*$", re.MULTILINE)
_TREE = re.compile(
    rf"\bdefault -> (?:\S{{0,80}}/)?(?P<kernel>{_KERNEL})\s{{0,4}}$"
    rf"|/usr/src/ofa_kernel/(?:x86_64/)?(?P<named>{_KERNEL})",
    re.MULTILINE,
)
"""Which kernel OFED's headers and symbols are of, by the link that builds follow."""
_DMABUF = (5, 12)


def peers_of_another_build(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The module's symbols are not those of the RDMA core that is loaded: OFED's tree is of another kernel."""
    hit = next(((text, found) for text in texts if (found := _DISAGREES.search(text.text))), None)
    if hit is None:
        return None
    runs = next(((text, found) for text in texts if (found := _RUNS.search(text.text))), None)
    kernel = runs[1]["kernel"] if runs else ""
    tree = next(((text, found) for text in texts if (found := _TREE.search(text.text)) and _of(found) != kernel), None)
    module = hit[1]["module"]
    of_tree = f": OFED's tree is of {named(_of(tree[1]), 50)}" if tree and kernel else ""
    runs_now = f", and {named(kernel, 50)} runs" if of_tree else ""
    old = bool(kernel) and tuple(int(each) for each in kernel.split(".")[:2]) < _DMABUF
    link = "ls -l /usr/src/ofa_kernel must name the running kernel then. " if tree else ""
    other = "" if old else " From kernel 5.12 on DMA-BUF with the open kernel modules needs no such module."
    seen = [hit, *([tree] if tree and kernel else [])]
    return Sharper(
        f"{module} was built against other RDMA modules than those that are loaded (disagrees about version of symbol "
        f"{named(hit[1]['symbol'], 50)}){of_tree}{runs_now}",
        "install MLNX_OFED (DOCA) anew for the running kernel: mlnxofedinstall --add-kernel-support, or its dkms "
        f"packages, then /etc/init.d/openibd restart. {link}Only after it build {module} again and load it: a build "
        f"before it takes the same wrong symbols. {_newest(module)}{other}",
        tuple(text.evidence(found.start()) for text, found in seen),
    )


def _of(found: re.Match[str]) -> str:
    return found["kernel"] or found["named"]


def _newest(module: str) -> str:
    if module == "nv_peer_mem":
        return "Its newer releases look into the folder of uname -r."
    return "nvidia_peermem comes with the driver: install that anew, after OFED." if module == "nvidia_peermem" else ""
