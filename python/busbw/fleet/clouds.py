"""Reads which leaf each node is below from what clouds and Kubernetes print of their networks, in JSON.

Of several layers the nearest counts: AWS lists network nodes from the top (DescribeInstanceTopology), Google has
cluster, block, sub-block and host (physicalHostTopology), Oracle HPC island, network block and local block. Kubernetes
has the same as labels of its nodes. Documents may follow each other, as pages do; what names instances
(`aws ec2 describe-instances`, `oci compute instance list`) may stand behind them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busbw.base.errors import UserError
from busbw.base.sentences import visible
from busbw.fleet.fabric import MOST_NAME, expand, is_name
from busbw.fleet.subnet import pods_of_links

DEEPEST = 12
_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_OF_SHELL = re.compile(r"([\w.-]+):(?: (.*)|)")
_OTHER_OUTPUT = re.compile(r"\s*(?:INSTANCES\t|NETWORKNODES\t|Instances:|[-|+ ]*DescribeInstanceTopology)")

_LABELS: tuple[tuple[str, ...], ...] = (
    *((f"topology.k8s.aws/network-node-layer-{layer}",) for layer in (5, 4, 3, 2, 1)),
    ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    ("topology.gke.io/cluster", "topology.gke.io/rack"),
    ("cloud.google.com/gce-topology-block",),
    ("oci.oraclecloud.com/rdma.local_block_id",),
    ("oci.oraclecloud.com/rdma.network_block_id",),
    ("network.topology.nvidia.com/leaf",),
    ("network.topology.nvidia.com/block",),
    ("fabric.topograph.run/tier-0",),
    ("topology.kubernetes.io/network-level-1",),
    ("crusoe.ai/pod.id",),
)
"""Labels of Kubernetes nodes, the nearest layer of each maker first; two are one place. Sources: the makers' guides."""
_TIER = re.compile(r"[^/]+/[\w.-]*(?:tier|level|layer)-?\d{1,2}")
"""A label of a numbered layer. Whether the highest number is the nearest is not the same for all makers."""
_LABEL_WORDS = ("leafgroup", "leaf", "tor", "asw", "rack", "subblock", "clique", "switch")
"""In the last part of a label that no list names, the nearest first: `example.com/tor-switch`."""
_NODE_KEYS = ("name", "node", "nodename", "hostname", "host", "displayname", "instanceid")
_LISTED = ("nodes", "children", "members", "hosts", "servers")
_POD_KEYS = ("pod", "leaf", "leafswitch", "switch", "tor", "subblock", "rack", "block")


@dataclass
class _Found:
    """Places by the names that one document gives, and further names of instances."""

    places: list[tuple[str, str, bool | None]] = field(default_factory=list)
    labelled: list[tuple[str, Mapping[str, Any], bool | None]] = field(default_factory=list)
    """Kubernetes nodes: which of their labels is the nearest layer is seen from all of them."""
    names: dict[str, list[str]] = field(default_factory=dict)


def looks_like_json(text: str) -> bool:
    """Whether it begins as JSON does, or as JSON behind a parallel shell's `node: `."""
    head = text.lstrip("\ufeff \t\r\n")[:400]
    found = _OF_SHELL.match(head.partition("\n")[0])
    return head[:1] in {"{", "["} or (found is not None and (found[2] or "").lstrip()[:1] == "{")


def refuse_other_outputs(text: str, where: str) -> None:
    """A sentence for what the same tools print when nobody asks them for JSON."""
    if re.match(r"(?:---\s+)?apiVersion:\s", text):
        raise UserError(f"{where} is YAML of Kubernetes; write it with `kubectl get nodes -o json`")
    if re.match(r"---\s+[\w-]+:\s", text):
        raise UserError(f"{where} is YAML; write it as JSON, such as with `gcloud ... --format=json`")
    if _OTHER_OUTPUT.match(text):
        raise UserError(f"{where} is text of the AWS CLI; write it with `--output json`")


