"""The process may not open the GPU's device files or a file that NCCL needs."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-permission",
    stage=Stage.SYSTEM,
    title="the process may not open a device or file that it needs (rights, groups, SELinux, cgroup)",
    patterns=(
        r"PermissionError: \[Errno (?:13|1)\]",
        r"NVML_ERROR_NO_PERMISSION|NVMLError_OperatingSystem|NVML_ERROR_OPERATING_SYSTEM",
        r"/dev/(?:kfd|nvidia|dri/).{0,80}(?:Permission denied|Operation not permitted)",
        r"(?:Permission denied|Operation not permitted).{0,80}/dev/(?:kfd|nvidia|dri/)",
        r"not (?:a )?member of \W?(?:render|video)",
        r"NvRm\w{1,40} failed with Permission denied",
        r"Insufficient Permissions",
        r"avc: +denied.{0,200}(?:nccl|nvidia|infiniband|shm|python|cuda)",
        r"apparmor=\W?DENIED.{0,200}(?:nccl|nvidia|infiniband|shm|python|cuda)",
        r"GPU access blocked by the operating system",
    ),
    confirm="ls -lZ /dev/nvidia* /dev/kfd /dev/dri; id; `dmesg | grep -e avc -e apparmor`",
    cure=(
        "add the user to the device's group (render, video), give the container the devices (--gpus all, "
        "--device=/dev/kfd --device=/dev/dri), set the SELinux label (:z, or --security-opt label=disable)"
    ),
    source="errno EACCES, EPERM; the kernel's audit lines",
    explains=("gpu-not-visible", "bad-shm-attach", "nvml-missing"),
)
