"""`busbw topo`: what it shows, checks, draws and writes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from busbw.cli.main import main
from busbw.doctor.reading.bundle import write_bundle
from busbw.machine.topology import live
from busbw.machine.topology.gpu_state import Driver
from busbw.machine.topology.live import Reading
from busbw.machine.topology.load import load
from busbw.machine.topology.model import Machine

from ..doctor.cases import healthy, machine
from ..machine.nccl.samples import graph, topology


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> list[Machine]:
    """The machine that the test runs on; without GPUs unless the test says otherwise."""
    seen = [Machine("this machine")]
    monkeypatch.setattr(live, "read_live", lambda: Reading(seen[0], (), Driver()))
    return seen


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "topo.xml").write_bytes(topology())
    (tmp_path / "graph.xml").write_bytes(graph([(0, 1)] * 2, 12, "SYS"))
    return tmp_path


def test_links_below_what_they_can_do_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topo.xml"
    lanes, rate = b'link_width="16"', b'link_speed="16.0 GT/s PCIe"'
    path.write_bytes(topology(4).replace(lanes, b'link_width="4"', 1).replace(rate, b'link_speed="2.5 GT/s PCIe"', 1))
    main(["topo", str(path)])
    said = capsys.readouterr().err
    assert "PCIe of GPU0 runs at generation 1 x4, that of the other GPUs at 4 x16" in said
    main(["topo", "--audit", str(path)])
    assert "PCIe of GPU0 runs at generation 1 x4" in " ".join(capsys.readouterr().out.split())


def test_this_machine_is_shown_with_matrix_and_legend(here: list[Machine], capsys: pytest.CaptureFixture[str]) -> None:
    here[0] = machine()
    assert main(["topo"]) == 0
    out = capsys.readouterr().out
    assert "GPU0  0001:00:00.0  H200  18 of gen 4 to switch, 450 GB/s" in out
    assert "NV18  X     NV18" in out and "NV#   a bonded set of # NVLinks" in out
    assert max(map(len, out.splitlines())) <= 80


def test_without_gpus_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo"]) == 0
    assert "no GPU was found" in capsys.readouterr().err


def test_what_is_written_is_the_same_machine(saved: Path) -> None:
    out = saved / "out.xml"
    assert main(["topo", f"{saved}/topo.xml", "--export-nccl", str(out), "--svg", f"{saved}/m.svg"]) == 0
    assert load(out).machine.connections == load(saved / "topo.xml").machine.connections
    assert ElementTree.parse(saved / "m.svg").getroot().tag.endswith("svg")


MATRIX = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tSYS\tSYS\t0-3\t0
GPU1\tNV18\t X \tSYS\tSYS\t4-7\t1
NIC0\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tSYS\t X
"""


def test_audit_says_what_is_hidden_and_writes_the_corrected_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.txt").write_text(MATRIX)
    (tmp_path / "l.txt").write_text(
        "".join(f"000{i + 1}:00:00.0 3D controller: NVIDIA Corporation H100\n\tNUMA node: {i}\n"
                "\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n" for i in range(2))
    )  # fmt: skip
    (tmp_path / "p.txt").write_text(
        "GPU0 NIC0 48\nGPU0 NIC1 20\nGPU1 NIC0 20\nGPU1 NIC1 48\n0101:00:00.0 NIC0\n0102:00:00.0 NIC1\n"
    )
    files = [f"{tmp_path}/m.txt", "--lspci", f"{tmp_path}/l.txt", "--pairs", f"{tmp_path}/p.txt"]
    assert main(["topo", "--audit", f"{tmp_path}/m.txt"]) == 1
    assert "no GPU is near any NIC" in capsys.readouterr().out
    main(["topo", "--audit", *files, "--export-nccl", f"{tmp_path}/out.xml"])
    assert "Put right: NIC0 below one switch with GPU0" in capsys.readouterr().out
    found = load(tmp_path / "out.xml")
    pair = found.machine.between("GPU0", "NIC0")
    assert found.problems == () and pair is not None and pair.path.value == "PIX"
    assert main(["topo", *files]) == 2
    assert "without --audit" in capsys.readouterr().err


