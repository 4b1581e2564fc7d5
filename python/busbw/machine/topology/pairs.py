"""Reads a pairwise measurement: lines of two devices and GB/s, and where `ibdev2netdev -v` was saved, NICs' buses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.base.errors import UserError
from busbw.machine.topology.model import normal_bus_id

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
