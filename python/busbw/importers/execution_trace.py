"""Execution traces of PyTorch (Chakra's host traces) and PARAM's communication traces, a file for each rank.

They say which collectives a rank called, on which process group and with how many elements; they become recordings,
which `busbw replay` issues again. Facts of the formats: PyTorch's execution_trace_observer.cpp (the attributes of
record_param_comms, the node "## process_group:init ##") and PARAM's et_replay/comm (the list of calls).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.base.files import open_to_read, read_text
from busbw.importers.torch_names import torch_collective, torch_type
from busbw.watch.recording import COLLECTIVES, ROOTED
from busbw.watch.writing import MAX_COUNT, MAX_ROWS, Group, Noted, write_recording

MAX_BYTES = 512 << 20
MAX_CALLS = 1 << 22
MAX_RANKS = 1 << 16
_NODE = "record_param_comms"
_INIT = "process_group:init"
_SILENT = frozenset({"init", "wait", "barrier", ""})
_MESSAGES = {"send": "send", "isend": "send", "recv": "recv", "irecv": "recv"}
_TYPES = {
    "float": "float32", "half": "float16", "double": "float64", "f8e4m3": "float8e4m3", "f8e5m2": "float8e5m2",
    "bfloat16": "bfloat16", "int8": "int8", "uint8": "uint8", "int32": "int32", "uint32": "uint32", "int64": "int64",
}  # fmt: skip
_LONG = {"long int": "long", "unsigned char": "byte", "signed char": "char", "c10::half": "half"}
_IN_NAME = re.compile(r"(?:rank|et)[-_.]?(\d{1,6})", re.IGNORECASE)
_BEFORE_END = re.compile(r"(?:^|[A-Za-z][-_.])(\d{1,6})\.json(?:\.gz)?$")
"""As of 3.json and chakra.3.json, and not of versions."""
_TENSOR = re.compile(r"Tensor\(([\w: ]{1,30})\)")
_UNEVEN = "collectives of uneven parts"


@dataclass
class Trace:
    """What one rank called, by the names of its process groups; `members` are global ranks, () for all."""

    rank: int
    groups: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    """Of each process group its ranks and how many they are."""
    numbers: dict[str, str] = field(default_factory=dict)
    """Of a number of this process the name of its group: older traces have that at the calls."""
    calls: list[tuple[str, Noted]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def looks_like(head: str) -> bool:
    """Whether a text begins as such a trace."""
    start = head.lstrip()[:1]
    return (start == "{" and '"nodes"' in head and '"schema"' in head) or (
        start == "[" and '"comms"' in head and '"latency_us"' not in head
    )


def convert(paths: Sequence[Path], folder: Path) -> tuple[list[Path], list[str]]:
    """A recording of each rank in the folder, and what is to be said of them."""
    traces: dict[int, Trace] = {}
    for number, path in enumerate(paths):
        trace = read(path, rank_of(path, number, len(paths)))
        if trace.rank in traces:
            raise UserError(f"{path}: rank {trace.rank} was read before; name the files rank-0.json, rank-1.json, ...")
        traces[trace.rank] = trace
    whole: dict[str, tuple[int, ...]] = {}
    for trace in traces.values():
        for name, (members, ranks) in trace.groups.items():
            # Without a list it is all ranks; a group's list may stand in the traces of its own ranks alone.
            known = members or tuple(range(ranks))
            if len(known) > len(whole.get(name, ())):
                whole[name] = known
    notes: Counter[str] = Counter()
    written = [_write(trace, whole, folder, notes) for _, trace in sorted(traces.items())]
    return written, [f"{count:,} {why} are left out" for why, count in notes.items()]


def _write(trace: Trace, whole: Mapping[str, tuple[int, ...]], folder: Path, notes: Counter[str]) -> Path:
    places: dict[str, int] = {}
    groups: list[Group] = []
    calls = []
    notes.update(trace.left_out)
    # Without all times the order is all that is known: a microsecond from one to the next.
    first = min((call.begun_ns for _, call in trace.calls), default=0)
    for number, (name, call) in enumerate(trace.calls):
        members = whole.get(name, ())
        if trace.rank not in members:
            notes["calls on a process group whose ranks are not said"] += 1
            continue
        if name not in places and len(groups) < MAX_ROWS:
            places[name] = len(groups)
            identity = int.from_bytes(hashlib.sha256(f"{name} {members}".encode()).digest()[:8], "little") or 1
            groups.append(Group(identity, members.index(trace.rank), len(members)))
        place = places.get(name)
        if place is None or (call.root is not None and call.root >= len(members)):
            notes["calls on too many process groups, or with a root that is none of their ranks"] += 1
            continue
        count = call.count // len(members) if call.kind == "alltoall" else call.count
        begun = 1000 * number if first < 0 else call.begun_ns - first
        calls.append(replace(call, place=place, count=count, begun_ns=begun))
    if not calls:
        raise UserError(
            f"the trace of rank {trace.rank} holds no collective with its process group; PyTorch notes them down for "
            "its NCCL backend alone"
        )
    return write_recording(folder, trace.rank, groups, calls)


def rank_of(path: Path, number: int, files: int) -> int:
    """Of the file's name, such as rank-3.json, et_3.json, chakra.3.json or 3.json; of a single file 0."""
    found = _IN_NAME.search(path.name) or _BEFORE_END.search(path.name)
    if found is None and files > 1:
        raise UserError(
            f"{path}: the name does not say whose trace it is; name the files rank-0.json, rank-1.json, ..."
        )
    rank = int(found[1]) if found else number
    if rank >= MAX_RANKS:
        raise UserError(f"{path}: rank {rank} is more than busbw takes ({MAX_RANKS:,} ranks)")
    return rank


