"""A file of two kinds is read as both: what stands behind a matrix, `lspci` or variables is not passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main

from .test_corpus import loud

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-47\t0\nGPU1\tNV18\t X \t48-95\t1\n\nLegend:\n\n"
MATRIX += "  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
LSPCI = "4e:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
LSPCI += "\tLnkCap: Port #0, Speed 32GT/s, Width x16\n\tLnkSta: Speed 32GT/s, Width x16\n"
VARIABLES = "NCCL_DEBUG=INFO\nWORLD_SIZE=4\nRANK=0\nMASTER_ADDR=n0\n"
GONE = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.\n"
CUT = MATRIX.replace("GPU1\tNV18", "")


@pytest.mark.parametrize("before", [MATRIX, LSPCI, VARIABLES, CUT, "<6>[ 1.0] usb 1-1: new device\n"])
def test_the_log_behind_something_else_is_read(before: str, tmp_path: Path) -> None:
    assert [each.name for each in loud(before + GONE, tmp_path)] == ["gpu-off-bus"]
    (evidence,) = loud(before + GONE, tmp_path)[0].evidence
    assert evidence.line == before.count("\n") + 1, "lines keep their numbers"


@pytest.mark.parametrize("text", [MATRIX, LSPCI, MATRIX + "$ nvidia-smi -L\nGPU 0: NVIDIA H100\n"])
def test_a_machine_alone_is_a_machine(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(text)
    assert main(["doctor", str(path)]) == 0


ACS = "\t\tACSCtl:\tSrcValid{0} TransBlk- ReqRedir{0} CmpltRedir{0} UpstreamFwd{0} EgressCtrl- DirectTrans-\n"
BRIDGE = "3c:04.0 PCI bridge: PLX Technology, Inc. PEX 8747 48-Lane, 5-Port Switch (rev ca)\n"
NUMA = "available: 2 nodes (0-1)\nnode 0 size: 515000 MB\n"


@pytest.mark.parametrize(
    ("beside", "code", "told"),
    [
        (BRIDGE + ACS.format("+"), 1, "ACS redirects"),
        (BRIDGE + ACS.format("-"), 0, ""),
        ("$ numactl -H\n" + NUMA, 3, "of no output that tells how the machine is"),
        ("can somebody say why it is slow here?\n", 0, ""),
        ("$ nvidia-smi nvlink -s\nGPU 7: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n", 3, "other GPUs"),
        ("mlx5_0 port 1 ==> ib0 (Up)\n", 0, ""),
        ('$ cat t.xml\n<system version="1">\n  <cpu numaid="0"', 3, "cut off"),
    ],
)
def test_what_stands_beside_a_machine_is_read_or_told(
    beside: str, code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pasted.txt"
    for text in (MATRIX + beside, "ops@n7:~$ nvidia-smi topo -m\n" + MATRIX + beside, beside + MATRIX):
        path.write_text(text)
        assert main(["doctor", str(path)]) == code, text
        assert told in " ".join(capsys.readouterr().out.split()), text


def test_a_matrix_that_was_cut_off_is_refused_by_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row for GPU1"):
        loud(CUT.replace("\t", "    "), tmp_path)


def test_what_ends_after_init_is_told_as_unseen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    comm = (
        "n0:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1 commId 0xa - Init "
    )
    path = tmp_path / "job.log"
    for more, told in (("", True), ("step 4 loss 2.0 time 0.3\n", False)):
        path.write_text(f"{comm}START\n{comm}COMPLETE\n{more}")
        assert main(["doctor", str(path)]) == 0
        assert ("a job that hangs there" in " ".join(capsys.readouterr().out.split())) is told


def test_a_table_without_its_end_is_not_called_health(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = "#  Rank  {0} Group  0 Pid 1 on n0 device  {0} [0000:0{0}:00] NVIDIA H100 80GB HBM3\n"
    text = "".join(named.format(rank) for rank in range(8))
    text += "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    text += "  8589934592  2147483648  float  sum  -1  31356  273.95  479.41  0  31308  274.36  480.14  0\n"
    path = tmp_path / "job.log"
    for more, code in (("", 3), ("# Out of bounds values : 0 OK\n", 0)):
        path.write_text(text + more)
        assert main(["doctor", str(path)]) == code
        assert ("the table's end" in capsys.readouterr().out) is (code == 3)


P2P = "P2P=Enabled {} Matrix ({})\n   D\\D     0      1\n     0 831.22   {}\n     1   {} 829.10\n"


@pytest.mark.parametrize(
    ("text", "ill"),
    [
        (P2P.format("Bandwidth (P2P Writes)", "GB/s", 0.31, 0.31), True),
        (P2P.format("Bandwidth (P2P Writes)", "GB/s", 21.4, 21.3), False),
        (P2P.format("Bandwidth (P2P Writes)", "GB/s", 21.4, 21.3).replace("831.22", "0.00"), False),
        (P2P.format("Latency (P2P Writes)", "us", 49204.11, 49204.12).replace("831.22", "1.31"), True),
        (P2P.format("Latency (P2P Writes)", "us", 1.9, 2.1), False),
        (P2P.format("Bandwidth", "GB/s", 0.31, 0.31).replace("Enabled", "Disabled"), False),
    ],
)
def test_pairs_that_p2p_hardly_joins_are_told(text: str, ill: bool, tmp_path: Path) -> None:
    assert [each.name for each in loud(text, tmp_path)] == ["p2p-matrix"] * ill


END = "W1101 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 3380 closing signal SIGTERM\n"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("[rank7]: 2026-11-01T10:00:04Z ERROR the flux failed\n" + END, "the first of rank 7 at 2026-11-01T10:00:04: "),
        ("ERROR the flux of rank 3 failed\n" + END, "the first of rank 3: "),
        (
            '{"ts":"2026-11-01T10:00:04Z","level":"error","rank":5,"msg":"flux failed"}\n',
            "of rank 5 at 2026-11-01T10:0",
        ),
        ("n0:1:2 [0] new.cc:7 NCCL WARN The moon is in the wrong phase\n" + END, "NCCL warns: The moon"),
        ("E1101 api.py:874] failed (exitcode: 1) local_rank: 3 (pid: 33)\n" + END, "the launcher ended"),
        ("step 4 loss 2.0 time 0.3\nERROR the flux failed\n" + END, "the launcher ended"),
    ],
)
def test_the_first_error_stands_before_the_end_that_others_report(text: str, first: str, tmp_path: Path) -> None:
    assert first in loud(text, tmp_path)[0].title
