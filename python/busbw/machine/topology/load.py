"""Reads a machine from a file of any known kind: NCCL's XML, `nvidia-smi topo -m`, `nvidia-smi -q -x`, `lspci`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw.base import files
from busbw.base.bounds import bounded
from busbw.base.errors import UserError
from busbw.machine.nccl.problem import Problem
from busbw.machine.nccl.topology_file import TopologyFile, read_topology
from busbw.machine.topology.around import (
    names_beside,
    refuse_other_programs,
    refuse_several,
    text_of_page,
    unpacked,
)
from busbw.machine.topology.assemble import assemble
from busbw.machine.topology.gpu_state import Driver, GpuState
from busbw.machine.topology.lspci import PciDevice, machine_of, read_lspci
from busbw.machine.topology.model import Gpu, Machine, with_generation
from busbw.machine.topology.names import product
from busbw.machine.topology.pasted import decoded, refuse_others, xml_of
from busbw.machine.topology.smi_matrix import read_matrix
from busbw.machine.topology.smi_nvlink import as_machine
from busbw.machine.topology.smi_query import read_query
from busbw.machine.topology.sysfs import SysfsReading

MAX_BYTES = 64 << 20
MAX_TEXT = 4 << 20
"""Of `lspci` and matrices: a machine of 16 GPUs prints less than a tenth of it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A machine and what its file said beyond it."""

    machine: Machine
    kind: str
    problems: tuple[Problem, ...] = ()
    file: TopologyFile | None = None
    pci: tuple[PciDevice, ...] = ()
    gpus: tuple[GpuState, ...] = ()
    driver: Driver = field(default_factory=Driver)


def load(path: str | Path) -> Loaded:
    """The machine in that file; UserError where it is none of the known kinds."""
    return from_bytes(read_bytes(path), str(path))


def read_bytes(path: str | Path) -> bytes:
    """A file's content up to MAX_BYTES; UserError where it cannot be read."""
    return files.read_bytes(path, MAX_BYTES, hint="no topology is that large")


def from_bytes(data: bytes, source: str) -> Loaded:
    """As `load`, of content that is already here."""
    with bounded(source, len(data)):
        return _from_bytes(data, source)


def _from_bytes(data: bytes, source: str) -> Loaded:
    if data[:2] == b"\x1f\x8b" or data[:4] in (b"\x28\xb5\x2f\xfd", b"\xfd7zX", b"PK\x03\x04"):
        raise UserError(f"{source} is compressed; unpack it first (gunzip, unzstd, unxz, unzip)")
    data = text_of_page(data) or data
    xml = xml_of(data)
    if xml is not None:
        return _from_xml(xml, source)
    if len(data) > MAX_TEXT:
        raise UserError(f"{source} is text of more than {MAX_TEXT >> 20} MiB; no topology of one machine is that large")
    text = unpacked(decoded(data))
    refuse_several(text, source)
    for kind, read in (("nvidia-smi topo -m", _matrix_and_names), ("nvidia-smi nvlink -s", as_machine)):
        try:
            return Loaded(read(text, source), kind)
        except UserError as problem:
            refuse_others(text, source)
            if _looks_like(kind, text):
                raise problem from None
    try:
        devices = read_lspci(text, source)
        return Loaded(machine_of(devices, source), "lspci", pci=devices)
    except UserError:
        refuse_other_programs(text, source)
        raise UserError(
            f"{source} is no NCCL topology XML and no output of `nvidia-smi topo -m`, `nvidia-smi -q -x`, "
            "`nvidia-smi nvlink -s` or `lspci`"
        ) from None


def _matrix_and_names(text: str, source: str) -> Machine:
    """The matrix, with the names of GPUs that `nvidia-smi` or `nvidia-smi -L` printed beside it."""
    machine = read_matrix(text, source)
    names = names_beside(text)
    return replace(machine, gpus=tuple(_named(gpu, names.get(gpu.index)) for gpu in machine.gpus))


def _named(gpu: Gpu, name: str | None) -> Gpu:
    if name is None:
        return gpu
    known = product(name)
    return with_generation(replace(gpu, name=name, sm=known.sm if known else None))


def _looks_like(kind: str, text: str) -> bool:
    marks = {
        "nvidia-smi topo -m": r".{0,80}\bGPU0\b[\s|]+(?:GPU1|CPU|NIC|mlx)",
        "nvidia-smi nvlink -s": r".{0,80}Link 0:",
    }
    return re.search("^" + marks[kind], text[:65536], re.MULTILINE) is not None


def _from_xml(data: bytes, source: str) -> Loaded:
    if b"<nvidia_smi_log" in data[:4096]:
        states, driver = read_query(data, source)
        machine = assemble(SysfsReading(), states, source=source)
        return Loaded(machine, "nvidia-smi -q -x", gpus=states, driver=driver)
    if b"<graphs" in data[:4096]:
        raise UserError(f"{source} is a graph file (channels), not a topology; give it as --graph")
    file = read_topology(data, source)
    return Loaded(file.machine, "NCCL topology XML", file.problems, file)
