"""What PyTorch's own checks say is told by its cause and cure, and not by the form of the sentence alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.meanings.topics import is_dull

from .asked import is_told_first, logs_of

LOGS = logs_of("f177-")

TOLD = [
    ("one-sample-left", "batch normalization got a single sample", "drop_last=True"),
    ("second-time-another", "computed something else the second time", "use_cache=False"),
    ("compilers-killed", "ended without a word", "TORCHINDUCTOR_COMPILE_THREADS"),
    ("frozen-whole", "of which no parameter is trained", "leave DDP away"),
    ("order-of-blocks", "in different order", "same modules in the same order"),
    ("weight-that-was-freed", "while FSDP has freed it", "summon_full_params"),
    ("generates-inside", "outside of the forward pass", "register_fsdp_forward_method"),
    ("joined-and-thrown", "ran out of batches before the others", "throw_on_early_termination"),
    ("group-made-twice", "called a second time", "is_initialized"),
    ("shared-folder-of-helper", "torch_shm_manager", "TMPDIR"),
    ("mappings-used-up", "no further piece of shared memory", "vm.max_map_count"),
    ("splits-of-experts", "sum is not the number of rows", "counts"),
    ("lock-of-the-store", "store in a file", "env://"),
    ("no-number-of-node", "misses --node-rank", "--rdzv-backend=c10d"),
    ("member-missing", "did not come to the same place", "dist.new_group()"),
    ("heard-of-a-timeout", "on rank 2 first", "rank 2's log"),
    ("peer-of-a-call", "learner did not answer", "log of learner"),
    ("call-too-long", "no answer in its time", "rpc_timeout"),
    ("display-ends-kernels", "longer than this GPU lets one run", "without a display"),
    ("port-of-root", "may not listen on port 777", "above 1024"),
    ("other-service", "something else answers", "ss -ltnp"),
    ("others-still-work", "exit barrier", "they still work"),
    ("size-of-an-object", "no memory is short: all_gather_object", "same object collectives"),
    ("compiles-again", "rank 5 compiles its model again and again", "dynamic=True"),
    ("other-processor", "SIGILL", "lscpu"),
    ("worker-in-a-decoder", "crashed (Aborted)", "forkserver"),
    ("saved-elsewhere", "saved from GPU 6", "map_location"),
    ("device-beyond", "chooses cuda:6, and sees 4", "LOCAL_RANK"),
    ("launchers-missing", "ranks that do not come: 1", "these nodes"),
    ("ends-like-a-counter", "has no entries on this rank", "root model"),
    ("cache-of-many", "share a cache of compiled kernels", "TORCHINDUCTOR_CACHE_DIR"),
    ("first-barrier-guessed", "had to guess their GPU", "device_id="),
]


@pytest.mark.parametrize(("name", "title", "fix"), TOLD, ids=[each[0] for each in TOLD])
def test_a_check_of_pytorch_is_told_by_its_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize("said", ["link errors = 0", "worker error: none", "RuntimeError: n=0", "error_count: 0"])
def test_a_counter_of_nothing_is_dull(said: str) -> None:
    assert is_dull(said)


def test_a_sentence_of_an_exception_that_ends_like_a_counter_is_not_dull() -> None:
    assert not is_dull("[rank0]: RuntimeError: the state that was asked for is empty on rank=0.")
