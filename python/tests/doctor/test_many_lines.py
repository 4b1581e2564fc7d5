"""What no single line says: orders of collectives, counts of workers, which came first, what is tried until the end."""

from __future__ import annotations

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.snapshot import Snapshot, TextFile


def said(*texts: str) -> list[Finding]:
    logs = tuple(TextFile(f"rank{at}.log", text + "\n") for at, text in enumerate(texts))
    return [each for each in examine(gather(Snapshot("saved", logs=logs))) if each.severity is not Severity.NOTE]


def names(*texts: str) -> list[str]:
    return [each.name for each in said(*texts)]


def waits(rank: int, op: str, seq: int = 7, size: int = 64, group: str = "", mine: int | None = None) -> str:
    who = f"[PG ID {group} PG GUID {group}(g) Rank {rank if mine is None else mine}] " if group else ""
    inner = rank if mine is None else mine
    return (
        f"[rank{rank}]:[E521 02:10:01.11 ProcessGroupNCCL.cpp:685] {who}[Rank {inner}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={size}, NumelOut={size}, Timeout(ms)=60000) "
        "ran for 60031 milliseconds before timing out."
    )


def test_different_collectives_at_one_place_are_told_with_their_ranks() -> None:
    (found,) = said(waits(0, "ALLGATHER"), waits(5, "ALLREDUCE"), waits(3, "ALLREDUCE"))
    assert found.name == "collective-order"
    assert "as number 7: rank 0 calls ALLGATHER; rank 3, 5 calls ALLREDUCE of 64 elements" in found.title


def test_one_collective_with_two_sizes_is_told_where_all_must_give_as_many() -> None:
    assert names(waits(0, "ALLREDUCE", size=64), waits(1, "ALLREDUCE", size=65)) == ["collective-order"]
    assert names(waits(0, "ALLTOALL", size=64), waits(1, "ALLTOALL", size=65)) == ["watchdog-timeout"]


def test_places_of_different_numbers_groups_or_unknown_groups_are_not_laid_side_by_side() -> None:
    assert names(waits(0, "ALLGATHER", seq=7), waits(1, "ALLREDUCE", seq=8)) == ["watchdog-timeout"]
    assert names(waits(0, "ALLGATHER", group="3"), waits(1, "ALLREDUCE", group="4")) == ["watchdog-timeout"]
    # Ranks 8 and 9 of the job are 0 and 1 of a group that no line names: it may be two groups.
    assert names(waits(8, "ALLGATHER", mine=0), waits(9, "ALLREDUCE", mine=1)) == ["watchdog-timeout"]
    assert names(waits(8, "ALLGATHER", group="3", mine=0), waits(9, "ALLREDUCE", group="3", mine=1)) == [
        "collective-order"
    ]


@pytest.mark.parametrize(("ranks", "workers", "stale"), [(4, 8, True), (8, 8, False), (8, 7, False)])
def test_more_workers_than_ranks_are_another_jobs(ranks: int, workers: int, stale: bool) -> None:
    line = (
        f"Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
        f"(world_size={ranks}, worker_count={workers}, timeout=0:30:00)"
    )
    assert ("stale-store" in names(line)) is stale


TIMEOUT = "[12.1] mlx5_core 0000:9a:00.0 ens1np0: TX timeout detected"
LOCKUP = "[99.1] watchdog: BUG: soft lockup - CPU#44 stuck for 63s! [ksoftirqd/44:288]"


def test_of_two_that_may_cause_each_other_the_first_did() -> None:
    assert names(f"{TIMEOUT}\n{LOCKUP}") == ["nic-hang"]
    assert names(f"{LOCKUP}\n{TIMEOUT}") == ["kernel-hang", "nic-hang"]


TRIED = "E0902 09:58:02.1 1 driver.go:310] failed to open the session with the frobnicator, will retry"


