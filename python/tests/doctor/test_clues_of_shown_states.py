"""Counters, addresses, files and lists beside an error name its cause; what only looks like them does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of, loud

LOGS = logs_of("f160-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("link-by-columns", "the link of mlx5_2 on pike7 is bad", "NCCL_IB_HCA=^mlx5_2"),
        ("one-peer-for-all", "to pike9 (10.8.0.9) over mlx5_3 get no answer", "on pike9 look at the link of mlx5_3"),
        ("ranks-of-two-hosts", "ranks 0, 1 of 4 are on oak1 and on oak2", "1 on oak2"),
        ("addresses-of-two-subnets", "ens1np0 has 10.61.1.5/24 on elm2", "10.60.1.0/24 or 10.61.1.0/24"),
        ("table-without-address", "GID index 3 of mlx5_2 on fir4 is empty", "give ens2np0 on fir4 its IPv4 address"),
        ("gids-all-zero", "its interface ens2np0 has no IPv4 address", "give ens2np0 on fir4 its IPv4 address"),
        ("interface-of-a-file", "stands in /etc/nccl.conf", "delete that line of /etc/nccl.conf"),
        ("interface-without-carrier", "is DOWN and has no address on yew2", "NCCL_SOCKET_IFNAME=ens10"),
        ("port-of-the-other-job", "another job of this host, which runs", "give each job a port of its own"),
        ("devices-only-mounted", "the folder is only mounted (-v /dev/infiniband", "--device=/dev/infiniband in place"),
        ("bridge-of-docker", "on Docker's default bridge", "start the containers on all hosts with --network=host"),
        ("left-by-dead-workers", "files that an ended job left there", "find /dev/shm -user ines -delete"),
        ("no-such-service", "there is no service trainer-master", "make a headless service trainer-master"),
        ("limit-of-tasks", "is 65536 KiB where the ranks run", "LimitMEMLOCK=infinity"),
    ],
)
def test_what_is_shown_beside_an_error_sharpens_it(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "old", "new", "lost"),
    [
        ("link-by-columns", "mlx5_4 0 2 0", "mlx5_4 88104 2 310", "it alone counts errors"),
        ("one-peer-for-all", "from peer 10.8.0.9<40336>", "from peer 10.8.0.2<40336>", "one NIC of"),
        ("ranks-of-two-hosts", "oak2: worker up: RANK=1", "oak2: worker up: RANK=2", "the same node rank"),
        ("addresses-of-two-subnets", "/24", "/8", "different subnets, and no route joins them: ens1np0"),
        ("table-without-address", "fe80:0000:0000:0000:0ac0:ebff:fe11:4455                 v2",
         "0000:0000:0000:0000:0000:ffff:0a01:0204 10.1.2.4        v2", "is empty"),
        ("interface-of-a-file", "NCCL_DEBUG=WARN", "NCCL_SOCKET_IFNAME=ib0", "stands in /etc/nccl.conf"),
        ("interface-without-carrier", "    link/ether", "    inet 10.5.5.1/24\n    link/ether", "has no address"),
        ("port-of-the-other-job", "while the first job keeps running", "and the first job has ended", "no left-over"),
        ("port-of-the-other-job", "while the first job keeps running", "and no other job is running", "no left-over"),
        ("devices-only-mounted", "-v /dev/infiniband:/dev/infiniband:rw", "--device=/dev/infiniband", "only mounted"),
        ("bridge-of-docker", "docker run", "docker run --network=host", "default bridge"),
        ("left-by-dead-workers", "126G  126G     0 100%", "126G   12G  114G  10%", "left there"),
        ("no-such-service", "trainer-ui ", "trainer-master ", "there is no service"),
    ],
)  # fmt: skip
def test_without_its_evidence_nothing_is_claimed(name: str, old: str, new: str, lost: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert not is_claimed(lost, LOGS[name].replace(old, new), tmp_path)


def test_left_overs_of_a_process_that_may_run_are_not_called_so(tmp_path: Path) -> None:
    text = LOGS["left-by-dead-workers"].replace("ps -p 4410,4412", "date")
    found = loud(text, tmp_path)[0]
    assert "unless it still runs" in found.title
    assert found.fix.startswith("see that nobody has them open")


def test_a_large_shm_that_nobody_listed_is_not_cured_by_a_larger_one(tmp_path: Path) -> None:
    text = "\n".join(line for line in LOGS["left-by-dead-workers"].splitlines() if "torch_44" not in line)
    found = loud(text, tmp_path)[0]
    assert "though it is large" in found.title
    assert "--shm-size" not in found.fix
