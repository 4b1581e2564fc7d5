"""Drivers' lines before a timeout, MPICH's error stacks, PyTorch's own checks, CUDA's errors, and what is no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.lines.beside import Frame
from busbw.doctor.lines.kernel_lines import is_of_driver
from busbw.doctor.lines.trouble import Trouble
from busbw.doctor.meanings import mpich
from busbw.doctor.meanings.advice import _place
from busbw.doctor.meanings.codes import code_in
from busbw.doctor.reading.pasted import restored
from busbw.doctor.xids import XIDS

from .test_advice import loud

COMM = (
    "n0:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0xa - "
    "Init {}\n"
)
JOB = COMM.format("START") + COMM.format("COMPLETE") + "step 1 loss 2.1 time 0.1\n"
WAITS = (
    "[rank1]:[E1128 10:20:00.118 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds "
    "before timing out.\n"
)


@pytest.mark.parametrize(
    ("line", "name", "cure"),
    [
        ("infiniband mlx5_3: could not change QP3 state to RTS: 3", "ibv-call-failed", "counters"),
        ("mlx5_core 0000:9a:00.0: enable hca failed", "ibv-call-failed", "power the host off"),
        ("NVRM: Timeout waiting for RPC of the firmware, it is dead", "driver-not-loaded", "/lib/firmware/nvidia"),
        ("nvidia-nvswitch0: ALI Training failure. Info 0x1f", "nvswitch-error", "reset"),
        # What a job over RDMA does without says nothing of why it waits.
        ("mlx5_core 0000:9a:00.0: MACsec offload: Failed to init SCI hash table, err=3", "watchdog-timeout", "lags"),
        ("mlx5_core 0000:9a:00.0: RX handler of RQ is set", "watchdog-timeout", "lags"),
        ("audit: failed to start the kauditd thread (3)", "watchdog-timeout", "lags"),
    ],
)
def test_what_a_driver_says_before_ranks_wait_is_nearer_to_the_cause(line: str, name: str, cure: str) -> None:
    first = loud(f"{JOB}[90211.118] {line}\n{WAITS}")[0]
    assert first.name == name and cure in first.fix
    # Behind the timeout it may follow from it.
    assert loud(f"{JOB}{WAITS}[90211.118] {line}\n")[0].name == "watchdog-timeout"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Nov 28 10:00:00 h kernel: efa 0000:00:1e.0: The device isn't ready, can't reset device", True),
        ("NVRM: GPU at PCI:0000:4e:00: GPU-1f", False),
        ("mlx5_core 0000:9a:00.0: Port module event: module 0, Cable plugged", False),
        ("EDAC MC1: 1 CE memory error, corrected", False),
        ("trainer: mlx5_core failed", False),
    ],
)
def test_a_driver_is_told_by_how_it_begins_its_line_and_by_what_fails(line: str, said: bool) -> None:
    assert is_of_driver(line) is said


STACK = """\
Abort(1615759) on node 3 (rank 3 in comm 0): Fatal error in internal_Init: Other MPI error, error stack:
internal_Init(70)...........: MPI_Init(argc=0x7ffd1, argv=0x7ffd2) failed
MPII_Init_thread(268).......:
MPIR_a(1)........................:
MPIR_b(2)........................:
MPIR_c(3)........................:
MPIR_d(4)........................:
MPIDU_Init_shm_init(180)....: {}
"""


@pytest.mark.parametrize(
    ("said", "meaning", "cure"),
    [
        ("Out of memory (unable to allocate a request)", "memory of the host", "/dev/shm"),
        ("Invalid rank has value 8 but must be nonnegative and less than 8", "argument that it refuses", "rank, tag"),
        ("message sizes do not match across processes: Received 4 but expected 2", "do not agree", "count and type"),
        ("OFI call ep_enable failed", "libfabric", "FI_PROVIDER"),
        ("the moon rose twice", "the moon rose twice", "see MPI's own message"),
    ],
)
def test_the_innermost_sentence_of_an_error_stack_is_the_cause(said: str, meaning: str, cure: str) -> None:
    first = loud(STACK.format(said))[0]
    assert meaning in first.title and cure in first.fix


def test_a_stack_without_a_sentence_tells_of_none() -> None:
    assert mpich.innermost("internal_Send(121): MPI_Send(buf=0x7ffc, count=1) failed\nMPID_Send(3)..:\n") == ""
    assert mpich.innermost("MPID_Send(3)..: the first\nMPIDI_x(4): second one\n") == "second one"


def test_hydra_is_no_scheduler_that_does_not_know_mpi() -> None:
    said = "[proxy:0@h7] launch_procs (proxy/pmip_cb.c:118): unable to change wdir to /home/x (No such file)\n"
    first = loud(said)[0]
    assert first.name == "mpi-launch" and "-wdir" in first.fix
    assert loud("[proxy:0@h7] got pmi command (from 4): init pmi_version=1 pmi_subversion=1\n") == []


def test_a_check_that_pytorch_makes_of_itself_is_told_without_its_own_prefix() -> None:
    own = 'INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp":418, please report a bug to PyTorch. '
    first = loud(f"[rank1]: RuntimeError: !x {own}The block was given back\n")[0]
    assert "check that PyTorch makes" in first.title and "patch release" in first.fix and "418" not in first.fix


@pytest.mark.parametrize(
    "words",
    [
        "cudaErrorProfilerAlreadyStarted",
        "invalid device symbol",
        "incompatible driver context",
        "startup failure in cuda runtime",
        "resource already mapped",
        "PTX JIT compilation was disabled",
        "the provided execution affinity is not supported",
        "an async error has occured in external entity outside of CUDA",
        "a kernel launch error has occurred due to cluster misconfiguration",
        "the function handle is not loaded when calling an API that requires a loaded function",
        "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
    ],
)
def test_every_error_of_cuda_has_a_meaning_of_its_own(words: str) -> None:
    code = code_in(f"CUDA error: {words}")
    assert code is not None and len(code.cure) > 20
    assert code_in("Executor worker initialization error: mpi size 1 does not match engine world size 8") is None


@pytest.mark.parametrize("word", ["open device mlx5_3", "query device mlx5_3"])
@pytest.mark.parametrize("after", ["", "step 2 loss 2.0 time 0.1\n"], ids=["last", "the job went on"])
def test_a_device_of_which_nccl_warns_is_never_healthy(word: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{JOB}n0:1:2 [0] transport/net_ib/init.cc:300 NCCL WARN NET/IB : Unable to {word}\n{after}")
    assert main(["doctor", str(path)]) == 1
    path.write_text(f"{JOB}n0:1:2 [0] NCCL INFO NET/IB : Unable to {word}\n{after}")
    assert main(["doctor", str(path)]) == 0, "said at a healthy start too"


def test_a_warning_of_libfabric_behind_a_line_of_full_width_is_no_rest_of_it(tmp_path: Path) -> None:
    text = COMM.format("START") + COMM.format("COMPLETE") + "libfabric:1:2:efa:ep:f():1<warn> the flux is odd\n"
    assert len(COMM.format("COMPLETE")) == 121, "as wide as a terminal, or this shows nothing"
    assert restored(text) is None
    path = tmp_path / "job.log"
    path.write_text(text)
    assert main(["doctor", str(path)]) == 3


def test_an_xid_gets_no_cure_of_the_bus_that_its_address_names() -> None:
    first = loud("NVRM: Xid (PCI:0000:ab:00): 48, pid=1, name=python3, DBE in the framebuffer\n")[0]
    assert first.name == "gpu-memory-error" and "4G" not in first.fix
    assert "PCIe" in XIDS[176][0]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "h gpu-2 kernel: mlx5_core 0000:9a:00.0: temp_warn:142: High temperature on sensors with bit set 0 1",
            "nic-hot",
        ),
        ("gpu-2 kernel: traps: python3[41] general protection fault ip:7f sp:7f error:0 in libx.so", "process-crashed"),
        ("gpu-2 systemd[1]: train.service: Main process exited, code=killed, status=9/KILL", "process-killed"),
        ("gpu-2 systemd[1]: train.service: Start request repeated too quickly.", "rank-ended"),
        (
            "E1128 10:00:00.1 41 client.h:80] Coordination service agent: heartbeat RPC failed: DEADLINE_EXCEEDED",
            "xla-error",
        ),
        ("E1128 10:00:00.1 41 gcs_file_system.cc:301] The specified path was not found.", "file-system"),
        (
            "[h:1] mca_base_component_repository_open: libhcoll.so.1: cannot open shared object file",
            "library-not-found",
        ),
        (
            "E ...cuda_dnn.cc:9261] Loaded runtime CuDNN library: 8.9.7 but source was compiled with: 9.1.0.",
            "cuda-call-failed",
        ),
    ],
)
def test_lines_that_were_silent_or_of_another_are_told(line: str, name: str) -> None:
    assert [each.name for each in loud(line + "\n")][:1] == [name]


def test_a_runtime_tells_what_it_did_and_the_code_how_that_failed() -> None:
    said = 'OCI runtime create failed: runc create failed: unable to start container process: make mountpoint "/d": '
    first = loud(f"docker: Error response from daemon: {said}permission denied: unknown.\n")[0]
    assert "mount" in first.title and "EACCES" in first.title and "owner, mode" in first.fix


@pytest.mark.parametrize(("text", "kept"), [("max abs error 0.0", False), ("error 0.5 of the sum", True)])
def test_an_error_of_zero_is_none(text: str, kept: bool) -> None:
    assert Trouble().add(text, 1) is kept


@pytest.mark.parametrize(
    ("file", "place"), [("//dir/j.py", "/dir/j.py"), ("/a/b/c/d.py", "b/c/d.py"), ("j.py", "j.py")]
)
def test_a_place_has_single_slashes(file: str, place: str) -> None:
    assert _place(Frame(file, "3", "f")) == f"{place}:3 (f)"
