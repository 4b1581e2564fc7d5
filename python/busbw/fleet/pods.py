"""Reads which leaf switch or block each node is below: Slurm's topology.conf, topology.yaml and what scontrol shows of
them, lines of `node pod`; JSON of clouds (clouds.py), a fabric's own words (subnet.py), tables with a head (tables.py).

topology.conf is read as Slurm reads it: keys in any case, spaces around `=`, a line goes on after a backslash.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator

from busbw.base.errors import UserError
from busbw.base.secrets import shortened
from busbw.fleet.clouds import looks_like_json, of_labels, pods_of_json, refuse_other_outputs
from busbw.fleet.fabric import MOST_NODES, expand
from busbw.fleet.subnet import is_subnet, pods_of_subnet
from busbw.fleet.tables import of_table

_PAIR = re.compile(r"([A-Za-z_]+)\s*=\s*(\"[^\"]*\"|\S*)")
_INCLUDE = re.compile(r"include(?:\s*=|\s+\S*[/.]\S*$)", re.IGNORECASE)
_PLAIN = re.compile(r"\S+\s+\S+|[\w.-]+,[^\s,]+")
_IN_CONFIG_MAP = re.compile(
    r"^([ \t]+)topology\.(?:conf|yaml):\s*\|[-+]?[ \t]*\n((?:\1[ \t]+.*\n?|[ \t]*\n)+)", re.MULTILINE
)
_FLOWS = re.compile(r"(?:switches|blocks|rings)\s*:\s*\[\s*(\{.*\})\s*\]")
_FLOW = re.compile(r"(-\s+)\{(.*)\}")
_YAML = re.compile(r"(?P<dash>-\s+)?(?P<key>[a-z_]+)\s*:\s*(?P<value>.*)|-\s+\d+")
_QUOTED_KEY = re.compile(r"""(^|[{,]\s*|-\s+)["']([a-z_]+)["']\s*:""")
_ITEM = re.compile(r"-\s+([^\s:]+)")
_LISTED = re.compile(r"\[\s*['\"]?[A-Za-z].*\]")  # a list in one line, and not the range of a name
_ABOVE = {"switches", "aggregatedblock", "blocksizes"}
"""Keys of what lies above leaves; scontrol shows all nodes below them once more."""


def read_pods(text: str, where: str, wanted: Collection[str] = ()) -> dict[str, str]:
    """The pod of each node. Of several topologies the one that names most of the wanted nodes counts."""
    pods: dict[str, str] = {}
    named = 0
    if looks_like_json(text):
        for name, pod in pods_of_json(text, where, wanted):
            if pods.setdefault(name, pod) != pod:
                raise UserError(f"{where}: {name} is below {pods[name]} and {pod}; a node has one leaf switch")
            if len(pods) > 2 * MOST_NODES:
                raise UserError(f"{where}: more than {2 * MOST_NODES} nodes are named; plan a part of them")
        return pods
    text = text.lstrip("\ufeff")
    if inner := _IN_CONFIG_MAP.search(text):  # as topograph and Slinky keep it in Kubernetes
        text = textwrap.dedent(inner[2])
    refuse_other_outputs(text, where)
    for number, pod, listed in _leaves(text, where, wanted):
        names = _expanded(listed, where, number)
        if (named := named + len(names)) > 2 * MOST_NODES:
            raise UserError(f"{where}:{number}: more than {2 * MOST_NODES} nodes are named; plan a part of them")
        for name in names:
            if pods.setdefault(name, pod) != pod:
                raise UserError(f"{where}:{number}: {name} is below {pods[name]} and {pod}; a node has one leaf switch")
    return pods


def _expanded(listed: str, where: str, number: int) -> tuple[str, ...]:
    try:
        return expand(listed)
    except UserError as error:
        raise UserError(f"{where}:{number}: {error}" if number else f"{where}: {error}") from None


def _leaves(text: str, where: str, wanted: Collection[str]) -> Iterable[tuple[int, str, str]]:
    """Line, pod and its nodes."""
    if _is_yaml(text):
        return _of_yaml(text, where, wanted)
    if is_subnet(text):
        return pods_of_subnet(text, where)
    if (rows := of_table(text, of_labels)) is not None:
        return ((number, _without_host(pod), node) for number, pod, node in rows)
    return _of_conf(text, where, wanted)


def _without_host(pod: str) -> str:
    """Of Google's physical host, which is cluster, rack and host, what the host is in."""
    return pod[1:].rpartition("/")[0] if pod.startswith("/") and pod.count("/") > 2 else pod


def read_above(text: str, pods: Collection[str], where: str) -> dict[str, str]:
    """What is above each pod in Slurm's tree; nothing where that is the same for all: then it is the spine."""
    if looks_like_json(text):
        return {}
    parents = {child: parent for parent, below in _parents(text.lstrip("\ufeff")) if parent not in pods
               for child in _expanded(below, where, 0) if child in pods}  # fmt: skip
    return parents if len(set(parents.values())) > 1 else {}


def _parents(text: str) -> Iterator[tuple[str, str]]:
    switch = ""
    for _, whole in _lines(text):
        words = {key.lower(): value.strip('"') for key, value in _PAIR.findall(whole)}
        if (parent := words.get("switchname")) and (below := words.get("switches", "(null)")) != "(null)":
            yield parent, below
        for line in _in_flow(_bare(whole)):
            found = _YAML.fullmatch(line)
            if found and found["key"] == "switch":
                switch = found["value"].strip("'\" ")
            elif found and found["key"] == "children" and switch:
                yield switch, _listed(found["value"].strip("'\" "))


def _listed(value: str) -> str:
    """`[a, b]` of YAML as `a,b`."""
    return re.sub(r"""[\["'\]]""", "", value) if _LISTED.fullmatch(value) else value


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Whole lines without comments, each with the number of its first one."""
    first, whole = 0, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].rstrip()
        first = first or number
        if line.endswith("\\"):
            whole += line[:-1]
            continue
        if (whole + line).strip():
            yield first, (whole + line).strip()
        first, whole = 0, ""
    if whole.strip():
        yield first, whole.strip()


def _of_conf(text: str, where: str, wanted: Collection[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in _lines(text):
        words = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        pod, nodes = words.get("switchname") or words.get("blockname"), words.get("nodes", "")
        # A cube's switches have nodes of their own; scontrol repeats above a leaf all nodes that are below.
        below = "switches" in words and not words.keys() & {"level"} and nodes.lower() not in {"", "(null)"}
        if (not _ABOVE.isdisjoint(words) and not below) or (pod and nodes.lower() in {"", "(null)"}):
            continue
        if pod:
            if nodes.upper() == "ALL":
                raise UserError(f"{where}:{number}: Nodes=ALL names no node; write them, or leave --topology out")
            if rest := _PAIR.sub("", line).strip():
                raise UserError(
                    f"{where}:{number}: '{shortened(rest, 60)}' belongs to no key; write Nodes=a,b without spaces"
                )
            yield number, pod, nodes
        elif _INCLUDE.match(line):
            raise UserError(f"{where}:{number}: another file is included; give --topology both in one file")
        elif "=" not in line and _PLAIN.fullmatch(line):
            node, pod = line.split(None if line.split()[1:] else ",")
            if pod in wanted and node in wanted:
                raise UserError(f"{where}:{number}: {node} and {pod} are both nodes; a line is a node and its switch")
            if node.endswith(":"):  # `rack1: gpu[1-4]` of clush and dsh, or `gpu1: rack1`
                node = node[:-1]
                if not {node, *expand(node)} & set(wanted):
                    node, pod = pod, node
            yield number, _without_host(pod), node
        elif _YAML_LINE.fullmatch(line):
            raise UserError(
                f"{where}:{number}: '{shortened(line, 60)}' is none of Slurm's topology.yaml; write a list: "
                f"`- topology: NAME`, `tree:`, `switches:`, `- switch: LEAF`, `nodes: gpu[001-016]`"
            )
        else:
            raise UserError(
                f"{where}:{number}: '{shortened(line, 60)}' is neither `SwitchName=... Nodes=...`, "
                f"`BlockName=... Nodes=...` nor `node pod`"
            )


_YAML_LINE = re.compile(r"\s*(-\s+)?[A-Za-z_]+\s*:(\s.*)?|---\s*")
"""A line of YAML; `rack1: gpu[1-4]` is read before."""


def _is_yaml(text: str) -> bool:
    """Whether this is Slurm's topology.yaml: a list of topologies."""
    return re.search(r"^[ \t]*-[ \t]+[\"']?topology[\"']?\s*:", text, re.MULTILINE) is not None


def _bare(line: str) -> str:
    """Keys without quotes."""
    return _QUOTED_KEY.sub(r"\1\2:", line)


def _in_flow(line: str) -> list[str]:
    """`- {switch: s1, nodes: "n[1-2,4]"}` as lines of their own."""
    if inner := _FLOWS.fullmatch(line):
        return [part for each in re.findall(r"\{[^{}]*\}", inner[1]) for part in _in_flow(f"- {each}")]
    found = _FLOW.fullmatch(line)
    if not found:
        return [line]
    parts = re.split(r",\s*(?=[a-z_]+\s*:)", found[2].strip())
    return [f"{found[1]}{parts[0]}", *parts[1:]]


def _of_yaml(text: str, where: str, wanted: Collection[str]) -> list[tuple[int, str, str]]:
    """Leaves of one topology: first come those that know the wanted nodes, then the default, then those with leaves."""
    found: list[list[tuple[int, str, str]]] = []
    defaults: set[int] = set()
    pod, nodes, listing = "", "", False
    lines = [(number, part) for number, line in _lines(text) for part in _in_flow(_bare(line))]
    for number, line in lines:
        match = _YAML.fullmatch(line)
        if match is None or match["key"] is None:
            if listing and found and pod and (item := _ITEM.fullmatch(line)):
                found[-1].append((number, pod, item[1].strip("'\"")))
            continue
        listing = False
        key, value = match["key"], match["value"].strip().strip("'\"")
        if match["dash"]:
            pod, nodes = "", ""
        if key == "topology":
            found.append([])
        elif key == "cluster_default" and value.lower() in {"true", "yes", "on"}:
            defaults.add(len(found) - 1)
        elif key in {"switch", "block", "ring"} and value:
            pod = value
        elif key == "nodes":
            nodes = re.sub(r"""["']""", "", value[1:-1]) if _LISTED.fullmatch(value) else value
            listing = not value
        if found and pod and nodes:
            found[-1].append((number, pod, nodes))
            pod, nodes = "", ""

    def rank(at: int) -> tuple[int, bool, bool]:
        known = (
            {node for number, _, listed in found[at] for node in _expanded(listed, where, number)} if wanted else set()
        )
        return len(known.intersection(wanted)), bool(found[at]), at in defaults

    if not any(found):
        raise UserError(f"{where} has no `switch:`, `block:` or `ring:` with `nodes:` below it, as a flat topology has "
                        f"none; write them, or leave --topology out")  # fmt: skip
    return found[max(range(len(found)), key=rank)]
