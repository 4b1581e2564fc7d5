"""Changed seeds for every reader of foreign files, from one table: they may raise a sentence and nothing else."""
# ruff: noqa: E501 - seeds stand as their tools write them

from __future__ import annotations

import gzip
import hashlib
import io
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzzing_changes import LONGEST
from fuzzing_images import image, read_program
from fuzzing_seeds import (
    CONF,
    EXECUTION,
    FLEET,
    FLIGHT,
    GRAPH,
    LINKS,
    LOG,
    LSPCI,
    MATRIX,
    NCCL_TABLE,
    OLD_EXECUTION,
    PACKED_LOGS,
    PARAM_CALLS,
    PASTE,
    PLAN,
    PUBLISHED,
    QUERY,
    STEP,
    TABLE,
    THRESHOLDS,
    TIMES,
    TOML,
    TOPOLOGY,
)
from made_recordings import Row, mixed, write_pulses
from made_recordings import write as write_recording
from world_abroad import abroad_shapes
from world_corpus import nccl_tests_shapes
from world_makers import makers_data, makers_lines, makers_tables
from world_others import other_shapes
from world_tables import table_shapes
from world_wraps import wrapped_by_services, wrapped_by_shells

from busbw.base.errors import UserError
from busbw.base.secrets import hidden, hide
from busbw.base.toml import parse_toml
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.reading.bundle import read_bundle
from busbw.doctor.reading.flight import read_flights
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.expect.published import read as read_published
from busbw.expect.step_file import read_step
from busbw.experiment.file import read_plan
from busbw.experiment.replayed import times_in
from busbw.experiment.tune.table import parse_table
from busbw.experiment.tune_nccl.rules import read_table as read_nccl_table
from busbw.fleet.hand import read_task
from busbw.fleet.pods import read_pods
from busbw.fleet.results import read as read_fleet
from busbw.fleet.wire import Line, LostError, listed
from busbw.gate.thresholds import parse as parse_thresholds
from busbw.importers import ImportedSweep, import_path
from busbw.importers.execution_trace import convert as convert_traces
from busbw.launch.clouds.azureml.settings import EXAMPLE as AZUREML_EXAMPLE
from busbw.launch.clouds.azureml.settings import load as load_azureml
from busbw.launch.hosts import parse_hostfile, parse_hosts
from busbw.machine.nccl.conf import read_conf
from busbw.machine.nccl.graph_file import read_graph
from busbw.machine.nccl.topology_file import read_topology
from busbw.machine.topology.load import from_bytes
from busbw.machine.topology.pieces import read_pieces
from busbw.records import parse_records
from busbw.runs.index import Index
from busbw.runs.store import read_labels
from busbw.watch.meetings import meetings
from busbw.watch.processes import snapshot
from busbw.watch.pulses import Pulse
from busbw.watch.recording import Recording
from busbw.watch.share import Summary
from busbw.watch.share import decode as decode_summary
from busbw.watch.share import encode as encode_summary
from busbw.watch.steps import step_of

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "python" / "tests" / "importers" / "samples"
CORPUS = ROOT / "python" / "tests" / "doctor" / "corpus"


@dataclass(frozen=True)
class Entry:
    """A reader: the modules whose reading it tries, what reads an input in a folder of its own, and its seeds."""

    modules: tuple[str, ...]
    read: Callable[[bytes, Path], object]
    seeds: Callable[[Path], list[bytes]]


