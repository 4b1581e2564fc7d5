"""Clues of RDMA devices that NCCL does not find: not given to the container, without libraries, or of other names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_NO_FOLDER = re.compile(
    r"^[^\n]{0,80}\b(?:ls|stat|find)\b: [^\n]{0,30}?\W?/dev/infiniband/?(?:uverbs\d{1,2}|\*)?\W?: No such file",
    re.MULTILINE,
)
_FOLDER = re.compile(
    r"(?:^|[ \t])/dev/?:[ \t\n]{1,3}(?P<one>(?:[a-zA-Z][\w.-]{0,30}[ \t\n]{1,4}){8,300})"
    r"|^[^\n]{0,120}[#$>+] ?ls (?:-1 )?/dev/?[ \t]*\n(?P<alone>(?:[a-zA-Z][\w.-]{0,30}[ \t\n]{1,4}){8,300})",
    re.MULTILINE,
)
"""All names of /dev, as ls lists them."""
_GIVEN_NONE = re.compile(r"\b[Dd]evices['\"]?(?:=|: ?)(?:\[\]|null)(?![\w,])")
"""What `docker inspect` says of a container without devices."""
_RUN = re.compile(r"\b(?:docker|podman|nerdctl) run (?P<words>(?:[^\n\\]|\\\n){4,1500})")
_GIVES = re.compile(r"--privileged|/dev/infiniband|-v /dev:|--device[= ]\S{0,20}(?:rdma|infiniband)")
_PRIVILEGED = re.compile(r"\b[Pp]rivileged['\"]?(?:=|: ?)true\b|--privileged\b")
_UP = re.compile(r"\b(?P<dev>[\w.-]{2,30}) port \d{1,2} ==> \S{1,30} \(Up\)")
_HOST_HAS = re.compile(r"\bCA '(?P<ca>[\w.-]{2,30})'|\blink (?P<link>[\w.-]{2,30})/\d{1,2} [^\n]{0,80}state ACTIVE")
_OPENS = re.compile(
    r"^c[rw-]{9}[^\n]{0,60}\s(?:/dev/infiniband/)?uverbs\d{1,2}\s*$"
    r"|^[^\n]{0,120}[#$>+] ?ls (?:-\w{1,4} )?/dev/infiniband/?[ \t]*\n"
    r"(?:[^\n#$>]{0,200}\n){0,3}?[^\n#$>]{0,200}\buverbs\d",
    re.MULTILINE,
)
_LISTED = re.compile(
    r"\s(?P<link>[a-z]\w{1,29}) -> (?:\.\./){2,6}devices/[^\n]{4,200}/infiniband/\w{2,30}\s*$"
    r"|(?:^[^\n]{0,120}[#$>+] ?ls (?:-1 )?/sys/class/infiniband/?|^\s{0,8}\d{1,3} HCAs? found:)[ \t]*\n\s{0,8}"
    r"(?P<names>(?:[a-z]\w{1,29}[ \t\n]{1,8}){1,40})",
    re.MULTILINE,
)
"""Devices that the kernel has: its list is the host's in every container."""
_FOUND = re.compile(r"NCCL INFO NET/IB ?: Using \[0\]")
_NONE = re.compile(r"NET/IB ?: No device found|[Ff]ailed to open libibverbs")
_GIVE = (
    "start the containers on all nodes with --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 (compose: "
    "devices: - /dev/infiniband). In Kubernetes that is the resource of the RDMA device plugin (rdma/..., "
    "nvidia.com/...) in the pod's limits, with IPC_LOCK. The image needs rdma-core with the NIC's provider. Then "
    "ibv_devinfo inside lists {first}, and NCCL says NET/IB : Using [0]{first}:1. NCCL_NET and NCCL_IB_* may stay, and "
    "have no effect until then"
)
_OF_EFA = re.compile(r"\bprovider: efa\b|\bFI_PROVIDER=efa\b|aws-ofi-nccl|NET/OFI\b|amazonaws\.com/efa")
_GIVE_EFA = (
    "give the container the EFA devices: docker --device=/dev/infiniband (each uverbs device) --ulimit memlock=-1; in "
    "Kubernetes vpc.amazonaws.com/efa in the pod's limits, and EFA's device plugin. Then fi_info -p efa inside lists "
    "them, and NCCL says NET/OFI Selected provider is efa"
)
_ENROOT_NONE = re.compile(r"\bMELLANOX_VISIBLE_DEVICES[=:] ?[\"']?(?P<value>none|void)\b")
"""By which enroot's hook for RDMA gives a container nothing."""
_ENROOT = re.compile(r"\bpyxis:|\benroot\b|--container-image[= ]")
_GIVE_ENROOT = (
    "set MELLANOX_VISIBLE_DEVICES=all where the container is started (before srun, or in /etc/enroot/environ.d on all "
    "nodes), with enroot's hook 99-mellanox.sh in place; unset UCX_TLS where it names tcp alone. Or srun "
    "--container-mounts=/dev/infiniband. Then ibv_devinfo inside lists {first}, and NCCL says NET/IB : Using "
    "[0]{first}:1. Plugins and drivers are not at fault"
)
_INSTALL = (
    "install rdma-core, libibverbs and the provider of the NIC (libmlx5, ibverbs-providers) in the image, of a release "
    "that fits the host's; ibv_devices inside must list {first}. The devices are there and NCCL_IB_HCA is right"
)


