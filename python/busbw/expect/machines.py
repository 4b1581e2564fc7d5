"""Machine types by name: what their vendors say joins their GPUs and their nodes."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from busbw.base.errors import UserError
from busbw.base.nearest import nearest
from busbw.base.toml import parse_toml
from busbw.expect.fabric import Fabric, pcie_of_sm, refuse_others
from busbw.expect.links import NetKind
from busbw.machine.topology.rates import nccl_nvlink_GBps

_KEYS = frozenset(
    {"name", "gpu", "names", "sm", "gpus", "nvlinks", "island", "direct", "domain", "nics", "gbps", "net", "source"}
)


@cache
def _table() -> tuple[dict[str, Any], ...]:
    """The rows of machines.toml, checked: a file of ours, so a mistake in it is a fault of the program."""
    text = files(__package__).joinpath("machines.toml").read_text(encoding="utf-8")
    rows = tuple(parse_toml(text, "machines.toml")["machine"])
    for row in rows:
        if set(row) - _KEYS or not {"name", "gpu", "sm", "gpus", "source"} <= set(row):
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
    net = f"{fabric.nics} x {fabric.nic_Gbps:g} Gbit/s {fabric.net.value}" if fabric.nics else "no network known"
    return f"{fabric.gpus} GPUs of compute capability {(fabric.sm or 0) / 10:.1f}, {joined}, {net}"


def find(name: str | None) -> Fabric | None:
    """The fabric of that machine type, by any of its names as people write them; None where it is not known."""
    wanted = _plain(name or "")
    for row in _table():
        if wanted and wanted in {_plain(each) for each in _names_of(row)}:
            return _fabric(row)
    return None


def of_gpu(gpu: str | None) -> list[Fabric]:
    """The machine types that have GPUs of that product name ("NVIDIA H100 80GB HBM3"); none where it is not known."""
    kinds = {row["gpu"] for row in _table()}
    said = [each for each in kinds if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", gpu or "")]
    kind = max(said, key=len, default=None)
    return [_fabric(row) for row in _table() if row["gpu"] == kind]


def gpu_of(name: str) -> str:
    """What people call the GPU of the machine type of that name, as `describe` and `of_gpu` know it."""
    return next((row["gpu"] for row in _table() if row["name"] == name), "")


def require(name: str) -> Fabric:
    """As `find`, but an unknown name is a sentence with the nearest known ones."""
    found = find(name)
    if found is None:
        refuse_others([name])
        raise UserError(f"there is no machine type {name[:64]!r}; {_hint(name)}", exit_code=2)
    return found


def _names_of(row: dict[str, Any]) -> list[str]:
    return [row["name"], *row.get("names", [])]


def _plain(name: str) -> str:
    """A name without what people leave out or put in: case, blanks, dashes and dots, and Azure's first word."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("standard")


def _hint(name: str) -> str:
    """Types whose GPU is named, else the nearest name; a name that differs in its number is another machine."""
    plain = _plain(name)
    gpus = {_plain(row["gpu"]): row["gpu"] for row in _table()}
    said = max((each for each in gpus if re.search(f"(?<!g){each}", plain)), key=len, default=None)
    if said is not None:
        types = [row["name"] for row in _table() if _plain(row["gpu"]) == said]
        return f"types with {gpus[said]}: {', '.join(types)} (busbw predict --list says what joins them)"
    every = {_plain(each): each for row in _table() for each in _names_of(row)}
    near = nearest(plain, [each for each in every if re.findall(r"\d+", each) == re.findall(r"\d+", plain)])
    if near is not None:
        return f"did you mean {every[near]}?"
    held = [each for plain_name, each in every.items() if len(plain) > 2 and plain in plain_name]
    near_ones = held or [every[each] for each in get_close_matches(plain[:64], every, n=4, cutoff=0.55)]
    listed = "busbw predict --list shows every type; of another one, predict takes its --topology"
    return f"nearest are {', '.join(near_ones[:4])}; {listed}" if near_ones else listed


def _fabric(row: dict[str, Any]) -> Fabric:
    sm, links = row["sm"], row.get("nvlinks", 0)
    return Fabric(
        name=row["name"], gpus=row["gpus"], sm=sm, nvlink_GBps=(nccl_nvlink_GBps(sm) or 0.0) * links,
        island=row.get("island", row["gpus"] if links else 1), switched=bool(links) and not row.get("direct", False),
        pcie_GBps=pcie_of_sm(sm), nics=row.get("nics", 0), nic_Gbps=float(row.get("gbps", 0.0)),
        net=NetKind(row.get("net", "InfiniBand")), domain=row.get("domain", 0),
    )  # fmt: skip