def pods_of_json(text: str, where: str, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Nodes and their pods; of an instance's names the wanted one."""
    found = _Found()
    for owner, document in _documents(text.lstrip("\ufeff"), where):
        before = len(found.places)
        if isinstance(document, list) and document and all(_is_link(each) for each in document):
            found.places += [(node, pod, None) for node, pod in pods_of_links(document)]
            continue
        _walk(document, owner, found)
        if len(found.places) == before and not found.names:
            found.places += _plain(document)
    places = of_labels([labels for _, labels, _ in found.labelled])
    found.places += [(name, place, gpus) for (name, _, gpus), place in zip(found.labelled, places, strict=True)
                     if name and place]  # fmt: skip
    has_gpus = any(gpus for _, _, gpus in found.places)
    switches = {pod for _, pod, _ in found.places}
    chosen = [(name, pod) for name, pod, gpus in found.places
              if not (has_gpus and gpus is False) and name not in switches]  # fmt: skip
    if not chosen:
        raise UserError(f"{where} has no node with its place in the network; docs/reference/fleet.md says what is read")
    by_short = {name.partition(".")[0]: name for name in wanted}
    met = False
    for name, pod in chosen:
        _check(name, pod, where)
        names = [*found.names.get(name, ()), name]
        asked = next((each for each in names if each in wanted), None) or next(
            (by_short[short] for each in names if (short := each.partition(".")[0]) in by_short), None
        )
        met = met or asked is not None
        yield asked or names[0], pod
    if wanted and not met:
        raise UserError(_stranger(where, chosen[0][0]))


def _is_link(one: Any) -> bool:
    """Whether this is a link of UFM."""
    return isinstance(one, dict) and "source_port_node_description" in one and all(
        isinstance(value, str) for key, value in one.items() if key.startswith(("source", "destination")))  # fmt: skip


def _stranger(where: str, name: str) -> str:
    said = f"{where} names {name} and none of these nodes"
    if name.startswith("i-"):
        return f"{said}; append what `aws ec2 describe-instances` prints, which has the nodes' names"
    if name.startswith("ocid1."):
        return f"{said}; append what `oci compute instance list` prints, which has the nodes' names"
    return f"{said}; is it another cluster's?"


def _check(name: str, pod: str, where: str) -> None:
    if not is_name(name):
        raise UserError(f"{where}: '{visible(name[:60])}' is no node")
    if not pod.isprintable() or len(pod) > MOST_NAME or any(each.isspace() for each in pod):
        raise UserError(f"{where}: '{visible(pod[:60])}' is no name of a switch")


def _documents(text: str, where: str) -> Iterator[tuple[str | None, Any]]:
    """Each JSON document, and the node whose answer it is."""
    for owner, part in _of_shell(text):
        decoder, at = json.JSONDecoder(), 0
        while (at := _behind_space(part, at)) < len(part):
            try:
                document, at = decoder.raw_decode(part, at)
            except (ValueError, RecursionError):
                raise UserError(f"{where} is no whole JSON (character {at + 1:,}); write it anew") from None
            yield owner, document


def _behind_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _of_shell(text: str) -> list[tuple[str | None, str]]:
    """The answers of a parallel shell by node, or the whole text of nobody."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].lstrip()[:1] in {"{", "["}:
        return [(None, text)]
    parts: dict[str, list[str]] = {}
    for line in lines:
        found = _OF_SHELL.match(line)
        if found is None:
            return [(None, text)]
        parts.setdefault(found[1], []).append(found[2] or "")
    return [(owner, "\n".join(part)) for owner, part in parts.items()]


def _plainly(table: dict[str, Any]) -> dict[str, Any]:
    """The same with keys as all tools would write them: `NetworkNodes`, `network-nodes` and `network_nodes` are one."""
    return {key.lower().replace("-", "").replace("_", ""): value for key, value in table.items()}


def _walk(document: Any, owner: str | None, found: _Found) -> None:
    left: list[tuple[Any, int]] = [(document, 0)]
    while left:
        value, depth = left.pop()
        if isinstance(value, dict):
            table = _plainly(value)
            _note_name(table, found)
            if isinstance(value.get("busbw_fleet"), int) and isinstance(value.get("pods"), dict):
                found.places += [(node, pod, None) for node, pod in value["pods"].items() if isinstance(pod, str)]
                continue
            metadata = table.get("metadata")
            if isinstance(metadata, dict) and isinstance(metadata.get("labels"), dict):
                found.labelled.append((_text(metadata, "name") or "", metadata["labels"], _gpus(table)))
            if below := _below(table):
                found.places += below
                continue
            place = _place(table)
            of_oracle = "localblockid" in table or "computelocalblockid" in table
            # A host's own name is not its instance's.
            name = owner or _text(table, *(("instanceid",) if of_oracle else _NODE_KEYS))
            if place and name:
                found.places.append((name, place, None))
                continue
        if isinstance(value, (dict, list)) and depth < DEEPEST:
            inner = value.values() if isinstance(value, dict) else value
            left += [(each, depth + 1) for each in reversed(list(inner))]


def _below(table: dict[str, Any]) -> list[tuple[str, str, None]]:
    """The nodes of a switch that lists them, by name or as Slurm writes hosts."""
    switch = _text(table, "name", *_POD_KEYS)
    listed = next((value for key in _LISTED if (value := table.get(key))), None)
    if isinstance(spec := table.get("spec"), dict) and isinstance(metadata := table.get("metadata"), dict):
        switch, listed = _text(metadata, "name"), _members(spec)  # a HyperNode of Volcano
    if not switch or not listed:
        return []
    names = expand(listed) if isinstance(listed, str) else listed
    if not isinstance(names, (list, tuple)):
        return []
    told = [each if isinstance(each, str) else _leaf(each) for each in names]
    return [(name, switch, None) for name in told if name] if all(told) else []


def _leaf(member: Any) -> str | None:
    """The name of a member that says nothing else of its place, and has no members itself."""
    table = _plainly(member) if isinstance(member, dict) else {}
    return None if _place(table) or any(key in table for key in _LISTED) else _text(table, *_NODE_KEYS)


def _members(spec: dict[str, Any]) -> list[str]:
    """Nodes that the spec of a HyperNode names one by one."""
    found = []
    for member in spec.get("members") or () if isinstance(spec.get("members"), list) else ():
        selector = member.get("selector") if isinstance(member, dict) and member.get("type") == "Node" else None
        exact = selector.get("exactMatch") if isinstance(selector, dict) else None
        found += [exact["name"]] if isinstance(exact, dict) and isinstance(exact.get("name"), str) else []
    return found


def _note_name(table: dict[str, Any], found: _Found) -> None:
    identity = _text(table, "instanceid")
    name = _text(table, "privatednshostname", "privatednsname")
    tags = table.get("tags")
    tagged = [_text(_plainly(tag), "value") for tag in (tags if isinstance(tags, list) else ())
              if isinstance(tag, dict) and tag.get("Key") == "Name"]  # fmt: skip
    if identity and (known := [each for each in (name, *tagged) if each]):
        found.names[identity] = known
    identity, name = _text(table, "id"), _text(table, "hostname", "displayname")
    if identity and name and identity.startswith("ocid1.instance."):
        found.names[identity] = [name]


def _place(table: dict[str, Any]) -> str | None:
    """The nearest layer that an object says it is below."""
    if isinstance(lldp := _only(table.get("lldp")), dict):
        return _neighbour(lldp.get("interface"))
    for inside in ("resourcestatus", "rdmatopologydata"):
        if isinstance(table.get(inside), dict):
            return _place(_plainly(table[inside]))
    layers = table.get("networknodes", table.get("networknodeset"))
    if isinstance(layers, list):
        return next((each for each in reversed(layers) if isinstance(each, str) and each), None)
    for key in _POD_KEYS:  # an inventory's rack is an object
        if isinstance(inner := table.get(key), dict) and (name := _text(inner, "name", "display")):
            return name
    block = _text(table, "customerlocalblock", "computelocalblockid", "localblockid")
    # An inventory may number its racks.
    numbered = {key: str(value) for key in _POD_KEYS if type(value := table.get(key)) is int}
    return block or _in_google(table) or _text({**table, **numbered}, *_POD_KEYS)


def _neighbour(interfaces: Any) -> str | None:
    """The switch that a node's ports are plugged into, as `lldpctl -f json` tells; none where these are several."""
    each = interfaces if isinstance(interfaces, list) else [interfaces]
    ports = [port for one in each if isinstance(one, dict) for port in (one, *one.values()) if isinstance(port, dict)]
    found: set[str] = set()
    for chassis in (_only(port.get("chassis")) for port in ports):
        # In json0, whose form never changes, all are lists: `"name": [{"value": "leaf1"}]`.
        if isinstance(chassis, dict):
            named = _only(chassis.get("name"))
            found.update([str(named.get("value"))] if isinstance(named, dict) else chassis)
    return found.pop() if len(found) == 1 else None


def _only(value: Any) -> Any:
    """The one element of a list; whatever else it is as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _in_google(table: dict[str, Any]) -> str | None:
    topology, path = table.get("physicalhosttopology"), table.get("physicalhost")
    if isinstance(topology, dict):
        return _of_google(_plainly(topology))
    if isinstance(path, str) and path.strip("/").count("/"):
        return path.strip("/").rpartition("/")[0]
    return _of_google(table) if "subblock" in table else None


def _of_google(topology: dict[str, Any]) -> str | None:
    parts = [_text(topology, "block"), _text(topology, "subblock")]
    return "/".join(each for each in parts if each) or _text(topology, "cluster")


def of_labels(nodes: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The nearest layer that the labels of each of these Kubernetes nodes name."""
    values: dict[str, set[str]] = {}
    for labels in nodes:
        for key, value in labels.items():
            if isinstance(value, str) and value and _TIER.fullmatch(key):
                values.setdefault(key, set()).add(value)
    # The nearest layer has the most switches; of the same number any tells the same.
    nearest = max(sorted(values), key=lambda key: len(values[key]), default="")
    return [_nearest(labels, nearest) for labels in nodes]


def _nearest(labels: Mapping[str, Any], tier: str) -> str | None:
    for keys in _LABELS:
        values = [labels.get(key) for key in keys]
        if all(isinstance(value, str) and value for value in values):
            return "/".join(map(str, values))
    for word in _LABEL_WORDS:
        for key, value in labels.items():
            named = "/" in key and word in re.split(r"[-._]", key.rpartition("/")[2].lower())
            if named and isinstance(value, str) and value:
                return value
    return _text(labels, tier)


def _gpus(table: dict[str, Any]) -> bool | None:
    """Whether Kubernetes says that a node has GPUs; None for what is no node of it."""
    status = table.get("status")
    capacity = status.get("capacity") if isinstance(status, dict) else None
    if not isinstance(capacity, dict):
        return None
    return any(str(capacity.get(each, "0")) != "0" for each in _GPUS)


def _text(table: Mapping[str, Any], *keys: str) -> str | None:
    return next((value for key in keys if isinstance(value := table.get(key), str) and value), None)


def _plain(document: Any) -> list[tuple[str, str, None]]:
    """`{"node": "pod"}` and `{"pod": ["node"]}`."""
    if not isinstance(document, dict) or not document:
        return []
    if all(isinstance(value, str) and value for value in document.values()):
        return [(node, pod, None) for node, pod in document.items()]
    if all(isinstance(value, list) and all(isinstance(each, str) for each in value) for value in document.values()):
        return [(node, pod, None) for pod, nodes in document.items() for node in nodes]
    return []
