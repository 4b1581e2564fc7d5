"""Reads which switch each node is plugged into from what fabrics say: ibnetdiscover, iblinkinfo, UFM, LLDP.

With rails a node has a port on one leaf for each of them. Nodes below the same leaf by their first port are a pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from busbw.base.errors import UserError

_DEVICE = r"(?:mlx\d+_\w+|HCA-\d+|hfi\d+_\d+|ib[a-z]*\d\w*|rocep\w+|bnxt_re\w*|irdma\w*)"
_HOST = re.compile(rf"(?P<node>\S+)\s+(?P<device>{_DEVICE})")
_SWITCH = re.compile(r'Switch\s+\d+\s+"S-(?P<guid>[^"]+)"\s+#\s+"(?P<name>[^"]*)"')
_LINKED_SWITCH = re.compile(r"Switch:\s+0x(?P<guid>[0-9a-f]+)\s+(?P<name>.*?):?")
_OTHER = re.compile(r'(?:Ca|Rt)\s+\d+\s+"|(?:CA|RT):\s')
_PORT = re.compile(r'\[\d+\](?:\[ext \d+\]|\([0-9a-f]+\))?\s+"H-[^"]*".*?#\s+"(?P<host>[^"]*)".*')
_LINKED_PORT = re.compile(r'.*==>\s+\d+\s+\d+\[.*?\]\s+"(?P<host>[^"]*)".*')
_PAIR = re.compile(
    r"CA\s.*\sSW\s+\d+\s+\d+\s+0x(?P<guid>[0-9a-f]+)\s.*\(\s*'(?P<host>[^']*)'\s+-\s+'(?P<name>[^']*)'.*"
)
_LINE = re.compile(
    r'0x(?P<guid>[0-9a-f]+)\s+"(?P<name>[^"]*)"\s.*==>\s+0x(?P<peer_guid>[0-9a-f]+)\s.*?"(?P<peer>[^"]*)".*'
)
_LLDP = re.compile(r"(?P<node>[\w.-]+):\s+lldp\.(?P<device>.+?)\.chassis\.name=(?P<name>\S+)")
_ANY = re.compile(
    r'^(?:Switch\s+\d+\s+"S-|(?:CA|Switch):\s.*:\s*$|(?:CA|SW)\s+\d+\s+\d+\s+0x|0x[0-9a-f]+\s+"|[\w.-]+:\s+lldp\.)',
    re.MULTILINE,
)

LONGEST = 1000  # of a line that says something: patterns take longer than in proportion


class _Port(NamedTuple):
    line: int
    node: str
    device: str
    switch: tuple[str, str]  # its description and its GUID


def is_subnet(text: str) -> bool:
    """Whether this is what ibnetdiscover, iblinkinfo or `lldpctl -f keyvalue` behind a parallel shell print."""
    return _ANY.search(text) is not None


def pods_of_links(links: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Node and switch of the first port of each node, of what UFM's REST answers for `resources/links`."""
    found: list[_Port] = []
    for number, link in enumerate(links):
        ends = [(link.get(f"{end}_port_node_description", ""), link.get(f"{end}_guid", ""))
                for end in ("source", "destination")]  # fmt: skip
        for (host, _), (switch, guid) in (ends, ends[::-1]):
            # A switch's port stands behind its name: SLG03-10:19.
            found += _port(number, host, (_name(switch.partition(":")[0]), guid))
    return [(node, switch) for _, switch, node in _first_of(found, "")] if found else []


def pods_of_subnet(text: str, where: str) -> Iterator[tuple[int, str, str]]:
    """Line, switch and node of the first port of each node."""
    return _first_of(_ports(text), where)


def _first_of(ports: Iterable[_Port], where: str) -> Iterator[tuple[int, str, str]]:
    first: dict[str, _Port] = {}
    guids: dict[str, set[str]] = {}
    for port in ports:
        known = first.setdefault(port.node, port)
        name, guid = port.switch
        guids.setdefault(name, set()).add(guid)
        if not guid and known.switch != port.switch:  # of LLDP: a port of management says nothing of the fabric
            raise UserError(f"{where}:{port.line}: {port.node} has the neighbours {known.switch[0]} on {known.device} "
                            f"and {name} on {port.device}; keep the lines of one interface of each node")  # fmt: skip
        if _order(port.device) < _order(known.device):
            first[port.node] = port
    if not first:
        raise UserError(f"{where} has no port of a node; nodes are told by descriptions such as `gpu001 mlx5_0`")
    for port in first.values():
        name, guid = port.switch
        # Switches that nobody manages all have the same description.
        yield port.line, name if name and len(guids[name]) == 1 else guid, port.node


def _order(device: str) -> str:
    return re.sub(r"\d+", lambda number: number[0].zfill(9), device)


def _ports(text: str) -> Iterator[_Port]:
    switch: tuple[str, str] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if len(line) > LONGEST:
            continue
        if found := _LLDP.fullmatch(line):
            yield _Port(number, found["node"], found["device"], (found["name"], ""))
        elif found := _PAIR.fullmatch(line):
            yield from _port(number, found["host"], (_name(found["name"]), found["guid"]))
        elif found := _LINE.fullmatch(line):  # iblinkinfo --line: either end may be the node
            ends = ((found["name"], found["guid"]), (found["peer"], found["peer_guid"]))
            for (host, _), (name, guid) in (ends, ends[::-1]):
                yield from _port(number, host, (_name(name), guid))
        elif found := _SWITCH.match(line) or _LINKED_SWITCH.fullmatch(line):
            switch = (_name(found["name"]), found["guid"])
        elif _OTHER.match(line):
            switch = None
        elif switch and (found := _PORT.fullmatch(line) or _LINKED_PORT.fullmatch(line)):
            yield from _port(number, found["host"], switch)


def _port(line: int, host: str, switch: tuple[str, str]) -> Iterator[_Port]:
    if found := _HOST.fullmatch(host.strip()):
        yield _Port(line, found["node"], found["device"], switch)


def _name(said: str) -> str:
    """`MF0;leaf-01:MQM8700/U1` as one word, without what managed switches write in front of it."""
    return "_".join(said.rpartition(";")[2].split())
