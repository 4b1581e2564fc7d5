"""Failures of frameworks that train on many GPUs are told with the cause and cure of their own sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.meanings.training_errors import TRAINING

from .asked import is_claimed, is_told_first, logs_of

LOGS = logs_of("f178-")
TOLD = {
    "gcc-too-new": ("takes gcc up to 13", "CC=gcc"),
    "compiler-killed": ("no memory left", "MAX_JOBS"),
    "no-pdsh": ("pdsh", "apt install pdsh"),
    "notebook": ("before its launcher forks", "restart the kernel"),
    "horovod-interfaces": ("no network interface of the same name", "--network-interfaces"),
    "other-result": ("GPU 1 of fen2 (rank 9)", "drain that node"),
    "straggler-named": ("rank 6 is slower", "power cap"),
    "same-device-as-server": ("same GPU", "GPUs of their own"),
    "userbuffers": ("multicast", "UB_SKIPMC=1"),
    "pinned": ("memory of the host that is pinned", "pin_memory false"),
    "in-pieces": ("17.00 GiB free in pieces", "expandable_segments"),
    "experts": ("expert parallel size", "ep_size"),
    "started-by-mpirun": ("WORLD_SIZE is not set", "OMPI_COMM_WORLD_RANK"),
    "no-launcher": ("without a launcher", "deepspeed, torchrun"),
    "empty-weights": ("empty weights", "zero_to_fp32"),
    "no-optimizer-state": ("no state of the optimizer", "--no-load-optim"),
    "tag": ("name one checkpoint differently", "broadcast it"),
    "saved-by-one": ("calls state_dict, behind", "on all ranks"),
    "texts-of-different-length": ("texts of different length", "synced_gpus=True"),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_cause_and_the_cure_of_the_sentence_are_told(name: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, *TOLD[name])


SAID = {
    "ValueError: You need to manually pass in `--num_processes` using this config yaml.": "accelerate launch",
    "ImportError: Extension horovod.torch has not been built: /x/mpi_lib_v2.so not found": "HOROVOD_WITH_PYTORCH",
    "ModuleNotFoundError: No module named 'amp_C'": "from source",
    "RuntimeError: num_stages (5) must divide distributed world size (8)": "num_stages",
    "ValueError: Cuda is not available.": "torch.version.cuda",
    "AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled": "keep one of them",
    "OSError: libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /x/libbitsandbytes_cuda124.so)": "newer",
    "RuntimeError: 'weight' must be 2-D": "GatheredParameters",
    "AssertionError: Parameter hashes not matching across DP replicas": "dcgmi diag",
    "AssertionError: num_layers value from checkpoint (2) is not equal to the input argument value (4).": "convert it",
}


@pytest.mark.parametrize("said", SAID)
def test_a_sentence_of_a_framework_has_its_own_cure(said: str, tmp_path: Path) -> None:
    assert is_claimed(SAID[said], f"[rank1]: Traceback (most recent call last):\n[rank1]: {said}\n", tmp_path)


@pytest.mark.parametrize("each", TRAINING, ids=lambda each: each.words.pattern[:30])
def test_every_family_has_a_meaning_and_a_cure(each: object) -> None:
    family = next(row for row in TRAINING if row is each)
    assert len(family.meaning) > 15 and len(family.cure) > 20
    assert family.words.search("") is None, "a family of every line"
