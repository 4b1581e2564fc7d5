"""Numbers and names that are not what they look like: EFA's codes, loopback endpoints, one name of two machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main

from .asked import is_claimed, is_told_first, logs_of, loud

LOGS = logs_of("f174-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("efa-code-is-no-errno", "EFA's packets do not reach the other node", "security group"),
        ("efa-without-room", "refuses its driver's command CREATE_QP for want of room", "modprobe -r efa"),
        ("nvls-of-a-rack", "the GPUs have joined the NVLink fabric (state 3)", "NCCL_NVLS_ENABLE=0"),
        ("endpoint-of-each-node", "the rendezvous endpoint is localhost", "--rdzv-endpoint=NODE:29500"),
        ("first-node-is-each", "rank 0's address is 127.0.0.1", "main_process_ip"),
        ("c10d-port-taken", "the port (29611) is taken", "--master-port does not count"),
        ("table-with-ecc", "0000:8a:00 has errors of its memory that ECC could not correct (GPU 5", "reset that GPU"),
        ("psec-not-in-image", "no component munge (psec", "PMIX_MCA_psec=native"),
        ("gds-not-in-image", "no component shmem2 (gds)", "unset PMIX_MCA_gds"),
        ("mpirun-within-srun", "each task of srun starts mpiexec once more, within the container", "srun --mpi=pmix"),
        ("master-resolves-late", "at the start: tune-3-master-0, and some seconds later it can", "nc -z"),
        ("back-over-the-bridge", "tells the other hosts to connect back to 172.17.0.3", "--network=host"),
        ("twelve-in-one-process", "as many direct peers as it can map", "CUDA_VISIBLE_DEVICES (and -g 8)"),
        ("engine-wants-peers", "GPUs 0 and 1 have no peer access", "--use_custom_all_reduce disable"),
        ("one-name-two-machines", "ubuntu (enp3s0 10.7.0.11 and eno2 10.7.0.12)", "hostnamectl set-hostname"),
        ("slots-times-gpus", "16 GPUs of one host", "--map-by ppr:1:node"),
        ("srun-tasks-times-gpus", "64 GPUs of one host", "srun --ntasks-per-node=1"),
    ],
)
def test_what_stands_beside_it_says_what_it_means(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        # One mpirun alone in a step of srun starts its ranks once.
        ("mpirun-within-srun", "-N 2 --ntasks-per-node=4", "-n 1", "once more"),
        # 172.17 is no bridge of Docker where nothing tells of containers.
        ("back-over-the-bridge", "root@77ab01c9de24:/job# ", "$ ", "default bridge"),
        # One node may meet at its own address.
        ("endpoint-of-each-node", "min_nodes        : 4", "min_nodes        : 1", "each node's own"),
        (
            "efa-without-room",
            "CREATE_QP (opcode 1) comp_status 1 err -12",
            "QUERY_DEVICE comp_status 3 err -22",
            "room",
        ),
        ("one-name-two-machines", "eno2:10.7.0.12", "enp3s0:10.7.0.11", "two machines"),
    ],
)
def test_without_it_nothing_of_the_kind_is_claimed(name: str, old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    text = LOGS[name].replace(old, new).replace("[c0ffee120934:00091]", "[node7:00091]")
    assert not is_claimed(words, text, tmp_path)


def test_words_before_an_answer_are_no_host_name(tmp_path: Path) -> None:
    (first, *_) = loud("ValueError: host not found: Name or service not known\n", tmp_path)
    assert first.name == "dns" and "found" not in first.title


def test_a_manager_without_switches_is_no_fault_of_cards_that_have_none(tmp_path: Path) -> None:
    service = "nv-fabricmanager[913]: NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
    cards = "GPU 0: NVIDIA {} (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    assert loud(cards.format("L40S") + service, tmp_path) == []
    assert [each.name for each in loud(cards.format("B200") + service, tmp_path)] == ["fabric-manager"]


MATRIX = """\
$ journalctl -u nvidia-fabricmanager
Sep 22 15:37:40 ws1 nvidia-fabricmanager-start.sh[9318]: Detected Pre-NVL5 system
Sep 22 15:37:40 ws1 nvidia-fabricmanager-start.sh[9321]: request to query NVSwitch device information from NVSwitch \
driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]
$ nvidia-smi -L
GPU 0: {card} (UUID: GPU-5d0c7f3e-91ab-2f66-c1d8-0b7e4a9d2c15)
GPU 1: {card} (UUID: GPU-a83e1b90-47cc-d0f5-8e24-96f1d37b50ea)
$ nvidia-smi topo -m
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPHB\t0-31\t0\t\tN/A
GPU1\tPHB\t X \t0-31\t0\t\tN/A
"""


@pytest.mark.parametrize(("card", "code"), [("NVIDIA GeForce RTX 4090", 3), ("NVIDIA H100 80GB HBM3", 1)])
def test_cards_that_stand_in_known_outputs_say_whether_there_are_switches(card: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(MATRIX.format(card=card))
    assert main(["doctor", str(tmp_path / "a.log")]) == code
