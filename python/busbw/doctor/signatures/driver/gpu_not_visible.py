"""The process sees no GPU, or not the one it asks for."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-not-visible",
    stage=Stage.DRIVER,
    title=(
        "the process does not see the GPU that it asks for (CUDA_VISIBLE_DEVICES, container without "
        "GPUs, more ranks than GPUs)"
    ),
    patterns=(
        r"You requested (?:gpu|GPU)s?: ?\[",
        r"But your machine only has:",
        r"NotEnoughCUDADevices\b|\bbut only found \d{1,3} CUDA devices",
        r"Attempting to deserialize object on CUDA device \d",
        r"no supported devices found for platform CUDA",
        r"Torch not compiled with CUDA enabled",
        r"No HIP GPUs are available",
        r"Unable to determine the number of GPUs",
        r"no CUDA-capable device",
        r"No CUDA GPUs are available",
        r"invalid device ordinal",
        r"Cuda failure (?:100|101)\b",
        r"no GPUs? found|has no GPU available",
        r"Invalid device \d+ \(totalnDev",
        r"could not select device driver.{0,40}gpu",
        r"Invalid CUDA_VISIBLE_DEVICES",
        r"torch\.cuda\.is_available\(\).{0,20}False",
        r"Invalid device id",
        r"device_id \S{1,20} is out of range",
        r"but no accelerator device is detected",
        r"device >= 0 && device < num_gpus",
        r"only 0 Devices available",
        r"cudaErrorNoDevice|cudaErrorInvalidDevice|CUDA_ERROR_NO_DEVICE|CUDA_ERROR_INVALID_DEVICE",
        r"Found 0 GPUs|0 GPUs? (?:detected|available|found)",
        r"no NVIDIA GPU(?: device)? is present",
        r"\b(?:[Nn]ot enough|[Ii]nsufficient|[Tt]oo few) (?:visible |available )?GPUs?\b.{0,80}"
        r"\b(?:for|visible|available|need|found|have|only)\b",
        r"hipError(?:NoDevice|InvalidDevice)\b|GetDeviceCount\(\).{0,200}Error 10[01]\b",
    ),
    explains=("rendezvous-timeout",),
    confirm="nvidia-smi -L and echo $CUDA_VISIBLE_DEVICES in the same container and step as the rank",
    cure=(
        "start no more ranks per node than GPUs, set the device to the local rank, correct CUDA_VISIBLE_DEVICES. Give "
        "the container its GPUs (Slurm --gres=gpu:N; docker --gpus all, which needs nvidia-container-toolkit)"
    ),
    source="CUDA errors 100 and 101; NCCL src/init.cc",
)
