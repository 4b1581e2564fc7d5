"""By what a table is judged: the type that is named, a topology, lines of its log; and that no other one is health."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.doctor.examine import examine
from busbw.doctor.facts import Facts, gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.verdict import Outcome, verdict
from busbw.expect.machines import require
from busbw.machine.topology.load import from_bytes
from busbw.records import Device, Rank, Record

from .cases import rail_record, slow_record

H100 = "NVIDIA H100 80GB HBM3"
INIT = [
    f"n{rank // 8}:{rank + 10}:{rank + 90} [{rank % 8}] NCCL INFO ncclCommInitRank comm 0x{rank + 1:x} rank {rank} "
    f"nranks 16 cudaDev {rank % 8} nvmlDev {rank % 8} busId {rank % 8 + 1}000 commId 0xa - Init {state}"
    for state in ("START", "COMPLETE")
    for rank in range(16)
]
EFA = ["n0:10:90 [0] NCCL INFO NET/OFI Running on {} platform", "n0:10:90 [0] NCCL INFO Using network Libfabric"]
ROCE = [
    "n0:10:90 [0] NCCL INFO NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/RoCE" for i in range(8)) + " ; OOB eth0:1<0>",
    "n0:10:90 [0] NCCL INFO Using network IB",
]
TREE = [f"n0:10:90 [0] NCCL INFO               + NET[50.0] - NET/{i} (ab{i}/1/50.0)" for i in range(8)]
OF_STORAGE = ["n0:10:90 [0] NCCL INFO               + NET[12.5] - NET/8 (ab8/1/12.5)"]


def facts_of(rate: float, *lines: str, gpu: str = H100, machine: str | None = None, **changes: object) -> Facts:
    logs = (TextFile("job.log", "\n".join([*INIT, *lines]) + "\n"),)
    snapshot = replace(Snapshot("files", logs=logs), **changes)  # type: ignore[arg-type]
    return gather(snapshot, (rail_record(rate, name=gpu),), require(machine) if machine else None)


def judged(facts: Facts) -> tuple[Outcome, list[str]]:
    findings = examine(facts)
    loud = [each.name for each in findings if each.severity is not Severity.NOTE]
    return verdict(facts, findings).outcome, loud


@pytest.mark.parametrize(
    ("lines", "gpu"),
    [
        ([EFA[0].format("p5.48xlarge"), EFA[1]], H100),
        ([EFA[1], EFA[0].format("p5.48xlarge")], H100),
        ([*ROCE, *TREE], H100),
        ([*ROCE, *TREE, *OF_STORAGE], H100),
        ([EFA[0].format("p4d.24xlarge"), EFA[1]], "NVIDIA A100-SXM4-40GB"),
    ],
    ids=["platform", "platform behind others", "ports", "ports and storage", "p4d"],
)
def test_a_table_is_judged_by_the_machine_that_its_log_names(lines: Sequence[str], gpu: str) -> None:
    good, half = (470.0, 225.0) if gpu == H100 else (80.0, 38.0)
    assert judged(facts_of(half, *lines, gpu=gpu)) == (Outcome.FOUND, ["below-expected"])
    facts = facts_of(good, *lines, gpu=gpu)
    assert judged(facts) == (Outcome.HEALTHY, [])
    assert facts.expected[0].basis.startswith("by ") and "job.log:" in facts.expected[0].basis


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "nothing says which NICs the 2 nodes have"),
        (ROCE, "names 8 NICs and not their rates"),
        ([EFA[0].format("p4d.24xlarge"), EFA[1]], "nothing says which NICs"),
        (TREE, "nothing says which NICs"),
    ],
    ids=["nothing", "NICs without rates", "a platform of other GPUs", "ports of no known network"],
)
def test_evidence_makes_no_verdict_greener(lines: Sequence[str], why: str) -> None:
    facts = facts_of(225.0, *lines)
    assert judged(facts) == (Outcome.UNKNOWN, [])
    said = verdict(facts, examine(facts))
    assert any(why in each and "could not be judged" in each for each in said.unread)


def test_a_table_that_the_fastest_type_gives_is_well_whatever_its_nics() -> None:
    facts = facts_of(470.0, *ROCE)
    assert judged(facts) == (Outcome.HEALTHY, [])
    assert "the fastest type with these GPUs" in facts.expected[0].basis


def test_the_one_type_that_is_known_is_not_the_fastest_of_hosts_with_fewer_gpus() -> None:
    facts = gather(Snapshot("files"), (rail_record(23.0, 1, "NVIDIA GH200 480GB"),))
    assert judged(facts)[0] is Outcome.UNKNOWN
    assert "such as alps" in facts.expected[0].missing
    assert judged(gather(Snapshot("files"), (rail_record(148.0, 4, "NVIDIA GH200 120GB"),)))[0] is Outcome.HEALTHY


def test_a_matrix_is_held_against_the_type_that_the_user_names() -> None:
    rows = [
        f"GPU{i}  " + "  ".join("X" if i == j else "SYS" for j in range(8)) + "  0-63  0" for i in range(8)
    ]  # fmt: skip
    text = "      " + " ".join(f"GPU{i}" for i in range(8)) + "  CPU Affinity  NUMA Affinity\n" + "\n".join(rows) + "\n"
    bare = Snapshot("files", machine=from_bytes(text.encode(), "m.txt").machine)
    assert judged(gather(bare, (), None))[1] == []
    assert judged(gather(bare, (), require("dgx-h100")))[1] == ["nvlinks-down"]
    assert judged(gather(bare, (), require("rtx-5090-x8")))[1] == []
    with pytest.raises(UserError, match=r"m\.txt shows 8 GPUs"):
        gather(bare, (), require("gb200-nvl72"))


def test_the_user_says_the_machine() -> None:
    assert judged(facts_of(225.0, machine="p5")) == (Outcome.FOUND, ["below-expected"])
    assert judged(facts_of(470.0, machine="p5")) == (Outcome.HEALTHY, [])
    with pytest.raises(UserError, match="--machine p4d has 8 GPUs"):
        facts_of(225.0, machine="p4d")


def test_the_command_takes_a_machine_and_refuses_an_unknown_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text("\n".join(INIT) + "\n")
    assert main(["doctor", str(path), "--machine", "p5"]) == 0
    assert main(["doctor", str(path), "--machine", "p55"]) == 2
    assert "no machine type 'p55'" in capsys.readouterr().err


def cloud(nics: int, kind: str) -> bytes:
    """A file for virtual machines: buses alone, without <net> and rates."""
    gpus = "".join(f'<pci busid="0000:{i + 16:02x}:00.0" class="0x030200" link_width="16"/>' for i in range(8))
    cards = "".join(f'<pci busid="0000:{i + 96:02x}:00.0" class="{kind}" link_width="16"/>' for i in range(nics))
    return f'<system version="1"><cpu numaid="0" affinity="ff">{gpus}{cards}</cpu></system>'.encode()


@pytest.mark.parametrize(
    ("nics", "kind", "gpu", "outcome"),
    [
        (8, "0x020700", H100, Outcome.FOUND),
        (32, "0x020000", H100, Outcome.FOUND),
        (4, "0x020000", "NVIDIA A100-SXM4-40GB", Outcome.FOUND),
        (8, "0x020000", H100, Outcome.UNKNOWN),
    ],
    ids=["InfiniBand", "EFA", "EFA of A100", "Ethernet of nobody"],
)
def test_a_file_without_rates_is_of_the_one_type_that_looks_so(
    nics: int, kind: str, gpu: str, outcome: Outcome
) -> None:
    machine = from_bytes(cloud(nics, kind), "topo.xml").machine
    rate = 225.0 if gpu == H100 else 38.0
    facts = facts_of(rate, gpu=gpu, logs=())
    facts = gather(replace(facts.snapshot, machine=machine), facts.records)
    assert judged(facts)[0] is outcome
    said = facts.expected[0].basis or facts.expected[0].missing
    assert f"topo.xml gives {nics} NICs and no rates" in said or f"lists {nics} NICs without their rates" in said


def of_rack(rate: float, hosts: int) -> Record:
    return rail_record(rate, 4, "NVIDIA GB200", hosts)


def test_hosts_of_one_nvlink_domain_need_no_nic() -> None:
    assert judged(gather(Snapshot("files"), (of_rack(830.0, 18),)))[0] is Outcome.HEALTHY
    assert "below-expected" in judged(gather(Snapshot("files"), (of_rack(417.0, 18),)))[1]
    # Two racks are joined by NICs, of which nothing is known.
    assert judged(gather(Snapshot("files"), (of_rack(417.0, 36),))) == (Outcome.UNKNOWN, [])


def test_a_record_that_could_not_be_judged_is_never_health() -> None:
    cpus = tuple(Rank(i, "n0", device=Device("cpu", i, "EPYC")) for i in range(2))
    of_cpus = replace(slow_record(), run=replace(slow_record().run, ranks=cpus))
    lost = replace(slow_record(), cases=tuple(replace(each, busbw_GBps=float("nan")) for each in slow_record().cases))
    for record, why in (
        (rail_record(225.0), "nothing says which NICs the 2 nodes have (give --topology of one, or --machine TYPE)"),
        (of_cpus, "its ranks are processors"),
        (lost, "1 of 1 figures are no numbers"),
    ):
        facts = gather(Snapshot("files"), (record,))
        said = verdict(facts, examine(facts))
        assert said.outcome is not Outcome.HEALTHY and any(why in each for each in said.unread), why


def test_an_imported_table_says_by_the_command_that_it_could_not_be_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"#  Rank {i} Group  0 Pid {i} on n{i // 8} device  {i % 8} [0x{i % 8 + 1:02x}] {H100}" for i in range(16)]
    lines += ["#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"]
    lines += ["1073741824 268435456 float sum -1 9000 119.3 223.7 0 9000 119.3 223.7 0"]
    lines += ["# Out of bounds values : 0 OK"]
    (tmp_path / "table.log").write_text("\n".join(lines) + "\n")
    assert main(["import", str(tmp_path / "table.log"), "--runs", str(tmp_path / "runs")]) == 0
    (record,) = (tmp_path / "runs").rglob("record.jsonl")
    assert json.loads(record.read_text().splitlines()[0])["kind"] == "run"
    capsys.readouterr()
    assert main(["doctor", str(record)]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "verdict: cannot judge" in said and "nothing says which NICs the 2 nodes have" in said


@pytest.mark.parametrize(
    ("sm", "gpus", "gpu", "why"),
    [
        (90, 8, "NVIDIA A100-SXM4-40GB", "it has GPUs of compute capability 9.0, the other one NVIDIA A100"),
        (90, 8, "AMD Instinct MI300X", "it has GPUs of compute capability 9.0, the other one AMD Instinct MI300X"),
        (90, 4, H100, "it has 4 GPUs, the other one ran on 8 GPUs of one host"),
        (90, 8, H100, ""),
        (90, 16, H100, ""),
    ],
)
def test_a_topology_of_another_machine_is_refused(
    sm: int, gpus: int, gpu: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = "".join(
        f'<pci busid="0000:{i + 16:02x}:00.0" class="0x030200" link_speed="32 GT/s" link_width="16">'
        f'<gpu dev="{i}" sm="{sm}" rank="{i}" gdr="1"><nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>'
        "</gpu></pci>"
        for i in range(gpus)
    )
    topology = tmp_path / "topo.xml"
    topology.write_text(f'<system version="1"><cpu numaid="0" affinity="ff">{ports}</cpu></system>')
    lines = [f"#  Rank {i} Group  0 Pid {i} on n0 device  {i} [0x{i + 16:02x}] {gpu}" for i in range(8)]
    lines += ["#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"]
    lines += ["1073741824 268435456 float sum -1 3900 275 480.0 0 3900 275 480.0 0", "# Out of bounds values : 0 OK"]
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n")
    for words in (["--topology", str(topology), str(path)], [str(topology), str(path)]):
        code = main(["doctor", *words])
        said = capsys.readouterr()
        assert (code == 2) is bool(why) and why in said.err
        # Of a folder nobody said that it is of one machine: what was found stands, and nothing is health.
    code = main(["doctor", str(tmp_path)])
    assert (code == 0) is not bool(why) and (why in " ".join(capsys.readouterr().out.split()))


def test_xml_that_begins_with_a_comment_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topo.xml"
    path.write_bytes(b"<!--\nMade for a machine type. NCCL reads it by NCCL_TOPO_FILE.\n-->\n" + cloud(4, "0x020000"))
    main(["doctor", str(path)])
    said = " ".join(capsys.readouterr().out.split())
    assert "no line of NCCL" not in said and "8 x GPU" in said


NO_NVLS = "n0:10:90 [0] NCCL INFO NVLS multicast support is not available on dev 0"
FORCED = "n0:10:90 [0] NCCL INFO NCCL_ALGO set by environment to {}"


@pytest.mark.parametrize(
    ("line", "rate", "gpu", "name"),
    [
        (FORCED.format("Ring"), 368.0, H100, "forced-algorithm"),
        (FORCED.format("Tree,Ring"), 368.0, H100, "forced-algorithm"),
        (FORCED.format("Ring"), 478.0, H100, ""),
        (FORCED.format("NVLS,Ring"), 478.0, H100, ""),
        (FORCED.format("Ring"), 231.0, "NVIDIA A100-SXM4-80GB", ""),
        (NO_NVLS, 368.0, H100, "no-multicast"),
        (NO_NVLS, 478.0, H100, ""),
        (NO_NVLS, 231.0, "NVIDIA A100-SXM4-80GB", ""),
    ],
)
def test_what_keeps_switches_from_reducing_is_the_cause_where_it_costs(
    line: str, rate: float, gpu: str, name: str
) -> None:
    record = rail_record(rate, name=gpu, hosts=1)
    value = line.rpartition(" ")[2]
    record = replace(record, run=replace(record.run, environment={"NCCL_ALGO": value} if "ALGO" in line else {}))
    facts = gather(Snapshot("files", logs=(TextFile("job.log", line + "\n"),)), (record,))
    loud = [each for each in examine(facts) if each.severity is not Severity.NOTE]
    assert [each.name for each in loud][:1] == ([name] if name else [])
    if name:
        assert loud[0].cost.factor == pytest.approx(1.25, abs=0.06)
        assert all(each.fix.startswith(f"mend {name} first") for each in loud[1:])


MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{0}\t0-7\nGPU1\t{0}\t X \t0-7\n"
RCCL = (
    '<system version="2"><cpu numaid="0" affinity="ff"><pci busid="0000:11:00.0" class="0x038000" vendor="0x1002" '
    'link_speed="32 GT/s" link_width="16"><gpu dev="0" gcn="gfx942" rank="0" gdr="1"/></pci></cpu></system>'
)
NO_GPU = '<system version="1"><cpu numaid="0" affinity="ff"></cpu></system>'


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (MATRIX.format("NV18"), 0, "clocks, PCIe links, rates of NICs and errors of memory and links"),
        (MATRIX.format("NV99"), 3, "it shows 99 NVLinks of one GPU, which no GPU has"),
        (RCCL, 3, "these are GPUs of AMD"),
        (NO_GPU, 3, "no GPU is in it"),
    ],
)
def test_a_saved_machine_tells_what_it_does_not_show(
    text: str, code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "machine.txt"
    path.write_text(text)
    assert main(["doctor", "--topology", str(path)]) == code
    said = " ".join(capsys.readouterr().out.split())
    assert " unseen " in said and words in said


@pytest.mark.parametrize(("text", "code"), [("", 3), ("# nothing\n\n", 3), ("NCCL_DEBUG=WARN\n", 0)])
def test_a_conf_that_sets_nothing_is_no_health(
    text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nccl.conf"
    path.write_text(text)
    assert main(["doctor", "--conf", str(path)]) == code
    assert ("it sets nothing" in capsys.readouterr().out) is (code == 3)


def table_of(*rows: str) -> str:
    lines = [f"#  Rank {i} Group  0 Pid {i} on n0 device  {i} [0x{i + 16:02x}] {H100}" for i in range(8)]
    lines += ["#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong", *rows]
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 300", ""])


def row(size: int, algbw: float, busbw: float) -> str:
    figures = f"{size / algbw / 1e3:.1f} {algbw:.2f} {busbw:.2f} 0"
    return f"{size} {size // 4} float sum -1 {figures} {figures}"


def test_a_row_that_contradicts_itself_is_told_and_the_rest_is_no_health(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text(table_of(*(row(1 << at, 270.0, 472.5) for at in range(27, 32)), row(1 << 32, 271.0, 99999.0)))
    assert main(["doctor", str(path)]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "the row of 4,294,967,296 bytes contradicts itself" in said and "healthy" not in said


def test_a_table_with_its_last_lines_is_complete_and_shows_each_size_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text(table_of(*(row(1 << at, 273.0, 477.8) for at in range(28, 34))))
    assert main(["doctor", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "its benchmark's table is complete" in said and "while it goes on" not in said
    path.write_text(table_of(*(row(1 << at, 136.0, 238.0) for at in range(28, 34))))
    assert main(["doctor", str(path)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert all(said.count(f"GB/s at {size} GiB, expected") == 1 for size in (1, 2, 4, 8))


def test_a_loss_never_names_itself_as_its_cure() -> None:
    falls = [(28, 400.0), (29, 420.0), (30, 60.0), (31, 60.0)]
    cases = tuple(
        replace(slow_record().cases[0], case=at, bytes=1 << power, busbw_GBps=rate, algbw_GBps=rate / 1.5)
        for at, (power, rate) in enumerate(falls)
    )
    findings = examine(gather(Snapshot("files"), (replace(slow_record(), cases=cases),)))
    assert len(findings) > 1 and not any(f"mend {each.name} first" in each.fix for each in findings)


BENCH = """- software: pytorch=2.5.1+cu124, cuda=12.4, nccl=(2, 21, 5)
- hardware: _CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, minor=0, total_memory=81007MB)

The average bandwidth of all_reduce over {0} ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|     4GB |  224.00GBps | {1:.2f}GBps |
"""


def test_ranks_that_no_table_lists_lie_on_full_nodes_of_the_type_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bench.log"
    path.write_text(BENCH.format(8, 128.0))
    assert main(["doctor", str(path)]) == 3
    assert "its ranks have NVIDIA H100 80GB HBM3, but nothing says how many" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["doctor", str(path), "--machine", "ndv5"]) == 1
    assert "expected 47" in " ".join(capsys.readouterr().out.split())
    assert main(["doctor", str(path), "--machine", "ndv4"]) == 2
