"""Clues of RDMA devices that NCCL does not find: not given to the container, without libraries, or of other names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper, named
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_NO_FOLDER = re.compile(
    r"^[^\n]{0,80}\b(?:ls|stat|find)\b: [^\n]{0,30}?\W?/dev/infiniband/?(?:uverbs\d{1,2}|\*)?\W?: No such file",
    re.MULTILINE,
)
_OPENS = re.compile(
    r"^c[rw-]{9}[^\n]{0,60}\s(?:/dev/infiniband/)?uverbs\d{1,2}\s*$"
    r"|^[^\n]{0,120}[#$>+] ?ls (?:-\w{1,4} )?/dev/infiniband/?[ \t]*\n"
    r"(?:[^\n#$>]{0,200}\n){0,3}?[^\n#$>]{0,200}\buverbs\d",
    re.MULTILINE,
)
_LISTED = re.compile(
    r"\s(?P<link>[a-z]\w{1,29}) -> (?:\.\./){2,6}devices/[^\n]{4,200}/infiniband/\w{2,30}\s*$"
    r"|^[^\n]{0,120}[#$>+] ?ls (?:-1 )?/sys/class/infiniband/?[ \t]*\n(?P<names>(?:[a-z]\w{1,29}[ \t\n]{1,8}){1,40})",
    re.MULTILINE,
)
"""Devices that the kernel has: its list is the host's in every container."""
_FOUND = re.compile(r"NCCL INFO NET/IB ?: Using \[0\]")
_NONE = re.compile(r"NET/IB ?: No device found|[Ff]ailed to open libibverbs")
_GIVE = (
    "give the container the devices: docker --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1. In "
    "Kubernetes that is the resource of the RDMA device plugin (rdma/..., nvidia.com/...) in the pod's limits, with "
    "IPC_LOCK. The image needs rdma-core with the NIC's provider. Then NCCL says NET/IB : Using [0]{first}:1. Settings "
    "of NCCL_IB_* have no effect until then"
)
_OF_EFA = re.compile(r"\bprovider: efa\b|\bFI_PROVIDER=efa\b|aws-ofi-nccl|NET/OFI\b|amazonaws\.com/efa")
_GIVE_EFA = (
    "give the container the EFA devices: docker --device=/dev/infiniband (each uverbs device) --ulimit memlock=-1; in "
    "Kubernetes vpc.amazonaws.com/efa in the pod's limits, and EFA's device plugin. Then fi_info -p efa inside lists "
    "them, and NCCL says NET/OFI Selected provider is efa"
)
_INSTALL = (
    "install rdma-core, libibverbs and the provider of the NIC (libmlx5, ibverbs-providers) in the image, of a release "
    "that fits the host's; ibv_devices inside must list {first}. The devices are there and NCCL_IB_HCA is right"
)


def not_given(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host has devices, and the container in which NCCL runs lacks them, or what opens them."""
    if not any(_NONE.search(text.text) for text in texts) or any(_FOUND.search(text.text) for text in texts):
        return None
    names, at = _names(texts)
    lacks, opens = _first(_NO_FOLDER, texts), _first(_OPENS, texts)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    has = f"the host has {named(', '.join(names[:3]), 100)}{more} (/sys/class/infiniband)" if names else ""
    seen = tuple(each for each in (lacks, opens, at) if each is not None)
    first = names[0] if names else "mlx5_0"
    if lacks is not None:
        has = has or ("they are there outside of it" if opens is not None else "")
        though = f", though {has}" if has else ""
        of_efa = any(_OF_EFA.search(text.text) for text in texts)
        return Sharper(
            f"NCCL finds no RDMA device and uses sockets between nodes: /dev/infiniband is missing here, as in a "
            f"container that was not given the devices{though}",
            _GIVE_EFA if of_efa else _GIVE.format(first=first),
            seen,
        )
    asked = [each for each in _asked(facts) if each]
    if names and asked and not any(name.startswith(each) for each in asked for name in names):
        return Sharper(
            f"NCCL_IB_HCA names {named(', '.join(asked[:4]), 60)}, and {has}: NCCL uses sockets between nodes",
            f"name devices that are there (NCCL_IB_HCA={named(','.join(names[:8]), 100)}), or unset NCCL_IB_HCA; ^NAME "
            "leaves one out. Where hosts name them differently, give a begin that all share (NCCL_IB_HCA=mlx5)",
            seen,
        )
    if names and opens is not None:
        return Sharper(
            f"NCCL finds no RDMA device and uses sockets between nodes, though {has} and /dev/infiniband is there: the "
            "image lacks libibverbs or the NIC's provider",
            _INSTALL.format(first=first),
            seen,
        )
    return None


def _first(words: re.Pattern[str], texts: Sequence[Text]) -> Evidence | None:
    return next((text.evidence(found.start()) for text in texts if (found := words.search(text.text))), None)


def _names(texts: Sequence[Text]) -> tuple[list[str], Evidence | None]:
    found = [(text, each) for text in texts for each in islice(_LISTED.finditer(text.text), 64)]
    names = [name for _, each in found for name in (each["names"] or each["link"]).split()]
    return list(dict.fromkeys(names)), (found[0][0].evidence(found[0][1].end() - 1) if found else None)


def _asked(facts: Facts) -> list[str]:
    """The begins of names that NCCL_IB_HCA asks for; none where it leaves devices out."""
    value = (facts.value("NCCL_IB_HCA") or "").strip()
    return [] if value.startswith("^") else [each.lstrip("=").partition(":")[0] for each in value.split(",")]
