"""Machine types by name: what their vendors say joins their GPUs and their nodes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from busbw.base.errors import UserError
from busbw.base.nearest import nearest
from busbw.base.toml import parse_toml
from busbw.expect.fabric import Fabric, pcie_of_sm, refuse_amd
from busbw.expect.links import NetKind
from busbw.machine.topology.rates import nccl_nvlink_GBps

_KEYS = frozenset(
    {"name", "names", "sm", "gpus", "nvlinks", "island", "direct", "domain", "nics", "gbps", "net", "source"}
)


@cache
def _table() -> tuple[dict[str, Any], ...]:
    """The rows of machines.toml, checked: a file of ours, so a mistake in it is a fault of the program."""
    text = files(__package__).joinpath("machines.toml").read_text(encoding="utf-8")
    rows = tuple(parse_toml(text, "machines.toml")["machine"])
    for row in rows:
        if set(row) - _KEYS or not {"name", "sm", "gpus", "source"} <= set(row):
            raise ValueError(f"machines.toml: {row.get('name')} has other keys than {sorted(_KEYS)}")
    return rows


def names() -> list[str]:
    """Every machine type, by its short name."""
    return [row["name"] for row in _table()]


def describe(fabric: Fabric) -> str:
    """One line about a machine type."""
    joined = f"NVLink {fabric.nvlink_GBps:.4g} GB/s each" if fabric.nvlink_GBps else "no NVLink"
    if fabric.nvlink_GBps and fabric.island < fabric.gpus:
        joined += f", {fabric.island} joined"
    if fabric.domain:
        joined += f" in a domain of {fabric.domain}"
    net = f"{fabric.nics} x {fabric.nic_Gbps:g} Gbit/s {fabric.net.value}" if fabric.nics else "no fast network"
    return f"{fabric.gpus} GPUs of compute capability {(fabric.sm or 0) / 10:.1f}, {joined}, {net}"


def find(name: str | None) -> Fabric | None:
    """The fabric of that machine type, by any of its names; None where it is not known."""
    wanted = (name or "").lower()
    for row in _table():
        if wanted in {row["name"], *(other.lower() for other in row.get("names", []))}:
            return _fabric(row)
    return None


def require(name: str) -> Fabric:
    """As `find`, but an unknown name is a sentence with the nearest known one."""
    found = find(name)
    if found is None:
        refuse_amd([name])
        every = [*names(), *(other for row in _table() for other in row.get("names", []))]
        near = nearest(name, every)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(names())}"
        raise UserError(f"there is no machine type {name!r}; {hint}", exit_code=2)
    return found


def _fabric(row: dict[str, Any]) -> Fabric:
    sm, links = row["sm"], row.get("nvlinks", 0)
    return Fabric(
        name=row["name"], gpus=row["gpus"], sm=sm, nvlink_GBps=(nccl_nvlink_GBps(sm) or 0.0) * links,
        island=row.get("island", row["gpus"] if links else 1), switched=bool(links) and not row.get("direct", False),
        pcie_GBps=pcie_of_sm(sm), nics=row.get("nics", 0), nic_Gbps=float(row.get("gbps", 0.0)),
        net=NetKind(row.get("net", "InfiniBand")), domain=row.get("domain", 0),
    )  # fmt: skip
