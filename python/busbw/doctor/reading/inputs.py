"""Snapshots from saved files: each is named by an option, or recognised by what it holds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.base import files
from busbw.base.effort import EFFORT, MIB
from busbw.base.errors import UserError
from busbw.doctor.lines.sieve import is_json_log
from busbw.doctor.reading.archives import may_be_log, shown
from busbw.doctor.reading.bundle import is_bundle, read_bundle
from busbw.doctor.reading.execution_trace import looks_like as is_execution_trace
from busbw.doctor.reading.flight import MAX_BYTES as MAX_FLIGHT_BYTES
from busbw.doctor.reading.flight import looks_like
from busbw.doctor.reading.in_front import bare
from busbw.doctor.reading.mixed import (
    as_conf,
    assignments,
    beside_assignments,
    beside_topology,
    is_conf,
    is_one_xml,
    tells_fault,
)
from busbw.doctor.reading.of_pieces import may_show_machine, with_graph, with_pieces
from busbw.doctor.reading.packed import is_packed, opened, read_start, was_cut
from busbw.doctor.reading.snapshot import SAVED, HostState, Snapshot, TextFile
from busbw.doctor.reading.tables import HOW, PER_FILE, WIDE, holding_tables, tables_in, tables_of
from busbw.importers.lines import is_binary
from busbw.machine.nccl.conf import in_force, read_conf
from busbw.machine.topology.assemble import together
from busbw.machine.topology.load import Loaded, from_bytes, read_bytes
from busbw.machine.topology.pieces import MAX_BYTES
from busbw.records import Record, read_records

HELD_BYTES = 64 << 10
"""A larger log stays on disk, and is read line by line."""
FEW_WORDS = 8
"""A larger object or list that begins with fewer words holds no line of a log."""
MOST_FILES = 20_000
"""Of a folder: twice the ranks of the largest jobs."""
DEEPEST = 6
"""Folders below a folder that is named: `torchrun --log-dir` makes four."""
FOR_READING, FOR_TABLES, FOR_RECORDS = 0.7, 0.45, 0.45
"""Of what a call may spend: what is left for logs and tables, whatever lies beside them; and of that for tables."""
PER_MIB_LOOKED_AT = 12_000
"""To tell what a file is; to read records."""
MANY, PER_MIB_OF_MANY = 64, 50_000
"""More files than that are the logs of a job's ranks: they may cost more together, by their size on disk."""
_SERVICE = re.compile(r'"(?:severity|level|levelname|reason|health|status|component|timestamp|time|ts|error|err)" ?:')
"""Keys of objects that services log."""
_TOPOLOGY = re.compile(
    r"^[ \t]*GPU0\s.*(?:CPU Affinity|GPU1|NV\d|NIC0|\sX\s)|^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \S"
    r"|^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    re.MULTILINE,
)
"""A matrix of `nvidia-smi topo -m`, or `lspci`."""
_LINKS = re.compile(r"^[ \t]+Link \d{1,2}: (?:<inactive>|[\d.]{1,8} GB/s)\s*$", re.MULTILINE)
"""`nvidia-smi nvlink -s`: a machine where a matrix follows; alone it is often only a part of the listing."""
_MATRIX = re.compile(r"^[ \t]*GPU0[ \t]+GPU1\s.*\n[ \t]*GPU0[ \t]+X\s", re.MULTILINE)


