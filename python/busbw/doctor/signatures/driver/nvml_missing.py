"""NVML cannot be loaded."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nvml-missing",
    stage=Stage.DRIVER,
    title="the driver's management library (NVML) cannot be used in this container",
    patterns=(
        r"NVML_ERROR_(?:LIBRARY_NOT_FOUND|UNKNOWN|UNINITIALIZED|FUNCTION_NOT_FOUND)\b",
        r"NVMLError_(?:LibraryNotFound|Unknown|Uninitialized|FunctionNotFound)\b",
        r"nvml\w+\(\w*\) failed",
        r"Failed to open libnvidia-ml\.so",
        r"could not load NVML library",
        r"nvmlInit\w*\(\) failed",
        r"Failed to initialize NVML",
        r"nvmlDeviceGetCount\(\) reported more devices",
        r"nvmlDevice\w+\(.{0,80}failed",
        r"Failed to get PCI info from NVML",
    ),
    unless=(
        "setcpuaffinity",
        "driver/library version mismatch",
        "setcpuaffinity",
        "p2pstatus",
    ),
    explains=("gpu-not-visible",),
    confirm="nvidia-smi in the same container",
    cure=(
        "start the container with the utility capability "
        "(NVIDIA_DRIVER_CAPABILITIES=compute,utility) and --gpus all; after `systemctl "
        "daemon-reload` on the host restart it"
    ),
    source="NCCL src/misc/nvmlwrap.cc",
)
