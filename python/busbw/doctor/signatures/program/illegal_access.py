"""A kernel accessed memory that is not its own."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_TITLE = "a GPU kernel accessed a bad address or failed: a fault of the program's kernels that NCCL only reports"


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """What compute-sanitizer says of the access and of the kernel, where it ran."""
    what = next((each["what"] for each in groups if "what" in each), "")
    where = next((f" in kernel {each['kernel']} ({each['file']})" for each in groups if "kernel" in each), "")
    return f"a GPU kernel's {what or 'access'} is outside of its memory{where}" if what or where else _TITLE


SIGNATURE = Signature(
    name="illegal-access",
    stage=Stage.PROGRAM,
    title=_TITLE,
    patterns=(
        # What compute-sanitizer prints, and what a kernel's own check does.
        r"^={4,} Invalid __\w{4,9}__ (?P<what>read|write|atomic)\w* of size \d",
        r"^={4,} {2,40}at (?:0x[0-9a-f]{1,16} in )?(?P<kernel>[A-Za-z_][\w:<>, ]{0,80})\(.{0,200} in"
        r" (?P<file>[^\s/]{1,80}:\d{1,6})",
        r"^={4,} {2,40}at 0x[0-9a-f]{1,16} in (?:/?[\w.+-]{1,60}/){0,12}(?P<file>[^\s/:]{1,80}:\d{1,6})"
        r":(?P<kernel>[A-Za-z_][\w:<>]{0,80})\(",
        r"\bblock: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion .{2,200} failed",
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
    tell=tell,
)
