"""A kernel accessed memory that is not its own."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="illegal-access",
    stage=Stage.PROGRAM,
    title=("a GPU kernel accessed a bad address or failed: a fault of the program's kernels that NCCL only reports"),
    patterns=(
        r"Memory access fault by GPU",
        r"HSA_STATUS_ERROR_MEMORY_APERTURE",
        r"illegal memory access",
        r"device-side assert",
        r"unspecified launch failure",
        r"misaligned address",
        r"Cuda failure (?:700|710|716|719)\b",
        r"illegal instruction was encountered",
        r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|LAUNCH_FAILED|ASSERT)",
        r"invalid program counter",
        r"cudaError(?:IllegalAddress|LaunchFailure|Assert|MisalignedAddress|IllegalInstruction"
        r"|InvalidPc|InvalidAddressSpace|HardwareStackError|LaunchTimeout)",
        r"CUDA_ERROR_(?:MISALIGNED_ADDRESS|ILLEGAL_INSTRUCTION|INVALID_PC|INVALID_ADDRESS_SPACE"
        r"|HARDWARE_STACK_ERROR|LAUNCH_TIMEOUT)",
        r"operation not supported on global/shared address space|hardware stack error"
        r"|the launch timed out and was terminated",
    ),
    unless=("to enable device-side",),
    explains=("gpu-exception",),
    confirm=("CUDA_LAUNCH_BLOCKING=1, or compute-sanitizer, on the rank that fails first; dmesg for Xid 31 or 13"),
    cure=(
        "mend the kernel or index before the collective (labels out of range, tensors freed while a collective runs: "
        "keep them or record_stream). The rank's own Xid tells a faulty GPU"
    ),
    source="CUDA errors 700, 710, 716, 719",
)
