"""A snapshot made ready for findings: files parsed once, settings resolved, the machine known as well as can be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from busbw.base.errors import UserError
from busbw.base.plugin_settings import setting_of_plugin
from busbw.doctor.another_machine import differs
from busbw.doctor.expected import Expected, Known, expected_of, with_type
from busbw.doctor.guess import machine_of_logs, machine_of_records
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.reading.flight import Flight, looks_like, read_flights
from busbw.doctor.reading.read_logs import read_logs
from busbw.doctor.reading.shown import Shown, read_shown
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.expect.fabric import Fabric
from busbw.machine.nccl.conf import ConfFile, Origin, Setting, Version, common, in_force, read_conf
from busbw.machine.nccl.graph_file import GraphFile, read_graph
from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.nccl.topology_file import TopologyFile, read_topology
from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.model import Machine
from busbw.records import Record

Read = TypeVar("Read")
_VERSION = re.compile(r"^NCCL version (\d{1,2}\.\d{1,3}\.\d{1,3})", re.MULTILINE)
_SEARCHED = 1 << 18
GIVEN = "given here"
"""Origin of a graph file that was given with --graph: nobody has configured it here."""
_OF_ONE_NODE = 8
"""So many ranks are taken for those of one node where a log does not show them all."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What findings look at. `graph` and `topology` are a sentence where the file could not be read."""

    snapshot: Snapshot
    machine: Machine | None
    settings: Mapping[str, Setting]
    confs: tuple[ConfFile, ...] = ()
    graph: GraphFile | str | None = None
    topology: TopologyFile | str | None = None
    logs: tuple[NcclLog, ...] = ()
    records: tuple[Record, ...] = ()
    scans: tuple[Scan, ...] = ()
    flights: tuple[Flight, ...] = ()
    shown: tuple[Shown, ...] = ()
    expected: tuple[Expected, ...] = ()
    """What each record should have reached."""
    stranger: str = ""
    """A sentence where the machine that was read is not that of a log or record beside it."""

    def value(self, name: str) -> str | None:
        """The value of a variable that is in force; None where it is not set or empty."""
        setting = self.settings.get(name)
        return setting.value.strip() or None if setting else None

    def whole(self, name: str) -> int | None:
        """The value as NCCL's strtoll would take it; None where it is not set or no number."""
        text = self.value(name)
        try:
            return int(text, 0) if text is not None and len(text) < 20 else None
        except ValueError:
            return None

    @property
    def visible(self) -> Machine | None:
        """The machine with only those GPUs that CUDA_VISIBLE_DEVICES leaves, where it lists their numbers."""
        words = (self.value("CUDA_VISIBLE_DEVICES") or "").split(",")
        if self.machine is None or not all(word.strip().isdecimal() for word in words):
            return self.machine
        wanted = {int(word) for word in words}
        gpus = tuple(gpu for gpu in self.machine.gpus if gpu.index in wanted)
        return replace(self.machine, gpus=gpus) if gpus else self.machine

    def who_says(self, gpu: GpuState) -> str:
        """Where the state of that GPU was read: the driver's library, a program or a saved file."""
        return f"{self.snapshot.driver.asked}: GPU{gpu.index}"

    @property
    def several_nodes(self) -> bool:
        """Whether some log or record shows a run over more than one node."""
        by_log = any((each.nnodes or 1) > 1 for log in self.logs for each in log.communicators)
        return by_log or any(len({rank.host for rank in record.run.ranks}) > 1 for record in self.records)

    @property
    def ran_on_one_node(self) -> bool:
        """Whether logs show a communicator whose init ended on all ranks of one host, and none of several."""
        known = [each for log in self.logs for each in log.communicators if each.ranks]
        if self._measured_on_one_node and all(each.nnodes in (None, 1) for each in known):
            return True
        whole = [each for each in known if all(place.complete for place in each.ranks)]
        hosts = {host for each in known for host in each.hosts}
        hosts |= {host for log in self.logs for host in log.networks if host}
        # Warnings name the host that says them: one of another host is of a job over several.
        hosts |= {each.where.partition(" ")[0] for log in self.logs for each in log.warnings if " " in each.where}
        if not whole or self.several_nodes or len(hosts) != 1:
            return False
        # The log of one rank shows one host, however many there were; a network joins none of one host.
        ways = [way for log in self.logs for each in log.communicators for way in each.transports]
        if any(way.kind == "NET" and max(way.sender, way.receiver) >= _OF_ONE_NODE for way in ways):
            return False
        return all(each.nnodes == 1 or max(len(each.ranks), _OF_ONE_NODE) >= (each.nranks or 0) for each in known)

    @property
    def _measured_on_one_node(self) -> bool:
        """Whether tables name the hosts of all their ranks, all of them one, as all lines of NCCL do."""
        if self.several_nodes or not self.records or not all(each.run.ranks and each.cases for each in self.records):
            return False
        hosts = {rank.host for each in self.records for rank in each.run.ranks}
        hosts |= {each.where.partition(" ")[0] for log in self.logs for each in log.warnings if " " in each.where}
        hosts |= {host for log in self.logs for host in log.networks if host}
        hosts |= {host for log in self.logs for each in log.communicators for host in each.hosts if host}
        return len(hosts) == 1 and hosts != {""} and all(len(each.run.ranks) > 1 for each in self.records)

    @property
    def shows_job_without_network(self) -> bool:
        """Whether a job is logged and nothing tells of a second node: NICs matter little to it."""
        jobs = any(each.alive or any(each.kinds[key] for key in ("nccl", "torch", "steps")) for each in self.scans)
        return self.ran_on_one_node or (jobs and not self.several_nodes)

    @property
    def has_rdma(self) -> bool:
        """Whether the machine has RDMA devices."""
        return bool(self.machine and any(nic.rdma for nic in self.machine.nics))


