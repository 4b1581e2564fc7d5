"""The program has no code for this GPU."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-too-new",
    stage=Stage.DRIVER,
    title="the program or library has no code for this GPU's architecture",
    patterns=(
        r"is not defined for option .gpu-name",
        r"exceeds device/fn maxSharedMem",
        r"sm_\d+ is not (?:supported|defined)",
        r"HIP error: invalid device function",
        r"rocBLAS error: (?:Cannot read|Could not (?:load|initialize)) .{0,200}Tensile",
        r"hipErrorNoBinaryForGpu",
        r"no kernel image is available",
        r"Cuda failure 209\b",
        r"is not compatible with the current PyTorch installation",
        r"PyTorch no longer supports this GPU because it is too old",
        r"CUDA_ERROR_NO_BINARY_FOR_GPU",
        r"named symbol not found",
        r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU"
        r"|cudaErrorInvalidDeviceFunction|invalid device function"
        r"|cudaErrorInvalidPtx|CUDA_ERROR_INVALID_PTX|a PTX JIT compilation failed",
    ),
    confirm="nvidia-smi --query-gpu=name,compute_cap --format=csv; cuobjdump --list-elf libnccl.so",
    cure=(
        "install a build of NCCL and of the framework for this architecture (a newer CUDA), or "
        "build with its sm number in NVCC_GENCODE"
    ),
    source="CUDA error 209",
)