def test_what_is_tried_again_until_the_log_ends_is_told() -> None:
    (found,) = said(f"I0902 started\n{TRIED}\n{TRIED.replace('02.1', '12.1')}")
    assert found.title.startswith("something is tried again until the log ends") and found.evidence[0].line == 3
    # The end of the log is far behind it, or the job goes on: it was mended by itself.
    assert names("\n".join([TRIED, *(f"I0902 line {at}" for at in range(9))])) == []
    assert names(f"{TRIED}\nstep 12 loss 2.31 time 0.8") == []


SILENT = (
    "E external/xla/coordination_service.cc:1204] The following tasks are unhealthy (stopped sending heartbeats): "
    "/job:jax_worker/replica:0/task:3 The tasks have crashed. Check the task logs for an earlier error, or scheduler "
    "events (e.g. preemption, eviction) to debug further."
)


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("NVRM: Xid (PCI:0000:4e:00): 79, pid=1, GPU has fallen off the bus.", "gpu-off-bus"),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1717 bytes.", "gpu-memory-full"),
        ("Memory cgroup out of memory: Killed process 4411 (python3) total-vm:1882122kB", "host-memory"),
        ("srun: error: Node failure on gpu-12", "node-lost"),
    ],
)  # fmt: skip
def test_a_task_that_is_not_heard_any_more_is_an_effect(cause: str, name: str) -> None:
    assert names(f"{cause}\n{SILENT}") == [name]
    (alone,) = said(SILENT)
    assert alone.name == "heartbeat-lost" and "task 3" in alone.title


REFUSALS = """
--data_validation is only supported in bandwidth tests
Already running
 Bad wc status -- 4 -- 2
 DC does not support RDMA_CM
 Found Incompatibility issue with GID types.
 IP_V4_header pointer is Null
 NUMA node 9 does not exist (available: 0-1)
 Polled RDMA_WRITE completion without invalid recv credit request
 Problems with warm up
 Received 10 times ADDR_ERROR
 Requested mtu is higher than active mtu
 rcnt=3
 scnt=3, ccnt=2
 unexpected CM event 7
"""


@pytest.mark.parametrize("line", REFUSALS.strip("\n").split("\n"))
def test_a_checker_that_refuses_or_ends_is_never_silent(line: str) -> None:
    prompt = "$ ib_write_bw -d mlx5_0 node2\n"
    (found,) = said(prompt + line)
    assert found.name in {"ibv-call-failed", "bad-arguments", "ib-connect-timeout"}
    # Without a word of who wrote it such a line tells nothing.
    assert names("$ ./train.sh\n  everything must be above zero") == []


@pytest.mark.parametrize(
    "line",
    [
        " Changing to active mtu - 3",
        " Setting burst size to tx depth = 3",
        "WARNING: BW peak won't be measured in this run.",
    ],
)
def test_what_a_checker_does_another_way_is_no_fault(line: str) -> None:
    assert names("$ ib_write_bw -d mlx5_0 node2\n" + line) == []


@pytest.mark.parametrize(("provider", "name"), [("cxi", "slingshot"), ("efa", "efa-error")])
def test_what_a_provider_of_libfabric_says_while_it_runs_is_no_missing_network(provider: str, name: str) -> None:
    line = f"libfabric:4517:1708520807::{provider}:ep_ctrl:fn():1045<warn> Failed to find TX ID: 3"
    assert names(line) == [name]


def test_what_a_program_said_stands_before_the_init_that_it_left_open() -> None:
    comm = "ncclCommInitRank comm 0x5 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xa - Init START"
    log = (
        f"n0:10:20 [0] NCCL INFO {comm}",
        "[rank0]: RuntimeError: Mesh dim names (a) do not cover the world of 256 ranks",
        "W0814 06:34:52.848000 316 torch/distributed/elastic/multiprocessing/api.py:908] Sending process 382 closing "
        "signal SIGTERM",
    )
    assert names("\n".join(log)) == ["python-exception", "killed-by-launcher"], "the init follows from what was said"
    assert names("\n".join((log[0], log[2])))[0] == "init-incomplete"