def read(path: Path, rank: int) -> Trace:
    """The calls of one file; UserError where it is no such trace."""
    text = _text(path)
    try:
        raw = json.loads(text)
        if isinstance(raw, list):
            return _of_param(raw, rank)
        if isinstance(raw, dict) and isinstance(raw.get("nodes"), list):
            return _of_nodes(raw["nodes"], rank)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as problem:
        why = (
            f"it is cut off, or no JSON (line {problem.lineno})"
            if isinstance(problem, json.JSONDecodeError)
            else "a part is missing or wrong"
        )
        raise UserError(
            f"{path} is no trace that can be read: {why}; --recordings takes PyTorch's and PARAM's"
        ) from None
    raise UserError(f"{path} is no execution trace of PyTorch and no trace of PARAM")


def _text(path: Path) -> str:
    """Of a file that may be packed with gzip."""
    if path.suffix != ".gz":
        return read_text(path, MAX_BYTES, hint="no trace that busbw reads is")
    try:
        with open_to_read(path) as packed, gzip.open(packed) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise UserError(f"{path} cannot be unpacked: {problem}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{path} unpacks to more than {MAX_BYTES >> 20} MiB, which no trace that busbw reads is")
    return data.decode("utf-8", "replace")


def _of_nodes(nodes: Sequence[Any], rank: int) -> Trace:
    """By the numbers of the nodes, which are given when a function is entered."""
    trace, group, last = Trace(rank), 0, ""
    mine = [node for node in nodes if isinstance(node, dict) and isinstance(node.get("name"), str)]
    for node in sorted(mine, key=lambda each: _whole(each.get("id"))):
        if _INIT in node["name"]:
            _groups_of(node, trace)
        elif node["name"] == _NODE:
            said = _said(node)
            said["pg"] = trace.numbers.get(said["pg"], said["pg"])
            group = _next_group(said["kind"], last, group)
            last = said["kind"]
            _add(trace, said, group)
    return trace


def _of_param(entries: Sequence[Any], rank: int) -> Trace:
    """PARAM's own list; sizes are in elements."""
    trace, group, last = Trace(rank), 0, ""
    for raw in entries:
        if not isinstance(raw, dict) or not isinstance(raw.get("comms"), str):
            trace.left_out["kernels of compute"] += 1
            continue
        name, kind = str(raw.get("pg_id", 0))[:40], raw["comms"].lower()
        members = _ranks(raw.get("global_ranks"))
        if members or name not in trace.groups:
            trace.groups[name] = (members, len(members) or _whole(raw.get("world_size") or 0))
        members = trace.groups[name][0]
        peer = raw.get("dst_rank" if "send" in kind else "src_rank") if kind in _MESSAGES else raw.get("root")
        if isinstance(peer, int) and members:
            # PARAM names peers and roots by their rank in the job.
            peer = members.index(peer) if peer in members else -1
        group, last = _next_group(kind, last, group), kind
        _add(trace, {
            "kind": kind, "pg": name, "in": raw.get("in_msg_size"), "out": raw.get("out_msg_size"), "peer": peer,
            "type": raw.get("dtype"), "ts_ns": raw.get("startTime_ns"), "took_ns": None,
            "splits": [*_list(raw.get("in_split")), *_list(raw.get("out_split"))],
        }, group)  # fmt: skip
    return trace


def _next_group(kind: str, last: str, group: int) -> int:
    """Sends and receives that follow each other are one group: on a GPU they are under way together."""
    if kind not in _MESSAGES:
        return group
    return group if last in _MESSAGES else group % 0xFFF + 1


def _groups_of(node: Mapping[str, Any], trace: Trace) -> None:
    values = _values(node, "inputs")
    try:
        found = json.loads(values[0]) if values and isinstance(values[0], str) else []
    except (ValueError, RecursionError):
        trace.left_out["lists of process groups that were cut off"] += 1
        return
    for each in _list(found)[:MAX_ROWS]:
        if isinstance(each, dict) and "pg_name" in each:
            members = _ranks(each.get("ranks"))
            size = _whole(each.get("group_size") or each.get("pg_size") or len(members))
            name = str(each["pg_name"])[:200]
            trace.groups[name] = (members, min(size, MAX_RANKS))
            trace.numbers[str(each.get("backend_id", name))[:200]] = name


