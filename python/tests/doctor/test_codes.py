"""A code of the system, CUDA or libfabric in a sentence that nobody knows is told with its meaning and its cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.meanings import codes

from .test_corpus import loud


@pytest.mark.parametrize(
    ("line", "name", "meaning", "cure"),
    [
        (
            "[17.1] [n0:1 :0] x.c:9  UCX  ERROR flux_open() failed: Device or resource busy",
            "mpi-network",
            "EBUSY",
            "fuser",
        ),
        (
            "libfabric:7:17::verbs:core:flux():9<warn> flux is gone: No such device",
            "mpi-network",
            "ENODEV",
            "ibv_devices",
        ),
        (
            "libfabric:7:17::cxi:core:flux():9<warn> Unable to allocate LNI",
            "slingshot",
            "no resources left",
            "--network",
        ),
        ("slurmstepd: error: pyxis: flux filter: Function not implemented", "slurm-error", "ENOSYS", "newer kernel"),
        (
            "n0:1:2 [0] flux.cc:9 NCCL WARN flux: Cuda failure 999 'unknown error'",
            "cuda-call-failed",
            "999",
            "nvidia_uvm",
        ),
        (
            "n0:1:2 [0] flux.cc:9 NCCL WARN Cuda failure 1 'invalid argument'",
            "cuda-call-failed",
            "error 1",
            "NCCL_CUMEM",
        ),
        ("n0:1:2 [0] nccl_ofi_flux:9 NCCL WARN NET/OFI flux failed. RC: -22", "efa-error", "EINVAL", "one release"),
        ("fatal: the flux failed (errno: 122)", "unknown-error", "EDQUOT", "ask for more"),
        ("ERR:  mh is not mapped yet", "unknown-error", "the first: ERR", "this line"),
    ],
)
def test_a_code_is_told_with_its_meaning_and_cure(
    line: str, name: str, meaning: str, cure: str, tmp_path: Path
) -> None:
    first = loud(line + "\n", tmp_path)[0]
    assert first.name == name and meaning in first.title and cure in first.fix, first


def test_the_library_of_cuda_names_its_own_argument_and_the_kernel_its_own() -> None:
    said = "cuMemMap: invalid argument"
    ours, theirs = codes.code_in(said, cuda=True), codes.code_in(said)
    assert ours is not None and theirs is not None
    assert "CUDA refused" in ours.meaning and "EINVAL" in theirs.meaning


def test_a_sentence_without_a_code_has_none() -> None:
    assert codes.code_in("status=0 opcode=1 returned 3 of 4, the error is unknown") is None
