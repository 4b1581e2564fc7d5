"""Each reader of foreign files is in the table of the fuzzer and takes changed seeds; tools/fuzz_parsers takes more."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from fuzzing import ENTRIES
from fuzzing_campaign import InputError, Worker, campaign, limited
from fuzzing_images import CALLS, WAITS, image

from busbw.watch.elf_image import Image

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "python" / "busbw"
READS = re.compile(
    r"open_to_read\(|read_start\(|\bread_text\(|read_bytes\(|\bjson\.loads?\(|parse_toml\(|ParserCreate|\btarfile\.open|gzip\.(?:open|GzipFile|decompress)|zlib\.decompress"
    r"|sqlite3\.connect|\.unpack\(|mmap\.mmap\(|os\.pread\("
)
"""What a module that reads a file of others calls."""
OURS = {
    "base.files": "opens for all others",
    "base.acting": "the table that is shipped; others' files by base.files, which test_acting damages",
    "base.bounds": "/proc",
    "base.options": "the table of options that is shipped",
    "cli.arguments.reference": "documents of the checkout",
    "cli.bisect": "the words of a bisection of ours, compared as text",
    "cli.libraries": "the JSON of a child",
    "cli.replay": "a file that was just written",
    "cli.sources": "looks at the first bytes and hands on to importers",
    "cli.tune_nccl": "proc and our own table, by its reader",
    "doctor.host.collect": "/proc, /sys and files of the system",
    "doctor.reading.pipes": "keeps what a pipe gives in a file, for doctor.reading.inputs",
    "doctor.host.libraries": "looks for one pattern in a library",
    "expect.machines": "tables that are shipped",
    "experiment.bisect.library_file": "wheels, which test_wheels damages at random",
    "experiment.bisect.wheels": "its own cache",
    "experiment.own_conf": "lines of a file that machine.nccl.conf reads, copied as they are",
    "experiment.loop": "an experiment of ours, by experiment.trial",
    "experiment.plan": "an experiment of ours",
    "experiment.runner": "the record of a child, by records.reader",
    "experiment.trial": "an experiment of ours",
    "experiment.tune_nccl.stage": "a search of ours, which test_tune_nccl_killed damages",
    "fleet.run": "the last line of its own file, to cut off what a kill left of it",
    "launch.affinity": "/sys",
    "launch.clouds.azureml.prices": "the answer of Azure's price list",
    "launch.kubernetes_queue": "the JSON of kubectl",
    "launch.local": "/sys",
    "launch.pmi": "/proc",
    "launch.turns": "the credentials of a socket",
    "launch.supervise": "/proc",
    "experiment.tune_nccl.ways": "tables that tune nccl wrote itself, for their hash",
    "records.catalogue": "figures that are shipped",
    "report.html": "parts of the page that are shipped",
    "fleet.watch": "results of a fleet, by fleet.results",
    "fleet.steps": "figures of a program that the user names, a number a line",
    "torch_bench.siblings": "/proc, of processes beside ours",
    "torch_bench.worker": "what its own ranks said",
    "watch.replay_rank": "a file of its own rank 0",
    "watch.containers": "/proc",
    "watch.endpoint": "/proc; questions are read by wsgiref and Prometheus' client",
    "watch.hardware": "/sys, the kernel's messages and nvidia-smi",
    "watch.links": "/proc",
    "watch.memory": "/proc and counters of the control group",
    "watch.processes": "/proc",
    "watch.unwind": "/proc; programs by watch.elf_image",
    "watch.timeline": "parts of the page that are shipped; recordings by their reader",
}
"""Modules that read nothing of others, or hand it to a reader of the table."""


def test_every_module_that_reads_is_in_the_table_of_the_fuzzer() -> None:
    named = {module for entry in ENTRIES.values() for module in entry.modules}
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if READS.search(path.read_text(encoding="utf-8")):
            found.add(".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"))
    assert found - named - OURS.keys() == set(), (
        "add the reader to ENTRIES in fuzzing.py, or say why it reads nothing foreign"
    )
    for module in named:
        assert (PACKAGE / (module.replace(".", "/") + ".py")).exists(), module


@pytest.mark.parametrize("name", ENTRIES)
def test_a_reader_takes_changed_seeds(name: str, tmp_path: Path) -> None:
    most = 15 if name == "doctor" else 60 if name in {"importers", "runs", "index", "bundles"} else 120
    found = campaign(name, tmp_path, random.Random(f"{name} ci"), lambda inputs: inputs < most)
    assert found.inputs == most
    # Seeds that a reader refuses try nothing but its first line.
    assert found.sentences < most


def test_the_small_program_tells_its_functions_and_their_frames(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(image())
    with Image(tmp_path / "program") as found:
        assert [found.name_at(at) for at in (WAITS, CALLS + 9, 0)] == ["waits", "calls", ""]
        rules = [found.rules_at(at) for at in (WAITS, WAITS + 2, CALLS + 12, CALLS + 13, CALLS + 32)]
        assert [each and (each.register, each.offset, each.saved) for each in rules] == [
            (7, 8, {16: -8}),
            (7, 16, {16: -8, 6: -16}),
            (7, 8, {16: -8}),
            (6, 16, {16: -8, 6: -16}),
            None,
        ]


def test_tables_of_names_do_not_add_up(tmp_path: Path) -> None:
    """Each of the sections may claim the same names, and a small file would take hours."""
    small = image()
    data = bytearray(small) + bytes(24 * 200_000)
    sections = len(data)
    data[40:48] = sections.to_bytes(8, "little")
    data[60:62] = (4096).to_bytes(2, "little")
    names = small[-64:]
    table = bytearray(small[-128:-64])
    table[24:40] = len(small).to_bytes(8, "little") + (24 * 200_000).to_bytes(8, "little")
    data += names * 3 + table * 4093
    (tmp_path / "program").write_bytes(data)
    with Image(tmp_path / "program") as found, limited(10):
        assert found.name_at(WAITS) == ""


def test_a_reader_that_breaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ENTRIES["toml"]

    def broken(data: bytes, folder: Path) -> object:
        if b"[[[[" in data:
            raise RecursionError
        return entry.read(data, folder)

    monkeypatch.setitem(ENTRIES, "toml", type(entry)(entry.modules, broken, entry.seeds))
    with pytest.raises(InputError, match="RecursionError"):
        campaign("toml", tmp_path, random.Random(1), lambda inputs: inputs < 3000)


def test_a_campaign_goes_on_after_what_broke_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ENTRIES["toml"]
    read: list[bytes] = []

    def broken(data: bytes, folder: Path) -> object:
        read.append(data)
        if len(read) == 3:
            raise RecursionError
        if len(read) == 5:
            return len(b"x" * (600 << 20))
        return entry.read(data, folder)

    monkeypatch.setitem(ENTRIES, "toml", type(entry)(entry.modules, broken, entry.seeds))
    found = Worker(1).piece("toml", 1, 1.5)
    assert [(kind, data) for kind, _, data in found.problems] == [("traceback", read[2]), ("bounds", read[4])]
    assert found.inputs == len(read) > 10
    # The same piece of the same seed is the same inputs.
    again, read[:] = read[:4], []
    Worker(1).piece("toml", 1, 0.2)
    assert read[:4] == again
