"""What stands still though nobody lags, and what stands between programs and CUDA: told by all that a log knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.finding import Severity

from .asked import is_claimed, logs_of, loud

LOGS = logs_of("f173-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        (
            "stands-on-both-nodes",
            "They stand alike on both nodes, so that none of these lags",
            "nccl-tests' all_reduce_perf over",
        ),
        ("stands-on-named-pods", "several hosts (trainer-master-0, trainer-worker-0)", "NCCL_SOCKET_IFNAME"),
        ("stands-on-one-host", "all 4 ranks that the log knows, so that none lags", "NCCL_P2P_DISABLE=1"),
        ("result-without-a-name", "two versions of NCCL meet in one process", "torch.cuda.nccl.version()"),
        ("code-out-of-range", "returned 4096, which is none of its results", "/proc/PID/maps"),
        ("never-comes-back", "all 2 ranks met (Init COMPLETE)", "NCCL_P2P_DISABLE=1"),
        ("set-up-under-a-hook", "HAMi-core (libvgpu.so) stands between", "CUDA_DISABLE_CONTROL=true"),
        ("set-up-under-a-hook", "before anything is loaded or compiled", "py-spy dump"),
        ("hook-under-an-error", "HAMi-core (libvgpu.so) stands between", "CUDA_DISABLE_CONTROL=true"),
        ("descriptor-closed", "a socket of NCCL's set-up was closed", "ulimit -n"),
        ("either-of-both", "its process ended, or the network between them failed", "NCCL_SOCKET_IFNAME"),
        ("nic-without-address", "a nic without its PCI address (busid)", "NCCL_TOPO_FILE"),
        ("server-without-nccl", "cannot be loaded: libnccl.so.2", "VLLM_NCCL_SO_PATH"),
    ],
)
def test_what_is_suspect_is_told_by_what_the_log_knows(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title, first.title
    assert fix in first.fix and first.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stands-on-both-nodes", "[rank7]:[E ProcessGroupNCCL.cpp:607] [Rank 7]", "[rank1]:[E P.cpp:607] [Rank 1]"),
        ("stands-on-both-nodes", "--nnodes 2", "--nnodes 4"),
        ("stands-on-one-host", "finetune.py", "--num_machines 2 finetune.py"),
        ("stands-on-one-host", "finetune.py", "finetune.py --hostfile hosts"),
        ("stands-on-named-pods", "trainer-worker-0", "trainer-master-0"),
    ],
    ids=["one node alone", "two nodes of four", "one host of two", "one of a list", "one pod"],
)
def test_ranks_that_say_nothing_are_looked_at_where_some_are_left(
    name: str, old: str, new: str, tmp_path: Path
) -> None:
    text = LOGS[name].replace(old, new)
    if "[rank1]" in new:
        text = text.replace("[rank5]", "[rank3]").replace("[Rank 5]", "[Rank 3]")
    assert "look at the ranks that say nothing" in loud(text, tmp_path)[0].title


def test_of_five_processes_the_one_that_says_nothing_is_named(tmp_path: Path) -> None:
    text = LOGS["stands-on-one-host"] + "api.py:897] Sending process 7799 closing signal SIGTERM\n"
    assert "rank 4 alone of these 5 does not say so" in loud(text, tmp_path)[0].title


def test_sizes_that_differ_are_no_transfer_that_stands_still(tmp_path: Path) -> None:
    text = LOGS["stands-on-one-host"].replace("NumelIn=4194304, NumelOut=4194304", "NumelIn=1, NumelOut=1", 1)
    assert not is_claimed("none lags", text, tmp_path)


def test_a_setting_that_helps_tells_more_than_that_nobody_lags(tmp_path: Path) -> None:
    text = f"{LOGS['stands-on-one-host']}With NCCL_P2P_DISABLE=1 it trains fine.\n"
    first = loud(text, tmp_path)[0]
    assert first.title.startswith("transfers from GPU to GPU (P2P) hang or fail here")


def test_an_interface_in_a_list_is_suspect_only_between_hosts(tmp_path: Path) -> None:
    text = LOGS["descriptor-closed"]
    assert not is_claimed("other hosts cannot reach", text, tmp_path)
    assert is_claimed("other hosts cannot reach", text.replace("process_count: 1", "process_count: 2"), tmp_path)


def test_a_hook_is_no_suspect_where_it_is_the_same_without(tmp_path: Path) -> None:
    text = f"{LOGS['set-up-under-a-hook']}Without HAMi on whole GPUs it is still the same.\n"
    assert not is_claimed("stands between", text, tmp_path)


def test_workers_that_load_a_model_have_met(tmp_path: Path) -> None:
    line = "(Worker pid=88) INFO 02-03 09:00:20 [gpu_model_runner.py:3338] Starting to load model /m/q...\n"
    assert not is_claimed("before anything is loaded", LOGS["set-up-under-a-hook"] + line, tmp_path)


def test_a_peer_that_closed_its_connection_has_ended(tmp_path: Path) -> None:
    text = f"{LOGS['either-of-both']}larch:1:2 [0] NCCL WARN Net : Connection closed by remote peer ash<40112>\n"
    assert not is_claimed("leaves both open", text, tmp_path)
