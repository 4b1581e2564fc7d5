"""Clues of the way from NICs to GPU memory: a module that is loaded and yet of no use to RDMA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_LOADED = re.compile(r"^(?P<name>nvidia_peermem|nv_peer_mem)\s{1,40}\d{3,12}\s{1,12}\d{1,4}\b", re.MULTILINE)
_CORE = re.compile(r"^ib_core\s{1,40}\d{3,12}\s{1,12}\d{1,4}(?: {1,4}(?P<users>[\w,]{2,400}))?\s{0,4}$", re.MULTILINE)
_DEPENDS = re.compile(
    r"\b(?:modinfo (?:-F depends )?(?P<of>nvidia[_-]peermem|nv_peer_mem)[^\n]{0,80}\n(?:[^\n]{0,160}\n){0,12}?)"
    r"(?:depends:\s{1,16})?(?P<list>nvidia)\s{0,4}$",
    re.MULTILINE,
)
"""What the module was built for: where ib_core is not in its list, it knows nothing of RDMA."""
_NO_CLIENT = re.compile(r"/memory_peers/[^\n]{0,60}No such file|/memory_peers/?'?: No such file")
_CLOSED = re.compile(r"^license:\s{1,16}NVIDIA\s{0,4}$|NVIDIA UNIX x86_64 Kernel Module", re.MULTILINE)
_OPEN = re.compile(r"^license:\s{1,16}Dual MIT/GPL|NVIDIA UNIX Open Kernel Module", re.MULTILINE)


_VERSION = re.compile(
    r"\bNCCL[ _](?:version |VERSION[=:] ?|(?=\d))(?P<version>2\.\d{1,2}\.\d{1,2})(?!\d)"
    r"|\blibnccl\.so\.(?P<so>2\.\d{1,2}\.\d{1,2})\b"
)
_LOOKS_ITSELF = (2, 23, 4)
"""From here on NCCL looks for the module by its own name (/sys/module/nvidia_peermem) as well."""


def _too_old(texts: Sequence[Text]) -> tuple[str, Evidence] | None:
    """The first NCCL that a log names, where it looks for the module in memory_peers alone."""
    for text in texts:
        found = _VERSION.search(text.text)
        if found is not None:
            version = found["version"] or found["so"]
            old = tuple(map(int, version.split("."))) < _LOOKS_ITSELF
            return (version, text.evidence(found.start())) if old else None
    return None


def _of_release(name: str, old: tuple[str, Evidence], seen: tuple[Evidence, ...]) -> Sharper:
    return Sharper(
        f"{name} is loaded, and NCCL {old[0]} does not see it. Before 2.23.4 it looks only for "
        "/sys/kernel/mm/memory_peers/nv_mem, where this kernel's RDMA core has not registered it. GPU Direct RDMA is "
        "off, and all data goes through host memory",
        "take NCCL 2.23.4 or newer in the image (or by LD_PRELOAD), which looks for /sys/module/nvidia_peermem too. Or "
        "DMA-BUF (open kernel modules, kernel 5.12 and newer), or MLNX_OFED's RDMA modules and the module built for "
        "them, which make memory_peers. Cables, switches and PCIe are not it",
        (old[1], *seen),
    )


def not_registered(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """nvidia_peermem is loaded, and the RDMA core does not use it."""
    for text in texts:
        loaded = _LOADED.search(text.text)
        if loaded is None:
            continue
        name = loaded["name"]
        core = _CORE.search(text.text)
        apart = core if core is not None and name not in (core["users"] or "").split(",") else None
        depends, client = _DEPENDS.search(text.text), _NO_CLIENT.search(text.text)
        # It calls symbols of ib_core, and may be refused by it all the same: then no client of it is listed.
        if core is not None and apart is None and client is None:
            continue
        why = [
            *(["ib_core's users are without it"] if apart else []),
            *(["it was built for nvidia alone"] if depends else []),
            *(["/sys/kernel/mm/memory_peers is without nv_mem"] if client else []),
        ]
        # The open modules need no such module: where they run, something else is at fault.
        if not why or any(_OPEN.search(each.text) for each in texts):
            continue
        # One that calls nothing of the RDMA core is of no use to a newer NCCL either.
        bound = core is not None and apart is None and depends is None
        if client is not None and bound and (old := _too_old(texts)) is not None:
            return _of_release(name, old, (text.evidence(loaded.start()), text.evidence(client.start())))
        closed = any(_CLOSED.search(each.text) for each in texts)
        dmabuf = ", and the closed modules of the driver have no DMA-BUF" if closed else ""
        shown = [loaded, apart, depends, client]
        return Sharper(
            f"{name} is loaded but not registered with the RDMA core ({'; '.join(why)}){dmabuf}: GPU Direct RDMA is "
            "off, and all data goes through host memory",
            "build the module again for the RDMA stack that runs: install OFED (DOCA) first and NVIDIA's driver after "
            "it (or dkms build of nvidia). Then modprobe -r nvidia_peermem and modprobe it; lsmod must show it behind "
            "ib_core. Or use the open kernel modules (DMA-BUF, kernel 5.12 and newer), which need no such module",
            tuple(text.evidence(each.start()) for each in shown if each is not None),
        )
    return None
