"""Figures and state that stand beside a slow result: who and what they name, and where they tell of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.finding import Finding

from .corpus import healthy
from .corpus.load import cases
from .test_shown import loud

MINE = {each.name: each.text for each in cases() if each.name.startswith("f121-")}
TWINS = {name: text for name, text in healthy.logs() if name.startswith("h121-")}


def first(folder: Path, name: str) -> Finding:
    return loud(folder, MINE[f"f121-{name}"])[0]


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("list-of-far-nics", "takes mlx5_0,mlx5_1, which lie on another socket", "NCCL_IB_HCA=mlx5_2,mlx5_3 on all"),
        ("limit-lowered-feed-lost", "GPU 0 to GPU 1 (2) of fern2 may draw 450 W of 700 W", "leave fern2 out"),
        ("limit-lowered-feed-lost", "power supplies lost their feed there (PSU_4)", "their feed again"),
        ("limit-lowered-of-one", "GPU 00000000:19:00.0 of heath7 may draw 500 W of 700 W", "-pl 700"),
        ("orphan-on-one-gpu", "python3 (pid 41007, its parent is gone), computes on GPU 00000000:31:00.0", "-p 41007"),
        ("two-jobs-one-set-of-cores", "4 processes may run on processors 0-3 alone", "processors of its own"),
        ("class-of-another-priority", "in priority 5, which drops them, and not in priority 3", "NCCL_IB_TC=106 "),
        ("port-trusts-pcp", "the NIC goes by PCP and not by the DSCP of NCCL_IB_TC=106", "--trust dscp"),
        (
            "one-uplink-of-four",
            "the uplinks of leaf7 are loaded unevenly (Et30/1 97.8% out, 3 of 4",
            "UDP's source port",
        ),
        ("one-rank-waits-for-its-batch", "in 2 of 4 reports (up to 2.0 s, the fastest rank 4 ms)", "local disk"),
        ("stack-in-the-loader", "the rank of oak2 waits for its data", "NFS: nas:/corpus on /corpus"),
        ("bits-of-a-switch-port", "the link of fen-leaf2 port 9 has bit errors", "replace the cable"),
        ("rate-of-bad-bits", "the link of fen4/mlx5_2 has bit errors (BER above its limit)", "(SN MT2501AA0077)"),
    ],
)
def test_what_the_figures_tell_is_named(name: str, title: str, fix: str, tmp_path: Path) -> None:
    told = first(tmp_path, name)
    assert title in told.title and fix in told.fix


def test_uplinks_of_which_one_shows_one_direction_are_compared_in_that_alone(tmp_path: Path) -> None:
    text = MINE["f121-one-uplink-of-four"].replace("400.0   0.1%    1200        0.0", "400.0   0.1     1200        0.0")
    assert "uplinks-uneven" not in [each.name for each in loud(tmp_path, text)]


def test_a_script_that_exports_is_read_as_a_shell_reads_it(tmp_path: Path) -> None:
    far = MINE["f121-list-of-far-nics"]
    assert not any(each.name == "conf-files" for each in loud(tmp_path, far))
    # In a file that NCCL reads itself the word becomes part of the name.
    assert any(each.name == "conf-files" for each in loud(tmp_path, far.replace("job.env", "/etc/nccl.conf")))


def test_processes_of_one_name_are_told_apart_by_when_they_were_started(tmp_path: Path) -> None:
    row = "|    {}   N/A  N/A {:16d}      C   /opt/env/bin/python                    60100MiB |\n"
    steps = "step 200 | tok/s 5120 | mfu 11.0%\nstep 210 | tok/s 5098 | mfu 11.0%\n"
    job = steps + "".join(row.format(gpu, 70100 + gpu) for gpu in range(4))
    (one,) = loud(tmp_path, job + row.format(2, 1204))
    assert one.name == "gpu-shared" and "(pid 1204), computes on GPU 2 " in one.title
    assert loud(tmp_path, job + row.format(0, 70301)) == []
    assert loud(tmp_path, job + "".join(row.format(gpu, 9100 + gpu) for gpu in range(4))) == []


def test_cores_that_are_full_like_all_others_tell_nothing(tmp_path: Path) -> None:
    log = MINE["f121-two-jobs-one-set-of-cores"]
    assert loud(tmp_path, log.replace("99.7 id", " 1.0 id")) == []


def test_a_priority_that_drops_packets_of_others_is_not_blamed(tmp_path: Path) -> None:
    log = MINE["f121-class-of-another-priority"].replace("NCCL_IB_TC=160", "NCCL_IB_TC=106")
    assert "priority" not in loud(tmp_path, log)[0].title


def test_a_rate_below_its_limit_and_a_link_without_errors_are_nothing(tmp_path: Path) -> None:
    assert loud(tmp_path, MINE["f121-rate-of-bad-bits"].replace("6E-10", "15E-255")) == []


def test_nics_that_no_gpu_in_use_is_beside_are_no_loss(tmp_path: Path) -> None:
    near = TWINS["h121-list-of-near-nics"]
    assert loud(tmp_path, near) == []
    told = loud(tmp_path, near.replace("NCCL_IB_HCA=mlx5_2,mlx5_3", "NCCL_IB_HCA=mlx5_2"))
    assert [each.name for each in told] == ["network-interface"]
