"""Healthy logs that were cut off: what a log no longer shows is no fault, and an open end is called one."""

from __future__ import annotations

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.verdict import Outcome, verdict

from .cases import said
from .corpus import healthy

UNTOLD = {
    "libibverbs-missing": "that the job runs on one node is said further down",
    "wrong-interface": "that the job runs on one node is said further down",
    "no-gdr": "that the job runs on one node is said further down",
    "master-unreachable": "a rank that is early tries again, and it is not yet said that it came through",
    "ports-exhausted": "a rank that is early tries again, and it is not yet said that it came through",
    "connection-refused": "a rank that is early tries again, and it is not yet said that it came through",
    "ib-connect-timeout": "a NIC tries again, and it is not yet said that it came through",
    "ibv-call-failed": "a NIC tries again, and it is not yet said that it came through",
    "connection-backlog": "that all ranks came through is said further down",
    "hcoll": "that the benchmark ran without it is said further down",
    "dns": "a rank that is early tries again, and it is not yet said that it came through",
    "numa-binding-denied": "that the job ran with it is said further down",
    "iommu-fault": "that the job ran with it is said further down",
    "store-lost": "that the job had ended is said further down",
    "ranks-alike": "that the second fit went on is said further down",
    "slurm-resources": "that the pod found its place is said further down",
    "killed-by-launcher": "that the job was started anew is said further down",
    "ray-error": "that the workers came is said further down",
    "unknown-error": "that the job went on is said further down",
    "command-not-found": "that the job ended well is said further down",
    "ib-devices-missing": "that the job ended well is said further down",
    "gdrcopy": "that the job ended well is said further down",
    "stuck-in-collective": "the first row stands further down",
    "server-waits": "that it was a compilation is said further down",
    "file-system-stall": "that the server came back is said further down",
    "file-system": "that the server came back is said further down",
    "nvlink-error": "that the board has links for bridges is said further up",
}
"""What the part before the cut says, and only the part behind it takes back."""
BY_THE_WHOLE = {
    "h174-no-switches-to-manage": "that the cards have no NVSwitches is said in its head",
    "h172-tree-of-two": "that two ranks reach what a port carries is said in the table behind the command",
    "h164-at-its-own-limit": "the list of reasons is whole, and the limit stands behind it",
    "h159-resumes-from-nothing": "that it starts from nothing is said behind the traceback",
    "h155-cable-put-back": "that the cable is back is said further down",
    "h155-ctrl-c-when-done": "that the work was done is said in the middle",
    "h147-lanes-of-a-spark": "that the machine is one with a GB10 is said in its head",
    "h147-one-of-three-bridges": "that the other card has as many links is said further down",
    "h136-shared-memory-alone": "that the job may use shared memory alone, and its results, stand apart",
    "h136-old-exception": "the date of today, and that the diagnosis passed, are said further down",
    "h130-causes-of-revisions": "that they are of a history is said in its head",
    "h130-releases-of-an-operator": "that a later release went well is said further down",
    "h130-upgrades-that-went-through": "that a later upgrade went well is said further down",
    "h130-switch-port-back": "that the port came back, and works, is said further down",
    "h130-link-back-and-listed": "that the link came back, and works, is said further down",
    "h130-events-of-days-before": "that all goes well today is said further down",
    "h130-old-kernel-log-behind-a-good-run": "the date of today, and that the run ended, are said further up and down",
    "h130-row-replaced-since": "that the row was replaced is said further down",
    "h130-warnings-of-a-paper": "that TeX says it is said further up",
    "h130-a-paper-that-is-set": "that TeX says it is said further up",
    "h130-bound-to-a-core-each": "that the run went well is said further down",
    "h130-topology-file-is-gone-and-nothing-is-lost": "that the run went well is said further down",
    "h126-preempted-last-week": "that the job goes on is said further down",
    "h123-program-text": "that it is a program's source is said by the lines above",
    "h123-magazine": "that nobody tells of an own fault is said by all sentences together",
    "h123-port-left-without-cable": "that the port is left without a cable is said further down",
    "h123-ethernet-beside-compute-ports": "that others are of InfiniBand is said further up and down",
    "h123-full-power-in-the-table": "the limit and the other reasons are said further up and down",
    "h123-feed-that-came-back": "that the feed came back is said further down",
    "h123-flap-of-last-month": "that the link came back, and is so since a month, is said further down",
    "h123-machine-sound-program-not": "that the machine is sound is said further up",
    "h123-window-given-later": "that the device got its window is said further down",
    "h123-handbook-example": "that it is an example is said further up",
    "h35-azure-nd-boot": "that the machine boots is said in its first line",
    "h37-oci-bm-boot": "that the machine boots is said in its first line",
    "h35-aer-corrected-three": "that it was corrected is said further up",
    "h35-edac-ce": "that it was corrected is said further up",
    "h35-ibstat-unused-port": "which ports work, and over what, is said further up and down",
    "h35-ibv-devinfo-second-port": "that the card's first port works is said further up",
    "h35-ethtool-stats": "that another interface works is said further up",
    "h35-dcgmi-health": "that a row is of settings is said by its end",
    "h35-kubectl-describe-pod": "that the volume was mounted is said by the end of the line",
    "h36-slurm-sigterm-after-end": "that the work was done is said further up",
    "h36-tensorflow-start": "that a factory is there already is said by the end of the line",
    "h36-prose-readme": "that it is a manual is said by its heading",
    "h36-cuda-header-listing": "that it is a list of codes is said by the end of the line",
    "h36-alert-rules-yaml": "that these are rules is said further up",
    "h36-grep-listing": "that it is source is said by the end of the line",
    "h91-explained-variables": "that it is explained is said by the end of the line",
    "h91-handbook": "that it is advice is said by the start of the line",
    "h91-tests-with-words": "that the test passed is said by the end of the line",
    "h90-not-needed": "that it is not needed is said by the end of the line",
    "h90-zero-cells": "that none was counted is said by the end of the line",
    "h90-stranger-at-ssh": "which port it was is said by the end of the line",
    "h36-nccl-warns-that-resolve": "that it is tried again is said by the end of the line",
}
"""Of these only the whole says that nothing happened: a part is told as what it says."""
CAME_THROUGH = {
    "h147": "transport-left-out-and-on",
    "h137": "late-rank-of-horovod",
    "h123": "drill-that-restarted sweep-that-ended head-tried-again fallback-with-traceback play-that-succeeded"
    " executor-taken-away tests-that-passed",
    "h88": """
        ray-worker-restarted torchelastic-restart-finished k8s-pod-restarted-completed s3-retry-then-done
        proxy-accept-failed-after-done broken-pipe-after-done caught-traceback-falling-back handled-in-sentence
        pytest-passes xfail-output-lines unittest-ok mlx5-flap-before-job bond-flap-during-job
        ib-async-port-active-again tf-info-levels lightning-ended maxtext-steps nccl-retry-connect config-dump
        help-text docs-table hf-rate-limit k8s-events-recovered requeued-after-node-fail
    """,
    "h89": """
        accelerate-oom-autobatch horovod-finished mpi-connection-retry ib-link-logger switch-port-flap-recovered
        gke-maintenance-resumed dataloader-worker-killed-restarted checkpoint-upload-retry jax-distributed-ended
        try-except-log-exception gtest-death-test env-dump ray-finished nemo-exp-end torch-compile-fallback
        graceful-preempt-signal mixed-lang-caught mps-restart skypilot-recovered volcano-restarted
        slurm-requeue-two-attempts teardown-nccl-many teardown-python-threads caught-list swallowed-in-callback
        pytest-dist ib-flap-then-fine tf-levels pbs-lsf-done config-yaml faq-page man-page
    """,
    "h106": """
        caught-in-loop notebook-stop spot-drain vgg-smi-performance pod-events-come-through
        slow-server-request halved-batch preload-first-and-last one-host-as-two
    """,
    "h107": """
        maxtext-emergency vllm-bench-aborts sglang-pd k8s-describe-good openmpi-mca mlx5-boot asan-ubsan
        pytest-log-cli json-null-errors retry-then-good ctrl-c-then-next preempt-saved nvidia-smi-busy
        probe-batch-size preloaded-missing
    """,
    "h107b": """
        accelerate-skip kubectl-events-normal go-test unittest mpi-hello-ompi5 libfabric-info tensorflow
        node-replaced
    """,
    "h110": "bridged-pair ctrl-c-and-anew smaller-batch perftest-inline geforce-p2p power-at-makers-limit",
    "h112": "old-id-removed",
    "h183": "xla-came-late",
    "h144": """
        acs-beside-switches no-rdma-within-one-domain bridge-on-and-off algorithms-in-turn
        one-node-with-a-bridge-for-guests provoked-in-tests-that-pass one-link-pulled-once row-remapped-long-ago
        sockets-fill-the-line sockets-of-a-small-job-that-ended thread-that-was-solved
    """,
}
"""Logs of a file in which something failed: only the end, or the lines around it, say that it came to nothing."""
_WHOLE = {*BY_THE_WHOLE, *(f"{file}-{name}" for file, names in CAME_THROUGH.items() for name in names.split())}
LOGS = [(name, text) for name, text in healthy.logs() if name not in _WHOLE]
CUTS = 7


