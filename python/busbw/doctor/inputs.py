"""Snapshots from saved files: each is named by an option, or recognised by what it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.base import files
from busbw.base.errors import UserError
from busbw.doctor.bundle import is_bundle, read_bundle
from busbw.doctor.snapshot import Snapshot, TextFile
from busbw.machine.nccl.conf import in_force, read_conf
from busbw.machine.topology.load import Loaded, from_bytes, read_bytes
from busbw.records import Record, read_records

MAX_LOG_BYTES = 512 << 20
_ASSIGNMENT = re.compile(r"^[A-Z][A-Z0-9_]*=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the command line names."""

    topology: str | None = None
    graph: str | None = None
    logs: tuple[str, ...] = ()
    confs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything is named at all."""
        return bool(self.topology or self.graph or self.logs or self.confs or self.files)


def read_inputs(inputs: Inputs, base: Snapshot | None = None) -> tuple[Snapshot, tuple[Record, ...]]:
    """The snapshot that the files make, added to `base` where there is one; UserError names a file that is unfit."""
    snapshot = base or Snapshot("saved files")
    records: tuple[Record, ...] = ()
    for name in inputs.files:
        snapshot, more = _add(snapshot, name)
        records += more
    if inputs.topology:
        snapshot = _with_topology(snapshot, inputs.topology)
    if inputs.graph:
        snapshot = replace(snapshot, graph=_text(inputs.graph))
    logs = tuple(_text(name, MAX_LOG_BYTES) for name in inputs.logs)
    confs = tuple(_text(name) for name in inputs.confs)
    snapshot = replace(snapshot, logs=(*snapshot.logs, *logs), confs=(*confs, *snapshot.confs))
    return _with_named_graph(snapshot), records


def _with_named_graph(snapshot: Snapshot) -> Snapshot:
    """The graph file that a saved nccl.conf names, where it lies here too and none was given."""
    if snapshot.graph is not None:
        return snapshot
    confs = [read_conf(each.text, each.path) for each in snapshot.confs if each.text is not None]
    setting = in_force(snapshot.environment, confs).get("NCCL_GRAPH_FILE")
    if setting is None or not Path(setting.value).is_file():
        return snapshot
    return replace(snapshot, graph=_text(setting.value))


def _add(snapshot: Snapshot, name: str) -> tuple[Snapshot, tuple[Record, ...]]:
    """One file whose kind nobody said."""
    start = files.read_start(name, 1 << 20)
    if is_bundle(start):
        if snapshot.machine is not None:
            raise UserError(f"{name}: a bundle is a whole machine; examine it by itself")
        found = read_bundle(Path(name))
        return replace(found, logs=(*found.logs, *snapshot.logs), confs=(*snapshot.confs, *found.confs)), ()
    text = start.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        return snapshot, tuple(read_records(Path(name)))
    if "<graphs" in text:
        return replace(snapshot, graph=_text(name)), ()
    if "NCCL INFO" in text or "NCCL WARN" in text:
        return replace(snapshot, logs=(*snapshot.logs, _text(name, MAX_LOG_BYTES))), ()
    if name.endswith(".conf") or (_ASSIGNMENT.search(text) and not text.lstrip().startswith("<")):
        return replace(snapshot, confs=(*snapshot.confs, _text(name))), ()
    return _with_topology(snapshot, name), ()


def _with_topology(snapshot: Snapshot, name: str) -> Snapshot:
    """The machine of a topology file; beside a live machine it is the file that NCCL would be given."""
    data = read_bytes(name)
    loaded: Loaded = from_bytes(data, name)
    text = TextFile(name, data.decode("utf-8", "replace"))
    if snapshot.machine is not None:
        return replace(snapshot, topology=text)
    return replace(snapshot, machine=loaded.machine, topology=text if loaded.file is not None else None)


def _text(name: str, most: int = 32 << 20) -> TextFile:
    data = files.read_bytes(name, most, hint="give the part from the start of the job")
    return TextFile(name, data.decode("utf-8", "replace"))