def not_given(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host has devices, and the container in which NCCL runs lacks them, or what opens them."""
    lacks, none = _first(_NO_FOLDER, texts) or _listed_without(texts), any(_NONE.search(text.text) for text in texts)
    if not none and lacks is None:
        return None
    if (told := _started_without(texts, lacks)) is not None:
        return told
    if not none or any(_FOUND.search(text.text) for text in texts):
        return None
    names, at = _names(texts)
    opens = _first(_OPENS, texts)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    has = f"the host has {named(', '.join(names[:3]), 100)}{more} (/sys/class/infiniband)" if names else ""
    seen = tuple(each for each in (lacks, opens, at) if each is not None)
    first = names[0] if names else "mlx5_0"
    if lacks is not None:
        has = has or ("they are there outside of it" if opens is not None else "")
        though = f", though {has}" if has else ""
        return Sharper(
            f"NCCL finds no RDMA device: /dev/infiniband is missing here, as in a container that was not given the "
            f"devices{though}{_withheld(texts)}",
            _give(texts, first),
            seen,
        )
    return _other_names(facts, names, has, seen) or (
        Sharper(
            f"NCCL finds no RDMA device and uses sockets between nodes, though {has} and /dev/infiniband is there: the "
            "image lacks libibverbs or the NIC's provider",
            _INSTALL.format(first=first),
            seen,
        )
        if names and opens is not None
        else None
    )


def _started_without(texts: Sequence[Text], lacks: Evidence | None) -> Sharper | None:
    """The host shows a device, and how the container was started, or what it holds, shows none."""
    none = _first(_GIVEN_NONE, texts)
    runs = [(text, found) for text in texts for found in _RUN.finditer(text.text)]
    run = runs[0][0].evidence(runs[0][1].start()) if runs else None
    gives = any(_GIVES.search(found["words"]) for _, found in runs)
    if not (none or run or lacks) or (gives and none is None) or _first(_PRIVILEGED, texts) is not None:
        return None
    found = next(
        ((text, each) for words in (_UP, _HOST_HAS) for text in texts if (each := words.search(text.text))), None
    )
    names, at = _names(texts)
    device = next(each for each in found[1].groups() if each) if found else (names or [""])[0]
    host = found[0].evidence(found[1].start()) if found else at
    # The kernel lists its devices in every container: that is no word of the host outside of it.
    if not device or host is None or not (found or none or run):
        return None
    by = "docker inspect shows none" if none else "docker run gives it none" if run else "it lacks that folder"
    return Sharper(
        f"the container was started without the RDMA devices (/dev/infiniband; {by}), though the host has "
        f"{named(device, 30)}{f' and {len(names) - 1} more' if not found and len(names) > 1 else ''}: NCCL finds none"
        f"{_withheld(texts)}",
        _give(texts, device),
        tuple(each for each in (none, run, lacks, host) if each is not None),
    )


def _withheld(texts: Sequence[Text]) -> str:
    """The setting by which a runtime of containers gives no devices."""
    found = next((found for text in texts if (found := _ENROOT_NONE.search(text.text))), None)
    return f" (MELLANOX_VISIBLE_DEVICES={found['value']}: enroot gives it none)" if found else ""


def _give(texts: Sequence[Text], first: str) -> str:
    """How a container is given the devices: those of EFA have a plugin and a network of their own."""
    if any(_ENROOT.search(text.text) for text in texts):
        return _GIVE_ENROOT.format(first=named(first, 30))
    return _GIVE_EFA if any(_OF_EFA.search(text.text) for text in texts) else _GIVE.format(first=named(first, 30))


def _other_names(facts: Facts, names: Sequence[str], has: str, seen: tuple[Evidence, ...]) -> Sharper | None:
    """NCCL_IB_HCA asks for devices of which the host has none."""
    asked = [each for each in _asked(facts) if each]
    if not names or not asked or any(name.startswith(each) for each in asked for name in names):
        return None
    return Sharper(
        f"NCCL_IB_HCA names {named(', '.join(asked[:4]), 60)}, and {has}: NCCL uses sockets between nodes",
        f"name devices that are there (NCCL_IB_HCA={named(','.join(names[:8]), 100)}), or unset NCCL_IB_HCA; ^NAME "
        "leaves one out. Where hosts name them differently, give a begin that all share (NCCL_IB_HCA=mlx5)",
        seen,
    )


def _listed_without(texts: Sequence[Text]) -> Evidence | None:
    """A list of /dev with GPUs in it, and without the folder of RDMA devices."""
    for text in texts:
        for found in _FOLDER.finditer(text.text):
            listed = set((found["one"] or found["alone"]).split())
            if {"null", "nvidia0"} <= listed and "infiniband" not in listed:
                return text.evidence(found.start("one") if found["one"] else found.start("alone"))
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
