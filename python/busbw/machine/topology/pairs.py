"""Reads a pairwise measurement: lines of two devices and GB/s, and where `ibdev2netdev -v` was saved, NICs' buses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.base.errors import UserError
from busbw.machine.topology.model import Gpu, Nic, normal_bus_id
from busbw.machine.topology.names import product
from busbw.machine.topology.rates import NVLINK_GBPS, nvlink_generation

MAX_LINES = 100_000
_NAME = r"[A-Za-z][\w.-]{0,63}"
_PAIR = re.compile(rf"\s*({_NAME})[\s,;:]+({_NAME})[\s,;:]+(\d{{1,5}}(?:\.\d{{1,6}})?)\s*(?:GB/s)?\s*$")
_BUS = re.compile(rf"\s*((?:[0-9a-fA-F]{{4,8}}:)?[0-9a-fA-F]{{2}}:[0-9a-fA-F]{{2}}\.[0-7])[\s,;]+({_NAME})\b")


@dataclass(frozen=True)
class Pairs:
    """`GBps` by unordered pair of device names; `buses` by device name."""

    source: str
    GBps: Mapping[frozenset[str], float]
    buses: Mapping[str, str]

    def between(self, a: str, b: str) -> float | None:
        return self.GBps.get(frozenset((a, b)))


def read_pairs(text: str, source: str) -> Pairs:
    """Every line that says something; UserError where a line is neither that, empty, nor begins with #."""
    rates: dict[frozenset[str], float] = {}
    buses: dict[str, str] = {}
    for number, line in enumerate(text.splitlines()[:MAX_LINES], 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if found := _PAIR.match(line):
            pair = frozenset((found[1], found[2]))
            if len(pair) < 2:
                raise UserError(f"{source}:{number}: {found[1]} is paired with itself")
            # Measured either way: the slower way is what a ring gets.
            rates[pair] = min(rates.get(pair, float(found[3])), float(found[3]))
        elif found := _BUS.match(line):
            buses[found[2]] = normal_bus_id(found[1])
        else:
            raise UserError(
                f"{source}:{number}: no pair; a line is two devices and GB/s, such as `GPU0 mlx5_0 24.1`, or a bus and "
                "a name, as `ibdev2netdev -v` prints"
            )
    if not rates:
        raise UserError(f"{source} holds no measured pair, such as `GPU0 mlx5_0 24.1`")
    return Pairs(source, rates, buses)


MOST_NVLINK_GBPS = 900.0
"""Of one GPU in one direction: 18 NVLinks of generation 5, for GPUs of which nothing is known."""

MOST_PCIE_GBPS = 121.0
"""PCIe 6 x16, for devices whose link nobody said."""

TOLERANCE = 1.05


def refuse_impossible(pairs: Pairs, gpus: Sequence[Gpu], nics: Sequence[Nic]) -> None:
    """UserError for a rate above the line rate of the device: Gbit/s, or both directions together, given as GB/s."""
    line = {gpu.key: _line_of(gpu) for gpu in gpus}
    ports = {nic.key: min(nic.GBps or MOST_PCIE_GBPS, nic.pcie.GBps or MOST_PCIE_GBPS) for nic in nics}
    for pair, rate in pairs.GBps.items():
        a, b = sorted(pair)
        port = next((each for each in (a, b) if each in ports), None)
        most = ports[port] if port else min(line.get(a, MOST_NVLINK_GBPS), line.get(b, MOST_NVLINK_GBPS))
        if rate > TOLERANCE * most:
            raise UserError(
                f"{pairs.source}: {a} {b} {rate:g} GB/s is more than {port or a} can move in one direction "
                f"({most:.4g} GB/s); are those Gbit/s, or both directions together?",
                exit_code=2,
            )


def _line_of(gpu: Gpu) -> float:
    """What leaves that GPU at most: over its NVLinks, hidden ones too, or over PCIe."""
    known = product(gpu.name)
    generation = nvlink_generation(gpu.sm or (known.sm if known else None))
    count = gpu.nvlink_count + gpu.nvlinks_to_itself
    if not count or generation is None:
        return MOST_NVLINK_GBPS
    return max(count * NVLINK_GBPS[generation], gpu.pcie.GBps or 0.0)
