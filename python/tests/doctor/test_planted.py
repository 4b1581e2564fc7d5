"""Healthy logs with one true fault planted: what silences words that tell of no event silences no fault beside them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.lines import quoted
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .corpus import healthy
from .corpus.load import Case, cases

LOGS = dict(healthy.logs())


def names(text: str, folder: Path) -> list[str]:
    """The findings above a note."""
    path = folder / "job.log"
    path.write_text(text, encoding="utf-8")
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return [each.name for each in found if each.severity is not Severity.NOTE]


# A healthy log, what of it gives way ("" puts the fault into its middle), the fault, and the finding that tells it.
PAIRS = (
    ("h35-edac-ce", "", "EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0)",
     "machine-check"),
    ("h35-edac-ce", "event severity: corrected", "event severity: fatal", "machine-check"),
    ("h35-aer-corrected-three", "", "pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error message received from "
     "0000:41:00.0", "pcie-errors"),
    ("h35-dgx-h100-boot", "", "[   16.1] NVRM: Xid (PCI:0000:1b:00): 79, pid=0, GPU has fallen off the bus.",
     "gpu-off-bus"),
    ("h35-ibstat-unused-port", "State: Active\n\t\tPhysical state: LinkUp", "State: Down\n\t\tPhysical state: Polling",
     "ib-port-down"),
    ("h35-ibv-devinfo-second-port", "PORT_ACTIVE (4)", "PORT_DOWN (1)", "ib-port-down"),
    ("h35-nvidia-smi-q-healthy", "Pending                           : No", "Pending                           : Yes",
     "gpu-memory-error"),
    ("h35-kubectl-describe-node", "DiskPressure                  False   KubeletHasNoDiskPressure        kubelet has no"
     " disk pressure", "GpuXidError                   True    Sat, 28 Nov   Xid79    GPU has fallen off the bus",
     "gpu-off-bus"),
    ("h35-dcgmi-diag-pass", "| GPU Memory                | Pass - All ", "| GPU Memory                | Fail - All ",
     "health-check"),
    ("h36-dcgm-exporter-metrics", 'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0"} 0',
     "nvidia 0000:1b:00.0: NVRM: Xid (PCI:0000:1b:00): 48, DBE (double bit error)", "gpu-memory-error"),
    ("h36-vllm-debug-start", "", "ModuleNotFoundError: No module named 'flash_attn'", "python-exception"),
    ("h36-prose-readme", "", "n0:10:11 [0] misc/socket.cc:452 NCCL WARN socketStartConnect: Connect to 10.0.0.5<41021> "
     "failed : Connection refused", "connection-refused"),
    ("h36-nccl-source-listing", "", "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for "
     "details)", "nccl-error"),
    ("h36-cuda-header-listing", "", "RuntimeError: CUDA error: an illegal memory access was encountered",
     "illegal-access"),
    ("h36-git-log", "", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB", "gpu-memory-full"),
    ("h36-pytest-verbose", "", "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "gpu-off-bus"),
    ("h36-help-text", "", "train.py: error: unrecognized arguments: --timout 30", "bad-arguments"),
    ("h36-alert-rules-yaml", "", "Nov 28 10:00:01 gpu-1 kernel: NVRM: Xid (PCI:0000:4e:00): 48", "gpu-memory-error"),
    ("h36-slurm-sigterm-after-end", "training complete, 10000 steps in 3:11:09\n", "", "job-cancelled"),
    ("h36-slurm-sigterm-after-end", "slurmstepd", "step 1 loss 2.0\nslurmstepd", "job-cancelled"),
    ("h36-json-config", "", "[rank3]: RuntimeError: NCCL error: unhandled system error", "nccl-error"),
    ("h37-npd-config", "", "[ 8812.1] BUG: unable to handle kernel NULL pointer dereference at 0000000000000008",
     "kernel-hang"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "gives_way", "fault", "finding"), PAIRS, ids=lambda each: str(each)[:40])
def test_a_true_fault_in_a_healthy_log_is_found(
    name: str, gives_way: str, fault: str, finding: str, tmp_path: Path
) -> None:
    text = LOGS[name]
    assert names(text, tmp_path) == []
    if gives_way:
        assert gives_way in text
        planted = text.replace(gives_way, fault, 1)
    else:
        lines = text.splitlines()
        planted = "\n".join([*lines[: len(lines) // 2], fault, *lines[len(lines) // 2 :]]) + "\n"
    assert finding in names(planted, tmp_path)


@pytest.mark.parametrize(
    ("line", "zero"),
    [
        ("node_vmstat_oom_kill 0", True),
        ('nccl_errors_total{job="a"} 0.0', True),
        ("LinkDownedCounter:...............0", True),
        ("node_vmstat_oom_kill 3", False),
        ("nccl_errors_total 10", False),
        ("active ports: 0", False),
        ("CUDA call failed with error 0x0", False),
    ],
)
def test_a_counter_of_errors_that_counted_none(line: str, zero: bool) -> None:
    assert quoted.is_zero(line) is zero


def test_a_counter_that_counted_is_told_behind_one_that_did_not(tmp_path: Path) -> None:
    none, some = "LinkDownedCounter:...............0\n", "LinkDownedCounter:...............41\n"
    assert names(none * 3, tmp_path) == []
    assert names(none * 3 + some, tmp_path) == ["roce-loss"]


def test_many_corrected_errors_of_a_link_are_told(tmp_path: Path) -> None:
    one = "[ {0}.1] pcieport 0000:40:01.1: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n"
    assert names(one.format(9001), tmp_path) == []
    assert names("".join(one.format(9000 + each) for each in range(12)), tmp_path) == ["pcie-errors"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ERROR: (gcloud.storage.cp) HTTPError 404: gs://ml/NCCL/ckpt was not found", "file-system"),
        ("botocore.exceptions.ClientError: An error occurred (403): Forbidden s3://b/nccl-runs/a", "credentials"),
        ("RuntimeError: NCCL error: unhandled system error while saving gs://ml/nccl/ckpt", "nccl-error"),
    ],
)
def test_names_of_stored_objects_tell_nothing_of_who_fails(line: str, name: str, tmp_path: Path) -> None:
    assert names(line + "\n", tmp_path) == [name]


def test_a_checker_that_failed_itself_accuses_no_node(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text('Unable to complete diagnostic for group 1. Return: (-3): "DCGM internal error".\n')
    [found] = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    assert "drain" not in found.fix and "nv-hostengine" in found.fix


FAULTS = [case for case in cases() if len(case.text) < 4000 and hashlib.sha256(case.name.encode()).digest()[0] < 3]


@pytest.mark.parametrize("before", ["  * ", "DEBUG ", "[DEBUG] "])
@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.name)
def test_bullets_and_levels_before_each_line_quote_no_fault_away(case: Case, before: str, tmp_path: Path) -> None:
    plain = names(case.text, tmp_path)
    assert plain and plain[0] in case.expected
    assert names("\n".join(before + line for line in case.text.splitlines()), tmp_path)
