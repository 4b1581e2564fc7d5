"""Findings that stand for several faults tell the one that their lines name, with its own cure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.meanings.particulars import PARTICULARS
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.snapshot import Snapshot
from busbw.doctor.signatures import SIGNATURES

from .cases import slow_record
from .corpus.load import cases

WARN = "n0:1:2 [0] x.cc:1 NCCL WARN "
RULE = "-" * 74


def first(text: str, folder: Path) -> Finding:
    path = folder / "job.log"
    path.write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return next(each for each in found if each.severity is not Severity.NOTE)


@pytest.mark.parametrize(
    ("line", "name", "title", "fix"),
    [
        (f"{WARN}Detected mixed local Net device counts across ranks (min 7, max 8).", "mixed-networks",
         "some ranks see 7", "NCCL_IB_HCA"),
        (f"{WARN}Detected mixed local CollNet device counts across ranks (min 7, max 8).", "mixed-networks", "CollNet",
         "NCCL_COLLNET_ENABLE=0"),
        ("libfabric:3310:1771:efa:cq:f():187<warn> EFA internal error: (4123) Unresponsive receiver",
         "efa-error", "security group lets no traffic in", "inbound and outbound"),
        ("2026/11/07 03:22:39 INF Requesting instance drain kind=SPOT_ITN node-name=ip-10-0-7-61", "job-cancelled",
         "the cloud took the instance back", "two minutes before"),
        ("   Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2026-08-28T07:33:41]",
         "slurm-resources", "slurmd counts 7 of 8", "lspci"),
        ("ssh: connect to host n7 port 2222: Connection refused", "ssh-launch", "n7, port 2222", "start sshd"),
        ("./x: symbol lookup error: undefined symbol: fi_fabric2", "undefined-symbol", "libfabric", "EFA"),
        (f"{WARN}Something: could not read /etc/nccl/moon.conf", "nccl-warnings", "moon",
         "see that /etc/nccl/moon.conf"),
        (f"{WARN}comm 0x55 has already been destroyed", "communicator-misused", "after it was destroyed", "at the end"),
        (f"{WARN}ncclGroupEnd: not in a group call.", "communicator-misused", "its ncclGroupStart", "pair them"),
        (f"{WARN}Streams given to a communicator within a NCCL group must either be all uncaptured or all captured by "
         "the same graph.", "graph-capture", "one ncclGroup mixes", "a group of"),
        (f"{WARN}NET/IB: OOO RQ is force enabled but AR is not enabled, which is required for OOO RQ (device=mlx5_3)",
         "roce-loss", "NCCL_IB_OOO_RQ=1 asks", "remove NCCL_IB_OOO_RQ"),
        # The process and thread that stand behind a host's name are no IPv6 address, though hexadecimal.
        ("node2:771:802 [1] misc/socket.cc:477 NCCL WARN socketStartConnect: Connect to 192.168.10.11<42633> failed : "
         "No route to host", "no-route", "a firewall rejects it", "open the firewall"),
        ("node2:771:802 [1] misc/socket.cc:477 NCCL WARN socketStartConnect: Connect to 2001:db8:0:1::11<42633> failed "
         ": No route to host", "no-route", "an IPv6 address", "NCCL_SOCKET_FAMILY=AF_INET"),
        (f"{RULE}\nThe daemon of that node lacks a moon. Please bring one\nand try again.\n{RULE}", "mpi-launch",
         "MPI says: The daemon", "MPI's own advice: Please bring one and try again"),
    ],
)  # fmt: skip
def test_cause_and_cure_are_of_the_line(line: str, name: str, title: str, fix: str, tmp_path: Path) -> None:
    found = first(f"{line}\n", tmp_path)
    assert found.name == name and title in found.title and fix in found.fix


def test_every_row_belongs_to_a_signature_and_fills_what_it_names() -> None:
    assert set(PARTICULARS) <= set(SIGNATURES)
    for rows in PARTICULARS.values():
        for row in rows:
            assert set(re.findall(r"\{(\w+)\}", row.title)) <= {*row.words.groupindex, "title"}, row.title
            assert row.cure and row.title and "{" not in row.cure


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"NCCL_P2P_LEVEL": "LOC"}, ["p2p-disabled", "below-expected"]),
        ({"NCCL_CUMEM_ENABLE": "0"}, ["suspect-setting", "below-expected"]),
        ({"NCCL_NVLS_ENABLE": "0"}, ["slow-settings", "below-expected"]),
    ],
)
def test_a_setting_is_told_once_beside_a_slow_table(variables: dict[str, str], names: list[str]) -> None:
    found = examine(gather(Snapshot("files"), (slow_record(98.0, **variables),)))
    assert [each.name for each in found if each.severity is not Severity.NOTE] == names


def test_a_table_that_falls_is_not_that_of_one_port(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(next(each.text for each in cases() if each.name == "s70-t-collapse-at-64M"))
    found = examine(gather(*read_inputs(Inputs(files=(str(tmp_path / "job.log"),)))))
    assert "below-expected" in {each.name for each in found} and "one-rail" not in {each.name for each in found}


def test_a_box_that_warns_of_an_end_is_told(tmp_path: Path) -> None:
    found = first(f"{RULE}\nWARNING: the daemons of this node met a moon.\nYour job may now fail.\n{RULE}\n", tmp_path)
    assert "MPI says: WARNING: the daemons" in found.title


TABLE = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
# Using devices
#  Rank  0 Group  0 Pid   100 on n0 device  0 [0x18] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   101 on n1 device  0 [0x18] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1   {time}    0.00    0.00      0   {time}    0.00    0.00      0
"""


@pytest.mark.parametrize(("time", "late"), [(4012.1, True), (612.4, False)])
def test_a_few_bytes_that_take_milliseconds_are_ill_on_every_network(time: float, late: bool, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(TABLE.format(time=f"{time:.1f}"))
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    assert any("which no network needs" in each.title for each in found) is late


def test_simple_alone_is_a_fault_beside_a_table_of_small_messages(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"$ mpirun -np 2 -x NCCL_PROTO=Simple ./x\n{TABLE.format(time='30.0')}")
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    assert [each.severity for each in found if each.name == "forced-protocol"] == [Severity.WARNING]
