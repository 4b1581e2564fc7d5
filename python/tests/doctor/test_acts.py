"""An error of which only the writer is known is told by what failed, and by the device that its lines name."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.meanings import act_rows
from busbw.doctor.meanings.acts import act_in, sentence
from busbw.doctor.meanings.families import read

from .test_corpus import COMPLETE, loud

UCX = "[1763700000.1] [n1:4000:0]   flux.c:12  UCX  ERROR "
LIBFABRIC = "libfabric:4412:1763700000::verbs:core:flux_open():9<warn> "
TORCHRUN = (
    "E1121 10:10:10.123 77 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0 "
    "(pid: 4412) of binary: /usr/bin/python3\n"
)


@pytest.mark.parametrize(
    ("line", "name", "title", "fix"),
    [
        (f"{UCX}failed to register flux buffer", "mpi-network", "could not be registered", "ulimit -l"),
        (f"{UCX}failed to attach flux over xpmem 7", "mpi-network", "share memory", "--ipc=host"),
        (f"{UCX}flux size 7 must be a power of 2", "mpi-network", "a setting or size is refused", "env | grep"),
        (f"{UCX}mlx5dv_flux_create gave nothing", "mpi-network", "queue pairs", "rdma-core"),
        (f"{UCX}failed to auto-bind unix domain flux", "mpi-network", "flux", "btl_tcp_if_include"),
        (
            "n0:1:2 [0] flux:9 NCCL WARN NET/OFI Failed to group NICs of flux",
            "efa-error",
            "the picture of GPUs, NICs",
            "NCCL_TOPO_FILE",
        ),
        ("slurmd: error: flux: no BPF program of flux", "slurm-error", "cgroups", "cgroup.conf"),
        ("slurmd: error: flux plugin_context_create failed", "slurm-error", "plugins", "PluginDir"),
        (f"{LIBFABRIC}flux cannot reach its peer\n{TORCHRUN}", "mpi-network", "is not reached", "security group"),
        ("srun: error: a flux with no known word", "slurm-error", "Slurm reports: a flux", "follow the sentence"),
    ],
)
def test_what_failed_decides_cause_and_cure(line: str, name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(line + "\n", tmp_path)[0]
    assert first.name == name and title in first.title and fix in first.fix, first


def test_the_head_of_a_line_tells_nothing_of_what_failed() -> None:
    assert sentence(f"{LIBFABRIC}flux is gone") == "flux is gone"
    assert sentence(f"{UCX}flux is gone") == "flux is gone"
    assert act_in("nvshmem flux ended", of="nvshmem-init") is None
    assert act_in("flux", of="another-finding") is None


def test_every_row_has_words_a_meaning_and_a_cure() -> None:
    for rows in (act_rows.NETWORK, act_rows.SLURM):
        for each in read(rows):
            assert each.words.pattern and len(each.meaning) > 12 and len(each.cure) > 20


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("kernel: mlx5_core 0000:9a:00.0: wait_func:1195:(pid 1): CREATE_MKEY(0x200) timeout. Will cause", "9a:00.0"),
        ("n0:1:2 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error", "mlx5_3:1"),
        ("NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off.", "0000:4e:00"),
    ],
)
def test_the_device_that_the_lines_name_stands_in_the_title(line: str, device: str, tmp_path: Path) -> None:
    assert device in loud(line + "\n", tmp_path)[0].title


START = f"{COMPLETE.format('START')}{COMPLETE.format('COMPLETE')}training begins\n"


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ("", 0),
        (f"{LIBFABRIC}the flux is odd\n", 3),
        (f"{LIBFABRIC}the flux is odd\nstep 1 loss 2.0\n", 0),
        ("[ 12.5] NVRM: Unable to get flux info!\n", 1),
    ],
    ids=["nothing", "a warning", "a step behind it", "info is a word too"],
)
def test_last_words_that_nobody_knows_are_not_called_health(
    after: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text(START + after)
    assert main(["doctor", str(path)]) == code
    said = " ".join(capsys.readouterr().out.split())
    assert ("nothing tells that the job went on" in said) is (code == 3)
