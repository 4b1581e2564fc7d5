"""What is known of a GPU by its product name: compute capability and NVLinks of a whole board."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """`nvlinks` is what a healthy GPU of an NVLink machine has; None where boards differ (bridges are optional)."""

    sm: int
    nvlinks: int | None


# Source: NVIDIA's data sheets; SXM boards have all links wired, PCIe boards have them only with a bridge.
_PRODUCTS: tuple[tuple[re.Pattern[str], Product], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), product)
    for pattern, product in (
        (r"\bGB?300\b|\bB300\b", Product(103, 18)),
        (r"\bGB200\b|\bB200\b|\bB100\b", Product(100, 18)),
        (r"\bH(?:100|200) NVL\b|\bH100 PCIe\b", Product(90, None)),
        (r"\bH800\b", Product(90, 8)),
        (r"\bH200\b|\bH100\b|\bH20\b|\bGH200\b", Product(90, 18)),
        (r"\bA100.*PCIe\b|\bA100 80G\.\.\.|\bA800.*PCIe", Product(80, None)),
        (r"\bA800\b", Product(80, 8)),
        (r"\bA100\b", Product(80, 12)),
        (r"\bA30\b", Product(80, None)),
        (r"\bRTX 50[5-9]0\b|\bRTX PRO \d000\b", Product(120, 0)),
        (r"\bGB10\b", Product(121, 0)),
        (r"\bL40S?\b|\bL4\b", Product(89, 0)),
        (r"\bA10G?\b|\bA16\b|\bA2\b", Product(86, 0)),
        (r"\bA40\b|\bA6000\b|\bRTX 3090\b", Product(86, None)),
        (r"\bV100.*PCIe\b", Product(70, 0)),
        (r"\bV100\b", Product(70, 6)),
        (r"\bT4\b", Product(75, 0)),
        (r"\bP100\b", Product(60, 4)),
    )
)


def product(name: str | None) -> Product | None:
    """What is known of that product; None for one that is not in the list."""
    return next((known for pattern, known in _PRODUCTS if name and pattern.search(name)), None)


# What leaves one GPU in one direction at most, GB/s: with every bridge that its board takes, or through all links.
# Source: data sheets of NVIDIA (600 GB/s both ways over bridges of A100 and H100 PCIe, 900 of H100 NVL, 400 of A800,
# 200 of A30, 112.5 of RTX A5000, A6000, A40 and RTX 3090, 100 of Turing's) and of AMD (896 GB/s of MI300X and MI325X,
# 1075.2 of MI350X and MI355X over seven links). The compute capability says the PCIe generation.
_MOST: tuple[tuple[re.Pattern[str], int, float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), sm, most)
    for pattern, sm, most in (
        (r"\bH(?:100|200) NVL\b", 90, 450.0),
        (r"\bH100 PCIe\b", 90, 300.0),
        (r"\bA800.*PCIe", 80, 200.0),
        (r"\bA100.*PCIe|\bA100 80G\.\.\.", 80, 300.0),
        (r"\bA30\b", 80, 100.0),
        (r"\bRTX 50[5-9]0\b|\bRTX PRO \d000\b", 120, 0.0),
        (r"\bRTX 40[5-9]0\b|\bRTX \d000 Ada\b|\bL20\b", 89, 0.0),
        (r"\bRTX 30[5-9]0\b|\bA[456]000\b|\bA5500\b|\bA40\b|\bA10G?\b", 86, 56.25),
        (r"\bRTX 20[6-8]0\b|\bTitan RTX\b|\bQuadro RTX\b", 75, 50.0),
        (r"\bMI3(?:00X|25X)\b", 0, 448.0),
        (r"\bMI35[05]X\b", 0, 537.6),
    )
)


def most_links(name: str | None) -> tuple[int, float] | None:
    """Compute capability (0: not NVIDIA's) and what the links of boards of that name carry at most; None if unknown."""
    return next(((sm, most) for pattern, sm, most in _MOST if name and pattern.search(name)), None)


# One link of a board, GB/s in one direction: four of GA102 carry 56.25 (whitepaper NVIDIA Ampere GA102 GPU
# Architecture: "four x4 links, with each link providing 14.0625 GB/sec bandwidth in each direction"), others 25.
_LINK_OF_GA102 = 14.0625
_LINK = 25.0


def unlike(name: str, sm: int | None, links: int, *, switched: bool) -> str | None:
    """Why GPUs of that name cannot be those that are shown, with so many NVLinks each; None where they can."""
    known, most = product(name), most_links(name)
    if known is None:
        return None
    if sm and sm != known.sm:
        return f"compute capability {sm / 10}, and {name} has {known.sm / 10}"
    wired = known.nvlinks
    if wired is None and most is not None:
        wired = round(most[1] / (_LINK_OF_GA102 if known.sm == 86 else _LINK))
        if switched:
            return f"NVLinks through a switch, and {name} has bridges from board to board alone"
    if wired is not None and links > wired:
        return f"{links} NVLinks of a GPU, and {name} has {wired or 'none'}"
    return None


def takes_bridges(name: str | None) -> bool:
    """Whether boards of that name have links for bridges, which are inactive where none is plugged in."""
    known = product(name)
    return most_links(name) is not None and (known is None or known.nvlinks is None)


AMD = "AMD GPU"
"""Name of a GPU of which a file says only that AMD made it."""

HYGON = "Hygon DCU"
"""Name of an accelerator of Hygon, whose library is made from RCCL and writes files as it does."""

_OF_VENDOR = "GPU of PCI vendor "
_NVIDIA = "0x10de"
_MAKERS = {"0x1002": AMD, "0x1d94": HYGON}
_AMD = re.compile(r"\bAMD\b|\bRadeon\b|\bInstinct\b|\bMI[1-4]\d\d[A-Z]?\b|\bgfx\d", re.IGNORECASE)
_RDMA = re.compile(r"mlx\d|bnxt_re|irdma|rdmap?\d|efa_|roce|hfi\d|qedr|cxgb\d_|erdma|hns_|mana_|ionic_|rxe\d|siw\d")
_INTERFACE = re.compile(
    r"(?:eth|en[opsx]|bond|team|ib|vlan|wl[opsx]|ww[opsx]|hsn|tun|tap|wg|dummy|ovs|macvlan|ipvlan|cni|weave|idrac)\d"
    r"|docker|virbr|veth|br-|cali|vxlan|flannel|cilium|lxc|kube|nerdctl|podman|tailscale|zt[0-9a-z]|lo$"
)


def is_amd(name: str | None) -> bool:
    """Whether that is a GPU of AMD: RCCL runs there, and nothing here predicts it."""
    return bool(name and _AMD.search(name))


def of_vendor(vendor: str) -> str | None:
    """The name of a GPU of that PCI vendor (0x1002); None for NVIDIA, whose products have names, and for no vendor."""
    vendor = vendor.strip().lower()
    if vendor == _NVIDIA or not re.fullmatch(r"0x[0-9a-f]{4}", vendor) or vendor == "0x0000":
        return None
    return _MAKERS.get(vendor, _OF_VENDOR + vendor)


def other_maker(name: str | None) -> str | None:
    """Who made that GPU where it was not NVIDIA: another library than NCCL runs there, and nothing predicts it."""
    if is_amd(name):
        return "AMD"
    if name == HYGON:
        return "Hygon"
    return name.removeprefix("GPU of ") if name and name.startswith(_OF_VENDOR) else None


def has_c2c(name: str | None) -> bool:
    """Whether NVLink-C2C joins that GPU with its processor: GH200, GB200 and GB300."""
    return bool(name and re.search(r"\bG[HB][23]00\b", name))


def is_part(name: str | None) -> bool:
    """Whether that is a part of a GPU (an instance of MIG), which has no NVLinks and no peer access."""
    return bool(name and re.search(r"\bMIG\b", name))


def is_rdma(name: str) -> bool:
    """Whether a device of that name is an RDMA device by the names that Linux drivers and rdma-core give.

    mlx5_0 (NVIDIA), rdmap79s0 and efa_0 (AWS), bnxt_re0 (Broadcom), irdma0 (Intel), mana_0 (Azure), ionic_0 (AMD).
    """
    return bool(_RDMA.match(name)) and not carries_sockets(name)


def is_interface(name: str) -> bool:
    """Whether that is the name of a network interface (eth0, ens1, bond0, ib0), which carries sockets."""
    return bool(_INTERFACE.match(name))


def carries_sockets(rdma_name: str) -> bool:
    """Whether that RDMA device is the virtual function of a VM's Ethernet, over which no RDMA goes.

    Azure's images call it mlx5_an0 (accelerated networking), and the InfiniBand devices mlx5_ib0.
    """
    return bool(re.match(r"mlx\d+_an\d", rdma_name))