_CAN_REACH = re.compile(r"^\W{0,4}GPU0\s+(?:(?:X|OK|CNS|GNS|TNS|NS|DR|U)\s*)+$", re.MULTILINE)
"""A row of `nvidia-smi topo -p2p`: who reaches whom, and not by which way."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the command line names."""

    topology: str | None = None
    graph: str | None = None
    logs: tuple[str, ...] = ()
    confs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Those of folders too, as `listed` gives them."""
    named: tuple[str, ...] | None = None
    """Those that the user named one by one, where not all of them: what else is unfit is passed over and told."""

    @property
    def any(self) -> bool:
        """Whether anything is named at all."""
        return bool(self.topology or self.graph or self.logs or self.confs or self.files)


def listed(names: Sequence[str]) -> list[str]:
    """The names, with the files of a folder in its place: such as one of the logs of all ranks.

    Of folders in it (torchrun makes one for each rank) it takes what may be a log. Links to folders are not followed.
    """
    found: list[str] = []
    for name in names:
        if not Path(name).is_dir():
            found.append(name)
            continue
        inside = _inside(name, DEEPEST)
        if not inside or len(inside) > MOST_FILES:
            how = f"holds more than {MOST_FILES} files" if inside else "holds no file"
            raise UserError(f"{name} cannot be read: the folder {how}; name the logs, such as {name}/*.log")
        found += inside
    return found


def _inside(folder: str, depth: int, taken: int = 0) -> list[str]:
    """The files of a folder, those of deeper folders behind them; one too many where there are too many."""
    try:
        with os.scandir(folder) as entries:
            known = sorted((each for each in entries if not each.name.startswith(".")), key=lambda each: each.path)
    except OSError as problem:
        if depth < DEEPEST:
            return []
        raise UserError(f"{folder} cannot be read: {problem.strerror or problem}") from problem
    deeper = depth < DEEPEST
    found = [each.path for each in known if _is_file(each) and not (deeper and not may_be_log(each.name))]
    for each in known:
        if depth and each.is_dir(follow_symlinks=False) and taken + len(found) <= MOST_FILES:
            found += _inside(each.path, depth - 1, taken + len(found))
    return found


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is to be read as a file: also a link in a circle, so that whoever reads it says that he cannot."""
    try:
        return entry.is_file()
    except OSError:
        return True


def bundles_of(names: Sequence[str]) -> list[str]:
    """Those of the files that are bundles."""
    found = []
    for name in names:
        with suppress(UserError):  # one that cannot be opened is told, or passed over, when it is read
            if is_bundle(name):
                found.append(name)
    return found


def read_inputs(inputs: Inputs, base: Snapshot | None = None) -> tuple[Snapshot, tuple[Record, ...]]:
    """The snapshot that the files make, added to `base` where there is one; UserError names a file that is unfit."""
    snapshot = base or Snapshot(SAVED)
    records: tuple[Record, ...] = ()
    _allow((*inputs.files, *inputs.logs))
    full, unfit_files = EFFORT.left, 0
    for at, name in enumerate(inputs.files):
        if full * FOR_READING > EFFORT.left:
            unread = (
                f"{len(inputs.files) - at} of {len(inputs.files)} files were not read, {name} the first of them: {HOW}"
            )
            snapshot = replace(snapshot, notes=(unread, *snapshot.notes))
            break
        try:
            snapshot, more = _add(snapshot, name)
        except UserError as unfit:
            # Cores, dumps and broken files lie beside logs.
            if inputs.named is None or name in inputs.named:
                raise
            unfit_files += 1
            snapshot, more = replace(snapshot, notes=(*snapshot.notes, f"passed over: {unfit}")), ()
        records += more
    if inputs.files and unfit_files == len(inputs.files):
        raise UserError(f"none of the files can be read: {snapshot.notes[0]}")
    held = [each for each in snapshot.logs if each.text is not None and not looks_like(each.text[: 1 << 16])]
    names = (*inputs.logs, *(each.path for each in snapshot.logs if each not in held and each.path not in inputs.logs))
    with EFFORT.part(FOR_TABLES):
        found, lost = tables_in(held)
        records += found
        snapshot = replace(snapshot, notes=(*lost, *snapshot.notes))
        for name in holding_tables([name for name in names if Path(name).is_file()]):
            if EFFORT.is_spent:
                said = f"{name} and the files after it were not searched for tables of results: {HOW}"
                snapshot = replace(snapshot, notes=(said, *snapshot.notes))
                break
            found, lost = tables_of(name)
            records += found
            snapshot = replace(snapshot, notes=(*lost, *snapshot.notes))
    if inputs.topology:
        snapshot = _with_topology(snapshot, inputs.topology)
    if inputs.graph:
        snapshot = replace(snapshot, graph=_text(inputs.graph))
    logs = tuple(_log(name) for name in inputs.logs)
    confs = tuple(as_conf(_text(name)) for name in inputs.confs)
    snapshot = replace(snapshot, logs=(*snapshot.logs, *logs), confs=(*confs, *snapshot.confs))
    return _with_named_graph(snapshot), records


def _allow(names: Sequence[str]) -> None:
    """Let many files cost more together: a job of 1,000 ranks has as many logs."""
    if len(names) > MANY:
        size = sum(files.bytes_on_disk(name) for name in names if Path(name).is_file())
        EFFORT.allow(size * PER_MIB_OF_MANY / MIB)


