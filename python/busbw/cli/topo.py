"""`busbw topo`: this machine's or a file's GPUs, links and NICs as matrix, drawing and NCCL's files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from busbw.base.errors import UserError, exiting_with
from busbw.base.files import write_whole
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.machine.nccl.graph_file import GraphFile
    from busbw.machine.nccl.problem import Problem
    from busbw.machine.topology.load import Loaded
    from busbw.machine.topology.model import Machine

Shown = TypeVar("Shown")
EPILOG = """\
FILE may be NCCL topology XML, NCCL graph XML, a bundle of `busbw doctor
--collect`, or the saved output of `nvidia-smi topo -m`, `nvidia-smi -q -x`,
`nvidia-smi nvlink -s` or `lspci -vv`.
NCCL's files are checked, and compared with the machine of --topology, else with
this one where it has GPUs.

exit code: 0 sound, 1 the file has faults or is of another machine, 2 it cannot
be read

examples:
  busbw topo
  busbw topo --svg machine.svg --export-nccl topo.xml
  busbw topo graph.xml --topology topo.xml
  nvidia-smi topo -m > matrix.txt; busbw topo matrix.txt --json
  busbw topo --audit matrix.txt --lspci lspci.txt --pairs pairs.txt \\
      --export-nccl topo.xml
