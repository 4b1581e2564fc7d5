"""Both ends of the links of an InfiniBand fabric, as ibqueryerrors and iblinkinfo list them, by node and port."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from busbw.doctor.reading.shown import Shown

ERRORS_FOR = re.compile(r"Errors for (?:0x[0-9a-f]{4,16} )?\"(?P<host>[^\"]{1,80})\"")
_SWITCH = re.compile(r"^Switch: 0x[0-9a-f]{4,16} (?P<host>[^\s:]{1,60})")
_ENDS = re.compile(
    r"\s(?P<lid>\d{1,5})\s{1,8}(?P<port>\d{1,3})\[.{0,4}\]\s{0,4}==\(.{0,80}\)==>\s{1,8}(?:0x[0-9a-f]{4,16}\s{1,8})?"
    r"(?P<far_lid>\d{1,5})\s{1,8}(?P<far_port>\d{1,3})\[.{0,4}\] \"(?P<far>[^\"]{1,80})\""
)
_MLXLINK = re.compile(
    r"\bmlxlink\b.{0,60}? -d (?:\S{0,20}[_-])?lid-(?P<lid>\d{1,5}) .{0,20}?-p (?P<cage>\d{1,3})(?:/(?P<lane>[12]))?\b"
)
_OF_SWITCH = re.compile(r"^MF0;|:M\w{2,12}/[UL]\d{1,2}$")
_HOSTS = re.compile(r"HCA|mlx5|mlx4")


@dataclass
class Fabric:
    """The far end of each port, and the name of each node by its lid."""

    peers: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def joins_switches(self, port: str) -> bool:
        """Whether the link of that port has switches at both ends: no single host is behind it."""
        far = self.peers.get(port)
        return far is not None and not (_HOSTS.search(port) or _HOSTS.search(far))

    def asked(self, line: str) -> str:
        """The port of which a command of mlxlink asks by its lid; "" where it names none."""
        if (found := _MLXLINK.search(line)) is None or found["lid"] not in self.names:
            return ""
        cage, lane = int(found["cage"]), int(found["lane"] or 0)
        # A cage of switches from NDR on has two ports.
        number = 2 * (cage - 1) + lane if lane else cage
        return f"{self.names[found['lid']]} port {number}"


def short(name: str) -> str:
    """A switch's name without what its firmware puts around it."""
    return _OF_SWITCH.sub("", _OF_SWITCH.sub("", name))


def read_fabric(texts: Iterable[Shown]) -> Fabric:
    """Both ends of all links that are listed."""
    fabric = Fabric()
    for shown in texts:
        host = ""
        for line in shown.lines:
            if named := ERRORS_FOR.search(line) or _SWITCH.match(line):
                host = short(named["host"])
            if "==>" not in line or (ends := _ENDS.search(line)) is None or not host:
                continue
            far = short(ends["far"])
            near_end, far_end = f"{host} port {ends['port']}", f"{far} port {ends['far_port']}"
            fabric.peers |= {near_end: far_end, far_end: near_end}
            fabric.names.setdefault(ends["lid"], host)
            fabric.names.setdefault(ends["far_lid"], far)
    return fabric
