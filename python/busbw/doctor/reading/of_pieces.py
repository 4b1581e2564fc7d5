"""A paste of several outputs as a snapshot: the machine that they show, and a log of all that none of them is."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.lines.by_design import SAID, without_make
from busbw.doctor.reading.counter_rows import with_gpus
from busbw.doctor.reading.mixed import CONF, as_set, tells_fault, tells_job
from busbw.doctor.reading.pasted import unfolded
from busbw.doctor.reading.snapshot import HostState, Snapshot, TextFile
from busbw.machine.topology.assemble import together
from busbw.machine.topology.pieces import Pieces, read_pieces, shows_machine

_PROSE = re.compile(r"[#>*-]{0,3} ?[A-Za-z(\d](?:[^\t|{}<>=/\\]| /){2,400}$")
_MOST_PROSE = 8
_FEW_LINES = 5
_LISTINGS = (
    *("CA '", "hca_id:", "Infiniband device '", "GPU 0000"),
    *("==============NVSMI", "Timestamp  ", "Driver Version  ", "CUDA Version  ", "Attached GPUs  "),
)
"""How listings begin of which signatures and readers know each line: of ports, and of `nvidia-smi -q`."""


def may_show_machine(start: str) -> bool:
    """Whether outputs of a machine stand there. One string of escapes, which has few lines, is taken apart first."""
    return shows_machine(unfolded(start) if start.count("\n") < _FEW_LINES else start)


def with_pieces(snapshot: Snapshot, name: str, text: str) -> Snapshot | None:
    """The snapshot with all that the text shows; None where it shows no machine, or another than is known."""
    # What a check says of links is left beside the list of them, which readers of machines take.
    lines = without_make(text.split("\n")) if SAID in text else text.split("\n")
    pieces = _read("\n".join(with_gpus(lines)), name)
    if pieces is None or snapshot.live:
        return None
    machine = pieces.machine if snapshot.machine is None else together(snapshot.machine, pieces.machine)
    if machine is None:
        return None
    host = snapshot.host
    redirects = tuple(each.bus_id for each in pieces.pci if each.redirects)
    if redirects and host is None:
        host = HostState(acs_redirects=redirects)
    file = TextFile(name, pieces.xml) if pieces.xml and snapshot.topology is None else snapshot.topology
    driver = replace(snapshot.driver, asked=name) if pieces.gpus and not snapshot.gpus else snapshot.driver
    found = replace(
        snapshot, machine=machine, host=host, topology=file, gpus=snapshot.gpus or pieces.gpus, driver=driver,
        listed_nics=snapshot.listed_nics or pieces.listed_nics, others=(*snapshot.others, *pieces.others),
        listed_gpus=pieces.listed if snapshot.listed_gpus is None else snapshot.listed_gpus,
        links_off=snapshot.links_off or (() if pieces.others else _links_off(text, name)),
    )  # fmt: skip
    rest, settings = _apart(pieces.rest, is_script=CONF not in text)
    if settings.strip():
        found = replace(found, confs=(*found.confs, TextFile(name, settings)))
    if pieces.unread:
        # An output that nobody could read may hold the fault: what is left is judged as a log, and never as health.
        return replace(found, notes=(*found.notes, *pieces.unread), logs=(*found.logs, TextFile(name, rest)))
    return _with_rest(found, name, rest)


_OF_GPU = re.compile(r"\s{0,8}GPU (\d{1,3}): ")
_OFF = re.compile(r"\s{1,16}Link (\d{1,3}): <inactive>\s*$")
_MOST_OFF = 1000


def _links_off(text: str, name: str) -> tuple[tuple[int, int, str], ...]:
    """The links that `nvidia-smi nvlink -s` shows as inactive, GPU by GPU."""
    found: list[tuple[int, int, str]] = []
    gpu = -1
    for number, line in enumerate(text.split("\n") if "<inactive>" in text else (), 1):
        if head := _OF_GPU.match(line):
            gpu = int(head[1])
        elif gpu >= 0 and len(found) < _MOST_OFF and (off := _OFF.match(line)):
            found.append((gpu, int(off[1]), f"{name}:{number}"))
    return tuple(found)


def _read(text: str, name: str) -> Pieces | None:
    """What the text shows; rows of a table may have the width of a terminal, so that joining them must show more."""
    plain, joined = read_pieces(text, name), unfolded(text)
    other = read_pieces(joined, name) if joined != text else None
    if plain is None or other is None:
        return plain or other
    return other if len(other.kinds) > len(plain.kinds) else plain


def with_graph(snapshot: Snapshot, name: str, text: str) -> Snapshot:
    """The snapshot with the graph file that stands in the text, and with what stands around it."""
    start, end = text.find("<graphs"), text.rfind(_GRAPH_ENDS)
    if end < start or not (text[:start].strip() or text[end + len(_GRAPH_ENDS) :].strip()):
        return replace(snapshot, graph=TextFile(name, text))
    end += len(_GRAPH_ENDS)
    found = replace(snapshot, graph=TextFile(name, "\n" * text.count("\n", 0, start) + text[start:end]))
    around = text[:start] + "\n" * text.count("\n", start, end) + text[end:]
    whole = with_pieces(found, name, around)
    return whole if whole is not None else _with_rest(found, name, around)


_GRAPH_ENDS = "</graphs>"
_ASSIGNED = re.compile(r"(?:export |declare -x )?(?:NCCL|UCX|CUDA)_[A-Z0-9_]{1,60}=\S{0,400}\s*$")


def _apart(rest: str, *, is_script: bool) -> tuple[str, str]:
    """What is left, without settings that somebody listed, and these; each line in its place."""
    lines = rest.split("\n")
    own = [_ASSIGNED.match(line) is not None for line in lines]
    said = "\n".join("" if each else line for each, line in zip(own, lines, strict=True))
    return said, "\n".join(
        (as_set(line) if is_script else line) if each else "" for each, line in zip(own, lines, strict=True)
    )


def _with_rest(snapshot: Snapshot, name: str, rest: str) -> Snapshot:
    """What is left is a log where it tells anything, or where nobody can say that it tells nothing."""
    if not rest.strip():
        return snapshot
    speaks = tells_fault(rest) or tells_job(rest)
    unknown = _unknown(rest)
    if not speaks and unknown is None:
        return snapshot
    if not speaks and unknown is not None:
        line, said = unknown
        note = f"{name}:{line}: what stands there is of no output that tells how the machine is: {said}"
        snapshot = replace(snapshot, notes=(*snapshot.notes, note))
    return replace(snapshot, logs=(*snapshot.logs, TextFile(name, rest)))


def _unknown(rest: str) -> tuple[int, str] | None:
    """The first line that is neither somebody's words nor of a listing that is known; None where there is none."""
    prose, listed = 0, False
    for number, line in enumerate(rest.split("\n"), 1):
        if not line.strip():
            continue
        listed = line.startswith(_LISTINGS) or (listed and line[0].isspace())
        if listed:
            continue
        if _is_prose(line):
            prose += 1
            if prose <= _MOST_PROSE:
                continue
        return number, shortened(clean(line.strip()), 80)
    return None


def _is_prose(line: str) -> bool:
    """Whether somebody wrote the line and no program: words with single spaces between."""
    line = line.rstrip()
    letters = sum(each.isalpha() or each == " " for each in line)
    return "  " not in line and _PROSE.match(line) is not None and letters >= 0.66 * len(line) and " " in line