def _with_named_graph(snapshot: Snapshot) -> Snapshot:
    """The graph file that a saved nccl.conf names, where it lies here too and none was given."""
    if snapshot.graph is not None:
        return snapshot
    confs = [read_conf(each.text, each.path) for each in snapshot.confs if each.text is not None]
    setting = in_force(snapshot.environment, confs).get("NCCL_GRAPH_FILE")
    if setting is None or not Path(setting.value).is_file():
        return snapshot
    return replace(snapshot, graph=_text(setting.value))


def _add(  # noqa: PLR0911 - one for each kind of file
    snapshot: Snapshot, name: str
) -> tuple[Snapshot, tuple[Record, ...]]:
    """One file whose kind nobody said."""
    EFFORT.spend(PER_FILE)
    start = read_start(name, 1 << 18)
    EFFORT.spend(len(start) * PER_MIB_LOOKED_AT / MIB)
    if is_bundle(name):
        if snapshot.machine is not None:
            raise UserError(f"{name}: a bundle is a whole machine; examine it by itself")
        found = read_bundle(Path(name))
        return replace(found, logs=(*found.logs, *snapshot.logs), confs=(*snapshot.confs, *found.confs)), ()
    if is_binary(start[: 1 << 16]) and not start.startswith(WIDE):
        raise UserError(f"{name} is no text: neither a log nor a bundle, a record, an nccl.conf or a topology file")
    text = _decoded(start)
    if is_packed(name):
        return replace(snapshot, logs=(*snapshot.logs, _log(name))), ()
    if looks_like(text[: 1 << 16]):
        return replace(snapshot, logs=(*snapshot.logs, _text(name, MAX_FLIGHT_BYTES))), ()
    if is_execution_trace(text):
        raise UserError(
            f"{name} is an execution trace of PyTorch, which has calls and no errors; "
            f"`busbw import {name} --recordings FOLDER` makes a recording of it"
        )
    if text.lstrip().startswith("{") and not is_json_log(start.lstrip()) and _may_be_record(text):
        said: list[str] = []
        with EFFORT.part(FOR_RECORDS):
            records = tuple(read_records(Path(name), said.append))
        return replace(snapshot, notes=(*said, *snapshot.notes)), records
    if "<graphs" in text:
        return with_graph(snapshot, name, _text(name).text or ""), ()
    if "NCCL INFO" in text or "NCCL WARN" in text:
        return _with_log(snapshot, name, text), ()
    if is_conf(text, shown(name)):
        return _with_conf(snapshot, name), ()
    first = _first_lines(text)
    machine = _TOPOLOGY.search(first) or (_LINKS.search(first) and _MATRIX.search(text))
    if text.lstrip().startswith("<") or (machine and not _CAN_REACH.search(first)):
        return _with_what_it_shows(snapshot, name), ()
    if len(text) > HELD_BYTES and text.lstrip()[:1] in ("{", "[") and len(text.split(maxsplit=FEW_WORDS)) < FEW_WORDS:
        raise UserError(f"{name} is JSON without any line of text: neither a log nor a record")
    # Any other text is a log: of PyTorch, the kernel, a launcher or a benchmark.
    return _with_log(snapshot, name, text), ()


def _may_be_record(text: str) -> bool:
    """Whether the object at the start may be a record, also a broken one: what services log has other keys."""
    first, _, rest = text.lstrip().partition("\n")
    if '"schema"' in first:
        return True
    if not first.strip(" {\t\r").startswith(('"', "}")):
        return False  # a record is a line; what spreads over lines is another program's result
    with suppress(ValueError, RecursionError):
        if not {"kind", "run", "case", "config"} & json.loads(first).keys():
            return False
    # A record's further lines are objects too: an event that stands above other lines is part of a log.
    plain = any(line.strip() and not line.lstrip().startswith(("{", "}", "]", '"')) for line in rest.split("\n")[:50])
    return not plain and not _SERVICE.search(first)


def _first_lines(text: str) -> str:
    """The first lines that are not empty: a matrix further down is part of a report, not the file's kind."""
    return "\n".join([line for line in text[:8192].splitlines() if line.strip()][:3])


