"""The driver is older than the CUDA that the program was built with."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="driver-too-old",
    stage=Stage.DRIVER,
    title="the NVIDIA driver is too old for the CUDA of this program",
    patterns=(
        r"built for NVIDIA Driver Release .{0,80}compatibility mode is UNAVAILABLE",
        r"CUDA driver version is insufficient",
        r"driver on your system is too old",
        r"unsupported toolchain",
        r"Cuda failure (?:35|222)\b",
        r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        r"installed CUDA driver < R\d+",
        r"requirement error: unsatisfied condition: (?:cuda|driver)",
        r"forward compatibility was attempted on non supported HW",
        r"CUDA Driver version found is \d+\. Minimum requirement",
        r"CUDA some PFN functions not found",
        r"Retrieve \w+(?: version \d+)? failed with",
        r"Unable to create thread context due to old driver",
        r"API call is not supported in the installed CUDA driver",
        r"cudaErrorCallRequiresNewerDriver|cudaErrorInsufficientDriver"
        r"|cudaErrorSystemDriverMismatch|cudaErrorCompatNotSupportedOnDevice",
    ),
    # A build of NCCL is too old there, or the driver.
    unless=("cannot be captured in a graph",),
    confirm="nvidia-smi: Driver Version and CUDA Version; `ldd PROGRAM | grep -e nccl -e cudart`",
    cure=(
        "update the driver, or use a build for the CUDA version that nvidia-smi shows (or its "
        "forward compatibility package on data centre GPUs)"
    ),
    source="CUDA error 35, 222; NCCL src/misc/cudawrap.cc",
)
