"""Clues of the machine that a job runs on: WSL2, no instance of AWS, closed kernel modules, addresses of interfaces."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_WSL = re.compile(r"microsoft-standard(?:-WSL2?)?\b|/dev/dxg\b|(?<!not )\b(?:on|in|under|using) WSL ?2?\b")
_PCI_PATH = re.compile(r"real path of /sys/class/pci_bus/")
_VERSION = re.compile(r"\bNCCL version (?P<version>(?P<major>\d{1,2})\.(?P<minor>\d{1,3})(?:\.\d{1,3})?)")
_KNOWS_WSL = (2, 11)
"""NVIDIA's release notes: 2.10.3 knows WSL2 with one GPU; its guide to CUDA on WSL names 2.11.4."""
_RETURNED = re.compile(r"NCCL INFO (?:\S{1,60}/)?(?:init|group)\.cc:\d{1,6} -> [1-6]\b")
_CHAIN = 8
"""Lines of the way back of an error, from where NCCL warned to its call."""


def of_topology(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Whether a call failed by what NCCL cannot read of the machine, and whether that is WSL2."""
    fails = _returned(finding, texts)
    said = " ".join(seen.fact for seen in finding.evidence)
    where = next(((text, found) for text in texts if (found := _WSL.search(text.text))), None)
    if where is not None and _PCI_PATH.search(said):
        version = next((found for text in texts if (found := _VERSION.search(text.text))), None)
        old = version is not None and (int(version["major"]), int(version["minor"])) < _KNOWS_WSL
        which = f" {version['version']}" if version is not None else ""
        why = f"NCCL{which} is too old for it" if old else f"this NCCL{which} does not find them"
        return Sharper(
            f"this is WSL2, whose GPUs have no PCI path in /sys: {why}",
            "NCCL 2.11.4 or newer, which knows WSL2 (2.10.3 is the first, with one GPU alone): a newer PyTorch, pip "
            "install -U nvidia-nccl-cu12, or build it anew. Or run Linux itself. No topology file helps here, and "
            "libibverbs is not missed",
            (where[0].evidence(where[1].start()),),
            fails=fails,
        )
    return Sharper(finding.title, finding.fix, fails=True) if fails else None


def _returned(finding: Finding, texts: Sequence[Text]) -> bool:
    """Whether behind a warning of the finding its error goes back to the call that was made."""
    for seen in finding.evidence:
        if "NCCL WARN" not in seen.fact or not seen.line:
            continue
        for text in texts:
            if text.source == seen.where:
                below = text.text.split("\n", seen.line + _CHAIN)[seen.line : seen.line + _CHAIN]
                if any(_RETURNED.search(line) for line in below):
                    return True
    return False


_NO_PEER = re.compile(
    r"\bshm\.cc:\d{1,5}[^\n]{0,60}(?:[Ff]ailure 217\b|peer access is not supported)"
    r"|(?:[Ff]ailure 217\b|peer access is not supported)[^\n]{0,200}\n(?:[^\n]{0,160} -> 1[^\n]{0,30}\n){0,3}"
    r"[^\n]{0,80}transport/shm\.cc:\d{1,5} -> 1\b"
)


def buffers_without_peers(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The transport through shared memory fails on GPUs without P2P (L4, T4), as NCCL 2.27 may with some drivers."""
    for text in texts:
        if (found := _NO_PEER.search(text.text)) is not None:
            return Sharper(
                "NCCL cannot open its buffers in host memory (cuMem) as the GPUs have no access to each other (error "
                "217), a fault of this NCCL with this driver",
                "NCCL_CUMEM_HOST_ENABLE=0 on all ranks, or a newer driver and NCCL (these buffers are the default "
                "since 2.24). They lie in /dev/shm then, which must be large enough: --shm-size or --ipc=host. P2P is "
                "not used here, so that NCCL_P2P_DISABLE=1 changes nothing",
                (text.evidence(found.start()),),
                fails=_returned(finding, texts),
            )
    return None


_OF_AWS = re.compile(
    r"(?i:\bip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\b|\b(?:p[2-9]|g[4-9]|trn\d|hpc\d)[a-z]{0,4}\.(?:\d{0,2}xlarge|metal))"
    r"|(?<![\w-])(?:p[3-9]|g[4-9])(?:d|de|dn|en|e|n)?-[\w.-]{1,40}:\d{1,8}:\d{1,8} |\bEC2\b|\bamzn|-\d{4}-aws\b"
    r"|vpc\.amazonaws\.com|\bi-0[0-9a-f]{16}\b|\bAmazon (?:EC2|Linux)|\b(?:EKS|SageMaker|ParallelCluster|HyperPod)\b"
    r"|\brdmap\d{1,4}s\d|Running on [pg]\d\w{0,4}\."
)
"""By what a log shows an instance of AWS; the folder of the plugin, and its version, come with images."""
_ELSEWHERE = re.compile(
    r"\b(?:GeForce )?RTX ?(?:[A2-6]\d{3}|\d{3}0)\b|\bGeForce\b|\b(?:DGX|HGX)\b|\b[HA]800\b|\bH20\b"
    r"|\bA[34]0\b(?=[- ,]|$)|\bA100-PCI|(?i:\bon[- ]prem\w{0,8}|\bbare[- ]?metal\b)"
    r"|NET/IB : Using \[0\](?:mlx5|bnxt|roce|ib)"
    r"|(?:Product Name|sys_vendor|Manufacturer)\W{1,4}(?!Amazon)\w[^\n]{0,40}"
    r"|\bStandard_N[CDV]\d\w{2,20}|\ba[23]-(?:high|mega|ultra)gpu",
    re.MULTILINE,
)
"""A GPU, a board or a cloud that AWS does not have, or somebody's own words."""
_OFI_PATH = re.compile(r"(?P<path>/[\w./+-]{1,160}/libnccl-net[\w-]{0,20}\.so)")


def no_instance_of_aws(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The plugin for EFA came with an image, to a machine that cannot have any EFA."""
    said = " ".join((finding.title, *(seen.fact for seen in finding.evidence)))
    if not re.search(r"OFI|EFA|libfabric|fi_getinfo", said) or any(_OF_AWS.search(text.text) for text in texts):
        return None
    for text in texts:
        if (found := _ELSEWHERE.search(text.text)) is None:
            continue
        path = _OFI_PATH.search(text.text)
        folder = path["path"].rpartition("/")[0] if path else "/opt/amazon/ofi-nccl/lib"
        return Sharper(
            "the image brings AWS' network plugin (aws-ofi-nccl, for EFA), and this machine is no instance of AWS "
            f"({named(found[0], 40)}): it finds no EFA device, and NCCL fails by it",
            f"NCCL_NET_PLUGIN=none, or take {named(folder, 100)} out of LD_LIBRARY_PATH (also ld.so.conf), or remove "
            "it from the image. NCCL then takes its own RDMA or sockets (NCCL_NET=IB or Socket). Nothing is missing "
            "on the machine",
            (text.evidence(found.start()), *((text.evidence(path.start()),) if path else ())),
        )
    return None


_NO_P2P = re.compile(r"device/p2p[^\n]{0,80}\n(?:[^\n]{0,120}\n){0,2}?\W{0,8}(?:\d{1,4}\s{1,4})?NULL\b")
_CLOSED = re.compile(
    r"NVIDIA UNIX x86_64 Kernel Module|^ii\s{1,4}nvidia-(?:dkms|kernel-source)-\d{3}(?:-server)?(?![\w-])"
    r"|^license:\s{1,12}NVIDIA\s*$",
    re.MULTILINE,
)
_OPEN = re.compile(
    r"NVIDIA UNIX Open Kernel Module|^ii\s{1,4}nvidia-(?:dkms|kernel-source)-\d{3}(?:-server)?-open"
    r"|^license:\s{1,12}Dual MIT/GPL",
    re.MULTILINE,
)
_REGISTERS = re.compile(r"\bregist\w{1,8}|\breg_?mr|mr_reg|\bMR\b", re.IGNORECASE)


def closed_modules(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Memory of GPUs cannot be registered, and the kernel's modules offer the NIC's driver no way to it."""
    if not any(_REGISTERS.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        none, closed = _NO_P2P.search(text.text), _CLOSED.search(text.text)
        if _OPEN.search(text.text) or not (none or closed):
            continue
        why = "the closed kernel modules of the NVIDIA driver" if closed else "the kernel modules of the NVIDIA driver"
        return Sharper(
            f"memory of GPUs cannot be registered with EFA: {why} offer its driver no peer-to-peer"
            f"{' (device/p2p says NULL)' if none else ''}",
            "install the open kernel modules of the same release in place of the closed ones "
            "(nvidia-driver-NNN-open, nvidia-dkms-NNN-open), and a current EFA installer, then reboot: "
            "device/p2p must say NVIDIA then. It is not memlock, gdrcopy or the security "
            "group",
            tuple(text.evidence(each.end() if each is none else each.start()) for each in (none, closed) if each),
        )
    return None


_BRIEF = re.compile(
    r"^(?P<name>[a-z][\w.-]{0,20}?)(?:@\S{1,20})? {2,30}(?:UP|UNKNOWN) {2,30}(?P<ip>\d{1,3}(?:\.\d{1,3}){3}/\d{1,2})\b",
    re.MULTILINE,
)
_LONG = re.compile(
    r"^\d{1,4}: (?P<name>[a-z][\w.-]{0,20}?)(?:@\S{1,20})?: <[A-Z_,-]{0,60}\bUP\b[^\n]{0,160}\n(?:[^\n]{0,160}\n){0,2}?"
    r"\s{2,8}inet (?P<ip>\d{1,3}(?:\.\d{1,3}){3}/\d{1,2})\b",
    re.MULTILINE,
)
_MASTER = re.compile(
    r"(?:MASTER_ADDR|[-_]master[-_]addr(?:ess)?|rdzv[-_]endpoint|main_process_ip|dist-init-addr)[ =:'\"]{1,4}"
    r"(?P<ip>\d{1,3}(?:\.\d{1,3}){3})\b"
)
_OF_ONE_HOST = re.compile(r"^(?:lo|docker|br-|virbr|veth|cni|flannel|cali|podman|lxc|tailscale|wg|zt|tun)")


def interface_with_address(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A listing of interfaces names the one that has an address in the network of the nodes."""
    if not finding.title.startswith("NCCL chose "):
        return None
    wrong = finding.title.rpartition(": ")[2]
    for text in texts:
        usable = [each for each in _listed(text) if not _OF_ONE_HOST.match(each[0]) and each[0] != wrong]
        master = next((found for each in texts for found in _MASTER.finditer(each.text)), None)
        shared = [each for each in usable if master is not None and _holds(each[1], master["ip"])]
        if len({name for name, _, _ in shared or usable}) != 1:
            continue
        name, address, seen = (shared or usable)[0]
        of = f", in whose network MASTER_ADDR {master['ip']} lies" if shared and master is not None else ""
        return Sharper(
            f"{finding.title}; {name} has an address for that ({address}{of})",
            f"set NCCL_SOCKET_IFNAME={name} on all nodes (and GLOO_SOCKET_IFNAME={name} for PyTorch; by its name "
            "there where hosts name it differently). Where an interface has only an address of IPv6 (fe80::), "
            "NCCL_SOCKET_FAMILY=AF_INET keeps NCCL off it",
            (seen,),
        )
    return None


def _listed(text: Text) -> Iterator[tuple[str, str, Evidence]]:
    """Name and address of each interface that is up, as `ip addr` lists them."""
    for found in [*_BRIEF.finditer(text.text), *_LONG.finditer(text.text)]:
        yield found["name"], found["ip"], text.evidence(found.start("ip"))


def _holds(network: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
