"""Numbers in attributes as NCCL reads them: base by prefix, and faults named with their line."""

from __future__ import annotations

import re

from busbw.base.secrets import shortened
from busbw.machine.nccl.problem import Problem
from busbw.machine.nccl.safe_xml import Node
from busbw.machine.topology.rates import pcie_generation

_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|\d{1,19})")
_DECIMAL = re.compile(r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,2})?")


MAX_ATTRIBUTES = 16  # NCCL's parser (src/graph/xml.h)
MAX_TEXT = 255


def beyond_nccl(root: Node) -> list[Problem]:
    """What NCCL's own parser has no room for, though it is well-formed XML."""
    problems = []
    for node in root.walk():
        if len(node.attributes) > MAX_ATTRIBUTES:
            text = f"<{node.tag[:40]}> has {len(node.attributes)} attributes, NCCL takes {MAX_ATTRIBUTES}"
            problems.append(Problem(node.line, text, fatal=True))
        long = next((name for name, value in node.attributes.items() if max(len(name), len(value)) > MAX_TEXT), None)
        if long is not None:
            text = f"{long[:40]} of <{node.tag[:40]}> is longer than the {MAX_TEXT} characters that NCCL takes"
            problems.append(Problem(node.line, text, fatal=True))
    return problems


# What the beginning of a link_speed is compared with, and what it then counts as; anything else counts as generation 3.
# Source: NCCL src/graph/topo.cc, kvDictPciGen, and kvConvertToInt in src/graph/xml.h.
_NCCL_SPEEDS = (
    ("2.5 GT/s", 1), ("5 GT/s", 2), ("8 GT/s", 3), ("16 GT/s", 4), ("32 GT/s", 5), ("5.0 GT/s PCIe", 2),
    ("8.0 GT/s PCIe", 3), ("16.0 GT/s PCIe", 4), ("32.0 GT/s PCIe", 5), ("64.0 GT/s PCIe", 6),
)  # fmt: skip
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")


def link_generation(text: str) -> tuple[int | None, int]:
    """The PCIe generation that a link_speed says (None where it says none), and the one that NCCL counts on."""
    # As NCCL does, by the beginning alone: AWS ships "32 GT/s PCIe/s".
    match = _SPEED.match(text)
    said = pcie_generation(float(match[1])) if match else None
    return said, next((generation for start, generation in _NCCL_SPEEDS if text.startswith(start)), 3)


class Attributes:
    """Reads the attributes of one node and notes what is missing or no number."""

    def __init__(self, node: Node, problems: list[Problem]) -> None:
        self._node = node
        self._problems = problems

    def text(self, name: str) -> str | None:
        return self._node.attributes.get(name)

    def whole(self, name: str, *, needed: bool = False, low: int = -1, high: int = 1 << 62) -> int | None:
        """An integer, decimal or 0x, within bounds; None and a problem where it is not."""
        text = self._given(name, needed)
        if text is None:
            return None
        if not _WHOLE.fullmatch(text):
            self._odd(name, text, "is no whole number")
            return None
        value = int(text, 0) if "x" in text.lower() else int(text)
        if low <= value <= high:
            return value
        self._odd(name, text, f"is not between {low} and {high}")
        return None

    def number(self, name: str, *, needed: bool = False, high: float = 1e6) -> float | None:
        """A number from 0 to `high`; None and a problem where it is not."""
        text = self._given(name, needed)
        if text is None:
            return None
        if not _DECIMAL.fullmatch(text):
            self._odd(name, text, "is no number")
            return None
        value = float(text)
        if 0 <= value <= high:
            return value
        self._odd(name, text, f"is not between 0 and {high:g}")
        return None

    def _given(self, name: str, needed: bool) -> str | None:
        text = self._node.attributes.get(name)
        if text is None and needed:
            self._problems.append(Problem(self._node.line, f"<{self._node.tag}> has no {name}", fatal=True))
        return text.strip() if text is not None and text.strip() else None

    def _odd(self, name: str, text: str, why: str) -> None:
        shown = text if len(text) <= 40 else f"{shortened(text, 40)}..."
        self._problems.append(Problem(self._node.line, f'{name}="{shown}" of <{self._node.tag}> {why}', fatal=True))
