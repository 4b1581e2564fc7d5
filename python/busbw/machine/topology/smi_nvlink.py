"""Reads `nvidia-smi nvlink -s`: the rate or state of every NVLink of every GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.base.errors import UserError
from busbw.machine.topology.model import SWITCH, Gpu, Machine, NvLinks, with_generation
from busbw.machine.topology.names import product

MAX_LINES = 20_000
_GPU = re.compile(r"\s*GPU (\d{1,3}): (.{1,80}?)(?: \(UUID: .*\))?\s*$")
_LINK = re.compile(r"\s*Link (\d{1,3}): (?:(\d{1,4}(?:\.\d{1,6})?) GB/s|<inactive>)\s*$")


@dataclass(frozen=True, slots=True)
class LinkStates:
    """The links of one GPU: GB/s in one direction of every active one, and how many are inactive."""

    index: int
    name: str
    active_GBps: tuple[float, ...]
    inactive: int
    line: int


def read_nvlink_status(text: str, source: str) -> tuple[LinkStates, ...]:
    """Every GPU of the output; UserError where there is none."""
    gpus: list[LinkStates] = []
    for number, line in enumerate(text.splitlines()[:MAX_LINES], 1):
        if found := _GPU.match(line):
            gpus.append(LinkStates(int(found[1]), found[2], (), 0, number))
        elif (found := _LINK.match(line)) and gpus:
            last = gpus[-1]
            active = (*last.active_GBps, float(found[2])) if found[2] else last.active_GBps
            gpus[-1] = LinkStates(last.index, last.name, active, last.inactive + (not found[2]), last.line)
    gpus = _without_bare(gpus)
    if not gpus or not any(gpu.active_GBps or gpu.inactive for gpu in gpus):
        raise UserError(f"{source} shows no links of `nvidia-smi nvlink -s`")
    return tuple(gpus)


def _without_bare(gpus: list[LinkStates]) -> list[LinkStates]:
    """Without a GPU's further entries that show no link: listings of its errors, and `nvidia-smi -L`, name it too."""
    shown = {each.index for each in gpus if each.active_GBps or each.inactive}
    return [each for each in gpus if each.active_GBps or each.inactive or each.index not in shown]


def as_machine(text: str, source: str) -> Machine:
    """The GPUs of a listing of links; where the links lead it does not say, so there are no connections."""
    gpus = []
    for each in read_nvlink_status(text, source):
        known = product(each.name)
        links = (NvLinks(SWITCH, len(each.active_GBps)),) if each.active_GBps else ()
        # Who shows a part of the listing says nothing of how many links there are.
        part = known is not None and len(each.active_GBps) + each.inactive < (known.nvlinks or 0)
        gpu = Gpu(
            each.index, name=None if part else each.name, sm=known.sm if known else None, nvlinks=links,
            nvlinks_down=each.inactive,
        )  # fmt: skip
        gpus.append(with_generation(gpu))
    return Machine(source, gpus=tuple(gpus))
