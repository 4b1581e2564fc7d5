"""MPI gets a buffer in a GPU's memory which this build of it, or of UCX, cannot send."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether somebody says it, or MPI crashed at memory that is there and that the processor may not touch.

    A build that is known to be without CUDA crashes in its own copies at any such pointer.
    """
    said = {name for each in groups for name in each}
    return bool(said & {"said", "copy"}) or {"denied", "frame"} <= said or {"built", "segv", "frame"} <= said


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    """In which call, and whether the build is known to be without CUDA."""
    if copy := next((each["copy"] for each in groups if "copy" in each), ""):
        return (
            f"MPI cannot copy a buffer in GPU memory ({copy} failed): it is not of the GPU that is current in this "
            "process, was freed, or is of another kind than cudaMalloc gives"
        )
    frames = [each["frame"] for each in groups if "frame" in each]
    call = next((each for each in frames if "MPI_" in each), next(iter(frames), ""))
    crashed = "said" not in {name for each in groups for name in each} and call
    how = f": it crashed in {call.strip('_')} where it copied from that memory" if crashed else ""
    if any("built" in each for each in groups):
        return f"a buffer in GPU memory was given to an MPI or UCX that was built without CUDA{how}"
    return f"a buffer in GPU memory was given to an MPI that cannot read it (no CUDA-aware build){how}"


_CALLS = (
    r"(?P<frame>opal_convertor_\w{2,30}|mca_(?:btl|pml)_\w{2,40}|P?MPI_(?!Init|Finalize)[A-Z]\w{2,30}|MPIR_Localcopy"
    r"|uct_mm_ep_\w{2,30}|ompi_coll_\w{2,60})"
)
"""Frames in which MPI copies a message, and those of the calls around them."""

SIGNATURE = Signature(
    name="mpi-gpu-buffer",
    stage=Stage.SETTING,
    title="a buffer in GPU memory was given to an MPI that was built without CUDA",
    tell=_tell,
    patterns=(
        r"(?P<said>CUDA tensor detected and the MPI used doesn.t have CUDA-aware)",
        r"(?P<said>configured with GPU support, but your MPI is not GPU-aware)",
        r"The call to (?P<copy>cu(?!Ipc)\w{3,40}) failed\. This is an? unrecoverable error",
        r"(?P<denied>invalid permissions for mapped object)",
        r"Signal code: (?P<denied>Invalid permissions) \(2\)",
        r"(?P<built>mpi_built_with_cuda_support:value:false|MPI library does not have CUDA-aware support"
        r"|^# Configured with: .{0,400}--without-cuda\b)",
        r"(?P<segv>Signal: Segmentation fault \(11\)|Caught signal 11 \(Segmentation fault)",
        # Frames of a stack: UCX's and gdb's, and those of the C library.
        r"(?:^|[\]>:|])\s{0,4}#?\d{1,3} {1,3}(?:0x[0-9a-f]{6,16} )?(?:in )?" + _CALLS + r"\b",
        r"\[ ?\d{1,3}\] \S{1,200}\(" + _CALLS + r"\+0x",
    ),
    holds=_holds,
    explains=("cuda-call-failed", "mpi-other", "mpi-error", "python-exception"),
    confirm=(
        "ompi_info --parsable --all | grep mpi_built_with_cuda_support:value (true); ucx_info -d | grep cuda; "
        "osu_bw D D beside osu_bw H H"
    ),
    cure=(
        "load an MPI that was built with CUDA (Open MPI: --with-cuda and a UCX with cuda_copy and cuda_ipc). MVAPICH: "
        "MV2_USE_CUDA=1; Cray: MPICH_GPU_SUPPORT_ENABLED=1. Or copy to host memory before the call (.cpu(), "
        "cudaMemcpy), or leave such calls to NCCL. Where it has CUDA: UCX_MEMTYPE_CACHE=n, and cudaSetDevice before "
        "MPI_Init"
    ),
    source="Open MPI's FAQ on CUDA; UCX src/ucs/debug/debug.c; PyTorch ProcessGroupMPI.cpp; PETSc",
)
