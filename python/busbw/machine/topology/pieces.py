"""Several outputs of one machine in one text: a matrix, `lspci`, links, XML, tables of nvidia-smi and of ports.

People paste what they ran, one command below the other, with prompts and words of their own between. Each output is
read by its own reader. What is left over is given back in its place, so that nobody takes it for read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from busbw.base.errors import UserError
from busbw.machine.nccl.topology_file import TopologyFile, read_topology
from busbw.machine.topology.around import names_beside, refuse_several, unpacked
from busbw.machine.topology.assemble import assemble, both_links, together
from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.lspci import PciDevice, is_detail, is_device, machine_of, read_lspci
from busbw.machine.topology.model import SWITCH, Gpu, Machine, Nic, NvLinks, with_generation
from busbw.machine.topology.names import product
from busbw.machine.topology.pasted import plain_lines
from busbw.machine.topology.port_rows import Port, is_mapped, read_ports
from busbw.machine.topology.smi_matrix import read_matrix
from busbw.machine.topology.smi_nvlink import as_machine
from busbw.machine.topology.smi_query import read_query
from busbw.machine.topology.smi_rows import is_queried, is_row, merged, read_queried, read_table
from busbw.machine.topology.smi_text import begins, read_text
from busbw.machine.topology.sysfs import SysfsReading

MAX_BYTES = 4 << 20
MAX_LINES = 100_000
_MOST_MACHINES = 64
_CARD = re.compile(r"ConnectX-[4-9](?! .{0,20}(?:Virtual|VF))(?!.{0,20}Lx\b)")
_LINKS = "nvidia-smi nvlink -s"
_SHOWS = re.compile(
    r"<system version=|<nvidia_smi_log|\bGPU0\b[ \t|]+(?:X|GPU1|NIC0|mlx5_0|CPU)\b"
    r"|^[ \t]+Link \d{1,2}: (?:<inactive>|[\d.]{1,8} GB/s)"
    r"|^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9][^:\n]{0,50}(?:controller|[Bb]ridge|accelerators)"
    r"(?: \[\w{4}\])?: ",
    re.MULTILINE,
)
_SHOWN = ("<system version=", "<nvidia_smi_log", "GPU0", "Link ", "controller", "ridge", "accelerators")
"""Words, one of which that takes: a text without them costs no search."""
_XML = (("<system", "</system>"), ("<nvidia_smi_log", "</nvidia_smi_log>"))
_CELLS = r"(?:X|NV\d{1,3}|SYS|SOC|NODE|PHB|PXB|PIX)"
_ROW = re.compile(rf"\s*(?:GPU|NIC|mlx\d_|[a-z]\w{{1,20}})\w{{0,20}}\s+{_CELLS}(?:\s+{_CELLS})*(?:\s+[\d,N/A-]+)*\s*$")
_HEAD = re.compile(r"\s*GPU0(?:\s+(?:GPU|NIC)\d{1,3}|\s+[A-Za-z]\w*\d\w*)*(?:\s+(?:CPU|NUMA|GPU|Affinity|ID))*\s*$")
_LEGEND = re.compile(
    r"\s*(?:(?:NIC )?Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|SOC|NV#)\s+=\s.{1,160}|NIC\d{1,3}: \S{1,64})\s*$"
)
_LINK = re.compile(r"\s*Link \d{1,3}: (?:\d{1,4}(?:\.\d{1,6})? GB/s|<inactive>)\s*$")
_REACHES = re.compile(r"\s*GPU\d{1,3}(?:\s+(?:X|OK))+\s*$|\s+(?:OK|CNS|GNS|TNS|NS|U|DR)\s+= \w[\w ]{1,40}\s*$")
_NO_ERRORS = re.compile(r"\s*Link \d{1,3}: (?:Replay|Recovery|CRC|CRC FLIT|CRC Data) Errors?: 0\s*$")
_LISTED = re.compile(r"\s*GPU \d{1,3}: .{1,80}? \(UUID: [^)]{1,80}\)\s*$")
_FRAME = re.compile(
    r"[|+│├└┌ ]*[-=+|─═│ ]{20,}[|+ ]*$"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} [\d:]{8} \d{4}\s*$"
)
_SMI = re.compile(
    r"[|│].{0,80}(?:NVIDIA-SMI \d|Persistence-M|Pwr:Usage|MIG M\.|Processes:|PID +Type|GI Usage|ID +(?:ID|Usage)"
    r"|GPU Memory|No running processes found|\d{1,7}MiB [|│])"
)
_COMMAND = re.compile(
    r"\s*(?:\([\w.-]{1,40}\) ?)?(?:\[[^\]]{1,60}\]|[\w.@~/:+-]{0,80})(?: [\w.~/-]{1,60})? ?[$#>%] ?(?:sudo (?:-\w )?)?"
    r"(?:nvidia-smi|lspci|cat|ibstat\w*|ibv_devinfo|ibdev2netdev|show_gids|numactl|lscpu|lsmod|dmesg|ip|ethtool|grep|for|while|ls"
    r"|hostname|uname|watch|sed|head|tail|less|echo|rdma|mlxlink|systemctl|journalctl)\b.{0,400}$|\S{0,60}[$#] ?$"
)
_GONE = ("(rev ff)", "Unknown header type 7f")
"""What `lspci` says of a device that no longer answers: no part of a machine."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a text shows of a machine. `rest` is the text without it, each line in its place.

    `listed` counts the GPUs that `lspci` shows where nvidia-smi shows others; None where they agree or one is missing.
    `unread` are sentences on outputs that their readers refused.
    """

    machine: Machine
    kinds: tuple[str, ...]
    gpus: tuple[GpuState, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    listed: int | None = None
    listed_nics: int | None = None
    """Functions of ConnectX cards that `lspci` lists; None where it lists none."""
    rest: str = ""
    xml: str = ""
    """The topology file, at its lines."""
    others: tuple[Machine, ...] = ()
    """Further machines, where the text shows matrices of several."""
    unread: tuple[str, ...] = ()


def shows_machine(text: str) -> bool:
    """Whether some output of those that are read stands in the text."""
    return any(word in text for word in _SHOWN) and _SHOWS.search(text) is not None


def read_pieces(text: str, source: str) -> Pieces | None:
    """Everything that the text shows of one machine, and of others behind it; None where no output can be read."""
    text = text.replace("\r\n", "\n")
    parts = _parts(text)
    found = [_read("\n" * begin + part, source) for begin, part in parts]
    every = [each for each in found if each is not None]
    if len(every) < len(found) or not every:
        return None
    if len(every) == 1:
        return every[0]
    rest = [line for each, (begin, _) in zip(every, parts, strict=True) for line in each.rest.split("\n")[begin:]]
    unread = tuple(said for each in every for said in each.unread)
    places = [f"{source}, from line {begin + 1}" for begin, _ in parts]
    others = tuple(replace(each.machine, source=place) for each, place in zip(every[1:], places[1:], strict=True))
    return replace(every[0], rest="\n".join(rest), others=others, unread=unread)


def _parts(text: str) -> list[tuple[int, str]]:
    """The text before each further matrix and from there on, each behind the lines that stand before it."""
    plain = plain_lines(text, MAX_LINES)
    heads = [at for at, line in enumerate(plain) if _HEAD.match(line) and any(map(_ROW.match, plain[at + 1 : at + 4]))]
    if len(heads) < 2 or len(heads) > _MOST_MACHINES:
        return [(0, text)]
    lines = text.split("\n")
    cuts = [0, *(_begin(lines, at) for at in heads[1:]), len(lines)]
    return [(begin, "\n".join(lines[begin:end])) for begin, end in pairwise(cuts)]


def _begin(lines: Sequence[str], head: int) -> int:
    """Where a matrix begins: with the command above it, if there is one."""
    return head - 1 if _COMMAND.match(lines[head - 1]) or "topo" in lines[head - 1] else head


def _read(text: str, source: str) -> Pieces | None:
    text, files, states, unread = _without_xml(text, source)
    xml = files[0][1] if files else ""
    lines = text.split("\n")[:MAX_LINES]
    plain = [each.replace("|", " ") for each in plain_lines("\n".join(lines), MAX_LINES)]
    shown: list[tuple[str, Machine]] = [("NCCL topology XML", each.machine) for each, _ in files]
    if any(map(_ROW.match, plain)):
        _try(shown, unread, "nvidia-smi topo -m", lambda: _matrix(text, source))
    if any(map(_LINK.match, lines)):
        _try(shown, unread, _LINKS, lambda: as_machine(text, source))
    rows = read_queried(lines)
    listing = read_text(lines) if any(map(begins, lines)) else ()
    for each in (listing, rows, read_table(lines)):
        states = _joined(states, each)
    pci: tuple[PciDevice, ...] = ()
    if any(map(is_device, lines)):
        pci = read_lspci(text, source)
    if not (pci or states or any(kind != _LINKS for kind, _ in shown)):
        return None  # alone a list of links is often only a part of one
    return _put_together(shown, states, pci, source, _Left(text, xml, tuple(unread), plain, bool(rows)))


@dataclass(frozen=True, slots=True)
class _Left:
    text: str
    xml: str
    unread: tuple[str, ...]
    plain: Sequence[str]
    queried: bool


def _put_together(
    shown: list[tuple[str, Machine]], states: tuple[GpuState, ...], pci: tuple[PciDevice, ...], source: str, left: _Left
) -> Pieces:
    listing = machine_of(pci, source) if pci else None
    kinds = [kind for kind, _ in shown]
    unread = list(left.unread)
    machine = shown[0][1] if shown else None
    for kind, each in shown[1:]:
        whole = each if machine is None else _with_links(machine, each) if kind == _LINKS else together(machine, each)
        if whole is None:
            unread.append(f"{kind} in {source}: it shows other GPUs than {kinds[0]} there")
        machine = whole or machine
    if states:
        kinds.append("nvidia-smi")
        machine = assemble(SysfsReading(), states, source=source) if machine is None else _with_states(machine, states)
    listed = None
    if listing is not None:
        kinds.append("lspci")
        machine, listed = _with_listing(machine, listing)
    found = machine or Machine(source)
    ports = read_ports(left.text.split("\n")[:MAX_LINES])
    found = replace(found, nics=tuple(_with_port(nic, ports.get(nic.name)) for nic in found.nics))
    rest = "\n".join(_rest(left))
    cards = sum(_CARD.search(each.name) is not None for each in pci) or None
    return Pieces(found, tuple(kinds), states, pci, listed, cards, rest, left.xml, unread=tuple(unread))


def _with_listing(machine: Machine | None, listing: Machine) -> tuple[Machine, int | None]:
    """The machine with what `lspci` says of it, and how many GPUs that lists where it lists others."""
    if machine is None:
        return listing, None
    fits = together(machine, listing)
    if fits is not None:
        return fits, None
    return together(machine, replace(listing, gpus=())) or machine, len(listing.gpus)


def _with_links(machine: Machine, listing: Machine) -> Machine | None:
    """The machine with the links of each GPU as a listing counts them; None where it lists GPUs of another machine.

    A cell of a matrix shows the fewer links of two GPUs, so that a listing tells better whose are down.
    """
    if not {gpu.index for gpu in listing.gpus} <= {gpu.index for gpu in machine.gpus}:
        return None
    by_index = {gpu.index: gpu for gpu in _whole(listing, len(machine.gpus))}
    return replace(machine, gpus=tuple(_linked(gpu, by_index.get(gpu.index)) for gpu in machine.gpus))


def _whole(listing: Machine, gpus: int) -> tuple[Gpu, ...]:
    """The GPUs of a listing without its last one, where that has fewer links than others or stands alone: cut off."""
    lines = [gpu.nvlink_count + gpu.nvlinks_down for gpu in listing.gpus]
    cut = lines[-1] < max(lines) or (len(lines) < gpus and not any(gpu.nvlinks_down for gpu in listing.gpus))
    return listing.gpus[:-1] if cut else listing.gpus


def _linked(gpu: Gpu, listed: Gpu | None) -> Gpu:
    if listed is None:
        return gpu
    links = gpu.nvlinks
    if len(links) < 2 and listed.nvlinks:
        links = (NvLinks(links[0].target if links else SWITCH, listed.nvlink_count),)
    return with_generation(
        replace(
            gpu, name=gpu.name or listed.name, sm=gpu.sm or listed.sm, nvlinks=links, nvlinks_down=listed.nvlinks_down
        )
    )  # fmt: skip


def _try(shown: list[tuple[str, Machine]], unread: list[str], kind: str, read: Callable[[], Machine]) -> None:
    try:
        shown.append((kind, read()))
    except UserError as problem:
        unread.append(str(problem))


def _matrix(text: str, source: str) -> Machine:
    text = unpacked(text)
    refuse_several(text, source)
    machine = read_matrix(text, source)
    names = names_beside(text)
    return replace(machine, gpus=tuple(_named(gpu, names.get(gpu.index)) for gpu in machine.gpus))


def _named(gpu: Gpu, name: str | None) -> Gpu:
    known = product(name)
    return with_generation(replace(gpu, name=name, sm=known.sm if known else None)) if name else gpu


def _without_xml(text: str, source: str) -> tuple[str, list[tuple[TopologyFile, str]], tuple[GpuState, ...], list[str]]:
    """The text without its XML, and what that holds; an empty line stands for each line of it."""
    files: list[tuple[TopologyFile, str]] = []
    states: tuple[GpuState, ...] = ()
    unread: list[str] = []
    for start_tag, end_tag in _XML:
        at = 0
        while (start := text.find(start_tag, at)) >= 0:
            end = text.find(end_tag, start)
            if end < 0:
                unread.append(f"{source} holds {start_tag}> that is cut off: its end is missing")
                break
            end += len(end_tag)
            data = b"\n" * text.count("\n", 0, start) + text[start:end].encode()
            try:
                if start_tag == "<system":
                    files.append((read_topology(data, source), data.decode()))
                else:
                    states = _joined(states, read_query(data, source)[0])
            except UserError as problem:
                unread.append(str(problem))
                at = end
                continue
            gap = "\n" * text.count("\n", start, end)
            text = text[:start] + gap + text[end:]
            at = start + len(gap)
    return text, files, states, unread


def _joined(first: tuple[GpuState, ...], second: tuple[GpuState, ...]) -> tuple[GpuState, ...]:
    """What two outputs say of the same GPUs; the first alone where they show others."""
    if not first or not second:
        return first or second
    others = {each.index: each for each in second}
    if len(first) < len(second) or not all(each.index in others or len(second) < len(first) for each in first):
        return first
    return tuple(merged(each, others[each.index]) if each.index in others else each for each in first)


def _with_states(machine: Machine, states: Sequence[GpuState]) -> Machine:
    """The machine with the names, buses and links that nvidia-smi said of its GPUs."""
    by_index = {each.index: each for each in states}
    if len(states) > len(machine.gpus):
        return machine
    return replace(machine, gpus=tuple(_stated(gpu, by_index.get(gpu.index)) for gpu in machine.gpus))


def _stated(gpu: Gpu, state: GpuState | None) -> Gpu:
    if state is None:
        return gpu
    known = product(state.name)
    pcie = both_links(gpu.pcie, state.pcie)
    filled = replace(
        gpu, bus_id=gpu.bus_id or state.bus_id, name=gpu.name or state.name, pcie=pcie,
        sm=gpu.sm or (known.sm if known else None),
    )  # fmt: skip
    return with_generation(filled)


def _with_port(nic: Nic, port: Port | None) -> Nic:
    if port is None:
        return nic
    return replace(
        nic, speed_Gbps=nic.speed_Gbps or port.rate_Gbps, link_layer=nic.link_layer or port.layer,
        up=port.up if nic.up is None else nic.up,
    )  # fmt: skip


def _rest(left: _Left) -> list[str]:
    """Every line that none of the readers took, and an empty one for each that one of them did."""
    kept: list[str] = []
    of_device = of_table = False
    for line, plain in zip(left.text.split("\n"), left.plain, strict=False):
        if is_device(line):
            of_device = True
            kept.append(line if any(each in line for each in _GONE) else "")
            continue
        of_device = (of_device and line.startswith(("\t", "   ", "  "))) or is_detail(line)
        of_table = left.queried and (is_queried(line) or (of_table and "," in line))
        own = of_device or of_table or _is_own(line, plain)
        kept.append(line if any(each in line for each in _GONE) else "" if own else line)
    return kept


def _is_own(line: str, plain: str) -> bool:
    if any(each.match(plain) for each in (_ROW, _HEAD, _LEGEND)):
        return True
    return (
        any(each.match(line) for each in (_SMI, _REACHES, _LINK, _NO_ERRORS, _LISTED, _FRAME, _COMMAND))
        or is_mapped(line)
        or is_row(line)
    )
