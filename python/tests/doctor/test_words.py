"""No pattern of words.txt can be lost unseen, and no cause of causes.txt falls behind its effect."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.lines.candidates import of_all
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.signatures import SIGNATURES

from .corpus.load import cases

WORDS = Path(__file__).parent / "corpus" / "words.txt"
CAUSES = WORDS.with_name("causes.txt")
LINES = [
    (name, line)
    for name, _, line in (each.partition(" | ") for each in WORDS.read_text(encoding="utf-8").splitlines())
    if line and not name.startswith("#")
]


@pytest.mark.parametrize(("name", "line"), LINES, ids=[f"{name}-{at}" for at, (name, _) in enumerate(LINES)])
def test_one_pattern_knows_the_line(name: str, line: str) -> None:
    signature = SIGNATURES[name]
    assert signature.match(line, line.lower()) is not None
    knowing = [each for each in signature.patterns if re.search(each, line, re.IGNORECASE)]
    assert len(knowing) == 1, knowing


PAIRS = [tuple(each.split(" > ")) for each in CAUSES.read_text(encoding="utf-8").splitlines() if each[:1] != "#"]


@cache
def lines_of_one() -> dict[str, str]:
    """By signature, the shortest line of which it speaks alone."""
    known = tuple(SIGNATURES.values())
    index = of_all(known)
    others = sorted({line for case in cases() for line in case.text.splitlines() if 15 < len(line) < 200}, key=len)
    found: dict[str, str] = {}
    for line in [line for _, line in LINES] + others:
        low = line.lower()
        speak = [each.name for each, among in index.of(low).candidates if each.match(line, low, among) is not None]
        if len(speak) == 1:
            found.setdefault(speak[0], line)
    return found


@pytest.mark.parametrize(("cause", "effect"), PAIRS, ids=[" > ".join(each) for each in PAIRS])
def test_the_cause_stands_before_its_effect(cause: str, effect: str) -> None:
    text = "\n".join((lines_of_one()[effect], lines_of_one()[cause], ""))
    said = {each.name: each for each in examine(gather(Snapshot("x", logs=(TextFile("job.log", text),))))}
    assert said[cause].severity is not Severity.NOTE and said[effect].severity is Severity.NOTE
    assert said[effect].title.startswith("follows from ")


OTHERS = [
    tuple(line.split(" | ", 1))
    for line in WORDS.with_name("not-words.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(("name", "line"), OTHERS, ids=[name for name, _ in OTHERS])
def test_a_line_of_something_else_is_left_to_others(name: str, line: str) -> None:
    signature = SIGNATURES[name]
    assert any(re.search(each, line, re.IGNORECASE) for each in signature.patterns), (
        "no pattern fits: a test of nothing"
    )
    assert signature.match(line, line.lower()) is None


@pytest.mark.parametrize(
    ("trait", "names"),
    [
        (
            "between_nodes",
            "address-twice collnet-no-plugin gdr-unavailable ib-devices-missing ib-port-down libibverbs-missing "
            "link-below name-is-loopback "
            "net-plugin-not-found ofi-slow-provider one-nic openib-unused "
            "pause-storm plugin-not-loaded plugin-system-old rdma-exclusive roce-loss roce-refused software-rdma "
            "topology-hidden wrong-interface wsl-nat",
        ),
        (
            "soft",
            "connection-backlog connection-returned driver-upgrade gdrcopy hcoll job-pending killed-by-launcher "
            "kubernetes-event "
            "memory-fragments mpi-setup mpi-shared-file network-tables not-a-number openib-unused p2p-broken "
            "probe-failed remote-error returned-error server-waits service-missing stale-id stands-still store-lost"
            " ucc-context",
        ),
        (
            "last",
            "connection-returned gloo-error kubernetes-event mpi-other process-killed rank-ended ray-error "
            "returned-error slurm-error torch-distributed-error xla-error",
        ),
        ("echo", "connection-returned returned-error stands-still"),
        ("repeats", "ranks-alike"),
    ],
)
def test_who_has_a_trait_is_decided_here(trait: str, names: str) -> None:
    assert [each.name for each in SIGNATURES.values() if getattr(each, trait)] == names.split()


def severities(*lines: str) -> dict[str, Severity]:
    text = "\n".join((*lines, ""))
    return {each.name: each.severity for each in examine(gather(Snapshot("x", logs=(TextFile("job.log", text),))))}


def test_a_crash_before_others_wait_is_no_sequel_of_the_wait() -> None:
    crash = "n0: Segmentation fault (core dumped)"
    waits = "INFO [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds."
    assert severities(crash, waits)["process-crashed"] is not Severity.NOTE
    assert severities(waits, crash)["process-crashed"] is Severity.NOTE


def test_what_is_only_worth_knowing_is_no_cause_of_a_cancelled_job() -> None:
    rates = ["\tRate: 100", "\tRate: 400"]
    cancelled = "slurmstepd: error: *** JOB 5 ON n0 CANCELLED AT 2026-11-28T07:00:00 ***"
    found = severities(*rates, cancelled)
    assert found["port-rates"] is Severity.NOTE and found["job-cancelled"] is not Severity.NOTE


def test_gpu_direct_that_one_of_the_devices_has_is_not_told_as_missing() -> None:
    head = "n0:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA "
    off, on = f"{head}Disabled for HCA 0 'mlx5_0'", f"{head}Enabled for HCA 1 'mlx5_1'"
    assert severities(off)["no-gdr"] is Severity.WARNING
    assert "no-gdr" not in severities(off, on)


def test_the_way_back_of_an_error_is_told_only_where_nothing_says_why() -> None:
    ways = ["n0:1:2 [0] NCCL INFO misc/socket.cc:564 -> 2", "n0:1:2 [0] NCCL INFO init.cc:1303 -> 2"]
    why = "n0:1:2 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to n1<9> failed : Connection refused"
    assert severities(*ways) == {"connection-returned": Severity.ERROR}
    assert {"connection-returned", "returned-error"}.isdisjoint(severities(why, *ways))
    assert severities(ways[1]) == {"returned-error": Severity.ERROR}
    step = "epoch 3 step 120 loss 1.8 it/s 2.1"
    assert severities(ways[0], step, step) == {"connection-returned": Severity.NOTE}, "the job went on"


@pytest.mark.parametrize("mark", ["", "[0]", "[1,0]<stdout>:"])
def test_a_row_in_two_pieces_with_a_launchers_mark_is_a_row(mark: str) -> None:
    head = [f"{mark}#       size         count      type   redop    root     time   algbw   busbw #wrong",
            f"{mark}#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"]  # fmt: skip
    row = f"{mark}      1048576        262144     float     sum      -1{mark}    1626.5    0.64    1.24      0"
    assert "stuck-in-collective" in severities(*head)
    assert "stuck-in-collective" not in severities(*head, row)


def test_who_guesses_at_reasons_names_none() -> None:
    guess = "UNAVAILABLE: Failed to send RPC. Either the leader task was preempted/died/restarted unexpectedly."
    assert "job-cancelled" not in severities(guess)
    assert "job-cancelled" in severities("slurmstepd: error: *** JOB 7 ON n1: preempted ***")


def test_what_kept_ranks_apart_before_a_step_is_no_cause_of_what_came_after_it() -> None:
    warns = "[W socket.cpp:697] [c10d] The client socket has failed to connect to [n1]:29500"
    apart = f"{warns} (errno: 99 - Cannot assign requested address)."
    step, crash = "step 120 | loss 2.41 | 3.1 s/it", "n0: Segmentation fault (core dumped)"
    assert severities(apart, crash)["master-unreachable"] is Severity.ERROR
    found = severities(apart, step, step, crash)
    assert found["master-unreachable"] is Severity.NOTE and found["process-crashed"] is Severity.ERROR


@pytest.mark.parametrize("end", ["", "[rank1]: RuntimeError: CUDA error: out of memory"])
def test_an_init_without_an_end_is_no_hang_behind_which_results_come(end: str) -> None:
    begins = "ncclCommInitRank comm 0x5 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1 commId 0x8f - Init START"
    init = f"n0:1:2 [0] NCCL INFO {begins}"
    result = "# Avg bus bandwidth    : 61.2"
    assert "init-incomplete" in severities(init, "# a line", "# another", "# a third")
    assert ("init-incomplete" in severities(init, result, end)) is bool(end)


def test_a_virtual_gpu_is_told_only_with_the_error() -> None:
    gpu, call = (
        "GPU 0: NVIDIA A100-40C (UUID: GPU-4e71c0d2)",
        "n0:1:2 [0] init.cc:426 NCCL WARN Cuda failure 801 'operation not supported'",
    )
    assert "vgpu-no-uvm" not in severities(gpu) | severities(call)
    assert severities(gpu, call)["vgpu-no-uvm"] is Severity.ERROR


def test_evidence_of_what_lines_tell_together_holds_a_line_of_each_part() -> None:
    refused = "n0:1:2 [0] mnnvl.cc:67 NCCL WARN MNNVL (cliqueSize 8) is available but not working on this system."
    gone = "ls: cannot access '/dev/nvidia-caps-imex-channels': No such file or directory"
    text = "\n".join((*[refused] * 9, gone, ""))
    found = examine(gather(Snapshot("x", logs=(TextFile("job.log", text),))))[0]
    assert found.name == "imex-channel"
    assert [each.fact for each in found.evidence][:3] == [refused, refused, gone]


def test_the_sentence_below_a_watchdog_is_of_its_rank() -> None:
    failed = "[rank0]: KeyError: 'completion'"
    told = "[rank3]:[E1 x.cpp:5] [Rank 3] Collective raised the following async exception: NCCL error: remote process"
    last = "NET/IB: Got completion from peer 10.3.0.12<514> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
    said = severities("Traceback (most recent call last):", failed, told, "Last error:", last)
    assert said["python-exception"] is Severity.ERROR and said["ib-retry"] is Severity.NOTE
