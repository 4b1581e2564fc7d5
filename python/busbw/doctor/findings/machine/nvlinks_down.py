"""NVLinks that are down: inactive links, fewer than others or than the product has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.snapshot import TextFile
from busbw.machine.topology.model import SWITCH, Gpu, Machine, PathType
from busbw.machine.topology.names import product, takes_bridges

NAME = "nvlinks-down"
_PROOF = Proof(instruction="reset the GPU or the fabric manager, then look at `nvidia-smi nvlink -s` and measure again")


def examine(facts: Facts) -> Iterator[Finding]:
    machine = facts.snapshot.machine
    if machine is None:
        return  # of a log or a table names alone are known, and the links that such boards have: none was counted
    parted = {each.index for each in facts.snapshot.gpus if each.mig}
    if not parted and (bare := _without_any(machine)) is not None:
        yield bare
    yield from _unbridged(machine, facts.snapshot.logs)
    if not parted:
        yield from _half_bridged(machine, facts.snapshot.logs)
    for gpu in machine.gpus:
        if gpu.index in parted or _is_of_another_kind(machine, gpu):
            continue  # told as what it is
        wired = 0 if takes_bridges(gpu.name) else gpu.nvlink_count + gpu.nvlinks_down
        wanted = max(_of_peers(machine, gpu), wired, _of_product(machine, gpu))
        if gpu.nvlink_count < wanted:
            yield _down(machine, gpu, wanted)


def _without_any(machine: Machine) -> Finding | None:
    """A matrix in which boards that are wired by NVLinks show none between any two of them."""
    known = [product(gpu.name) for gpu in machine.gpus]
    wired = all(each is not None and (each.nvlinks or 0) >= _OF_BOARDS for each in known)
    pairs = [machine.between(a.key, b.key) for a, b in zip(machine.gpus, machine.gpus[1:], strict=False)]
    # Listings of devices show no paths; who shows none between neighbours shows how they are joined instead.
    shown = bool(pairs) and all(pair is not None and pair.path is not PathType.NVLINK for pair in pairs)
    drawn = shown and all(gpu.cpus and not gpu.bridges for gpu in machine.gpus)
    if not (wired and drawn) or any(gpu.nvlinks or gpu.nvlinks_down for gpu in machine.gpus):
        return None
    paths = sorted({pair.path.value for pair in pairs if pair is not None})
    return Finding(
        NAME, Severity.ERROR, f"no NVLink joins any two of {len(machine.gpus)} GPUs, though the boards have them",
        (Evidence(f"paths between GPUs are {', '.join(paths)}: {machine.gpus[0].name}", machine.source),),
        Cost("all that GPUs exchange goes over PCIe and the host: a tenth of the rate"),
        "look at nvidia-fabricmanager (systemctl status; of the driver's version), at `nvidia-smi nvlink -s` and for "
        "MIG. In a VM or container the host has to give the NVSwitches",
        _PROOF,
    )  # fmt: skip


_OF_BOARDS = 8
MESH = 8
"""GPUs of a board with a mesh of single and double links (V100): of a part of it some have fewer than others."""


def _of_peers(machine: Machine, gpu: Gpu) -> int:
    """What the best of the others has, where they ought to be alike."""
    if _is_part_of_mesh(machine):
        return 0
    if not gpu.nvlinks and not any(len(each.nvlinks) > 1 or _is_switched(each) for each in machine.gpus):
        return 0  # bridges join pairs: a card without one is none that has lost its links
    # Boards of another product have links of their own number.
    alike = [each for each in machine.gpus if None in (each.name, gpu.name) or each.name == gpu.name]
    return max((each.nvlink_count for each in alike), default=0)


def _is_of_another_kind(machine: Machine, gpu: Gpu) -> bool:
    """A card without links among named boards that have them: it drives displays."""
    names = {each.name for each in machine.gpus if each.nvlinks}
    return (
        not gpu.nvlinks
        and not gpu.nvlinks_down
        and None not in names
        and gpu.name is not None
        and gpu.name not in names
    )


def _unbridged(machine: Machine, texts: Sequence[TextFile]) -> Iterator[Finding]:
    """The one pair of cards that lacks the bridge that all other pairs have.

    Of few cards it is told where these are neighbours of the same kind, and list their links as inactive. Of cards of
    two sockets it is told where somebody had one of them in hand.
    """
    bridged = [gpu for gpu in machine.gpus if len(gpu.nvlinks) == 1 and gpu.nvlinks[0].target != SWITCH]
    bare = [gpu for gpu in machine.gpus if not gpu.nvlinks and not _is_of_another_kind(machine, gpu)]
    if len(bare) != 2 or not bridged or len(bare) + len(bridged) != len(machine.gpus):
        return
    swapped = _swapped(bare, texts)
    if len(bridged) < _BRIDGED and not _lists_open_links(machine, bare, bridged, in_hand=swapped is not None):
        return
    told = "; their links are inactive since a GPU there was swapped" if swapped and bare[0].nvlinks_down else ""
    yield Finding(
        NAME, Severity.WARNING, f"{bare[0].key} and {bare[1].key} have no NVLink bridge, and all other pairs do{told}",
        (Evidence(f"no NVLinks; {len(bridged)} GPUs have {bridged[0].nvlink_count} to their peer", machine.source),
         *((swapped,) if swapped else ())),
        Cost("that pair exchanges over PCIe, and rings go at its rate"),
        "look whether a bridge is plugged there, and seat or replace it (all that join the pair); `nvidia-smi nvlink "
        "-s` of both cards",
        _PROOF,
    )  # fmt: skip


def _half_bridged(machine: Machine, texts: Sequence[TextFile]) -> Iterator[Finding]:
    """Pairs of cards of which both show only a part of the links that a bridge has: it makes no full contact."""
    told = set[str]()
    for gpu in machine.gpus:
        if len(gpu.nvlinks) != 1 or not takes_bridges(gpu.name) or gpu.key in told:
            continue
        peer = next((each for each in machine.gpus if each.key == gpu.nvlinks[0].target), None)
        of_one = _LINKS_OF_TURING if gpu.sm == _TURING else _LINKS_OF_BRIDGE
        have = gpu.nvlink_count
        # Some cards have fewer links, and listings are cut: the list of links has to show that one is down.
        if peer is None or peer.nvlink_count != have or not have % of_one or not gpu.nvlinks_down:
            continue
        told |= {gpu.key, peer.key}
        whole = have + of_one - have % of_one
        swapped = _swapped([gpu, peer], texts)
        since = "; they are inactive since a GPU there was swapped" if swapped else ""
        yield Finding(
            NAME, Severity.ERROR,
            f"the NVLink bridge between {gpu.key} and {peer.key} works in part only: {have} of {whole} links are "
            f"active on both cards, as of a bridge that does not sit well or is broken{since}",
            (
                Evidence(
                    f"{have} active, {gpu.nvlinks_down or whole - have} inactive of {gpu.name or 'it'}", machine.source
                ),
                *((swapped,) if swapped else ()),
            ),
            Cost("NCCL may hang over these links, and what works is slower", whole / have, "links of the bridge"),
            "seat or replace it, on both cards (the bridge's size must fit the slots' distance): all links of "
            "`nvidia-smi nvlink -s` must be active, and nvidia-smi must answer at once. Until then NCCL_P2P_DISABLE=1. "
            "ACS, IOMMU and NCCL's release are not at fault",
            _PROOF,
        )  # fmt: skip


_TURING, _LINKS_OF_TURING, _LINKS_OF_BRIDGE = 75, 2, 4
"""Links that one bridge joins. Source: NVIDIA's data sheets of bridges, and the whitepapers of GA102 and GA100."""