def _file(read: Callable[[Path], object], name: str = "input") -> Callable[[bytes, Path], object]:
    def of(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return of


def _text(read: Callable[[str, str], object]) -> Callable[[bytes, Path], object]:
    return lambda data, _: read(data.decode("utf-8", "replace"), "input")


def _these(*texts: str) -> Callable[[Path], list[bytes]]:
    return lambda _: [text.encode() for text in texts]


def _samples(_: Path) -> list[bytes]:
    found = [path.read_bytes() for path in sorted(SAMPLES.iterdir()) if path.is_file() and "expected" not in path.name]
    shapes = [
        shape.bytes
        for shapes in (
            nccl_tests_shapes,
            other_shapes,
            table_shapes,
            abroad_shapes,
            makers_lines,
            makers_tables,
            makers_data,
            wrapped_by_services,
            wrapped_by_shells,
        )
        for shape in shapes()
    ]
    return [each[:LONGEST] for each in (*found, *shapes)]


def _examples(_: Path) -> list[bytes]:
    return [path.read_bytes()[:LONGEST] for path in sorted((ROOT / "schema").rglob("*.jsonl"))]


def _corpus(_: Path) -> list[bytes]:
    return [part.encode() for path in sorted(CORPUS.glob("*.txt")) for part in path.read_text().split("\n\n")[:40]]


def _logs(folder: Path) -> list[bytes]:
    return [
        *_corpus(folder),
        *PACKED_LOGS,
        "".join(json.dumps({"log": f"{line}\n", "stream": "stdout"}) + "\n" for line in LOG.splitlines()).encode(),
    ]


def _packed(folder: Path) -> list[bytes]:
    return [gzip.compress(each, mtime=0) for each in _samples(folder)[:6]]


def _bundles(folder: Path) -> list[bytes]:
    from busbw.doctor.reading.bundle import write_bundle
    from busbw.doctor.reading.snapshot import Snapshot, TextFile

    path = folder / "seed.tar.gz"
    write_bundle(Snapshot("seed", logs=(TextFile("a.log", LOG),), confs=(TextFile("nccl.conf", CONF),)), path)
    whole = path.read_bytes()
    return [whole, gzip.decompress(whole)]


TOPOLOGY_YAML = """\
- topology: a
  cluster_default: true
  block:
    block_sizes:
      - 4
    blocks:
      - block: b1
        nodes: n[01-04]
"""
TASK = (
    '{"do": "wave", "limit": 9, "tasks": [{"id": 0, "kind": "within", "nodes": ["a", "b"], "channel": "rail0", "seat": 1, '
    '"repeats": 3, "address": "10.0.0.4", "secret": "0f"}]}\n{"done": [[0, "", [1.5]]]}\n'
)


def _read_fleet_messages(data: bytes, _: Path) -> object:
    """What another rank of a fleet, or a stranger, sends."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data[:60_000])
        theirs.shutdown(socket.SHUT_WR)
        line, found = Line(ours), []
        try:
            while True:
                found += [read_task(task) for task in listed(line.first(0.0) or {}, "tasks")]
        except LostError as lost:
            if "closed" not in str(lost):
                raise UserError(str(lost)) from None
        return found


def _archives(folder: Path) -> list[bytes]:
    import io
    import tarfile
    import zipfile

    made = []
    for mode in ("w", "w:gz"):
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode=mode) as tar:
            for name in ("logs/rank0.log", "nccl.conf"):
                member = tarfile.TarInfo(name)
                member.size = len(LOG)
                tar.addfile(member, io.BytesIO(LOG.encode()))
        made.append(held.getvalue())
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/rank0.log", LOG)
    return [*made, held.getvalue()]


def _read_archive(data: bytes, folder: Path) -> object:
    from busbw.doctor.reading.archives import forgotten, unpacked

    path = folder / "logs.tar"
    path.write_bytes(data)
    with forgotten():
        names = unpacked([str(path)])
        return examine(gather(*read_inputs(Inputs(files=tuple(names), named=()))))


def _read_bundle(data: bytes, folder: Path) -> object:
    # A change of packed bytes ends at the checksum: half of the inputs are packed after the change.
    path = folder / "bundle.tar.gz"
    path.write_bytes(data if data[:2] == b"\x1f\x8b" else gzip.compress(data, 1, mtime=0))
    return examine(gather(read_bundle(path)))


def _recordings(folder: Path) -> list[bytes]:
    path = write_recording(folder, 0, [Row(0, 2)], mixed(40), capacity=64)
    write_pulses(path, Pulse(0, 7, 0, 39, 40, 39, 40, 40))
    return [path.read_bytes()]


def _read_recording(path: Path) -> object:
    with Recording(path) as recording:
        read = list(recording.calls()), list(recording.times()), recording.communicators(), recording.pulses()
        return read, recording.overwritten(), snapshot([recording], with_history=True)


def _read_recording_and_step(path: Path) -> object:
    with Recording(path) as recording:
        return _read_recording(path), step_of([recording]), list(meetings([recording]))


def _read_trace(data: bytes, folder: Path) -> object:
    path, out = folder / "rank-0.json", folder / "made"
    path.write_bytes(data)
    out.mkdir(exist_ok=True)
    for each in out.iterdir():
        each.unlink()
    written, _ = convert_traces([path], out)
    return [_read_recording(each) for each in written]


def _summaries(folder: Path) -> list[bytes]:
    path = write_recording(folder, 0, [Row(0, 2)], mixed(40), ended=False, synchronous=False)
    write_pulses(path, Pulse(0, 7, 0, 39, 40, 39, 40, 40))
    with Recording(path) as recording:
        raw = encode_summary(Summary(1, 2, False, "", tuple(snapshot([recording], with_history=True))))
    return [raw, raw.partition(b"\n")[2]]


def _read_summary(data: bytes, _: object) -> object:
    # A change ends at the checksum: half of the inputs get theirs after the change.
    if not data.startswith(b"busbw-share"):
        data = f"busbw-share 2 {len(data)} {hashlib.sha256(data).hexdigest()}\n".encode() + data
    return encode_summary(decode_summary(data))


def _keep(sweep: ImportedSweep) -> None:
    again = parse_records(io.BytesIO("".join(sweep.lines()).encode("utf-8", "strict")), "again")
    assert again == [sweep.record()], "a record changes when it is written and read back"


def _read_doctor(path: Path) -> object:
    return hidden(examine(gather(*read_inputs(Inputs(None, None, (), (), (str(path),))))))


def _read_runs(data: bytes, folder: Path) -> object:
    run = folder / "runs" / "some-run"
    run.mkdir(parents=True, exist_ok=True)
    (run / "record.jsonl").write_bytes(data)
    (run / "labels.json").write_bytes(data[:500])
    read_labels(run)
    with Index(folder / "runs", rebuild=True, progress=False) as index:
        return index.rows("SELECT count(*) FROM sqlite_master")


def _indexes(folder: Path) -> list[bytes]:
    root = folder / "seed-runs"
    (root / "a").mkdir(parents=True)
    (root / "a" / "record.jsonl").write_bytes(_examples(folder)[0])
    with Index(root, rebuild=True, progress=False):
        pass
    return [path.read_bytes() for path in root.glob(".index*") if path.stat().st_size]


def _read_index(data: bytes, folder: Path) -> object:
    root = folder / "index-runs"
    root.mkdir(exist_ok=True)
    for path in root.glob(".index*"):
        path.unlink()
    (root / ".index.sqlite").write_bytes(data)
    with Index(root, progress=False) as index:
        return index.rows("SELECT * FROM sqlite_master")


ENTRIES = {
    "importers": Entry(
        ("importers.lines", "importers.unwrap", "importers.flat", "importers.flat_json", "importers.names", "importers.by_values",
         "importers.agreement", "importers.frame", "importers.pairs", "importers.flight_recorder", "importers.inspector",
         "importers.mscclpp_json", "importers.file", "importers.reading", "importers.apart"),
        _file(lambda path: import_path(path, _keep)), _samples,
    ),
    "packed logs": Entry(
        ("importers.lines", "importers.gunzip"), _file(lambda path: import_path(path, lambda _: None), "x.log.gz"), _packed
    ),
    "records": Entry(("records.reader",), lambda data, _: parse_records(io.BytesIO(data), "input"), _examples),
    "runs": Entry(("runs.store", "runs.index", "runs.plain"), _read_runs, _examples),
    "index": Entry(("runs.index",), _read_index, _indexes),
    "recordings": Entry(("watch.recording", "watch.columns", "watch.meetings", "watch.gpu_rows", "watch.makings", "watch.messages", "watch.pulses", "watch.steps", "watch.period"), _file(_read_recording_and_step), _recordings),
    "shared summaries": Entry(("watch.share", "watch.shared_folder"), _read_summary, _summaries),
    "doctor": Entry(
        ("doctor.reading.answers", "doctor.lines.by_design", "doctor.reading.inputs", "doctor.reading.mixed", "doctor.reading.of_pieces", "doctor.reading.packed", "doctor.reading.pasted",
         "doctor.reading.read_logs", "doctor.lines.sieve", "doctor.reading.smi_rows"), _file(_read_doctor), _logs),
    "flights": Entry(("doctor.reading.flight",), _text(read_flights), _these(FLIGHT, f"[{FLIGHT},{FLIGHT}]")),
    "bundles": Entry(("doctor.reading.bundle",), _read_bundle, _bundles),
    "archives": Entry(("doctor.reading.archives",), _read_archive, _archives),
    "nccl.conf": Entry(("machine.nccl.conf",), _text(read_conf), _these(CONF)),
    "graphs": Entry(("machine.nccl.safe_xml",), lambda data, _: read_graph(data, "input"), _these(GRAPH)),
    "topology files": Entry(("machine.nccl.safe_xml",), lambda data, _: read_topology(data, "input"), _these(TOPOLOGY)),
    "pastes": Entry(
        ("machine.topology.pieces", "machine.topology.port_rows", "machine.topology.smi_rows", "machine.topology.smi_text"),
        _text(read_pieces), _these(PASTE, MATRIX + LSPCI, TOPOLOGY + LINKS, MATRIX + QUERY),
    ),
    "topologies": Entry(
        ("machine.topology.load", "cli.topo"), lambda data, _: from_bytes(data, "input"),
        _these(MATRIX, TOPOLOGY, QUERY, LSPCI, LINKS),
    ),
    "fleet messages": Entry(("fleet.wire",), _read_fleet_messages, _these(TASK, '{}\n{"do": "end"}\n')),
    "fleet results": Entry(("fleet.results", "cli.fleet_words"), _text(read_fleet), _these(FLEET)),
    "pods": Entry(
        ("fleet.clouds",), _text(read_pods), _these('{"items": [{"metadata": {"name": "a", "labels": {"x/leaf": "b"}}}]}', "SwitchName=a Nodes=n[1-4]\nSwitchName=b \\\n Switches=a\n", "n1 p1\nn2 p1\n", TOPOLOGY_YAML)
    ),
    "host files": Entry(("launch.hosts",), _text(parse_hostfile), _these("a slots=8\nb:8\n# c\n")),
    "hosts": Entry(("launch.hosts",), _text(parse_hosts), _these("a:8,b:8", "gpu1:4")),
    "thresholds": Entry(("gate.thresholds",), _text(parse_thresholds), _these(THRESHOLDS)),
    "experiments": Entry(("experiment.file",), _file(read_plan, "plan.toml"), _these(PLAN)),
    "execution traces": Entry(
        ("importers.execution_trace",), _read_trace, _these(EXECUTION, OLD_EXECUTION, PARAM_CALLS)
    ),
    "times of replays": Entry(("experiment.replayed",), _file(times_in), _these(TIMES)),
    "published figures": Entry(("expect.published",), _text(read_published), _these(PUBLISHED)),
    "steps": Entry(("expect.step_file",), _file(read_step, "step.toml"), _these(STEP)),
    "azureml": Entry(
        ("launch.clouds.azureml.settings",), _file(lambda path: load_azureml(path, {}), "azureml.toml"), _these(AZUREML_EXAMPLE)
    ),
    "tables of algorithms": Entry(("experiment.tune.table",), _text(parse_table), _these(TABLE)),
    "tables for NCCL": Entry(("experiment.tune_nccl.rules",), _file(read_nccl_table), _these(NCCL_TABLE)),
    "toml": Entry(("base.toml",), _text(parse_toml), _these(TOML, PLAN, THRESHOLDS)),
    "programs": Entry(("launch.elf", "watch.elf_image", "watch.call_frames"), _file(read_program), lambda _: [Path("/bin/true").read_bytes()[:LONGEST], image()]),
    "secrets": Entry(
        ("base.secrets",), lambda data, _: hide(data.decode("utf-8", "replace")), _these(LOG, CONF, AZUREML_EXAMPLE)
    ),
}  # fmt: skip
"""By name: every reader of what others made."""
