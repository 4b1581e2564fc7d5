"""Machine types by name: what their vendors say joins their GPUs and their nodes."""

from __future__ import annotations

from difflib import get_close_matches

from busbw.base.errors import UserError
from busbw.expect.fabric import Fabric, pcie_of_sm
from busbw.expect.links import NetKind
from busbw.machine.topology.rates import nccl_nvlink_GBps

# Sources: Azure's pages of GPU-accelerated sizes (ND and NC families); NVIDIA's DGX and HGX data sheets. The island is
# the number of GPUs joined by NVLink. Name, other names, compute capability, GPUs, NVLinks, island, NICs, their Gbit/s.
_TABLE: tuple[tuple[str, tuple[str, ...], int, int, int, int, int, float], ...] = (
    ("nc12v3", ("Standard_NC12s_v3",), 70, 2, 0, 1, 0, 0),
    ("nc24v3", ("Standard_NC24s_v3", "Standard_NC24rs_v3"), 70, 4, 0, 1, 0, 0),
    ("ndv2", ("Standard_ND40rs_v2", "dgx-1v"), 70, 8, 6, 8, 1, 100),
    ("dgx-2", (), 70, 16, 6, 16, 8, 100),
    ("nc48v4", ("Standard_NC48ads_A100_v4",), 80, 2, 12, 2, 0, 0),
    ("nc96v4", ("Standard_NC96ads_A100_v4",), 80, 4, 12, 2, 0, 0),
    ("ndv4", ("Standard_ND96asr_v4", "dgx-a100"), 80, 8, 12, 8, 8, 200),
    ("ndmv4", ("Standard_ND96amsr_A100_v4",), 80, 8, 12, 8, 8, 200),
    ("ndv5", ("Standard_ND96isr_H100_v5", "dgx-h100"), 90, 8, 18, 8, 8, 400),
    ("ndh200v5", ("Standard_ND96isr_H200_v5", "dgx-h200"), 90, 8, 18, 8, 8, 400),
    ("h200-x4", (), 90, 4, 18, 4, 0, 0),
    ("dgx-b200", ("Standard_ND96isr_B200_v6",), 100, 8, 18, 8, 8, 400),
    ("dgx-b300", (), 103, 8, 18, 8, 8, 800),
)
_DIRECT = {"ndv2", "nc48v4", "nc96v4"}
"""Their NVLinks run from GPU to GPU, without a switch."""


def names() -> list[str]:
    """Every machine type, by its short name."""
    return [row[0] for row in _TABLE]


def describe(fabric: Fabric) -> str:
    """One line about a machine type."""
    joined = f"NVLink {fabric.nvlink_GBps:.4g} GB/s each" if fabric.nvlink_GBps else "no NVLink"
    if fabric.nvlink_GBps and fabric.island < fabric.gpus:
        joined += f", {fabric.island} joined"
    net = f"{fabric.nics} x {fabric.nic_Gbps:g} Gbit/s" if fabric.nics else "no fast network"
    return f"{fabric.gpus} GPUs of compute capability {(fabric.sm or 0) / 10:.1f}, {joined}, {net}"


def find(name: str | None) -> Fabric | None:
    """The fabric of that machine type, by any of its names; None where it is not known."""
    wanted = (name or "").lower()
    for row in _TABLE:
        if wanted in {row[0], *(other.lower() for other in row[1])}:
            return _fabric(row)
    return None


def require(name: str) -> Fabric:
    """As `find`, but an unknown name is a sentence with the nearest known one."""
    found = find(name)
    if found is None:
        every = [*names(), *(other for row in _TABLE for other in row[1])]
        near = get_close_matches(name, every, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names())}"
        raise UserError(f"there is no machine type '{name}'; {hint}", exit_code=2)
    return found


def _fabric(row: tuple[str, tuple[str, ...], int, int, int, int, int, float]) -> Fabric:
    name, _, sm, gpus, links, island, nics, gbps = row
    return Fabric(
        name=name, gpus=gpus, sm=sm, nvlink_GBps=(nccl_nvlink_GBps(sm) or 0.0) * links, island=island,
        switched=bool(links) and name not in _DIRECT, pcie_GBps=pcie_of_sm(sm), nics=nics, nic_Gbps=gbps,
        net=NetKind.INFINIBAND,
    )  # fmt: skip
