"""Ports of listings that nothing uses: of another kind than those that work, or the second of a card that uses one.

A listing of ports (ibstat, ibv_devinfo, ethtool) holds a block for each. A port that is down is a fault where the job
needs it. It needs none of another link layer than the active ports, nor the second port of a card whose first works.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_BLOCKS = 4096
_STARTS = ("CA '", "hca_id:", "Settings for ", "Infiniband device '")
_PORT = re.compile(r"\s{1,16}(?:Port|port:?)\s{0,8}(\d{1,3}):?\s*$")
_STATE = re.compile(r"\s{1,24}(?:State: *(\w+)|state:\s{1,16}(?:PORT_|\d: )(\w+)|Link detected: (\w+))")
_LEFT_OUT = re.compile(
    r"\b(?P<card>(?:mlx\d|bnxt_re|irdma|ib|ibp|roce|rocep|hsn|en[ops]|eth)[\w-]{0,24})\b(?! port \d status)"
    r"[^.;\n]{0,100}\b(?:unused|not (?:in use|used|cabled|connected on purpose)|unplugged|no cable|spare|on purpose"
    r"|by design|storage port|left down)\b",
    re.IGNORECASE,
)
"""How somebody says that a port need not work."""
_NAMED = re.compile(r"Infiniband device '([\w.-]{1,40})'")
_MAX_NOTE = 240
_LAYER = re.compile(r"\s{1,24}(?:Link layer: *|link_layer:\s{1,16})(\w+)")
_INNER = re.compile(r"\s{1,24}\S.{0,160}$")
_NETWORK = re.compile(r"(?:ib|rdma|roce|hsn|mlx)", re.IGNORECASE)


@dataclass
class _Block:
    """A port: its card, its number there, whether it works, its link layer, and how often it was called down."""

    card: str
    port: int = 1
    active: bool | None = None
    layer: str = ""
    told: int = 0


@dataclass
class Ports:
    """The ports of one log."""

    blocks: list[_Block] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    """Cards of which somebody says that they are not to work."""
    noted: bool = False
    """Whether the last line said so."""
    _open: _Block | None = None

    def follows(self, line: str) -> bool:
        """Whether the line is of a listing."""
        if line.startswith(_STARTS):
            named = _NAMED.match(line)
            self._begin(named[1] if named else line.split(None, 2)[-1].strip(" :'")[:80])
            return True
        if self._open is None or (line and not line[0].isspace()):
            self._note(line)
        if self._open is None:
            return False
        if line and not _INNER.match(line):
            self._open = None
            return False
        if found := _PORT.match(line):
            if self._open.active is None:
                self._open.port = int(found[1])
            else:
                self._begin(self._open.card, int(found[1]))
        elif found := _STATE.match(line):
            self._open.active = (found[1] or found[2] or found[3]).lower() in {"active", "yes"}
        elif found := _LAYER.match(line):
            self._open.layer = found[1]
        return True

    def _note(self, line: str) -> None:
        self.noted = False
        if self.blocks and len(line) < _MAX_NOTE and (found := _LEFT_OUT.search(line)):
            self.left_out.add(found["card"])
            self.noted = True

    def told(self) -> None:
        """A signature spoke of the line."""
        if self._open is not None:
            self._open.told += 1

    def _begin(self, card: str, port: int = 1) -> None:
        self._open = _Block(card, port)
        if len(self.blocks) < MAX_BLOCKS:
            self.blocks.append(self._open)

    @property
    def unused(self) -> int:
        """How many lines call a port down that nothing uses."""
        working = [each for each in self.blocks if each.active]
        layers = {each.layer for each in working if each.layer}
        cards = {each.card for each in working if each.port == 1}
        plain = any(not each.layer for each in working)
        kinds = [each.layer for each in working]
        most = max(set(kinds), key=kinds.count, default="")
        return sum(
            each.told
            for each in self.blocks
            if each.active is False
            and (
                each.card in self.left_out
                or (each.layer and layers and each.layer not in layers)
                or (each.layer == "Ethernet" and most == "InfiniBand")
                or (each.port > 1 and each.card in cards)
                or (plain and not each.layer and not _NETWORK.match(each.card))
            )
        )