"""


def run(args: Args) -> int:
    """Show, check, draw and write; see the epilog for exit codes."""
    # 1 is the word of a file that has faults.
    with exiting_with(2):
        shown, machine = _shown(args)
        if args.audit:
            return _audit(args, shown)
        if shown and (args.graph or (args.file and _is_graph(shown))):
            return _graph(args, shown, machine)
        return _machine(args, shown, machine)


def _shown(args: Args) -> tuple[str | None, str | None]:
    """The file that is shown, and the one with the machine that it is compared with."""
    if args.file and args.graph:
        raise UserError(
            f"{args.file} and --graph {args.graph} are two files to show; name one, and the machine as --topology"
        )
    shown = args.file or args.graph
    return (shown, args.topology) if shown else (args.topology, None)


def _machine(args: Args, shown: str | None, other: str | None) -> int:
    from busbw.machine.nccl.topology_writer import write_topology
    from busbw.machine.topology.load import load
    from busbw.machine.topology.svg import machine_svg
    from busbw.machine.topology.text import describe

    bundle = _of_bundle(shown) if shown else None
    loaded = load(shown) if shown and bundle is None else None
    machine = bundle or (loaded.machine if loaded else _this_machine())
    faults = _faults(loaded, other) if loaded else []
    _show(args, machine, describe, machine_svg, write_topology)
    if loaded:
        _report(_slow_links(machine))  # of the machine, and no faults of its file
    return _report(faults)


def _audit(args: Args, shown: str | None) -> int:
    """What is hidden of the machine, each with what would say it; with --export-nccl the file that says it."""
    from busbw.base.text import clean, sentences
    from busbw.machine.nccl.topology_writer import write_topology
    from busbw.machine.topology.audit import hidden
    from busbw.machine.topology.correct import correct
    from busbw.machine.topology.load import load, read_bytes
    from busbw.machine.topology.lspci import read_lspci
    from busbw.machine.topology.names import other_maker
    from busbw.machine.topology.pairs import read_pairs, refuse_impossible

    machine = (_of_bundle(shown) or load(shown).machine) if shown else _this_machine()
    others = next((maker for gpu in machine.gpus if (maker := other_maker(gpu.name))), None)
    if others:
        raise UserError(f"{machine.source} has GPUs of {others}: what another library than NCCL reads is not audited")
    pci = read_lspci(_text(read_bytes(args.lspci)), str(args.lspci)) if args.lspci else ()
    pairs = read_pairs(_text(read_bytes(args.pairs)), str(args.pairs)) if args.pairs else None
    if pairs is not None:
        refuse_impossible(pairs, machine.gpus, machine.nics)
    found = hidden(machine)
    lines = [each.text for each in found] or ["Nothing that NCCL reads is hidden."]
    lines += [f"{each}." for each in _slow_links(machine)] if shown else []
    fixed = correct(machine, pci, pairs) if args.export_nccl and found else None
    left = hidden(fixed.machine) if fixed else ()
    lines += [f"Put right: {note}." for note in (fixed.notes if fixed else ())]
    lines += [f"Not put right: {note}." for note in (fixed.left if fixed else ())]
    lines += [f"Still hidden: {each.text}" for each in left]
    if args.export_nccl and not found:
        lines.append("Nothing is to be put right, so the file says what was read.")
    print("\n".join(sentences([clean(line) for line in lines])))
    if args.export_nccl:
        _write(args.export_nccl, write_topology(fixed.machine if fixed else machine))
        print("busbw: check it with `busbw topo` and prove it: `busbw doctor --topology FILE --prove`", file=sys.stderr)
    return 1 if (left if fixed else found) else 0


def _of_bundle(name: str) -> Machine | None:
    """The machine of a bundle; None where the file is none."""
    from busbw.doctor.reading.bundle import is_bundle, read_bundle

    if not is_bundle(name):
        return None
    machine = read_bundle(Path(name)).machine
    if machine is None or not machine.gpus:
        raise UserError(f"{name} is a bundle without a GPU: nothing of them could be read when it was made")
    return machine


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _graph(args: Args, shown: str, other: str | None) -> int:
    from busbw.machine.nccl.graph_file import check_against, read_graph
    from busbw.machine.nccl.graph_text import describe
    from busbw.machine.nccl.graph_writer import write_graph
    from busbw.machine.topology.load import load, read_bytes
    from busbw.machine.topology.svg import graph_svg

    graph = read_graph(read_bytes(shown), shown)
    machine = load(other).machine if other else _live_with_gpus()
    faults = _lines(graph.source, graph.problems)
    if machine is not None:
        faults += _lines(graph.source, check_against(graph, machine)) + _weakness(graph, machine)
    _show(args, graph, describe, graph_svg, lambda each: write_graph(each.graphs))
    return _report(faults)


def _show(
    args: Args,
    shown: Shown,
    describe: Callable[[Shown], list[str]],
    svg: Callable[[Shown], str],
    nccl: Callable[[Shown], str],
) -> None:
    """As text or JSON, and into the files that are asked for."""
    if args.json:
        from busbw.doctor.reading.codec import encode

        print(json.dumps(encode(shown), indent=1))
    else:
        print("\n".join(describe(shown)))
    if args.svg:
        _write(args.svg, svg(shown))
    if args.export_nccl:
        _write(args.export_nccl, nccl(shown))


def _slow_links(machine: Machine) -> list[str]:
    """What the doctor says of PCIe links below what they can do."""
    from busbw.doctor.facts import Facts
    from busbw.doctor.finding import Severity
    from busbw.doctor.findings.machine.pcie_link import examine
    from busbw.doctor.reading.snapshot import Snapshot

    findings = examine(Facts(Snapshot("files"), machine, {}))
    return [each.title for each in findings if each.severity is Severity.WARNING]


def _weakness(graph: GraphFile, machine: Machine) -> list[str]:
    """What the doctor says of these channels on that machine."""
    from busbw.doctor.facts import GIVEN, Facts
    from busbw.doctor.finding import Severity
    from busbw.doctor.findings.settings.graph_file import examine
    from busbw.doctor.reading.snapshot import Snapshot
    from busbw.machine.nccl.conf import Origin, Setting

    given = {"NCCL_GRAPH_FILE": Setting("NCCL_GRAPH_FILE", graph.source, Origin(GIVEN))}
    findings = examine(Facts(Snapshot("files"), machine, given, graph=graph))
    return [f"{graph.source}: {each.title}" for each in findings if each.severity is Severity.WARNING]


def _faults(loaded: Loaded, other: str | None) -> list[str]:
    from busbw.machine.topology.compare import differences
    from busbw.machine.topology.load import load

    machine = load(other).machine if other else _live_with_gpus()
    faults = _lines(loaded.machine.source, loaded.problems)
    lines = loaded.file.lines if loaded.file else {}
    for each in differences(loaded.machine, machine) if machine is not None else ():
        line = lines.get(each.bus_id or "")
        faults.append(f"{loaded.machine.source}{f':{line}' if line else ''}: {each.text}")
    return faults


def _lines(source: str, problems: tuple[Problem, ...]) -> list[str]:
    return [f"{source}:{each.line}: {each.text}" for each in problems]


def _report(faults: list[str]) -> int:
    from busbw.base.text import clean

    for fault in faults[:50]:
        print(f"busbw: {clean(fault)}", file=sys.stderr)
    if len(faults) > 50:
        print(f"busbw: and {len(faults) - 50} more", file=sys.stderr)
    return 1 if faults else 0


def _this_machine() -> Machine:
    from busbw.machine.topology.live import read_live

    machine = read_live().machine
    if not machine.gpus:
        print(
            "busbw: no GPU was found: neither NVML (pip install nvidia-ml-py) nor nvidia-smi answered", file=sys.stderr
        )
    return machine


def _live_with_gpus() -> Machine | None:
    from busbw.machine.topology.live import read_live

    machine = read_live().machine
    return machine if machine.gpus else None


def _is_graph(name: str) -> bool:
    from busbw.machine.topology.load import read_bytes

    return b"<graphs" in read_bytes(name)[:65536]


def _write(path: Path, text: str) -> None:
    write_whole(path, text)
    print(f"busbw: {path} is written", file=sys.stderr)
