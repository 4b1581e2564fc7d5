"""Rules of firewalls, services, pods, locks and left-over processes beside an error; what only looks like them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from busbw.doctor.clues import sequels
from busbw.doctor.clues.launch import jobs as clue_jobs
from busbw.doctor.clues.launch import pods as clue_pods
from busbw.doctor.clues.network import ports as clue_ports
from busbw.doctor.findings.ranks import build_lock
from busbw.doctor.reading.smi_rows import spelled

from .asked import logs_of, loud

LOGS = logs_of("f126-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("uneven-gather-in-evaluation", "batches of different size in the evaluation", "pad_across_processes"),
        ("p2p-is-forced", "is forced by NCCL_P2P_LEVEL=SYS", "unset NCCL_P2P_LEVEL"),
        ("bad-access-of-own-kernel", "on rank 6 in gather_rows (rows.py:17)", "CUDA_LAUNCH_BLOCKING=1"),
        ("ids-of-agents-differ", "different ids (--rdzv-id): night-7, night-1", "the same --rdzv-id"),
        ("ports-of-ufw", "named ports through (ports 22, 29400-29500): NCCL's connections to port 39417", "all TCP"),
        ("service-with-address", "the service pre is not headless (it has the address 10.111.4.20)", "clusterIP: None"),
        ("set-names-another-service", "the set's serviceName is workers, not w-headless", "MASTER_ADDR=w-0.workers"),
        ("lock-of-a-killed-build", "2 processes wait for the lock of a build", "rm -rf /home/ml/.cache/torch_ext"),
        ("lock-then-timeout", "a process waits for the lock of a build", "py310_cu121/fused_adam"),
        (
            "no-rank-loads-it",
            "2 processes wait for the lock of a build",
            "rm -rf /home/ae/.cache/torch_extensions/py310",
        ),
        ("lock-of-the-hub", "2 processes wait for a lock file of the hub's cache", "lslocks"),
        ("hub-limits-requests", "the hub refuses more requests for now (429", "HF_HUB_OFFLINE=1"),
        ("node-rank-twice", "the same --node_rank (0): rank 0 is on lime1 and on lime2", "torchrun --node-rank 1"),
        ("instance-preempted", "the cloud took back a spot machine", "checkpoints often and at SIGTERM"),
        ("module-of-one-port", "the link of mlx5_2 (0000:5d:00.0) on ash-5 is bad (Cable error", "reseat the cable"),
        ("one-pod-without-node", "pod fin-worker-1 is Pending", "kubectl uncordon gpu-3"),
        ("port-of-another-job", "taken by another job on that node: Slurm job 8790", "MASTER_PORT=$((10000"),
        ("orphan-holds-memory", "60100 MiB of that GPU: sglang::scheduler_TP1 (pid 771201)", "kill 771201"),
        ("parts-of-a-checkpoint", "tensor parallel size 2 and pipeline parallel size 1, and this run", "convert.py"),
        ("blocks-of-experts", "parts of 96, and block_n = 128", "--enable-expert-parallel"),
        ("quota-of-files", "the quota of files is used up (2000004 of 2000000 files)", "pack them"),
        ("one-gpu-per-task", "Slurm shows each task its own GPU alone (--gpus-per-task=1)", "--gpus-per-node=N"),
        ("upgraded-by-itself", "replaced the driver's libraries (580.65.06 by 580.95.05)", "apt-mark hold"),
    ],
)
def test_evidence_beside_an_error_names_its_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    found = loud(LOGS[name], tmp_path)
    assert title in found[0].title
    assert fix in found[0].fix
    assert len(found) == 1, "what follows is a note"


BATON = LOGS["lock-of-a-killed-build"]
ORPHAN = LOGS["orphan-holds-memory"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        # A start that was tried again, and two jobs.
        (LOGS["ids-of-agents-differ"].replace("nodes                : 2", "nodes                : 1"), "different ids"),
        (LOGS["ids-of-agents-differ"].replace("n0:29400\nI1201", "n1:29400\nI1201"), "different ids"),
        # The range covers the port; the rule keeps out.
        (LOGS["ports-of-ufw"].replace("29400:29500", "1024:65535"), "named ports"),
        (LOGS["service-with-address"].replace("10.111.4.20", "None       "), "headless"),
        (LOGS["set-names-another-service"].replace("serviceName: workers", "serviceName: w-headless"), "no names of"),
        (LOGS["set-names-another-service"].replace("StatefulSet", "Ingress").replace(" sts ", " ing "), "no names of"),
        (BATON + " 8812 /usr/local/cuda/bin/nvcc -c adam.cu\n", "lock of a build"),
        (LOGS["no-rank-loads-it"].replace("[rank1]", "Loading extension module cpu_adam...\n[rank1]"), "lock of a"),
        (BATON + "step 1 loss 9.1 time 0.81 s\nstep 2 loss 8.7 time 0.40 s\n", "lock of a build"),
        (LOGS["hub-limits-requests"].replace("huggingface_hub.errors.HfHubHTTPError: 429", "KeyError: 4").replace(
            "4 Client Error: Too Many Requests for url: https://huggingface.co/api/datasets/acme/pile", "4"
        ), "the hub refuses"),
        (LOGS["node-rank-twice"].replace("lime2:71:95", "lime1:71:95").replace("lime2", "lime1"), "nodes were started"),
        (LOGS["port-of-another-job"].replace("JobId 8790", "JobId 8801"), "another job on"),
        (ORPHAN.replace("771201       1 ", "771201    4412 "), "left-over"),
        (ORPHAN.replace("(Worker_TP1 pid=40)", "(Worker_TP1 pid=771201)"), "left-over"),
        (LOGS["parts-of-a-checkpoint"].replace("parallel-size 4", "parallel-size 2"), "was saved with tensor"),
        (LOGS["quota-of-files"].replace("2000004*", "1000004"), "quota of files"),
    ],
)  # fmt: skip
def test_what_only_looks_like_it_decides_nothing(text: str, title: str, tmp_path: Path) -> None:
    assert not [each.title for each in loud(text, tmp_path) if title in each.title]


def test_two_findings_that_explain_each_other_do_not_both_vanish(tmp_path: Path) -> None:
    text = LOGS["ports-of-ufw"] + (
        "birch:511:560 [0] misc/socket.cc:520 NCCL WARN socketPollConnect: connect to 172.20.9.4<39417> returned "
        "Connection timed out, exceeded error retry count after 34 attempts\n"
    )
    assert [each.name for each in loud(text, tmp_path)] == ["connection-timeout"]


def test_rows_below_another_question_are_not_of_the_first_table() -> None:
    lines = ORPHAN.splitlines()
    assert "771201, 60100 MiB, GPU-77aa01" in spelled(lines)


def test_no_text_is_too_long() -> None:
    path = Path(__file__).parents[1] / "tools" / "test_plain_english.py"
    spec = importlib.util.spec_from_file_location("plain_english", path)
    assert spec is not None and spec.loader is not None
    english = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(english)
    for module in (clue_jobs, clue_pods, clue_ports, sequels, build_lock):
        for text in english.texts_of(Path(str(module.__file__))):
            assert english.too_long(text) == [], text
