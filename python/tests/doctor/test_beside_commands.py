"""What commands beside an error show decides its cause; what only looks alike decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .corpus.load import cases

LOGS = {each.name.removeprefix("f127-"): each.text for each in cases() if each.name.startswith("f127-")}


def findings(folder: Path, *texts: str) -> list[Finding]:
    paths = [folder / f"job{number}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=tuple(map(str, paths))))))
    return [each for each in found if each.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("limited-workers", "two limited members cannot talk to each other", "full members"),
        ("large-packets-between-sites", "do not get through to south1, those of 1328 do", "tcp_mtu_probing"),
        ("ring-on-one-host", "NCCL_ALGO=Tree is set on bay2 and not on bay1", "/etc/nccl.conf"),
        ("brake-of-one-host", "GPU 0 to GPU 1 (2) of cab2 down to 600 MHz", "leave cab2 out"),
        ("bridge-after-a-swap", "inactive since a GPU there was swapped", "seat or replace it"),
        ("cores-not-inherited", "runs on 2 processors (0,96), and the job asked for 24", "SRUN_CPUS_PER_TASK"),
        ("parts-of-nobody", "GPU 0 is in MIG mode", "-mig 0"),
        ("worlds-of-four-tasks", "srun was called without --mpi", "srun --mpi=pmix"),
        ("steps-apart-at-restart", "rank 0 at 9000, rank 4 at 0", "all hosts share"),
    ],
)
def test_commands_name_the_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    found = findings(tmp_path, LOGS[name])[0]
    assert title in found.title and fix in found.fix


PLUGIN = """\
pod0:1:9 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.
pod0:1:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.4.0.9<0>
pod0:1:9 [0] NCCL INFO comm 0x55aa rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
a3-megagpu-8g
$ ls /usr/local/nvidia/lib64
libnccl-net.so
LD_LIBRARY_PATH={}
"""


@pytest.mark.parametrize(("path", "lacks"), [("/opt/lib", True), ("/opt/lib:/usr/local/nvidia/lib64", False)])
def test_a_folder_that_the_path_has_is_not_missed(path: str, lacks: bool, tmp_path: Path) -> None:
    [found] = [each for each in findings(tmp_path, PLUGIN.format(path)) if each.name == "net-plugin-not-found"]
    assert ("lies in /usr/local/nvidia/lib64" in found.title) is lacks


KEYS = """\
oak5:1:9 [0] transport/net_ib.cc:2307 NCCL WARN NET/IB: Got completion with status=IBV_WC_RETRY_EXC_ERR(12)
$ pdsh -w oak[5-6] 'paste -sd" " <(cat /sys/class/infiniband/mlx5_3/ports/1/pkeys/{{0,1}})'
oak5: 0x7fff {}
oak6: 0x7fff {}
"""


@pytest.mark.parametrize(
    ("mine", "theirs", "name"),
    [
        ("0x0305", "0x0305", "ib-pkey"),
        ("0x8305", "0x0305", "ib-retry"),
        ("0x0305 0x8411", "0x0305 0x8411", "ib-retry"),
        ("0x0000", "0x0000", "ib-retry"),
    ],
)
def test_two_limited_members_alone_cannot_talk(mine: str, theirs: str, name: str, tmp_path: Path) -> None:
    assert findings(tmp_path, KEYS.format(mine, theirs))[0].name == name


def test_one_host_that_does_not_answer_is_no_matter_of_size(tmp_path: Path) -> None:
    text = (
        "a$ ping -c2 -M do -s 8900 b\n2 packets transmitted, 2 received, 0% packet loss, time 1001ms\n"
        "a$ ping -c2 -M do -s 8900 c\n2 packets transmitted, 0 received, 100% packet loss, time 1001ms\n"
    )
    assert all(each.name != "mtu-path" for each in findings(tmp_path, text))


@pytest.mark.parametrize("hangs", ["", "The job hangs in its first step.\n"])
def test_a_protocol_of_one_host_matters_where_the_job_hangs(hangs: str, tmp_path: Path) -> None:
    text = LOGS["ring-on-one-host"].partition("\n")[2]
    found = [each for each in findings(tmp_path, hangs + text) if each.name == "settings-differ"]
    assert [each.severity for each in found] == ([Severity.ERROR] if hangs else [])


def init(rank: int, state: str) -> str:
    who = f"host{rank // 4}:{100 + rank}:{200 + rank} [{rank % 4}]"
    return (
        f"{who} NCCL INFO ncclCommInitRank comm 0x5{rank} rank {rank} nranks 16 cudaDev {rank % 4} nvmlDev {rank % 4} "
        f"busId {rank % 4 + 1}000 commId 0xa - Init {state}\n"
    )


def call(rank: int) -> str:
    who = f"host{rank // 4}:{100 + rank}:{100 + rank} [{rank % 4}]"
    return (
        f"{who} NCCL INFO AllReduce: opCount 0 sendbuff 0x7f2e recvbuff 0x7f2e count 1024 datatype 7 op 0 root 0 comm "
        f"0x5{rank} [nranks=16] stream 0x55\n"
    )


def test_logs_that_are_not_here_are_no_ranks_that_never_began(tmp_path: Path) -> None:
    begun = ["".join(init(rank, "START") for rank in range(host * 4, host * 4 + 4)) for host in (0, 1)]
    more = "the job waits\n" * 3
    [found] = [each for each in findings(tmp_path, *(each + more for each in begun)) if each.name == "init-incomplete"]
    assert "unless the logs of their hosts were left out" in found.title
    whole = [each + init(host * 4, "COMPLETE") + call(host * 4) for host, each in enumerate(begun)]
    assert all(each.name != "init-incomplete" for each in findings(tmp_path, *whole))


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("srun --cpus-per-task=24 python3 t.py\n", None),
        ("export SRUN_CPUS_PER_TASK=24\nsrun python3 t.py\n", None),
        ("srun python3 t.py\n", "cpu-binding"),
    ],
)
def test_srun_that_is_told_gives_what_was_asked_for(script: str, name: str | None, tmp_path: Path) -> None:
    text = f"#SBATCH --cpus-per-task=24\n{script}pid 2211's current affinity list: 0,96\n"
    assert next((each.name for each in findings(tmp_path, text)), None) == name