def _with_conf(snapshot: Snapshot, name: str) -> Snapshot:
    """An nccl.conf; or the variables of a job, and a log behind them."""
    conf = _text(name)
    said = "" if shown(name).endswith(".conf") else beside_assignments(conf.text or "")
    if said:
        snapshot = replace(snapshot, logs=(*snapshot.logs, TextFile(name, said)))
        conf = TextFile(name, assignments(conf.text or ""))
    return replace(snapshot, confs=(*snapshot.confs, conf))


def _with_what_it_shows(snapshot: Snapshot, name: str) -> Snapshot:
    """A machine, and the log that may stand behind it; a log that only begins like a machine is one."""
    text = _text(name).text or ""
    if not is_one_xml(text) and (found := with_pieces(snapshot, name, text)) is not None:
        return found
    try:
        found = _with_topology(snapshot, name)
    except UserError:
        log = _log(name)
        if log.text is None or not tells_fault(log.text):
            raise
        return replace(snapshot, logs=(*snapshot.logs, log))
    said = "" if text.lstrip("\ufeff \t\r\n").startswith("<") else beside_topology(text)
    return replace(found, logs=(*found.logs, TextFile(name, said))) if said else found


def _with_log(snapshot: Snapshot, name: str, start: str) -> Snapshot:
    """A log, and the machine that outputs in it show."""
    if may_show_machine(bare(start)) and Path(name).stat().st_size <= MAX_BYTES:
        text = bare(_text(name).text or "")
        EFFORT.spend(len(text) * PER_MIB_LOOKED_AT / MIB)
        if (found := with_pieces(snapshot, name, text)) is not None:
            return found
    return replace(snapshot, logs=(*snapshot.logs, _log(name)))


def _with_topology(snapshot: Snapshot, name: str) -> Snapshot:
    """The machine of a topology file; beside a live machine it is the file that NCCL would be given.

    Several outputs of one machine (a matrix, `lspci`, nvidia-smi's XML) are put together.
    """
    data = read_bytes(name)
    loaded: Loaded = from_bytes(data, name)
    text = TextFile(name, data.decode("utf-8", "replace"))
    if snapshot.machine is None:
        given = text if loaded.file is not None else None
        return _with_states(replace(snapshot, machine=loaded.machine, topology=given), loaded)
    if loaded.file is not None:
        return replace(snapshot, topology=text)
    whole = None if snapshot.live else together(snapshot.machine, loaded.machine)
    if whole is None:
        raise UserError(
            f"{name} shows another machine ({loaded.kind}) than {snapshot.machine.source}: their GPUs are not as many; "
            "examine each by itself"
            if not snapshot.live
            else f"{name} shows a machine ({loaded.kind}) beside this one; examine it without --live"
        )
    return _with_states(replace(snapshot, machine=whole), loaded)


def _with_states(snapshot: Snapshot, loaded: Loaded) -> Snapshot:
    """The state of the GPUs that a saved output shows, and the bridges that it shows with access control."""
    redirects = tuple(each.bus_id for each in loaded.pci if each.redirects)
    if redirects and snapshot.host is None:
        snapshot = replace(snapshot, host=HostState(acs_redirects=redirects))
    if not loaded.gpus or snapshot.gpus:
        return snapshot
    return replace(snapshot, gpus=loaded.gpus, driver=replace(loaded.driver, asked=loaded.machine.source))


def _log(name: str) -> TextFile:
    """A log: its text, or its place alone where it is large."""
    path = Path(name)
    if is_packed(name):
        try:
            with opened(name) as file:
                start, cut = file.read(HELD_BYTES + 1), was_cut(file)
        except OSError as problem:
            raise UserError(f"{name} cannot be read: {problem.strerror or problem}") from problem
        return TextFile(name, _decoded(start) if len(start) <= HELD_BYTES else None, cut=cut)
    if path.is_file() and path.stat().st_size > HELD_BYTES and not files.read_start(name, 2).startswith(WIDE):
        return TextFile(name, None)
    return _text(name)


def _text(name: str, most: int = 32 << 20) -> TextFile:
    data = files.read_bytes(name, most, hint="give the part from the start of the job")
    return TextFile(name, _decoded(data))


def _decoded(data: bytes) -> str:
    """The text; shells of Windows write two bytes for a character, and say so at the start."""
    return data.decode("utf-16" if data.startswith(WIDE) else "utf-8", "replace")
