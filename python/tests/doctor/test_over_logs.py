"""Causes that only several logs show together, and words of a title that a name alone does not prove."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

WARN = "[0] bootstrap.cc:77 NCCL WARN Message truncated : received 184 bytes instead of 136\n"
RETRY = (
    "k1:31:40 [1] transport/net_ib.cc:2068 NCCL WARN NET/IB: Got completion from peer 10.9.0.2<40114> with "
    "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err=129 req_type=Send "
    "localGid ::ffff:10.50.2.1 remoteGids::ffff:10.50.{}.2 hca mlx5_1\n"
)


def first(tmp_path: Path, **texts: str) -> tuple[str, str]:
    """Name and title of the first finding on these logs."""
    for name, text in texts.items():
        (tmp_path / f"{name}.log").write_text(text)
    asked = [sys.executable, "-m", "busbw", "doctor", "--json", str(tmp_path)]
    found = json.loads(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)["findings"][0]
    return found["name"], found["title"]


def test_versions_of_two_logs_stand_before_the_messages_that_were_cut(tmp_path: Path) -> None:
    one = f"NCCL version 2.18.1+cuda12.1\nk1:7:9 {WARN}"
    name, title = first(tmp_path, k1=one, k2="k2:8:9 [0] NCCL INFO NCCL version 2.25.1+cuda12.2\n")
    assert name == "library-versions"
    assert "2.18.1 and 2.25.1" in title


def test_equal_versions_of_two_logs_explain_nothing(tmp_path: Path) -> None:
    one = f"NCCL version 2.18.1+cuda12.1\nk1:7:9 {WARN}"
    assert first(tmp_path, k1=one, k2="NCCL version 2.18.1+cuda12.1\n")[0] == "message-truncated"


def test_rails_are_named_where_two_subnets_were_paired(tmp_path: Path) -> None:
    assert "10.50.2 sends to one of subnet 10.50.3" in first(tmp_path, k1=RETRY.format(3))[1]


def test_rails_are_not_named_within_one_subnet(tmp_path: Path) -> None:
    name, title = first(tmp_path, k1=RETRY.format(2))
    assert name == "ib-retry"
    assert "rail" not in title


def test_who_waits_for_rank_0_in_a_monitored_barrier_does_not_say_that_it_lags(tmp_path: Path) -> None:
    text = (
        "[rank1]:[E1 13:23:33.47 ProcessGroupGloo.cpp:67] Rank 1 successfully reached monitoredBarrier, but received "
        "errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
        "[rank0]:[E1 13:23:33.49 ProcessGroupGloo.cpp:2708] [Rank 0]: Rank 5 failed to pass monitoredBarrier in 9 ms\n"
    )
    assert "rank 5 lags" in first(tmp_path, k1=text)[1]
