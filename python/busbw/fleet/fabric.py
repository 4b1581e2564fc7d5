"""What is known of a fabric before anything is measured: nodes, the pod (leaf switches) of each, rails.

Sources: names alone, or a topology as fleet/pods.py reads it. A rail is the network that the NICs of one index form
over all nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from busbw.base.errors import UserError
from busbw.base.secrets import HIDDEN, hide_values

MOST_NODES = 20_000
MOST_NAME = 255
MOST_BRACKETS = 4
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_RANGES = re.compile(r"\[([0-9,\-:/ ]+)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?:[:/](\d{1,9}))?)?")


@dataclass(frozen=True)
class Fabric:
    """Nodes in the order of their names as given; `pod_of` gives the pod ("" where unknown) of each."""

    nodes: tuple[str, ...]
    pod_of: Mapping[str, str] = field(default_factory=dict)
    rails: int = 1
    above: Mapping[str, str] = field(default_factory=dict)
    """The switch above a pod's leaf where there are several, below the spines."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            if node in seen:
                raise UserError(f"node {node} is named twice; name each node once")
            seen.add(node)
        if not self.nodes:
            raise UserError("no node is named; give at least two")
        if unknown := sorted(set(self.pod_of) - seen):
            raise UserError(
                f"the topology names {unknown[0]}, which is not among the {len(seen)} nodes; is it another cluster's?"
            )
        self._rename_secrets()

    def _rename_secrets(self) -> None:
        """A label of a scheduler may be one: it would stand in pages, metrics and the file. Pods stay apart."""
        names = dict.fromkeys((*self.pod_of.values(), *self.above, *self.above.values()))
        secret = [name for name in names if hide_values(name) != name]
        if secret:
            shown = {name: f"{HIDDEN}{number}" for number, name in enumerate(secret, start=1)}
            pods = {node: shown.get(pod, pod) for node, pod in self.pod_of.items()}
            object.__setattr__(self, "pod_of", pods)
            above = {shown.get(pod, pod): shown.get(switch, switch) for pod, switch in self.above.items()}
            object.__setattr__(self, "above", above)

    def pods(self) -> dict[str, tuple[str, ...]]:
        """Pods and their nodes, both in the order of the nodes."""
        pods: dict[str, list[str]] = {}
        for node in self.nodes:
            pods.setdefault(self.pod_of.get(node, ""), []).append(node)
        return {pod: tuple(nodes) for pod, nodes in pods.items()}

    def groups(self, largest: int) -> dict[str, tuple[str, ...]]:
        """As `pods`, but nodes whose pod is unknown in parts of at most `largest`, equally large."""
        groups: dict[str, tuple[str, ...]] = {}
        for pod, nodes in self.pods().items():
            parts = 1 if pod else -(-len(nodes) // largest)
            for part in range(parts):
                cut = slice(part * len(nodes) // parts, (part + 1) * len(nodes) // parts)
                groups[pod if parts == 1 else f" {part}"] = nodes[cut]
        return groups


def expand(text: str) -> tuple[str, ...]:
    """Slurm's host list expression: `gpu[001-004,7],login1` names six nodes; `gpu[1-7:2]` (or `/2`) every second."""
    nodes: list[str] = []
    for part in _split(text):
        _check_brackets(part)
        for name in _expand_one(part):
            if not is_name(name):
                raise UserError(f"'{part[:60]}' is no node; write names such as gpu001 or gpu[001-016]")
            nodes.append(name)
            if len(nodes) > MOST_NODES:
                raise UserError(f"more than {MOST_NODES} nodes are named; plan a part of them")
    return tuple(nodes)


def _check_brackets(part: str) -> None:
    if part.count("[") > MOST_BRACKETS:
        raise UserError(f"'{part[:60]}' has more than {MOST_BRACKETS} brackets; write gpu[001-016]")
    depth = 0
    for character in part:
        depth += (character == "[") - (character == "]")
        if depth > 1:
            raise UserError(f"'{part[:60]}' has a bracket within a bracket; write each range apart, as in "
                            f"rack[1-2]gpu[01-16]")  # fmt: skip
        if depth < 0:
            raise UserError(f"'{part[:60]}' closes a bracket that it does not open; write gpu[001-016]")
    if depth:
        raise UserError(f"'{part[:60]}' opens a bracket and does not close it; write gpu[001-016]")


def is_name(text: str) -> bool:
    """Whether a node can be called so."""
    return len(text) <= MOST_NAME and _NAME.fullmatch(text) is not None


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            if part := text[start:at].strip():
                yield part
            start = at + 1
    if part := text[start:].strip():
        yield part


def _expand_one(part: str) -> Iterator[str]:
    found = _RANGES.search(part)
    if not found:
        yield part
        return
    for piece in found[1].split(","):
        match = _RANGE.fullmatch(piece.strip())
        if not match:
            raise UserError(f"'{part[:60]}' has no range of numbers in its brackets; write gpu[001-016]")
        low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if high < low or high - low >= MOST_NODES or not step:
            raise UserError(f"'{piece}' in '{part[:60]}' is no range from low to high of at most {MOST_NODES} nodes")
        for number in range(low, high + 1, step):
            yield from _expand_one(f"{part[: found.start()]}{number:0{len(match[1])}d}{part[found.end() :]}")


def unknown_to(nodes: Iterable[str], pods: Mapping[str, str]) -> list[str]:
    """Nodes that a topology does not name; none where it names no node at all, which `fabric_of` refuses."""
    short = {whole.partition(".")[0] for whole in pods} | pods.keys()
    missing = [node for node in nodes if node not in short and node.partition(".")[0] not in short]
    return missing if len(missing) < len(set(nodes)) else []


def fabric_of(
    nodes: Iterable[str], pods: Mapping[str, str], rails: int, above: Mapping[str, str] | None = None
) -> Fabric:
    """Nodes with what the topology says of them; nodes that it does not name are in no pod."""
    names = tuple(nodes)
    # gpu1.site.org is gpu1 in Slurm's files, and an inventory may have the whole name of gpu1.
    by_short = {whole.partition(".")[0]: pod for whole, pod in pods.items()} | dict(pods)
    known = {name: name if name in by_short else name.partition(".")[0] for name in names}
    found = {name: by_short[short] for name, short in known.items() if short in by_short}
    if pods and not found:
        raise UserError("the topology names none of these nodes; is it another cluster's?")
    return Fabric(names, found, rails, {pod: up for pod, up in (above or {}).items() if pod in found.values()})