def _said(node: Mapping[str, Any]) -> dict[str, Any]:
    """What a node says of its call: by its attributes, and in older traces by its inputs."""
    attrs = {str(each.get("name")): each.get("value") for each in _list(node.get("attrs")) if isinstance(each, dict)}
    values, types = _values(node, "inputs"), _types(node)
    name = attrs.get("collective_name")
    at = next((n for n, value in enumerate(values[:6]) if isinstance(value, str) and n), len(values))
    if not isinstance(name, str) or not name:
        name = values[at] if at < len(values) else ""
    pg = attrs.get("pg_name")
    if pg is None and at < len(values):
        pg = next(iter(_list(values[at - 2])), values[at - 2])
    type_ = _TENSOR.search(types[0]) if types else None
    took = node.get("dur")
    return {
        "kind": str(name).lower(), "pg": str(pg)[:200], "peer": values[at - 1] if 0 < at < len(values) else None,
        "in": attrs.get("in_msg_nelems", _elements(values[0] if values else None)),
        "out": attrs.get("out_msg_nelems", _elements(next(iter(_values(node, "outputs")), None))),
        "type": attrs.get("dtype") or (type_[1] if type_ else None),
        "ts_ns": _us(node.get("ts")), "took_ns": _us(took),
        "splits": [part for each in ("in_split_size", "out_split_size") for part in _split(attrs.get(each))],
    }  # fmt: skip


def _add(trace: Trace, said: Mapping[str, Any], group: int) -> None:
    """The call, or why it is left out."""
    name = said["kind"].rsplit(":", 1)[-1].strip()
    if name in _SILENT:
        return
    kind: str | None = _MESSAGES.get(name) or torch_collective(name)
    splits = [_whole(part) for part in said["splits"]]
    if kind == "alltoallv" and len(set(splits)) < 2:
        kind = "alltoall"
    raw = str(said["type"]).lower()
    type_ = _TYPES.get(torch_type(_LONG.get(raw, raw).rsplit("::", 1)[-1]) or "")
    if kind == "alltoallv" or (kind == "alltoall" and len(set(splits)) > 1):
        why = _UNEVEN
    elif kind not in COLLECTIVES and kind not in _MESSAGES:
        why = "calls of other kinds"
    elif type_ is None:
        why = "calls of an unknown type"
    else:
        why = ""
    if why or kind is None or type_ is None or len(trace.calls) >= MAX_CALLS:
        trace.left_out[why or "calls beyond four million"] += 1
        return
    count = _whole(said["out" if kind in {"reduce_scatter", "scatter", "recv"} else "in"] or said["in"] or said["out"])
    peer = said["peer"] if isinstance(said["peer"], int) and not isinstance(said["peer"], bool) else None
    if kind in _MESSAGES and (peer is None or peer < 0):
        trace.left_out["sends and receives without a peer"] += 1
        return
    root = min(max(peer or 0, 0), MAX_RANKS) if kind in ROOTED else None
    begun = said["ts_ns"]
    trace.calls.append((said["pg"], Noted(
        0, kind, min(count, MAX_COUNT), type_, root, group=group if kind in _MESSAGES else 0,
        begun_ns=-1 if begun is None else _whole(begun),
        took_ns=said["took_ns"],
    )))  # fmt: skip


def _values(node: Mapping[str, Any], what: str) -> list[Any]:
    """Older traces have the list itself, newer ones an object with it."""
    found = node.get(what)
    return _list(found.get("values") if isinstance(found, dict) else found)


def _types(node: Mapping[str, Any]) -> list[str]:
    found = node.get("inputs")
    return [str(each) for each in _list(found.get("types") if isinstance(found, dict) else node.get("input_types"))]


def _elements(value: object) -> int:
    """Of a tensor [id, storage, offset, elements, bytes, device], or of a list of them."""
    items = _list(value)
    if len(items) >= 6 and all(isinstance(each, int) for each in items[:5]):
        return _whole(items[3])
    return sum(_elements(each) for each in items[:4096] if isinstance(each, list))


def _split(value: object) -> list[Any]:
    """A list, or the text of one."""
    if isinstance(value, str):
        return [int(each) for each in re.findall(r"\d{1,15}", value[:100_000])]
    return _list(value)


def _ranks(value: object) -> tuple[int, ...]:
    """Global ranks in the order of the group: a list, or in older traces an object from rank to place."""
    found = [int(each) for each in value] if isinstance(value, dict) else _list(value)
    if len(found) > MAX_RANKS or len(set(found)) < len(found):
        raise ValueError("no list of ranks")
    return tuple(_whole(each) for each in found)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _us(value: object) -> int | None:
    """Microseconds as nanoseconds; None where there are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e16:
        return None
    return int(value * 1000)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError("no such number")
    return value