def test_where_nothing_is_hidden_the_file_says_what_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = 'link_speed="32.0 GT/s PCIe" link_width="16"'
    gpus = "".join(
        f'<cpu numaid="{i}"><pci busid="000{i}:01:00.0" class="0x060400" {link}><pci busid="000{i}:02:00.0" '
        f'class="0x030200" {link}><gpu dev="{i}" sm="90"><nvlink target="fffffff:ff:ff.0" count="18" '
        f'tclass="0x068000"/></gpu></pci><pci busid="000{i}:03:00.0" class="0x020700" {link}/></pci></cpu>'
        for i in range(2)
    )
    (tmp_path / "t.xml").write_text(f'<system version="1">{gpus}</system>')
    assert main(["topo", "--audit", f"{tmp_path}/t.xml", "--export-nccl", f"{tmp_path}/out.xml"]) == 0
    said = capsys.readouterr().out
    assert "Nothing is to be put right" in said and "Put right" not in said
    assert load(tmp_path / "out.xml").machine.gpus == load(tmp_path / "t.xml").machine.gpus
    assert load(tmp_path / "out.xml").machine.nics == load(tmp_path / "t.xml").machine.nics


def test_a_matrix_alone_makes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.txt").write_text(MATRIX)
    assert main(["topo", f"{tmp_path}/m.txt", "--export-nccl", f"{tmp_path}/out.xml"]) == 2
    assert "at which bus its GPUs lie" in capsys.readouterr().err and not (tmp_path / "out.xml").exists()


def test_json_holds_every_device(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", f"{saved}/topo.xml", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [each["bus_id"] for each in shown["gpus"]] == ["0001:00:00.0", "0002:00:00.0"]
    assert shown["connections"][0]["path"] == "NV"


def test_a_graph_file_is_drawn_written_and_compared(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["topo", f"{saved}/graph.xml", "--svg", f"{saved}/g.svg", "--export-nccl", f"{saved}/g.xml"]
    assert main(words) == 0
    assert "ring: 2 channels x 12 GB/s = 24 GB/s, type SYS" in capsys.readouterr().out
    assert main(["topo", f"{saved}/g.xml", "--with", f"{saved}/topo.xml"]) == 1
    assert "where 12 NVLinks could carry about 10 times that" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--with", "--topology"])
@pytest.mark.parametrize("named", [[], ["--graph"]], ids=["FILE", "--graph"])
def test_graph_and_topology_are_named_as_for_the_doctor(
    option: str, named: list[str], saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", *named, f"{saved}/graph.xml", option, f"{saved}/topo.xml"]) == 1
    assert "where 12 NVLinks could carry about 10 times that" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--with", "--topology"])
def test_a_topology_alone_is_the_machine_that_is_shown(
    option: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", option, f"{saved}/topo.xml"]) == 0
    assert f"{saved}/topo.xml: GPUs: 2" in capsys.readouterr().out


def test_a_file_of_another_machine_is_told_with_its_line(
    here: list[Machine], saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here[0] = machine(gpus=2, links=18)
    assert main(["topo", f"{saved}/topo.xml"]) == 1
    err = capsys.readouterr().err
    assert f"{saved}/topo.xml:2: 12 NVLinks, GPU0 has 18" in err and "compute capability 8.0, GPU0 has 9.0" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.xml"], "none.xml cannot be read"),
        (["garbage"], "is no NCCL topology XML"),
        (["topo.xml", "--svg", "no/such/folder.svg"], "cannot be written"),
        (["topo.xml", "--with", "none"], "none cannot be read"),
        (["topo.xml", "--graph", "graph.xml"], "two files to show"),
        (["--graph", "topo.xml"], "topo.xml"),
        (["--topology", "graph.xml"], "give it as --graph"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(
    words: list[str], says: str, saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(saved)
    Path("garbage").write_bytes(b"\x00\xff")
    assert main(["topo", *words]) == 2
    err = capsys.readouterr().err
    assert says in err and "Traceback" not in err


def test_a_bundle_is_shown_and_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    looped = healthy(machine=machine(links=0, rdma=False))
    for name, snapshot in (("good.tar.gz", healthy()), ("bad.tar.gz", looped), ("none.tar.gz", healthy(machine=None))):
        write_bundle(snapshot, tmp_path / name)
    assert main(["topo", str(tmp_path / "good.tar.gz")]) == 0
    assert "NV18" in capsys.readouterr().out
    assert main(["topo", "--audit", str(tmp_path / "good.tar.gz")]) == 0
    assert "Nothing that NCCL reads is hidden" in capsys.readouterr().out
    assert main(["topo", "--audit", str(tmp_path / "bad.tar.gz")]) == 1
    assert "no NVLink is shown" in capsys.readouterr().out
    assert main(["topo", "--audit", str(tmp_path / "none.tar.gz")]) == 2
    assert "a bundle without a GPU" in capsys.readouterr().err