def gather(snapshot: Snapshot, records: tuple[Record, ...] = (), named: Fabric | None = None) -> Facts:
    """Parse everything in the snapshot; what cannot be parsed stays as a sentence, for a finding to report.

    `named` is the type of the machine, where the user says it.
    """
    if named is not None and snapshot.machine is not None and snapshot.machine.gpus and not snapshot.live:
        snapshot = replace(snapshot, machine=with_type(snapshot.machine, named))
    flights = tuple(
        each for file in snapshot.logs if is_flight(file) for each in read_flights(file.text or "", file.path)
    )
    read = read_logs(snapshot.logs)
    logs, scans = tuple(log for log, _ in read), tuple(found for _, found in read)
    nccl = _nccl(snapshot, logs, records)
    confs = tuple(read_conf(file.text, file.path, nccl) for file in snapshot.confs if file.text is not None)
    stranger = differs(snapshot.machine, records, logs)
    known = Known(replace(snapshot, machine=None) if stranger else snapshot, logs, named)
    return Facts(
        snapshot=snapshot,
        machine=snapshot.machine or machine_of_logs(logs) or machine_of_records(records),
        settings=_settings(snapshot, confs, logs, records, scans),
        confs=confs,
        graph=_parsed(snapshot.graph, read_graph),
        topology=_parsed(snapshot.topology, read_topology),
        logs=logs,
        records=records,
        scans=scans,
        flights=flights,
        shown=read_shown(snapshot.logs, scans),
        expected=tuple(expected_of(each, known) for each in records),
        stranger=stranger,
    )


def _nccl(snapshot: Snapshot, logs: tuple[NcclLog, ...], records: tuple[Record, ...]) -> Version | None:
    """The NCCL by whose rules conf files are read: what logs and records name, else what a program may load here."""
    ran: list[str | int] = [each for log in logs for each in (*log.versions, log.library_version) if each is not None]
    # NCCL prints its version without a prefix where NCCL_DEBUG asks for no more.
    ran += [each for file in snapshot.logs if file.text for each in _VERSION.findall(file.text[:_SEARCHED])]
    ran += [code for each in records if each.run.library and (code := each.run.library.version_code) is not None]
    return common(ran or [each.version for each in snapshot.libraries])


def is_flight(file: TextFile) -> bool:
    """Whether the file is a dump of PyTorch's flight recorder."""
    return file.text is not None and looks_like(file.text[: 1 << 16])


def _settings(
    snapshot: Snapshot,
    confs: tuple[ConfFile, ...],
    logs: tuple[NcclLog, ...],
    records: tuple[Record, ...],
    scans: tuple[Scan, ...],
) -> dict[str, Setting]:
    """What is set here; then what logs and records say was set when they were made."""
    found = in_force(snapshot.environment, confs)
    own = _of_plugins(snapshot)
    for log in logs:
        for each in log.variables:
            if (each.name, each.value) in own:
                continue  # a plugin's business, though NCCL then says that the environment sets it
            found.setdefault(each.name, Setting(each.name, each.value, Origin(log.source, each.line)))
    for record in records:
        # What a plugin sets, which has no line, is the plugin's business: nobody here need take it back.
        by_files = {each.name: each.value for each in record.run.conf if each.in_force and each.line is not None}
        for name, value in {**by_files, **record.run.environment}.items():
            where = f"the record {record.run.run}"
            found.setdefault(name, Setting(name, value, Origin(where)))
    for scan in scans:
        for name, (value, line) in scan.given.items():
            found.setdefault(name, Setting(name, value, Origin(scan.source, line)))
    if snapshot.graph is not None and "NCCL_GRAPH_FILE" not in found:
        found["NCCL_GRAPH_FILE"] = Setting("NCCL_GRAPH_FILE", snapshot.graph.path, Origin(GIVEN))
    return found


_ADDED = re.compile(r"^.{0,200}NCCL INFO NET/OFI .{0,120}?(?:Adding|Setting) .{1,500}$", re.MULTILINE)
_MOST_ADDED = 64


def _of_plugins(snapshot: Snapshot) -> set[tuple[str, str]]:
    """Names and values of what a plugin says that it puts into the environment: it leaves alone what a user set."""
    lines = (found[0] for file in snapshot.logs if file.text
             for found in islice(_ADDED.finditer(file.text[:_SEARCHED]), _MOST_ADDED))  # fmt: skip
    return {said[:2] for line in lines if (said := setting_of_plugin(line.rstrip())) is not None}


def _parsed(file: TextFile | None, read: Callable[[bytes, str], Read]) -> Read | str | None:
    """What the file holds; a sentence where it cannot be read."""
    if file is None:
        return None
    if file.text is None:
        return f"{file.path} cannot be read: {file.why}"
    try:
        return read(file.text.encode(), file.path)
    except UserError as problem:
        return str(problem)
