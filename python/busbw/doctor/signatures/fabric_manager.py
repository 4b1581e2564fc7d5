"""NVSwitch machines need their fabric manager."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="fabric-manager",
    stage=Stage.DRIVER,
    title=(
        "the NVLink fabric is not initialised: the fabric manager does not run or is of another version than the driver"
    ),
    patterns=(
        r"system not yet initialized",
        r"Cuda failure 802\b",
        r"CUDA_ERROR_SYSTEM_NOT_READY",
        r"fabric.?manager.{0,60}(?:not running|failed|inactive|dead|error|version)",
        r"nvidia-fabricmanager\.service.{0,40}(?:fail|dead|could not)",
        r"Fabric.{0,4}State *: *(?:In Progress|Not Started)",
        r"Error 802",
    ),
    confirm="systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric",
    cure=(
        "install nvidia-fabricmanager of exactly the driver's version and start it (systemctl "
        "enable --now nvidia-fabricmanager); in a VM the provider's host runs it"
    ),
    source="CUDA error 802; NVIDIA's Fabric Manager guide",
)