def loud(text: str) -> list[Finding]:
    found = examine(gather(Snapshot("x", logs=(TextFile("job.log", text),)), ()))
    return [each for each in found if each.severity is not Severity.NOTE]


def parts(text: str) -> list[str]:
    """Beginnings and ends of the log: cut between lines, and within one."""
    places = [len(text) * part // (CUTS + 1) for part in range(1, CUTS + 1)]
    lines = [text.find("\n", place) + 1 or len(text) for place in places[::2]]
    return [text[:place] for place in places + lines] + [text[place:] for place in lines]


@pytest.mark.parametrize("start", range(4))
def test_a_cut_takes_no_health_away(start: int) -> None:
    wrong = [
        (name, each.name, each.title)
        for name, text in LOGS[start * 5 :: 20]
        for part in parts(text)
        for each in loud(part)
        if each.name not in UNTOLD and "unless the log was cut off" not in each.title
    ]
    assert wrong == []


def comm(rank: int, state: str) -> str:
    return said(
        f"ncclCommInitRank comm 0x5{rank} rank {rank} nranks 3 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 "
        f"commId 0xa - Init {state}",
        rank,
    )


ALL = [comm(rank, "START") for rank in range(3)]


@pytest.mark.parametrize(
    ("lines", "severity", "words"),
    [
        (ALL, Severity.WARNING, "unless the log was cut off"),
        ([*ALL, "step of nothing"] + ["the job waits"] * 3, Severity.ERROR, "all of them wait"),
        ([*ALL, comm(0, "COMPLETE"), comm(2, "COMPLETE")], Severity.ERROR, "rank 1 never ended"),
        ([ALL[0], comm(0, "COMPLETE"), ALL[1]], Severity.NOTE, "one rank after the other"),
        ([ALL[0], ALL[1], comm(0, "COMPLETE"), ALL[2]], Severity.ERROR, "never ended"),
    ],
    ids=["an open end", "lines behind it", "one hangs", "rank after rank", "one began late and one hangs"],
)
def test_a_log_that_ends_in_an_init_is_told_by_what_it_shows(lines: list[str], severity: Severity, words: str) -> None:
    text = "\n".join(lines) + "\n"
    found = [
        each
        for each in examine(gather(Snapshot("x", logs=(TextFile("job.log", text),)), ()))
        if each.name == "init-incomplete"
    ]
    assert [(each.severity, words in each.title) for each in found] == [(severity, True)], [
        each.title for each in found
    ]


ENDED = [comm(rank, "COMPLETE") for rank in range(3)]
WARNED = said("misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1").replace(
    "NCCL INFO ", ""
)


@pytest.mark.parametrize("letters", range(13))
def test_a_few_letters_of_a_warning_are_no_finding_and_no_health(letters: int) -> None:
    until = WARNED.index("NCCL WARN ") + len("NCCL WARN ") + letters
    facts = gather(Snapshot("x", logs=(TextFile("job.log", "\n".join([*ALL, *ENDED, WARNED[:until]])),)), ())
    findings = examine(facts)
    assert [each.name for each in findings if each.severity is not Severity.NOTE] == []
    said_of_it = verdict(facts, findings)
    assert said_of_it.outcome is Outcome.UNKNOWN
    assert any("ends within a warning of NCCL" in each for each in said_of_it.unread)


def test_a_warning_that_says_enough_is_told_in_the_last_line_and_a_short_one_before_it() -> None:
    assert [each.name for each in loud("\n".join([*ALL, *ENDED, WARNED]))] == ["remote-error"]
    short = said("x.cc:1 NCCL WARN so").replace("NCCL INFO ", "")
    assert [each.name for each in loud("\n".join([*ALL, short, *ENDED]))] == ["nccl-warnings"]


def test_ranks_that_look_for_each_other_in_a_log_that_is_cut_within_a_line_are_not_stuck() -> None:
    assert loud("n0:1:2 [0] NCCL INFO Using network IB\nn0:1:2 [0] x.cc:1 NCCL WARN so") == []