_BRIDGED = 6


_SWAP = re.compile(
    r"\bGPUs? ?#?(?P<gpu>\d{1,2})\b[^\n.]{0,40}\b(?:replaced|swapped|exchanged|reseated|RMA)\b"
    r"|\b(?:replaced|swapped|exchanged|reseated|RMA of)\b[^\n.]{0,30}\bGPUs? ?#?(?P<gpu_>\d{1,2})\b",
    re.IGNORECASE,
)
_MOST_LINES = 20_000


def _swapped(bare: Sequence[Gpu], texts: Sequence[TextFile]) -> Evidence | None:
    """The line by which somebody had one of these cards in hand; None without such."""
    mine = {str(gpu.index) for gpu in bare}
    for text in texts:
        for number, line in enumerate((text.text or "").splitlines()[:_MOST_LINES], 1):
            if "GPU" in line and (found := _SWAP.search(line[:1000])) and (found["gpu"] or found["gpu_"]) in mine:
                return Evidence(shortened(clean(line.strip()), 200), text.path, number)
    return None


def _lists_open_links(machine: Machine, bare: list[Gpu], bridged: list[Gpu], *, in_hand: bool) -> bool:
    """Whether both cards show all links of a bridge as inactive, and lie near enough for one, or have had one."""
    pair = machine.between(bare[0].key, bare[1].key)
    near = in_hand or (pair is not None and pair.path is not PathType.SYS)
    wanted = min(gpu.nvlink_count for gpu in bridged)
    alike = len({gpu.name for gpu in (*bare, *bridged)}) == 1
    return near and alike and all(gpu.nvlinks_down >= wanted for gpu in bare)


def _is_switched(gpu: Gpu) -> bool:
    return any(link.target == SWITCH for link in gpu.nvlinks)


def _is_part_of_mesh(machine: Machine) -> bool:
    links = [link for gpu in machine.gpus for link in gpu.nvlinks]
    mesh = bool(links) and all(link.target != SWITCH and link.count < 3 for link in links)
    return mesh and len(machine.gpus) < MESH


def _down(machine: Machine, gpu: Gpu, wanted: int) -> Finding:
    have = gpu.nvlink_count
    factor = wanted / have if have else None
    where = f"{machine.source}: {gpu.bus_id or gpu.key}"
    return Finding(
        NAME,
        Severity.ERROR,
        f"{gpu.key} has {have} of {wanted} NVLinks",
        (Evidence(f"{have} active, {wanted} expected of {gpu.name or 'it'}", where),),
        Cost(
            f"rings of all GPUs slow down {factor:.2f} times" if factor else "all wait for this GPU, which uses PCIe",
            factor, "a ring is as fast as its slowest hop",
        ),
        "restart nvidia-fabricmanager, look at `nvidia-smi nvlink -s` and for Xid 74 in dmesg; replace what stays down",
        _PROOF,
    )  # fmt: skip


def _of_product(machine: Machine, gpu: Gpu) -> int:
    """What the product has, where this machine uses NVLinks at all."""
    if _is_part_of_mesh(machine) or not any(each.nvlinks for each in machine.gpus):
        return 0
    known = product(gpu.name)
    return known.nvlinks or 0 if known is not None else 0
