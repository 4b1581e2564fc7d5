"""What the doctor says first of accelerators of other makers, and of JAX, TensorFlow and their like on any of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_told_first, logs_of, loud
from .corpus.healthy import logs

LOGS = logs_of("f183-")

TOLD = {
    "amd-init-fails": ("cannot start a GPU", "IFWI"),
    "amd-pages-used-up": ("used up the pages", "replaced"),
    "amd-memory-poisoned": ("0000:2f:00.0", "bad-pages"),
    "amd-smu-silent": ("SMU", "power it off and on"),
    "amd-queues": ("swaps them", "GPU_MAX_HW_QUEUES"),
    "amd-scratch": ("scratch memory", "HSA_SCRATCH_SINGLE_LIMIT"),
    "amd-module-absent": ("amdgpu", "modprobe amdgpu"),
    "rocblas-kernels": ("rocBLAS", "ROCBLAS_TENSILE_LIBPATH"),
    "rccl-part-of-topology": ("RCCL cannot read", "/dev/kfd"),
    "anp-absent": ("AINIC", "amd-anp"),
    "intel-hang": ("wedged", "reboot"),
    "oneccl-pins": ("pin its worker threads", "CCL_WORKER_AFFINITY"),
    "oneccl-devices": ("Intel's GPUs", "by-path"),
    "gaudi-memory": ("Gaudi", "hl-smi"),
    "npu-process-of-before": ("HCCP", "wait ten seconds"),
    "npu-memory": ("NPU", "PYTORCH_NPU_ALLOC_CONF"),
    "npu-driver": ("driver of the NPUs", "/dev/davinci_manager"),
    "npu-ranks-differ": ("do not fit each other", "Pad to one shape"),
    "tf-worker-gone": ("task 3", "log"),
    "tf-without-nccl": ("TensorFlow", "tensorflow[and-cuda]"),
    "jax-port": ("coordinator cannot listen", "coordinator_bind_address"),
    "jax-barrier": ("array_metadata_write:12", "slowest host"),
    "jax-topology": ("told the devices", "number the key ends with"),
    "jax-alone-again": ("started again alone", "restart all processes"),
    "jax-two-on-one": ("takes all GPUs", "local_device_ids"),
    "jax-assembler": ("ptxas", "nvidia-cuda-nvcc"),
    "paddle-memory": ("GPU 5 is full", "FLAGS_"),
    "cupy-alone": ("CuPy", "install_library"),
    "dask-silent": ("Dask", "--interface"),
    "legate-memory": ("Legate", "--fbmem"),
    "mps-other-failed": ("another program", "server.log"),
    "stub": ("stub", "lib64/stubs"),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_cause_and_the_cure_of_its_kind_stand_first(name: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, *TOLD[name])


_WAITS = next(text for name, text in logs() if "h183-xla-came-late" in name)
_CAME = "Thread is unstuck"


def test_a_wait_of_xla_counts_where_nobody_came(tmp_path: Path) -> None:
    assert not loud(_WAITS, tmp_path)
    alone = "\n".join(line for line in _WAITS.splitlines() if _CAME not in line and "completed" not in line)
    assert loud(alone, tmp_path)[0].name == "watchdog-timeout"


def test_a_wait_that_ended_takes_no_other_one_back(tmp_path: Path) -> None:
    first = next(line for line in _WAITS.splitlines() if "may be stuck" in line)
    assert loud(f"{_WAITS}\n{first}\n", tmp_path)[0].name == "watchdog-timeout"
